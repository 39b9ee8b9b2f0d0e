/**
 * Decides which connection may still change a unit.
 *
 * The old protocol names the unit, not the attempt: a worker that was too slow could finish a unit that another worker holds by
 * now. So each connection remembers the attempts that it was given, and its updates of a unit apply to that attempt. A connection
 * that was given none (the worker has reconnected, or a parent ends the job of its child) may update the active attempt if there
 * can be no mistake about which attempt it means.
 */
import type { AttemptRow, Coordinate, WorkUnitRow } from "../core/index.ts";

/** `strict`: an update after a lost lease is refused. `lenient`: the last update wins, as in the old daemons. */
export type LegacyFencing = "strict" | "lenient";

/** How many attempts, and how many workers, are remembered per connection; the oldest are dropped first. */
const max = 10_000;

export class Fencing {
  readonly mode: LegacyFencing;
  readonly #attempts = new Map<string, string>();
  readonly #workers = new Set<string>();

  constructor(mode: LegacyFencing) {
    this.mode = mode;
  }

  /** Remembers attempts that this connection was given or shown. */
  remember(attempts: readonly AttemptRow[]): void {
    if (this.mode === "lenient") return;
    for (const { workSpec, workUnit, id } of attempts) {
      const key = keyOf(workSpec, workUnit);
      this.#attempts.delete(key);
      this.#attempts.set(key, id);
      if (this.#attempts.size > max) dropOldest(this.#attempts.keys(), this.#attempts);
    }
  }

  /** Called when the connection gave the unit back or added it again: its next update is about another attempt. */
  forget(workSpec: string, workUnit: string): void {
    if (this.#attempts.size > 0) this.#attempts.delete(keyOf(workSpec, workUnit));
  }

  known(workSpec: string, workUnit: string): string | null {
    return this.#attempts.get(keyOf(workSpec, workUnit)) ?? null;
  }

  /** Remembers that this connection acts for this worker. */
  rememberWorker(worker: string): void {
    if (this.mode === "lenient" || worker === "") return;
    this.#workers.add(worker);
    if (this.#workers.size > max) dropOldest(this.#workers.keys(), this.#workers);
  }

  /**
   * Whether this connection, which was given no attempt of the unit, may update `attempt`, the latest one. It may if it acts
   * for the worker that holds the attempt, or if, since the unit was added or reset, no other worker can believe that it
   * holds the unit.
   */
  async accepts(
    coordinate: Coordinate,
    ns: string,
    unit: WorkUnitRow,
    attempt: AttemptRow,
    worker: string | undefined,
  ): Promise<boolean> {
    if (this.mode === "lenient" || unit.attempts === 1) return true;
    if (attempt.worker !== "" && (this.#workers.has(attempt.worker) || attempt.worker === worker))
      return true;
    const history = await coordinate.listUnitAttempts(ns, unit.workSpec, unit.name);
    return isOnly(history, attempt);
  }
}

/**
 * Whether only the holder of `attempt` can believe that it holds the unit. A worker that finished, failed or gave back an
 * attempt knows that it has ended, and a finished or failed unit was added or reset since. A worker whose attempt expired may
 * still be running.
 */
function isOnly(history: readonly AttemptRow[], attempt: AttemptRow): boolean {
  for (const earlier of [...history].sort((a, b) => b.number - a.number)) {
    if (earlier.number > attempt.number) return false;
    if (earlier.number === attempt.number || earlier.status === "retryable") continue;
    return earlier.status === "finished" || earlier.status === "failed";
  }
  return true;
}

const keyOf = (workSpec: string, workUnit: string): string => `${workSpec.length} ${workSpec}${workUnit}`;

function dropOldest(keys: Iterator<string>, from: { delete(key: string): boolean }): void {
  const oldest = keys.next();
  if (oldest.done !== true) from.delete(oldest.value);
}
