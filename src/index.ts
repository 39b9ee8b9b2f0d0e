/**
 * The main entry: the domain, the handles, and a coordinator in this process's memory. Durable stores and wires have
 * entries of their own, so that nobody loads a driver that they do not use.
 */
import { Engine, type EngineOptions } from "./core/index.ts";
import { HousekeptHandle } from "./housekept.ts";
import { MemoryStore } from "./memory/index.ts";
import { CoordinateHandle } from "./objects/index.ts";

export { connect, type ConnectOptions } from "./connect.ts";
export * from "./core/index.ts";
export * from "./objects/index.ts";

export interface MemoryOptions extends EngineOptions {
  /**
   * How often housekeeping runs: it fails units that were tried too often, removes what retention no longer keeps, and forgets old
   * workers. A second; with a clock of your own never, unless this says so, since timers follow the machine's clock.
   */
  sweepMs?: number;
}

/** A coordinator whose state lives and ends with this process. Close it when done; it does not keep the process alive. */
export function openMemory(options: MemoryOptions = {}): CoordinateHandle {
  const engine = new Engine(new MemoryStore(), options);
  const sweepMs = options.sweepMs ?? (options.clock === undefined ? 1000 : 0);
  return sweepMs > 0 ? new HousekeptHandle(engine, { everyMs: sweepMs }) : new CoordinateHandle(engine);
}
