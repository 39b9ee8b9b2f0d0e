/**
 * A reusable child process that executes one run at a time for its supervisor.
 *
 *   starting -> ready <-> busy -> ended
 *
 * It gets a `start` message, answers `ready`, and then for each `run` sends any number of messages and at last `done`. It has no
 * connection to a store: it sends requests to the supervisor, which carries them out. So a child that is blocked or dies never delays
 * a lease, a heartbeat or the results of others.
 */
import { EventEmitter } from "node:events";
import { encodeMessage, FrameReader, type Message } from "./frame.ts";
import { ProcessGroup, type Exit, type ExitCause, type Program } from "./group.ts";
import { readLines, type LineLimits } from "./lines.ts";
import type { MemoryUse } from "./memory.ts";

export type ChildState = "starting" | "ready" | "busy" | "ended";

export interface ChildProgram extends Program {
  /** The first message. Its content depends on the program. */
  readonly start: Message;
}

export interface ChildOptions {
  /** Timeout from the start to `ready`. */
  readonly startTimeoutMs?: number;
  readonly lines?: LineLimits;
}

export type ChildEvents = {
  ready: [message: Message];
  busy: [];
  idle: [];
  /** A message that belongs to no run. */
  message: [message: Message];
  line: [stream: "stdout" | "stderr", line: string];
  exit: [exit: Exit];
};

/** Rejects a run whose child has exited before the run was done. */
export class ChildEndedError extends Error {
  override readonly name = "ChildEndedError";
  readonly exit: Exit;

  constructor(exit: Exit) {
    super(`the child process ${exit.text}`);
    this.exit = exit;
  }
}

interface Run {
  onMessage(message: Message): void;
  /** Called with the `done` message that ends the run; null after `enter`, where the caller ends it with `leave`. */
  readonly resolve: ((done: Message) => void) | null;
  reject(error: ChildEndedError): void;
}

const defaultStartTimeoutMs = 30_000;

export class Child extends EventEmitter<ChildEvents> {
  readonly startedAt: number;
  readonly #group: ProcessGroup;
  readonly #reader = new FrameReader();
  #state: ChildState = "starting";
  #run: Run | null = null;
  #runs = 0;

  constructor(program: ChildProgram, { startTimeoutMs = defaultStartTimeoutMs, lines }: ChildOptions = {}) {
    super();
    this.startedAt = performance.now();
    const group = new ProcessGroup(program, { channel: true });
    this.#group = group;
    for (const name of ["stdout", "stderr"] as const) {
      const stream = group[name];
      if (stream !== null) readLines(stream, (line) => this.emit("line", name, line), lines);
    }
    group.channel?.on("data", (chunk: Buffer) => this.#read(chunk));
    this.send(program.start);
    const timer = setTimeout(() => {
      void this.stop("start", `was not ready after ${startTimeoutMs} ms`, 0);
    }, startTimeoutMs);
    timer.unref();
    this.once("ready", () => clearTimeout(timer));
    void group.exited.then((exit) => {
      clearTimeout(timer);
      this.#end(exit);
    });
  }

  get pid(): number | undefined {
    return this.#group.pid;
  }

  get state(): ChildState {
    return this.#state;
  }

  /** How many runs it has been given. */
  get runs(): number {
    return this.#runs;
  }

  get ageMs(): number {
    return performance.now() - this.startedAt;
  }

  /** Resolves when it has exited with its group and all its messages were read. Never rejects. */
  get exited(): Promise<Exit> {
    return this.#group.exited;
  }

  async memory(): Promise<MemoryUse | null> {
    return this.#group.memory();
  }

  /** Resolves when it is ready; rejects when it exits before. */
  async ready(): Promise<void> {
    if (this.#state === "ready" || this.#state === "busy") return;
    await new Promise<void>((resolve, reject) => {
      this.once("ready", () => resolve());
      void this.exited.then((exit) => reject(new ChildEndedError(exit)));
    });
  }

  /**
   * Sends the message and resolves with the `done` that ends the run; `onMessage` gets the messages before it. Rejects with a
   * `ChildEndedError` when the child exits, after `onMessage` got all its messages.
   */
  async run(message: Message, onMessage: (message: Message) => void = () => undefined): Promise<Message> {
    if (this.#state === "ended") throw new ChildEndedError(await this.exited);
    if (this.#state !== "ready")
      throw new Error(`cannot run anything in a child process that is ${this.#state}`);
    this.#state = "busy";
    this.#runs += 1;
    const ended = new Promise<Message>((resolve, reject) => {
      this.#run = { onMessage, resolve, reject };
    });
    this.emit("busy");
    this.send(message);
    return ended;
  }

  /**
   * Like `run`, for callers that send the messages themselves and know when the run is over: the child is busy until `leave`. `onEnd` is
   * called when the child exits before that, after all its messages.
   */
  enter(onMessage: (message: Message) => void, onEnd: (exit: Exit) => void): void {
    if (this.#state !== "ready")
      throw new Error(`cannot run anything in a child process that is ${this.#state}`);
    this.#state = "busy";
    this.#runs += 1;
    this.#run = { onMessage, resolve: null, reject: ({ exit }) => onEnd(exit) };
    this.emit("busy");
  }

  leave(): void {
    if (this.#state !== "busy") return;
    this.#run = null;
    this.#state = "ready";
    this.emit("idle");
  }

  /** Messages to a child that is gone are dropped. Messages of one turn of the event loop are written together. */
  send(message: Message): void {
    const { channel } = this.#group;
    if (channel === null || channel.destroyed) return;
    if (channel.writableCorked === 0) {
      channel.cork();
      process.nextTick(() => channel.uncork());
    }
    channel.write(encodeMessage(message));
  }

  /** Sends SIGTERM to its group, and SIGKILL after `graceMs`. The text becomes part of the exit. */
  async stop(cause: ExitCause, text: string, graceMs?: number): Promise<Exit> {
    return this.#group.stop(cause, text, graceMs);
  }

  #read(chunk: Buffer): void {
    try {
      for (const message of this.#reader.push(chunk)) this.#receive(message);
    } catch (error) {
      // nothing that follows can be decoded
      this.#group.channel?.removeAllListeners("data").resume();
      const what = error instanceof Error ? error.message : String(error);
      void this.stop("protocol", `wrote an invalid message to its channel: ${what}`, 0);
    }
  }

  #receive(message: Message): void {
    const { kind } = message.head;
    if (kind === "ready" && this.#state === "starting") {
      this.#state = "ready";
      this.emit("ready", message);
      return;
    }
    if (kind === "failed" && this.#state === "starting") {
      const { text } = message.head;
      void this.stop("start", `could not start: ${typeof text === "string" ? text : "no reason given"}`, 0);
      return;
    }
    const run = this.#run;
    if (run === null) {
      this.emit("message", message);
      return;
    }
    if (kind !== "done" || run.resolve === null) {
      run.onMessage(message);
      return;
    }
    this.#run = null;
    this.#state = "ready";
    run.resolve(message);
    this.emit("idle");
  }

  #end(exit: Exit): void {
    this.#state = "ended";
    this.#run?.reject(new ChildEndedError(exit));
    this.#run = null;
    this.emit("exit", exit);
  }
}
