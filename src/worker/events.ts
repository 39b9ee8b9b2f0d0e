/** What a worker emits, by name. Listeners are called in the worker's own turn: keep them quick. */
import { CoordinateError, type AttemptProgress } from "../core/index.ts";

/** One unit. `worker` is the child worker that holds the attempt. */
export interface UnitEvent {
  readonly worker: string;
  readonly workSpec: string;
  readonly unit: string;
  /** The id of the attempt, and its number: 1 for the unit's first. */
  readonly attempt: string;
  readonly number: number;
  /** When the unit was claimed, by the coordinator's clock. */
  readonly claimedAt: number;
  /** When its task began, by the worker's clock; 0 when it did not. */
  readonly beganAt: number;
}

export interface UnitEndEvent extends UnitEvent {
  /** From when the task began until its end was stored. */
  readonly ms: number;
}

export interface UnitErrorEvent extends UnitEndEvent {
  /** What the task threw; of a task in another process, an error with its text. Null when the task settled the unit without an error. */
  readonly error: Error | null;
}

export interface UnitsEvent {
  readonly worker: string;
  readonly workSpec: string;
  /** Their names. */
  readonly units: readonly string[];
}

export type WorkerEvents = {
  /** The task of a unit began. */
  began: [UnitEvent];
  /** The task has said how far it has come. */
  progress: [UnitEndEvent & AttemptProgress];
  finished: [UnitEndEvent];
  /** The unit failed, and is not tried again. */
  failed: [UnitErrorEvent];
  /** The unit is tried again, after `delayMs`, and `triesLeft` times at most; null is unlimited. */
  retried: [UnitErrorEvent & { readonly delayMs: number; readonly triesLeft: number | null }];
  /** The attempt is no longer this worker's: another has the unit, or it was cancelled, reset or deleted. */
  lost: [UnitEndEvent & { readonly error: Error }];
  /** A settle was refused, for whatever reason. */
  refused: [UnitEndEvent & { readonly action: string; readonly error: Error }];
  /** A bulk task returned and left units open. They expire. */
  unsettled: [UnitsEvent];
  /** The time of the units was up: they are tried again, or fail. */
  timedOut: [UnitsEvent];
  /** The units were claimed, did not begin, and were given back untried. */
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

/** What Node.js itself listens to on any emitter. */
const everywhere: readonly (string | symbol)[] = ["error", "newListener", "removeListener"];

/** Whoever listens for an event that a worker does not have would wait for ever without a word. */
export function checkEvent(event: string | symbol): void {
  if (typeof event === "symbol" || Object.hasOwn(known, event) || everywhere.includes(event)) return;
  const names = Object.keys(known).join(", ");
  throw new CoordinateError("bad_argument", `${event}: not an event of a worker; the events are ${names}`);
}
