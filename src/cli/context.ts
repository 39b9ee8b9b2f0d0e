/**
 * The context of a command: its output, its questions to the user, and the Coordinate that it works on, which is opened on first
 * use. A session outlives one command: it belongs to the process or the interactive shell.
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
  /** An option of the Python tool: the logger to make verbose. Loggers have no names here, so it means `verbose`. */
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
  /** Set while the interactive shell owns the terminal: questions go through the shell. */
  ask: ((question: string) => Promise<string | null>) | null = null;
  /** In the shell: aborts when the running line is interrupted. */
  interrupted: AbortSignal | null = null;
  /** Options given to the shell itself; they apply to each of its lines. */
  defaults: GlobalOptions = {};
  /** The last opened target, for error messages. */
  target: Target | null = null;
  readonly #opened = new Map<string, Promise<Opened>>();

  constructor(streams: Streams) {
    this.streams = streams;
  }

  get inShell(): boolean {
    return this.ask !== null;
  }

  /** Opens a target once per session: later commands of the shell reuse the connection. */
  open(target: Target, use: StoreUse): Promise<Opened> {
    // a SQLite file is opened either to read it or to own it; any other target is opened in one way
    this.target = target;
    const key = JSON.stringify([target, target.backend?.startsWith("sqlite:") === true ? use : ""]);
    let opened = this.#opened.get(key);
    if (opened === undefined) {
      opened = this.#openAnew(target, use);
      this.#opened.set(key, opened);
      // a failure is not cached: the next command tries again
      opened.catch(() => this.#opened.delete(key));
    }
    return opened;
  }

  async #openAnew(target: Target, use: StoreUse): Promise<Opened> {
    // a store has one owner: close what an earlier command of this session holds open
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

  /** Whether to print more: stacks of failures, and what a worker does. */
  get verbose(): boolean {
    return isVerbose(this.options);
  }

  /** Whether to print only results and failures. */
  get quiet(): boolean {
    return this.options.quiet ?? false;
  }

  /** Whether to behave like the Python tool where the two differ: a missing object is no error. */
  get compat(): boolean {
    return this.options.compat ?? false;
  }

  /** Opened at the first call. The creator of the session closes it. */
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

  /** The Coordinate and the namespace, which nearly every verb needs. */
  async work(): Promise<{ coordinate: Coordinate; ns: string }> {
    return { coordinate: await this.coordinate(), ns: await this.namespace() };
  }

  /** Flags, else the environment, else the configuration file, else the defaults. */
  target(): Promise<Target & { namespace: string }> {
    return (this.#target ??= this.#findTarget());
  }

  /** The whole configuration, including the options of this command line. */
  configuration(file = this.options.config): Promise<Configuration> {
    return readWhole({ ...this.options, ...(file !== undefined && { config: file }) }, this.env);
  }

  async #findTarget(): Promise<Target & { namespace: string }> {
    const { options, env } = this;
    if (options.address !== undefined && options.backend !== undefined)
      throw new UsageError("--address names a daemon and --backend a store: use only one of them");
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

  /** Aborts on Ctrl-C or SIGTERM. For a command that never reads it no handler is installed, and Ctrl-C ends the process at once. */
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

  /** Called when the command has ended: removes the signal handlers. */
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

/** The token itself, or `@FILE`: a token on the command line is visible to other users. */
function readToken(given: string): string {
  if (!given.startsWith("@")) return given;
  try {
    return readFileSync(given.slice(1), "utf8").trim();
  } catch (error) {
    throw new CommandError(`--token ${given}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
