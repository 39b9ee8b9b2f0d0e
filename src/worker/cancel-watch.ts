/**
 * Watches the units of long-running tasks: when a unit is cancelled or deleted, its task is told at once instead of at the next
 * renewal of its lease. For each work spec, one request waits at the coordinator until any of its watched units has ended. A unit that
 * was reset or replaced has not ended: the task learns of it from the rows when the wait is over. Tasks that return within a second
 * are never watched.
 */
import {
  isCoordinateError,
  isRefusal,
  type Clock,
  type Coordinate,
  type WorkUnitRow,
} from "../core/index.ts";
import type { Logger } from "./log.ts";
import type { Run } from "./run.ts";

export interface CancelWatchSetting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** The current runs. */
  readonly running: () => Iterable<Run>;
}

/**
 * How long a task runs before it is watched, and the interval at which the list of watched tasks is updated: every task that has run
 * for twice this time is watched.
 */
const afterMs = 1000;
/** How long one request waits: how late a task may learn that its unit was reset or replaced. */
const waitMs = 5000;

interface Wait {
  readonly units: ReadonlyMap<string, Run>;
  readonly stop: AbortController;
}

export class CancelWatch {
  readonly #setting: CancelWatchSetting;
  /** By work spec. */
  readonly #waits = new Map<string, Wait>();
  #unsupported = false;

  constructor(setting: CancelWatchSetting) {
    this.#setting = setting;
  }

  /** Runs until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#setting;
    while (!this.#unsupported) {
      await clock.waitUntil(clock.now() + afterMs, signal);
      if (signal.aborted) break;
      this.#look();
    }
    for (const { stop } of this.#waits.values()) stop.abort();
  }

  #look(): void {
    const { running, clock } = this.#setting;
    const since = clock.now() - afterMs;
    const long = new Map<string, Map<string, Run>>();
    for (const run of running()) {
      // not for bulk tasks: their units end one by one, but they have one signal
      if (run.beganAt > since || run.attempts.length > 1) continue;
      const { name } = run.claim.workSpec;
      const units = long.get(name) ?? new Map<string, Run>();
      long.set(name, units.set(run.attempts[0]!.workUnitName, run));
    }
    for (const [workSpec, { units, stop }] of this.#waits) {
      const wanted = long.get(workSpec);
      if (wanted !== undefined && isSame(units, wanted)) long.delete(workSpec);
      else {
        this.#waits.delete(workSpec);
        stop.abort();
      }
    }
    for (const [workSpec, units] of long) void this.#wait(workSpec, units);
  }

  async #wait(workSpec: string, units: ReadonlyMap<string, Run>): Promise<void> {
    const { verbs, ns, log, clock } = this.#setting;
    const own: Wait = { units, stop: new AbortController() };
    this.#waits.set(workSpec, own);
    const names = [...units.keys()];
    const { signal } = own.stop;
    try {
      const rows = await verbs.awaitWorkUnits(ns, workSpec, names, { any: true, waitMs, signal });
      // also when the signal ended the wait: the rows are fresh
      names.forEach((name, i) => tellIfLost(units.get(name)!, rows[i] ?? null, clock.now()));
    } catch (error) {
      if (isCoordinateError(error, "no_such_work_spec"))
        for (const run of units.values()) tellIfLost(run, null, clock.now());
      // a coordinator of an earlier version: tasks learn of it when their leases are renewed
      else if (isRefusal(error)) this.#unsupported = true;
      log.debug({ workSpec, err: error }, "could not watch for cancelled units");
    }
    // the next `#look` starts a new wait
    if (this.#waits.get(workSpec) === own) this.#waits.delete(workSpec);
  }
}

const isSame = (a: ReadonlyMap<string, Run>, b: ReadonlyMap<string, Run>): boolean =>
  a.size === b.size && [...a].every(([name, run]) => b.get(name) === run);

/**
 * The run has lost its unit when the unit was deleted, or its active attempt is not the run's. A unit without an active attempt is lost
 * unless its lease has ended: then the run may still renew or settle it.
 */
function tellIfLost(run: Run, row: WorkUnitRow | null, now: number): void {
  const { id, expirationTime } = run.attempts[0]!;
  const active = row?.activeAttempt ?? null;
  if (active?.id === id) return;
  const hasExpired = run.claim.context.serverTime.toLocal(expirationTime) <= now;
  if (row === null || active !== null || !hasExpired) run.claim.lost(run, row);
}
