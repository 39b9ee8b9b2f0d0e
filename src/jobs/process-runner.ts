/**
 * Runs functions in a child process that is reused for the next job, and replaced when it dies. Functions of modules and inline
 * functions have separate children: the child for inline functions has an empty environment, no file access beyond this package,
 * no child processes, and little memory.
 */
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { backOffMs } from "../core/index.ts";
import { childEnvironment, ProcessPool, type Child, type ChildProgram } from "../worker/index.ts";
import type { RunRequest } from "./child/invoke.ts";
import type { JobOutcome } from "./job.ts";
import { Pipeline } from "./pipeline.ts";
import type { RunOptions, Runner } from "./runner.ts";

export interface ProcessOptions {
  /** Modules are loaded from below these folders. */
  readonly roots: readonly string[];
  readonly inline: boolean;
  /** Options of Node for children that run modules; those of this process, without its inspector, when absent. */
  readonly execArgv?: readonly string[] | undefined;
  /** Added to the environment of children that run modules. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The child's program; that of this package when absent. */
  readonly program?: string | undefined;
  /** The delay between asking a function to stop and killing its process. */
  readonly graceMs: number;
  /** A job that the child has not begun after this time, because the jobs before it take long, is given up; 40 when absent. */
  readonly beginMs?: number | undefined;
  /** A child that uses more memory than this, in bytes, is killed. */
  readonly memoryLimit?: number | undefined;
  /** The heap of a child that runs inline functions, in MiB. */
  readonly inlineHeapMb: number;
  readonly onLine: (stream: "stdout" | "stderr", line: string) => void;
  /** Called when a child ends unexpectedly. */
  readonly onCrash: (text: string) => void;
  /** Called when a new child is ready. */
  readonly onStarted: (pid: number) => void;
}

/** More are not faster: fewer jobs already keep the child and this process busy. */
const maxQueued = 16;
/** Children that die sooner than this after their start are replaced with a growing delay. */
const shortLifeMs = 1000;
const firstDelayMs = 500;
const longestDelayMs = 30_000;

export class ProcessRunner implements Runner {
  readonly maxQueued = maxQueued;
  readonly #options: ProcessOptions;
  readonly #modules: ProcessPool;
  readonly #jobs: Pipeline;
  #inline: ProcessPool | null = null;
  #inlineJobs: Pipeline | null = null;
  #shortLives = 0;
  #delay: NodeJS.Timeout | undefined;
  readonly #closed = new AbortController();

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#modules = this.#pool(() => this.#moduleProgram());
    this.#jobs = new Pipeline(this.#modules, options);
    this.#modules.prestart();
  }

  get pid(): number {
    const child = this.#inlineJobs?.child ?? this.#jobs.child ?? this.#modules.children[0];
    return child?.pid ?? 0;
  }

  get isReady(): boolean {
    return this.#jobs.child !== null || this.#modules.idleCount > 0;
  }

  async ready(signal: AbortSignal): Promise<void> {
    if (this.isReady) return;
    const child = await this.#modules.acquire(signal);
    if (child !== null) this.#modules.release(child);
  }

  async run(request: RunRequest, options: RunOptions): Promise<JobOutcome | null> {
    if (this.#closed.signal.aborted) return null;
    return (request.action.kind === "inline" ? this.#inlinePipeline() : this.#jobs).run(request, options);
  }

  async close(): Promise<void> {
    clearTimeout(this.#delay);
    this.#closed.abort();
    const { graceMs } = this.#options;
    await Promise.all([this.#modules.close(graceMs), this.#inline?.close(graceMs)]);
  }

  #inlinePipeline(): Pipeline {
    this.#inline ??= this.#pool(() => this.#inlineProgram());
    return (this.#inlineJobs ??= new Pipeline(this.#inline, this.#options));
  }

  #pool(program: () => ChildProgram): ProcessPool {
    const { graceMs, memoryLimit, onLine, onCrash, onStarted } = this.#options;
    const pool = new ProcessPool({
      size: 1,
      program,
      graceMs,
      ...(memoryLimit !== undefined && { memoryLimit }),
    });
    pool.on("line", (_child, stream, line) => onLine(stream, line));
    pool.on("ready", ({ pid }) => onStarted(pid ?? 0));
    pool.on("exit", (child, exit) => {
      if (exit.cause !== "stopped" && exit.cause !== "expired") onCrash(`the child process ${exit.text}`);
      this.#replace(pool, child);
    });
    return pool;
  }

  /** Starts the next child at once, so that it is ready when it is needed; with a growing delay when several in a row die early. */
  #replace(pool: ProcessPool, { ageMs }: Child): void {
    if (this.#closed.signal.aborted || pool !== this.#modules) return;
    this.#shortLives = ageMs < shortLifeMs ? this.#shortLives + 1 : 0;
    if (this.#shortLives <= 1) return pool.prestart();
    const delayMs = backOffMs(this.#shortLives - 2, firstDelayMs, longestDelayMs);
    clearTimeout(this.#delay);
    this.#delay = setTimeout(() => pool.prestart(), delayMs);
  }

  #moduleProgram(): ChildProgram {
    const { execArgv, env, roots } = this.#options;
    const flags = execArgv ?? process.execArgv.filter((argument) => !argument.startsWith("--inspect"));
    return {
      command: process.execPath,
      args: [...flags, this.#program()],
      env: { ...childEnvironment(), ...env },
      start: { head: { kind: "start", roots, inline: false }, data: [] },
    };
  }

  /**
   * Node's permissions are a safeguard, not a sandbox: they block access to files, processes and threads, but not to the network.
   * Code that is not trusted at all belongs into a container.
   */
  #inlineProgram(): ChildProgram {
    const program = this.#program();
    const sources = program.endsWith(".ts");
    // this package, and croner, on which core depends: npm may have installed it elsewhere
    const readable = sources
      ? ["*"]
      : [path.join(path.dirname(program), "..", "..", "*"), path.join(folderOf("croner"), "*")];
    return {
      command: process.execPath,
      args: [
        ...(sources ? this.#loaderFlags() : []),
        permissionFlag(process.versions.node),
        "--no-warnings",
        ...readable.map((place) => `--allow-fs-read=${place}`),
        `--max-old-space-size=${this.#options.inlineHeapMb}`,
        program,
      ],
      // nothing is inherited: no tokens, no addresses, no proxies
      env: {},
      ...(!sources && { cwd: tmpdir() }),
      start: { head: { kind: "start", roots: [], inline: true }, data: [] },
    };
  }

  /** TypeScript sources are run by a loader, which needs a thread and writes compiled files: for the development of this package only. */
  #loaderFlags(): string[] {
    return [...process.execArgv, "--allow-worker", "--allow-fs-write=*"];
  }

  #program(): string {
    return this.#options.program ?? ownProgram();
  }
}

/** The program of the child. Like this file, it is TypeScript in development and JavaScript in the package. */
const ownProgram = (): string =>
  fileURLToPath(
    new URL(import.meta.url.endsWith(".ts") ? "./child/main.ts" : "./child/main.js", import.meta.url),
  );

function folderOf(name: string): string {
  const file = fileURLToPath(import.meta.resolve(name));
  return file.slice(
    0,
    file.lastIndexOf(path.join("node_modules", name)) + path.join("node_modules", name).length,
  );
}

/** Node 22.13 and 23.5 dropped "experimental" from the name of the flag. */
export function permissionFlag(version: string): string {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const plain = major > 23 || (major === 23 && minor >= 5) || (major === 22 && minor >= 13);
  return plain ? "--permission" : "--experimental-permission";
}
