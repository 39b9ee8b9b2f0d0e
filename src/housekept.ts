/** A handle on a store that this process opened itself. It does the housekeeping that a daemon would do. */
import { isCoordinateError, nextTurn, stuckText, type Engine } from "./core/index.ts";
import { CoordinateHandle } from "./objects/index.ts";

export interface HousekeepingOptions {
  /** How often to fail units that reached their try limit, delete units past their retention, and forget old workers. */
  everyMs: number;
  /** Called once a minute, for other upkeep of the store. */
  upkeep?: () => Promise<void>;
}

const upkeepMs = 60_000;

/** Runs the housekeeping of an engine until it is closed. Its timers do not keep the process alive. */
export class HousekeptHandle extends CoordinateHandle {
  readonly #timers: NodeJS.Timeout[];
  #busy = false;
  /** Whether a warning about stuck units was emitted. */
  #warned = false;
  #closed = false;

  constructor(engine: Engine, { everyMs, upkeep }: HousekeepingOptions) {
    super(engine);
    this.#timers = [setInterval(() => void this.#guarded(() => this.#sweep(engine)), everyMs).unref()];
    if (upkeep !== undefined)
      this.#timers.push(setInterval(() => void this.#guarded(upkeep), upkeepMs).unref());
  }

  async #sweep(engine: Engine): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (!this.#closed) {
        const { more, stuck } = await engine.sweep();
        if (stuck > 0 && !this.#warned) process.emitWarning(stuckText);
        this.#warned = stuck > 0;
        if (!more) break;
        await nextTurn();
      }
    } finally {
      this.#busy = false;
    }
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      // `closed`: the handle was closed meanwhile, which is fine; other errors must be seen, but not end the process
      if (!isCoordinateError(error, "closed"))
        process.emitWarning(error instanceof Error ? error : String(error));
    }
  }

  override async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) clearInterval(timer);
    await super.close();
  }
}
