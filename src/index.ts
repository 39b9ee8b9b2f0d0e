/**
 * The main entry: the domain, the handles, and a coordinator in this process's memory. Durable stores and wires have
 * entries of their own, so that nobody loads a driver that they do not use.
 */
import { Engine, isCoordinateError, nextTurn, type EngineOptions } from "./core/index.ts";
import { MemoryStore } from "./memory/index.ts";
import { CoordinateHandle } from "./objects/index.ts";

export * from "./core/index.ts";
export * from "./objects/index.ts";

export interface MemoryOptions extends EngineOptions {
  /**
   * How often to tidy: fail units that were tried too often, remove what retention no longer keeps, forget old
   * workers. A second; with a clock of your own never, unless this says so, since timers follow the machine's clock.
   */
  tidyMs?: number;
}

/** A coordinator whose state lives and ends with this process. Close it when done; it does not keep the process alive. */
export function openMemory(options: MemoryOptions = {}): CoordinateHandle {
  const engine = new Engine(new MemoryStore(), options);
  const tidyMs = options.tidyMs ?? (options.clock === undefined ? 1000 : 0);
  return tidyMs > 0 ? new TidiedHandle(engine, tidyMs) : new CoordinateHandle(engine);
}

/** Runs the housekeeping of an engine until it is closed. */
class TidiedHandle extends CoordinateHandle {
  readonly #timer: NodeJS.Timeout;
  #busy = false;
  #closed = false;

  constructor(engine: Engine, tidyMs: number) {
    super(engine);
    this.#timer = setInterval(() => void this.#tidy(engine), tidyMs).unref();
  }

  async #tidy(engine: Engine): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while ((await engine.tidy()).more && !this.#closed) await nextTurn();
    } catch (error) {
      // closed in the middle of it, which is no fault; anything else is a bug that must be seen and must not end the process
      if (!isCoordinateError(error, "closed"))
        process.emitWarning(error instanceof Error ? error : String(error));
    } finally {
      this.#busy = false;
    }
  }

  override async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await super.close();
  }
}
