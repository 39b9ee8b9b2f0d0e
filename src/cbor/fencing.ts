/**
 * Who may still change a unit.
 *
 * The old protocol names the unit and not the attempt: a worker that was too slow would finish what another one
 * holds by now. So each connection remembers the attempts that it was given, and speaks about a unit by that attempt.
 * A connection that was given none (the worker has reconnected, or a parent ends the job of its child) may speak for
 * the active attempt when there can be no mistake about which one it means.
 */
import type { AttemptRow, Coordinate, WorkUnitRow } from "../core/index.ts";

/** `strict`: a lost lease is refused. `lenient`: whoever speaks last is believed, as in the old daemons. */
export type LegacyFencing = "strict" | "lenient";

/** So many attempts, and workers, are remembered per connection; the oldest are forgotten first. */
const max = 10_000;

export class Fencing {
  readonly mode: LegacyFencing;
  readonly #attempts = new Map<string, string>();
  readonly #workers = new Set<string>();

  constructor(mode: LegacyFencing) {
    this.mode = mode;
  }

  /** This connection was given, or shown, these attempts. */
  remember(attempts: readonly AttemptRow[]): void {
    if (this.mode === "lenient") return;
    for (const { workSpec, workUnit, id } of attempts) {
      const key = keyOf(workSpec, workUnit);
      this.#attempts.delete(key);
      this.#attempts.set(key, id);
      if (this.#attempts.size > max) dropOldest(this.#attempts.keys(), this.#attempts);
    }
  }

  /** It has given the unit back, or added it anew: what it says next is about another attempt. */
  forget(workSpec: string, workUnit: string): void {
    if (this.#attempts.size > 0) this.#attempts.delete(keyOf(workSpec, workUnit));
  }

  known(workSpec: string, workUnit: string): string | null {
    return this.#attempts.get(keyOf(workSpec, workUnit)) ?? null;
  }

  /** This connection speaks for this worker. */
  speaksFor(worker: string): void {
    if (this.mode === "lenient" || worker === "") return;
    this.#workers.add(worker);
    if (this.#workers.size > max) dropOldest(this.#workers.keys(), this.#workers);
  }

  /**
   * May this connection, which was given no attempt of the unit, speak for `attempt`, the latest one? Yes if it
   * speaks for the worker that holds it; or if since the unit was added or reset nobody else can believe to hold it.
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
 * Whether nobody but the holder of `attempt` can believe to hold the unit. Who finished, failed or gave back an
 * attempt knows that it has ended, and a finished or failed unit was added or reset since; one that expired may
 * still be at work.
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
