/** Where a command writes: results to one stream, remarks to the other; colours and cut tables only on a terminal. */
import { styleText } from "node:util";
import { showJson } from "./escape.ts";
import { withData, writeJson } from "./json.ts";
import { tableLines, wrap, type Cell, type Column, type Style } from "./table.ts";

export interface OutputOptions {
  /** `--json`: the output is for a program. */
  json: boolean;
  /** `--quiet`: no remarks. */
  quiet?: boolean;
  colour: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Follows https://no-color.org: any non-empty NO_COLOR disables colours. FORCE_COLOR enables them without a terminal. */
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

  /** The width of the window; Infinity when the output is no terminal. */
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

  /** A line, wrapped between words to the width of the window. */
  sentence(text: string, indent = ""): void {
    for (const line of wrap(text, this.columns, indent)) this.line(line);
  }

  /** A message for people, on stderr, so that programs that read the output do not see it. */
  remark(text: string): void {
    if (!this.#quiet) this.#remarks.write(`${text}\n`);
  }

  /** Accepts rows as verbs return them: their data is printed as JSON objects. */
  printJson(value: unknown, indent = 2): void {
    this.line(showJson(writeJson(withData(value), indent)));
  }

  table(columns: readonly Column[], rows: readonly (readonly (string | Cell)[])[]): void {
    for (const line of tableLines(columns, rows, this.columns, this.paint)) this.line(line);
  }

  readonly paint = (style: Style | undefined, text: string): string =>
    // `#colour` was already decided from the stream
    style === undefined || !this.#colour || text === ""
      ? text
      : styleText(style, text, { validateStream: false });

  /** Resolves when all output has been flushed. */
  async flush(): Promise<void> {
    for (const stream of [this.stream, this.#remarks])
      if (!stream.destroyed) await new Promise<void>((resolve) => stream.write("", () => resolve()));
  }
}
