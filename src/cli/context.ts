/**
 * What a command is given: where to write, whom to ask, and the Coordinate that it works on, which is opened when the
 * command first wants it. A session is what outlives one command: the process, or the interactive shell.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import type { Coordinate } from "../core/index.ts";
import type { Configuration } from "../config/index.ts";
import { readTarget, readWhole } from "./configuration.ts";
import { CommandError, UsageError } from "./failure.ts";
import { open, type Opened, type Target, type StoreUse } from "./open.ts";
import { Output, wantsColour } from "./output.ts";

/** The options that every command has, before it or after it. */
export interface GlobalOptions {
  config?: string;
  address?: string;
  backend?: string;
  namespace?: string;
  token?: string;
  verbose?: boolean;
  quiet?: boolean;
  /** The Python tool's: a logger to hear more of. Loggers have no names here, so it is `verbose`. */
  debug?: string;
  json?: boolean;
  compat?: boolean;
  /** False: `--no-color`. */
  color?: boolean;
}

export interface Streams {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
  env: Readonly<Record<string, string | undefined>>;
}

export class Session {
  readonly streams: Streams;
  /** Set while the interactive shell holds the terminal: questions go through it. */
  ask: ((question: string) => Promise<string | null>) | null = null;
  /** In the shell: aborts when the line that runs is interrupted. */
  interrupted: AbortSignal | null = null;
  /** Options that were given to the shell itself hold for every line of it. */
  defaults: GlobalOptions = {};
  /** What was opened last, for what an error says of it. */
  target: Target | null = null;
  readonly #opened = new Map<string, Promise<Opened>>();

  constructor(streams: Streams) {
    this.streams = streams;
  }

  get inShell(): boolean {
    return this.ask !== null;
  }

  /** One connection for a session: the shell's second command finds it open. */
  open(target: Target, use: StoreUse): Promise<Opened> {
    // a file is opened to look into it or to own it; for anything else there is one way
    this.target = target;
    const key = JSON.stringify([target, target.backend?.startsWith("sqlite:") === true ? use : ""]);
    let opened = this.#opened.get(key);
    if (opened === undefined) {
      opened = this.#openAnew(target, use);
      this.#opened.set(key, opened);
      // what could not be opened may be there the next time
      opened.catch(() => this.#opened.delete(key));
    }
    return opened;
  }

  async #openAnew(target: Target, use: StoreUse): Promise<Opened> {
    // a store has one owner: what an earlier command of this session holds open must be given back first
    if (target.backend !== undefined) await this.close();
    return open(target, use);
  }

  async close(): Promise<void> {
    const all = [...this.#opened.values()];
    this.#opened.clear();
    for (const one of all) {
      const opened = await one.catch(() => null);
      await opened?.coordinate.close();
    }
  }
}

export class Context {
  readonly session: Session;
  readonly options: GlobalOptions;
  readonly out: Output;
  readonly #use: StoreUse;
  #target: Promise<Target & { namespace: string }> | null = null;
  #interrupted: AbortController | null = null;

  constructor(session: Session, options: GlobalOptions, use: StoreUse) {
    this.session = session;
    this.options = { ...session.defaults, ...options };
    this.#use = use;
    const { stdout, stderr, env } = session.streams;
    this.out = new Output(stdout, stderr, {
      json: this.options.json ?? false,
      quiet: this.quiet,
      colour: this.options.color !== false && wantsColour(stdout, env),
    });
  }

  get env(): Readonly<Record<string, string | undefined>> {
    return this.session.streams.env;
  }

  /** Tells more: where a failure happened, and what a worker does. */
  get verbose(): boolean {
    return isVerbose(this.options);
  }

  /** Results and failures alone. */
  get quiet(): boolean {
    return this.options.quiet ?? false;
  }

  /** As the Python tool did it, where that is otherwise: what is not there is no error. */
  get compat(): boolean {
    return this.options.compat ?? false;
  }

  /** Opened at the first call. Whoever made the session closes it. */
  async coordinate(): Promise<Coordinate> {
    return (await this.opened()).coordinate;
  }

  async opened(use: StoreUse = this.#use): Promise<Opened> {
    const { namespace: _namespace, ...target } = await this.target();
    return this.session.open(target, use);
  }

  async namespace(): Promise<string> {
    return (await this.target()).namespace;
  }

  /** Both, as nearly every verb wants them. */
  async work(): Promise<{ coordinate: Coordinate; ns: string }> {
    return { coordinate: await this.coordinate(), ns: await this.namespace() };
  }

  /** Flags, else the environment, else the configuration file, else the defaults. */
  target(): Promise<Target & { namespace: string }> {
    return (this.#target ??= this.#findTarget());
  }

  /** Everything that is configured, with the options of this command line in it. */
  configuration(file = this.options.config): Promise<Configuration> {
    return readWhole({ ...this.options, ...(file !== undefined && { config: file }) }, this.env);
  }

  async #findTarget(): Promise<Target & { namespace: string }> {
    const { options, env } = this;
    if (options.address !== undefined && options.backend !== undefined)
      throw new UsageError("--address names a daemon and --backend a store: give one of them");
    const configured = await readTarget(options, env);
    const asked = options.address !== undefined || options.backend !== undefined;
    const address = options.address ?? (asked ? undefined : nonEmpty(env.COORDINATE_ADDRESS));
    const backend = options.backend ?? (asked || address !== undefined ? undefined : configured.backend);
    const token = options.token ?? nonEmpty(env.COORDINATE_TOKEN) ?? configured.token;
    return {
      address: address ?? (asked || backend !== undefined ? undefined : configured.address),
      backend,
      token: token === undefined ? undefined : readToken(token),
      namespace: options.namespace ?? env.COORDINATE_NAMESPACE ?? configured.namespace ?? "",
    };
  }

  /** Aborts on Ctrl-C. A command that never asks for it ends at once, as any process does. */
  get signal(): AbortSignal {
    if (this.session.interrupted !== null) return this.session.interrupted;
    if (this.#interrupted === null) {
      const controller = (this.#interrupted = new AbortController());
      const interrupt = (): void => controller.abort();
      process.once("SIGINT", interrupt);
      process.once("SIGTERM", interrupt);
      this.#release = () => {
        process.off("SIGINT", interrupt);
        process.off("SIGTERM", interrupt);
      };
    }
    return this.#interrupted.signal;
  }

  #release: () => void = () => undefined;

  /** The command is over. */
  end(): void {
    this.#release();
  }

  /** The answer to a question, null at the end of the input. */
  async ask(question: string): Promise<string | null> {
    if (this.session.ask !== null) return this.session.ask(question);
    const { stdin, stderr } = this.session.streams;
    const reader = createInterface({ input: stdin, output: stderr, terminal: false });
    try {
      const closed = new Promise<null>((resolve) => reader.once("close", () => resolve(null)));
      return await Promise.race([reader.question(question), closed]);
    } finally {
      reader.close();
    }
  }
}

export const isVerbose = ({ verbose, debug }: GlobalOptions): boolean =>
  verbose === true || debug !== undefined;

const nonEmpty = (text: string | undefined): string | undefined => (text === "" ? undefined : text);

/** The text itself, or `@FILE`: on a command line others can read it. */
function readToken(given: string): string {
  if (!given.startsWith("@")) return given;
  try {
    return readFileSync(given.slice(1), "utf8").trim();
  } catch (error) {
    throw new CommandError(`--token ${given}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
