/**
 * The units of a spec in name order, with exact counts by status, in total and for every chunk of names. A claim or a settle
 * changes a few counts; a listing by status skips the chunks that have no such unit.
 */
import { emptyTally, SortedList, type Chunk, type Tally, type WorkUnitStatus } from "../core/index.ts";
import type { Unit } from "./state.ts";

export type UnitChunk = Chunk<Unit, Tally>;

export class SpecUnits {
  readonly counts: Tally = emptyTally();
  readonly #list: SortedList<Unit, Tally>;
  readonly #order: (unit: Unit, name: string) => number;

  /** `order` is negative for units before the name and positive for units after it. */
  constructor(order: (unit: Unit, name: string) => number) {
    this.#order = order;
    this.#list = new SortedList<Unit, Tally>((a, b) => (a === b ? 0 : order(a, b.name)), {
      note: (units) => {
        const counts = emptyTally();
        for (const { status } of units) counts[status]++;
        return counts;
      },
      added: (unit, chunk) => {
        unit.chunk = chunk;
        chunk.note[unit.status]++;
        this.counts[unit.status]++;
      },
      removed: (unit, chunk) => {
        unit.chunk = null;
        chunk.note[unit.status]--;
        this.counts[unit.status]--;
      },
      moved: (units, chunk) => {
        for (const unit of units) unit.chunk = chunk;
      },
    });
  }

  add(unit: Unit): void {
    this.#list.add(unit);
  }

  /** Not a map: one of a million names does not fit into the processor's cache, and names mostly come in rising order. */
  get(name: string): Unit | undefined {
    return this.#list.find((unit) => this.#order(unit, name));
  }

  get size(): number {
    return this.#list.size;
  }

  [Symbol.iterator](): Generator<Unit> {
    return this.#list.from();
  }

  remove(unit: Unit): void {
    this.#list.remove(unit);
  }

  /** Changes the status of a unit. */
  change(unit: Unit, status: WorkUnitStatus): void {
    const note = unit.chunk?.note;
    if (note !== undefined && unit.status !== status) {
      note[unit.status]--;
      note[status]++;
      this.counts[unit.status]--;
      this.counts[status]++;
    }
    unit.status = status;
  }

  /** Units of these statuses in name order, from the first for which `after` is true on. */
  *find(statuses: readonly WorkUnitStatus[], after: (unit: Unit) => boolean): Generator<Unit> {
    const none = (counts: Tally): boolean => statuses.every((status) => counts[status] === 0);
    for (const unit of this.#list.from(after, none)) if (statuses.includes(unit.status)) yield unit;
  }
}
