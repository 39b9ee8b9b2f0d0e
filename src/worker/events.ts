/** The events of a worker. Listeners are called synchronously and delay the worker: keep them quick. */
import { CoordinateError, type AttemptProgress } from "../core/index.ts";

/** An event of one unit. `worker` is the child worker that holds the attempt. */
export interface UnitEvent {
  readonly worker: string;
  readonly workSpec: string;
  readonly unit: string;
  /** The id of the attempt, and its number: 1 for the unit's first. */
  readonly attempt: string;
  readonly number: number;
  /** When the unit was claimed, by the coordinator's clock. */
  readonly claimedAt: number;
  /** When its task began, by the worker's clock; 0 when it never began. */
  readonly beganAt: number;
}

export interface UnitEndEvent extends UnitEvent {
  /** From the start of the task until this event; for the end of a unit, until it was stored. */
  readonly ms: number;
}

export interface UnitErrorEvent extends UnitEndEvent {
  /** The error that the task threw; for a task in another process, an error with its text. Null when it settled the unit without one. */
  readonly error: Error | null;
}

export interface UnitsEvent {
  readonly worker: string;
  readonly workSpec: string;
  /** Names of the units. */
  readonly units: readonly string[];
}

export type WorkerEvents = {
  /** The task of a unit began. */
  began: [UnitEvent];
  /** A progress report of the task was stored. */
  progress: [UnitEndEvent & AttemptProgress];
  finished: [UnitEndEvent];
  /** The unit failed and is not retried. */
  failed: [UnitErrorEvent];
  /** The unit is retried after `delayMs`, at most `triesLeft` more times; null is unlimited. */
  retried: [UnitErrorEvent & { readonly delayMs: number; readonly triesLeft: number | null }];
  /** The worker no longer holds the attempt: another worker has the unit, or it was cancelled, reset or deleted. */
  lost: [UnitEndEvent & { readonly error: Error }];
  /** The coordinator refused a settlement, for any reason. */
  refused: [UnitEndEvent & { readonly action: string; readonly error: Error }];
  /** A bulk task left the units unsettled, or their outcomes could not be stored. They will expire. */
  unsettled: [UnitsEvent];
  /** The leases were about to end: the units are retried or fail. */
  timedOut: [UnitsEvent];
  /** The units were given back before they began, or because the worker stops; this does not count as a try. */
  released: [UnitsEvent];
  started: [{ readonly worker: string }];
  stopping: [{ readonly worker: string }];
  stopped: [{ readonly worker: string }];
};

const known: Readonly<Record<keyof WorkerEvents, true>> = {
  began: true,
  progress: true,
  finished: true,
  failed: true,
  retried: true,
  lost: true,
  refused: true,
  unsettled: true,
  timedOut: true,
  released: true,
  started: true,
  stopping: true,
  stopped: true,
};

/** Events that every Node.js emitter has. */
const everywhere: readonly (string | symbol)[] = ["error", "newListener", "removeListener"];

/** Throws for an unknown event name: a listener for it would never be called. */
export function checkEvent(event: string | symbol): void {
  if (typeof event === "symbol" || Object.hasOwn(known, event) || everywhere.includes(event)) return;
  const names = Object.keys(known).join(", ");
  throw new CoordinateError("bad_argument", `${event}: unknown event; the events of a worker are ${names}`);
}
