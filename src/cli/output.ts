/** Where a command writes: results to one stream, remarks to the other; colours and cut tables only on a terminal. */
import { styleText } from "node:util";
import { showJson } from "./escape.ts";
import { withData, writeJson } from "./json.ts";
import { tableLines, wrap, type Cell, type Column, type Style } from "./table.ts";

export interface OutputOptions {
  /** `--json`: what is printed is for a program. */
  json: boolean;
  /** `--quiet`: no remarks. */
  quiet?: boolean;
  colour: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** As https://no-color.org has it: any value but the empty one says no. FORCE_COLOR says yes where there is no terminal. */
export function wantsColour(stream: NodeJS.WriteStream, env: Environment): boolean {
  if ((env.NO_COLOR ?? "") !== "" || env.TERM === "dumb") return false;
  return stream.isTTY || (env.FORCE_COLOR ?? "") !== "";
}

export class Output {
  readonly stream: NodeJS.WriteStream;
  readonly #remarks: NodeJS.WriteStream;
  readonly json: boolean;
  readonly #quiet: boolean;
  readonly #colour: boolean;

  constructor(stream: NodeJS.WriteStream, remarks: NodeJS.WriteStream, options: OutputOptions) {
    this.stream = stream;
    this.#remarks = remarks;
    this.json = options.json;
    this.#quiet = options.quiet ?? false;
    this.#colour = options.colour;
  }

  get isTerminal(): boolean {
    return this.stream.isTTY;
  }

  /** How wide the window is; Infinity where there is none. */
  get columns(): number {
    return this.isTerminal ? this.stream.columns || 80 : Infinity;
  }

  get rows(): number {
    return this.stream.rows || 24;
  }

  /** One line, or several. Names in it must have been through `show`. */
  line(text = ""): void {
    this.stream.write(`${text}\n`);
  }

  /** A line that is broken between words where the window ends. */
  sentence(text: string, indent = ""): void {
    for (const line of wrap(text, this.columns, indent)) this.line(line);
  }

  /** For the person, not for what reads the output. */
  remark(text: string): void {
    if (!this.#quiet) this.#remarks.write(`${text}\n`);
  }

  /** Rows as the verbs answer them are fine: their data is printed as the objects that they are. */
  printJson(value: unknown, indent = 2): void {
    this.line(showJson(writeJson(withData(value), indent)));
  }

  table(columns: readonly Column[], rows: readonly (readonly (string | Cell)[])[]): void {
    for (const line of tableLines(columns, rows, this.columns, this.paint)) this.line(line);
  }

  readonly paint = (style: Style | undefined, text: string): string =>
    // the stream was looked at already, when it was decided whether there are colours
    style === undefined || !this.#colour || text === ""
      ? text
      : styleText(style, text, { validateStream: false });

  /** Resolves when all that was written has been taken. */
  async flush(): Promise<void> {
    for (const stream of [this.stream, this.#remarks])
      if (!stream.destroyed) await new Promise<void>((resolve) => stream.write("", () => resolve()));
  }
}
