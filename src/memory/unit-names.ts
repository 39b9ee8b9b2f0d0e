/**
 * The units of a spec in name order, with exact counts by status, in total and for every chunk of names. A claim or a settle
 * changes a few counts; a listing by status skips the chunks that have no such unit.
 */
import { emptyTally, SortedList, type Chunk, type Tally, type WorkUnitStatus } from "../core/index.ts";
import type { Unit } from "./state.ts";

export type NameChunk = Chunk<Unit, Tally>;

export class UnitNames {
  readonly counts: Tally = emptyTally();
  readonly #list: SortedList<Unit, Tally>;

  constructor(compare: (a: Unit, b: Unit) => number) {
    this.#list = new SortedList<Unit, Tally>(compare, {
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

  /**
   * Whether there is certainly no unit of this name, judged by those added last; false means unknown. Names are mostly added in
   * rising order, and a lookup among millions takes longer.
   */
  isNew(name: string): boolean {
    return this.#list.isBehindAdded((unit) => (unit.name < name ? -1 : unit.name > name ? 1 : 0));
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
