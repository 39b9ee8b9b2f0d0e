/**
 * A pool of child processes of one program. It limits their number, starts them in advance, lends each to one caller at a time, and
 * replaces children that are old, use too much memory or have died.
 *
 * Children that die before they are ready are replaced with backoff, so that a program that cannot start does not keep the machine
 * busy. Events report each step, so that callers can watch and control the pool (`resize`, `stopOne`).
 */
import { EventEmitter } from "node:events";
import { backOffMs } from "../../core/index.ts";
import { Child, type ChildOptions, type ChildProgram } from "./child.ts";
import { defaultGraceMs, type Exit } from "./group.ts";
import { mebibytes } from "./memory.ts";

export interface PoolOptions extends ChildOptions {
  /** Most children. */
  readonly size: number;
  /** The program of a child. Called for every child, so that they may differ. */
  program(): ChildProgram;
  /** A child older than this is replaced when it is idle; never when absent. */
  readonly lifetimeMs?: number;
  /** A child that uses more bytes of memory is killed, even while it runs a task; not checked when absent or without procfs. */
  readonly memoryLimit?: number;
  /** A child that uses more bytes of memory is replaced when it is idle. */
  readonly memoryRecycle?: number;
  /** How often memory and age are checked. */
  readonly watchMs?: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs?: number;
  /** The delay after a child died at start; doubles with each further one, up to `maxBackOffMs`. */
  readonly backOffMs?: number;
  readonly maxBackOffMs?: number;
}

export type PoolEvents = {
  started: [child: Child];
  ready: [child: Child];
  busy: [child: Child];
  idle: [child: Child];
  line: [child: Child, stream: "stdout" | "stderr", line: string];
  exit: [child: Child, exit: Exit, wasReady: boolean];
  /** The next child is started after `delayMs`, because this many in a row died at start. */
  delay: [delayMs: number, failures: number, exit: Exit];
};

interface Waiter {
  resolve(child: Child | null): void;
}

export class ProcessPool extends EventEmitter<PoolEvents> {
  readonly #options: PoolOptions;
  readonly #children = new Set<Child>();
  readonly #idle: Child[] = [];
  readonly #waiters = new Set<Waiter>();
  readonly #retiring = new Set<Child>();
  /** The resident memory of each child at the last check. */
  readonly #seen = new WeakMap<Child, number>();
  #size: number;
  #failures = 0;
  #delay: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  #closed: Promise<void> | null = null;

  constructor(options: PoolOptions) {
    super();
    this.#options = options;
    this.#size = options.size;
    this.#setWatch();
  }

  get size(): number {
    return this.#size;
  }

  /** All living children, including those that are starting or being stopped. */
  get children(): readonly Child[] {
    return [...this.#children];
  }

  get idleCount(): number {
    return this.#idle.length;
  }

  /** Starts children until there are `count`, by default the size of the pool. Does not wait for them. */
  prestart(count = this.#size): void {
    while (this.#mayStart() && this.#children.size - this.#retiring.size < count) this.#start();
  }

  /** Additional children are started when needed; surplus children are stopped when they are idle. */
  resize(size: number): void {
    this.#size = size;
    this.#fill();
    while (this.#children.size - this.#retiring.size > size) {
      const child = this.#idle.at(-1);
      if (child === undefined) break;
      void this.stopOne(child, "is not needed");
    }
  }

  /** Stops this child now; its run is lost. Another child is started when one is needed and the size allows it. */
  async stopOne(child: Child, text: string): Promise<Exit> {
    this.#retire(child);
    return child.stop("stopped", text, this.#options.graceMs ?? defaultGraceMs);
  }

  /** Resolves with a ready child for exclusive use until `release`. Null when the signal aborts or the pool closes first. */
  async acquire(signal?: AbortSignal): Promise<Child | null> {
    if (this.#closed !== null || signal?.aborted === true) return null;
    const child = this.#idle.pop();
    if (child !== undefined) return child;
    return new Promise((resolve) => {
      const waiter: Waiter = {
        resolve: (found) => {
          this.#waiters.delete(waiter);
          signal?.removeEventListener("abort", give);
          resolve(found);
        },
      };
      const give = (): void => waiter.resolve(null);
      signal?.addEventListener("abort", give, { once: true });
      this.#waiters.add(waiter);
      this.#fill();
    });
  }

  /** Returns a child to the pool. A surplus child is stopped; one that is too old or too large is replaced. */
  release(child: Child): void {
    if (child.state !== "ready" || this.#retiring.has(child)) return;
    const tooMany = this.#children.size - this.#retiring.size > this.#size;
    const why = tooMany || this.#closed !== null ? "is not needed" : this.#replacementReason(child);
    if (why === null) this.#offer(child);
    else this.#replace(child, why);
  }

  /** Stops all children within `graceMs` and lends out no more. Resolves when all have exited. A second call replaces the grace time. */
  async close(graceMs = this.#options.graceMs ?? defaultGraceMs): Promise<void> {
    clearTimeout(this.#delay);
    clearInterval(this.#watch);
    const all = [...this.#children].map((child) => child.stop("stopped", "was stopped", graceMs));
    this.#closed ??= Promise.all(all).then(() => undefined);
    for (const waiter of [...this.#waiters]) waiter.resolve(null);
    await Promise.all(all);
    await this.#closed;
  }

  #mayStart(): boolean {
    return (
      this.#closed === null &&
      this.#delay === undefined &&
      this.#children.size - this.#retiring.size < this.#size
    );
  }

  /** Starts children until as many are starting as callers wait, within the size. */
  #fill(): void {
    const starting = [...this.#children].filter(({ state }) => state === "starting").length;
    for (let wanted = this.#waiters.size - starting; wanted > 0 && this.#mayStart(); wanted--) this.#start();
  }

  #start(): void {
    const child = new Child(this.#options.program(), this.#options);
    this.#children.add(child);
    let wasReady = false;
    child.on("line", (stream, line) => this.emit("line", child, stream, line));
    child.on("busy", () => this.emit("busy", child));
    child.on("idle", () => this.emit("idle", child));
    child.once("ready", () => {
      wasReady = true;
      this.#failures = 0;
      this.emit("ready", child);
      this.release(child);
    });
    child.once("exit", (exit) => {
      this.#children.delete(child);
      this.#retiring.delete(child);
      const at = this.#idle.indexOf(child);
      if (at >= 0) this.#idle.splice(at, 1);
      this.emit("exit", child, exit, wasReady);
      if (!wasReady && exit.cause !== "stopped") this.#backOff(exit);
      this.#fill();
    });
    this.emit("started", child);
  }

  #backOff(exit: Exit): void {
    if (this.#closed !== null) return;
    const { backOffMs: firstMs = 500, maxBackOffMs = 30_000 } = this.#options;
    const delayMs = backOffMs(this.#failures, firstMs, maxBackOffMs);
    this.#failures += 1;
    clearTimeout(this.#delay);
    this.#delay = setTimeout(() => {
      this.#delay = undefined;
      this.#fill();
    }, delayMs);
    this.emit("delay", delayMs, this.#failures, exit);
  }

  #offer(child: Child): void {
    const [waiter] = this.#waiters;
    if (waiter === undefined) this.#idle.push(child);
    else waiter.resolve(child);
  }

  #retire(child: Child): void {
    this.#retiring.add(child);
    const at = this.#idle.indexOf(child);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  /** Stops an idle child and starts another at once, if the size allows it, so that it is ready when needed. */
  #replace(child: Child, text: string): void {
    void this.stopOne(child, text);
    if (this.#mayStart()) this.#start();
  }

  /** Why an idle child should be replaced; null when it may stay. */
  #replacementReason(child: Child): string | null {
    const { lifetimeMs = Infinity, memoryRecycle = Infinity } = this.#options;
    const rss = this.#seen.get(child) ?? 0;
    if (rss > memoryRecycle) return `is replaced: it used ${mebibytes(rss)} of memory`;
    // a child that has run nothing needs no replacement, and with a short lifetime it would be replaced for ever
    return child.runs > 0 && child.ageMs > lifetimeMs
      ? `is replaced after ${Math.round(child.ageMs / 1000)} s`
      : null;
  }

  #setWatch(): void {
    const { watchMs = 500, memoryLimit, memoryRecycle, lifetimeMs } = this.#options;
    if (memoryLimit === undefined && memoryRecycle === undefined && lifetimeMs === undefined) return;
    this.#watch = setInterval(() => {
      for (const child of this.#children) void this.#look(child);
    }, watchMs);
    this.#watch.unref();
  }

  async #look(child: Child): Promise<void> {
    const { memoryLimit = Infinity, memoryRecycle = Infinity } = this.#options;
    const watched = memoryLimit !== Infinity || memoryRecycle !== Infinity;
    const rss = (watched ? await child.memory() : null)?.rss ?? 0;
    this.#seen.set(child, rss);
    if (rss > memoryLimit) {
      // no grace time: its memory would keep growing
      const text = `used ${mebibytes(rss)} of memory, the limit is ${mebibytes(memoryLimit)}`;
      await child.stop("memory", text, 0);
      return;
    }
    const why = this.#idle.includes(child) ? this.#replacementReason(child) : null;
    if (why !== null) this.#replace(child, why);
  }
}
