/**
 * A child process that runs things for its supervisor, one at a time, and is used again.
 *
 *   starting -> ready <-> busy -> ended
 *
 * It gets a `start` message, answers `ready`, and then for each `run` sends any number of messages and at last `done`. It holds no
 * connection to a store and needs none: whatever it wants done it says, and the supervisor does it. So a child that is
 * blocked, or dies, never holds up a lease, a heartbeat or the results of others.
 */
import { EventEmitter } from "node:events";
import { encodeMessage, FrameReader, type Message } from "./frame.ts";
import { ProcessGroup, type Exit, type ExitCause, type Program } from "./group.ts";
import { readLines, type LineLimits } from "./lines.ts";
import type { MemoryUse } from "./memory.ts";

export type ChildState = "starting" | "ready" | "busy" | "ended";

export interface ChildProgram extends Program {
  /** The first message; what it says is between the supervisor and the program. */
  readonly start: Message;
}

export interface ChildOptions {
  /** How long it may take from the start to `ready`. */
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

/** A run that cannot come to its end, because its child has. */
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
  /** With the `done` that ends the run; null where whoever uses the child says when that is. */
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

  /** Resolves when it has ended, its group with it, and all that it said was read. Never rejects. */
  get exited(): Promise<Exit> {
    return this.#group.exited;
  }

  async memory(): Promise<MemoryUse | null> {
    return this.#group.memory();
  }

  /** Resolves when it is ready; rejects when it ends before. */
  async ready(): Promise<void> {
    if (this.#state === "ready" || this.#state === "busy") return;
    await new Promise<void>((resolve, reject) => {
      this.once("ready", () => resolve());
      void this.exited.then((exit) => reject(new ChildEndedError(exit)));
    });
  }

  /**
   * Sends the message and resolves with the `done` that ends the run; what comes before is given to `onMessage`. Rejects with
   * a `ChildEndedError` when the child ends: all that it said until then has been given to `onMessage`.
   */
  async run(message: Message, onMessage: (message: Message) => void = () => undefined): Promise<Message> {
    if (this.#state === "ended") throw new ChildEndedError(await this.exited);
    if (this.#state !== "ready") throw new Error(`a child that is ${this.#state} was given something to run`);
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
   * The same for whoever sends what it wants by itself, and knows when it is over: busy until `leave`. `onEnd` is called when the child ends
   * before that, after all that it said.
   */
  enter(onMessage: (message: Message) => void, onEnd: (exit: Exit) => void): void {
    if (this.#state !== "ready") throw new Error(`a child that is ${this.#state} was given something to run`);
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

  /** What a child that is gone would have been told is dropped. What is sent in one turn travels together. */
  send(message: Message): void {
    const { channel } = this.#group;
    if (channel === null || channel.destroyed) return;
    if (channel.writableCorked === 0) {
      channel.cork();
      process.nextTick(() => channel.uncork());
    }
    channel.write(encodeMessage(message));
  }

  /** SIGTERM to its group, after `graceMs` SIGKILL. The text stands in the exit. */
  async stop(cause: ExitCause, text: string, graceMs?: number): Promise<Exit> {
    return this.#group.stop(cause, text, graceMs);
  }

  #read(chunk: Buffer): void {
    try {
      for (const message of this.#reader.push(chunk)) this.#receive(message);
    } catch (error) {
      // Whatever it says from here on cannot be told from garbage.
      this.#group.channel?.removeAllListeners("data").resume();
      const what = error instanceof Error ? error.message : String(error);
      void this.stop("protocol", `wrote to its channel what is no message: ${what}`, 0);
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
