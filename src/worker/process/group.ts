/**
 * One program in a process group of its own: it is started, watched, and ended together with whatever it started itself.
 *
 * The ladder: SIGTERM to the group, and after `graceMs` SIGKILL to the group. When the program ends by itself, what is
 * left of its group is killed too. Its end is told in words that can stand in a traceback.
 */
import { Buffer } from "node:buffer";
import { spawn, type ChildProcess } from "node:child_process";
import type { Duplex, Readable, Writable } from "node:stream";
import { memoryOf, type MemoryUse } from "./memory.ts";
import { warden as sharedWarden, type Warden } from "./warden.ts";

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment; that of this process when absent. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

export interface GroupOptions {
  /** Whether it gets a standard input that can be written to; else it is empty. */
  readonly input?: boolean;
  /** Whether file descriptor 3 is a two-way channel. */
  readonly channel?: boolean;
  readonly warden?: Warden;
}

/**
 * Why a program ended.
 *   exited    by itself, with this code
 *   signal    killed by somebody else
 *   start     it could not be started
 *   memory    it used more than it may, or the JavaScript heap was full
 *   expired   its time was up
 *   stopped   no longer wanted: the supervisor stops, or the child is replaced
 *   protocol  it said something that is no message
 */
export type ExitCause = "exited" | "signal" | "start" | "memory" | "expired" | "stopped" | "protocol";

export interface Exit {
  readonly cause: ExitCause;
  readonly code: number | null;
  readonly signal: string | null;
  /** One sentence for a person, without a subject: "exited with code 3". */
  readonly text: string;
  /** The end of what it wrote to its standard error. */
  readonly errorTail: string;
}

interface Stop {
  readonly cause: ExitCause;
  readonly text: string;
}

export const defaultGraceMs = 5000;

/** How long the pipes of a dead program are read: a grandchild that left the group may keep them open for ever. */
const drainMs = 1000;
const tailLength = 4000;

export class ProcessGroup {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  /** Resolves when the program has ended, its group is gone and its output was read. Never rejects. */
  readonly exited: Promise<Exit>;
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  readonly channel: Duplex | null;
  readonly #warden: Warden;
  #stop: Stop | null = null;
  #killTimer: NodeJS.Timeout | undefined;
  #ended = false;
  /** The last chunks of standard error, at least `tailLength` bytes of it if there were so many. */
  readonly #errorTail: Buffer[] = [];
  #errorLength = 0;

  constructor(
    program: Program,
    { input = false, channel = false, warden = sharedWarden }: GroupOptions = {},
  ) {
    this.#warden = warden;
    const started = start(program, input, channel);
    if ("cause" in started) {
      this.stdin = this.stdout = this.stderr = this.channel = null;
      this.#ended = true;
      this.exited = Promise.resolve(started);
      return;
    }
    const child = started;
    this.pid = child.pid;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.stderr = child.stderr;
    this.channel = channel ? (child.stdio[3] as Duplex) : null;
    if (child.pid !== undefined) warden.watch(child.pid);
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#errorTail.push(chunk);
      this.#errorLength += chunk.length;
      while (this.#errorLength - (this.#errorTail[0]?.length ?? 0) > tailLength)
        this.#errorLength -= this.#errorTail.shift()?.length ?? 0;
    });
    this.exited = this.#wait(child);
  }

  get ended(): boolean {
    return this.#ended;
  }

  async memory(): Promise<MemoryUse | null> {
    return this.pid === undefined || this.#ended ? null : memoryOf(this.pid);
  }

  /**
   * Begins the ladder; resolves when the program has ended. The first reason is the one that is told; a later call may
   * shorten the time that is left, `graceMs` 0 kills at once.
   */
  async stop(cause: ExitCause, text: string, graceMs = defaultGraceMs): Promise<Exit> {
    if (this.#ended) return this.exited;
    const first = this.#stop === null;
    this.#stop ??= { cause, text };
    clearTimeout(this.#killTimer);
    if (graceMs <= 0) this.#signal("SIGKILL");
    else {
      if (first) this.#signal("SIGTERM");
      this.#killTimer = setTimeout(() => this.#signal("SIGKILL"), graceMs);
    }
    return this.exited;
  }

  #signal(signal: "SIGTERM" | "SIGKILL"): void {
    if (this.pid === undefined) return;
    try {
      process.kill(-this.pid, signal);
    } catch {
      // ESRCH: all of it is gone already, which is what was wanted. EPERM (a grandchild of another user) cannot be helped.
    }
  }

  async #wait(child: ChildProcess): Promise<Exit> {
    const exit = await new Promise<Exit>((resolve) => {
      child.once("error", (error) => {
        // Also emitted when a signal could not be sent; only without a pid was it not started.
        if (child.pid === undefined) resolve(notStarted(child.spawnfile, error));
      });
      child.once("exit", (code, signal) => {
        this.#signal("SIGKILL");
        const streams = setTimeout(() => {
          for (const stream of child.stdio) stream?.destroy();
        }, drainMs);
        child.once("close", () => {
          clearTimeout(streams);
          resolve(this.#describe(code, signal));
        });
      });
    });
    clearTimeout(this.#killTimer);
    this.#ended = true;
    if (this.pid !== undefined) this.#warden.forget(this.pid);
    return exit;
  }

  #describe(code: number | null, signal: NodeJS.Signals | null): Exit {
    const errorTail = Buffer.concat(this.#errorTail).toString("utf8").slice(-tailLength);
    const how = { code, signal, errorTail };
    if (this.#stop !== null) return { ...this.#stop, ...how };
    if (code !== 0 && /JavaScript heap out of memory|Allocation failed/.test(errorTail))
      return { cause: "memory", text: "ran out of memory (the JavaScript heap is full)", ...how };
    if (signal === "SIGKILL")
      return {
        cause: "signal",
        text: "was killed by SIGKILL (by somebody, or by the system when memory was short)",
        ...how,
      };
    if (signal !== null) return { cause: "signal", text: `was killed by ${signal}`, ...how };
    return { cause: "exited", text: `exited with code ${code ?? "unknown"}`, ...how };
  }
}

function start({ command, args, env, cwd }: Program, input: boolean, channel: boolean): ChildProcess | Exit {
  try {
    const child = spawn(command, args, {
      detached: true,
      shell: false,
      stdio: [input ? "pipe" : "ignore", "pipe", "pipe", ...(channel ? (["pipe"] as const) : [])],
      ...(env !== undefined && { env: { ...env } }),
      ...(cwd !== undefined && { cwd }),
    });
    // What is written to a program that does not read, or is gone, is lost; its end is what is reported.
    for (const stream of child.stdio) stream?.on("error", () => undefined);
    return child;
  } catch (error) {
    // Node throws for some errors and emits others: arguments too long, or with a NUL, are thrown.
    return notStarted(command, error);
  }
}

function notStarted(command: string, error: unknown): Exit {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const known: Record<string, string> = {
    ENOENT: "there is no such program, or its working directory does not exist",
    EACCES: "it may not be executed",
    E2BIG: "its arguments are too long",
    EAGAIN: "the system has no room for another process",
    EMFILE: "too many files are open",
    ENOMEM: "the system has no memory left",
  };
  const why =
    (typeof code === "string" ? known[code] : undefined) ??
    (error instanceof Error ? error.message : String(error));
  return {
    cause: "start",
    code: null,
    signal: null,
    errorTail: "",
    text: `could not be started: ${command}: ${why}`,
  };
}
