/**
 * One program in its own process group: starts it, watches it, and stops it together with the processes that it started.
 *
 * A stop sends SIGTERM to the group, and SIGKILL after `graceMs`. When the program exits by itself, the rest of its group is killed
 * too. The exit is described in words that fit into a traceback.
 */
import { Buffer } from "node:buffer";
import { spawn, type ChildProcess } from "node:child_process";
import type { Duplex, Readable, Writable } from "node:stream";
import { memoryOf, type MemoryUse } from "./memory.ts";
import { warden as sharedWarden, type Warden } from "./warden.ts";

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment; that of this process when absent. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

export interface GroupOptions {
  /** Whether its standard input is a pipe that can be written to; otherwise it is empty. */
  readonly input?: boolean;
  /** Whether file descriptor 3 is a two-way channel. */
  readonly channel?: boolean;
  readonly warden?: Warden;
}

/**
 * Why a program ended.
 *   exited    by itself, with this code
 *   signal    killed by a signal that the supervisor did not send
 *   start     it could not be started
 *   memory    it exceeded its memory limit, or the JavaScript heap was full
 *   expired   its time was up
 *   stopped   no longer wanted: the supervisor stops, or the child is replaced
 *   protocol  it wrote something to its channel that is not a message
 */
export type ExitCause = "exited" | "signal" | "start" | "memory" | "expired" | "stopped" | "protocol";

export interface Exit {
  readonly cause: ExitCause;
  readonly code: number | null;
  readonly signal: string | null;
  /** A readable sentence without a subject: "exited with code 3". */
  readonly text: string;
  /** The end of its standard error. */
  readonly errorTail: string;
}

interface Stop {
  readonly cause: ExitCause;
  readonly text: string;
}

export const defaultGraceMs = 5000;

/** How long the pipes are read after the program has exited: a grandchild that left the group may keep them open for ever. */
const drainMs = 1000;
const tailLength = 4000;

export class ProcessGroup {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  /** Resolves when the program has exited, its group was killed and its output was read. Never rejects. */
  readonly exited: Promise<Exit>;
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  readonly channel: Duplex | null;
  readonly #warden: Warden;
  #stop: Stop | null = null;
  #killTimer: NodeJS.Timeout | undefined;
  #ended = false;
  /** The last chunks of standard error: at least its last `tailLength` bytes. */
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
   * Sends SIGTERM, and SIGKILL after `graceMs`; 0 kills at once. Resolves when the program has exited. The first call decides the cause
   * that is reported; a later call replaces the remaining grace time.
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
      // ESRCH: the whole group is gone already, as intended. EPERM: a grandchild of another user, which cannot be killed
    }
  }

  async #wait(child: ChildProcess): Promise<Exit> {
    const exit = await new Promise<Exit>((resolve) => {
      child.once("error", (error) => {
        // also emitted when a signal could not be sent; the start failed only if there is no pid
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
        text: "was killed by SIGKILL (by a user, or by the system when memory ran short)",
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
    // ignore errors of writes to a program that does not read or has exited: its exit is reported
    for (const stream of child.stdio) stream?.on("error", () => undefined);
    return child;
  } catch (error) {
    // Node emits most errors, but throws when arguments are too long or contain a NUL
    return notStarted(command, error);
  }
}

function notStarted(command: string, error: unknown): Exit {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const known: Record<string, string> = {
    ENOENT: "there is no such program, or its working directory does not exist",
    EACCES: "no permission to execute it",
    E2BIG: "its arguments are too long",
    EAGAIN: "the system cannot create another process",
    EMFILE: "too many files are open",
    ENOMEM: "the system is out of memory",
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
