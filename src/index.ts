/**
 * The main entry: the domain, the handles, and a coordinator in this process's memory. Durable stores and protocols have
 * separate entries, so that a program does not load drivers that it does not use.
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
   * How often housekeeping runs: it fails units that reached their try limit, deletes units past their retention, and forgets old
   * workers. Default 1000; 0 (never) if `clock` is given, since timers follow the machine's clock.
   */
  sweepMs?: number;
}

/** A coordinator whose state is lost when the process ends. Close it when done; it does not keep the process alive. */
export function openMemory(options: MemoryOptions = {}): CoordinateHandle {
  const engine = new Engine(new MemoryStore(), options);
  const sweepMs = options.sweepMs ?? (options.clock === undefined ? 1000 : 0);
  return sweepMs > 0 ? new HousekeptHandle(engine, { everyMs: sweepMs }) : new CoordinateHandle(engine);
}
