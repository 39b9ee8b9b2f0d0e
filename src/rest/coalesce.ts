/**
 * Merges requests into batches: settles that arrive in one turn of the event loop, and adds to one work spec, become one call to
 * the store, in one transaction. No request waits for others to arrive.
 *
 * A merged call that is refused has changed nothing. Each caller's part is then sent alone, so that each caller gets its own answer.
 * Adds with options are not merged: a request id stands for exactly one request, and each caller waits for room for its own units.
 * Claims are not merged either: a claim is for one worker.
 */
import {
  askTogether,
  override,
  type AddedWorkUnit,
  type AddWorkUnitsOptions,
  type Asked,
  type AttemptChange,
  type AttemptChanged,
  type Coordinate,
  type WorkUnitInput,
} from "../core/index.ts";

/** The most items in one batch: a larger one blocks other calls longer than it saves. */
const largest = 2000;

export function coalesce(inner: Coordinate): Coordinate {
  const settles = new Merger<AttemptChange, AttemptChanged>((ns, _spec, changes) =>
    inner.settleAttempts(ns, changes),
  );
  const adds = new Merger<WorkUnitInput, AddedWorkUnit>((ns, spec, units) =>
    inner.addWorkUnits(ns, spec, units),
  );
  return override(inner, {
    settleAttempts: (ns, changes) =>
      isShort(changes) ? settles.ask(ns, "", changes) : inner.settleAttempts(ns, changes),
    addWorkUnits: (ns, ref, units, options) =>
      typeof ref === "string" && isPlain(options) && isShort(units)
        ? adds.ask(ns, ref, units)
        : inner.addWorkUnits(ns, ref, units, options),
  });
}

const isPlain = ({ requestId, onConflict, waitMs = 0 }: AddWorkUnitsOptions = {}): boolean =>
  requestId === undefined && onConflict === undefined && waitMs === 0;

const isShort = (items: readonly unknown[]): boolean => Array.isArray(items) && items.length <= 100;

class Merger<Item, Answer> {
  readonly #ask: (ns: string, spec: string, items: readonly Item[]) => Promise<Answer[]>;
  /** By namespace and work spec: nested maps, since a joined key could be ambiguous. */
  readonly #waiting = new Map<string, Map<string, Asked<Item, Answer>[]>>();
  #scheduled = false;

  constructor(ask: (ns: string, spec: string, items: readonly Item[]) => Promise<Answer[]>) {
    this.#ask = ask;
  }

  ask(ns: string, spec: string, items: readonly Item[]): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      const specs = this.#waiting.get(ns) ?? new Map<string, Asked<Item, Answer>[]>();
      this.#waiting.set(ns, specs);
      const parts = specs.get(spec) ?? [];
      specs.set(spec, parts);
      parts.push({ items, resolve, reject });
      if (this.#scheduled) return;
      this.#scheduled = true;
      setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    this.#scheduled = false;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const [ns, specs] of waiting) {
      for (const [spec, parts] of specs) {
        for (let i = 0; i < parts.length;) {
          const batch: Asked<Item, Answer>[] = [];
          let items = 0;
          while (i < parts.length && (items === 0 || items + parts[i]!.items.length <= largest)) {
            items += parts[i]!.items.length;
            batch.push(parts[i]!);
            i += 1;
          }
          void askTogether(batch, (items) => this.#ask(ns, spec, items));
        }
      }
    }
  }
}
