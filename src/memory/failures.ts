/** The failure groups of a work spec. */
import { failureOf, noFailures, SortedList, summarize, type FailureRow } from "../core/index.ts";
import type { Unit } from "./state.ts";

type Totals = Omit<FailureRow, "workSpec" | "fingerprint" | "count">;

interface Group extends Totals {
  readonly fingerprint: string;
  readonly units: SortedList<Unit>;
}

export class Failures {
  readonly #byName: (a: Unit, b: Unit) => number;
  readonly #groups = new Map<string, Group>();
  readonly #groupOf = new Map<Unit, Group>();
  readonly #ungrouped = new Set<Unit>();

  constructor(byName: (a: Unit, b: Unit) => number) {
    this.#byName = byName;
  }

  /** The unit has failed. */
  add(unit: Unit): void {
    this.#ungrouped.add(unit);
  }

  /** The unit is no longer failed, or was deleted. */
  remove(unit: Unit): void {
    if (this.#ungrouped.delete(unit)) return;
    const group = this.#groupOf.get(unit);
    if (group === undefined) return;
    this.#groupOf.delete(unit);
    group.units.remove(unit);
    if (group.units.size === 0) this.#groups.delete(group.fingerprint);
  }

  /** Groups at most `limit` units that are in no group yet; returns whether all are grouped. */
  group(limit = Infinity): boolean {
    if (this.#ungrouped.size === 0) return true;
    const units = [...this.#ungrouped].sort((a, b) => a.id - b.id).slice(0, limit);
    for (const unit of units) {
      this.#ungrouped.delete(unit);
      const { attempt, data, tries, name } = unit;
      const end = attempt?.end ?? 0;
      const { fingerprint, error } = failureOf(attempt?.data ?? data, attempt?.reason ?? null, this.#groups);
      let group = this.#groups.get(fingerprint);
      if (group === undefined) {
        const units = new SortedList<Unit>(this.#byName);
        group = { fingerprint, units, error, ...noFailures() };
        this.#groups.set(fingerprint, group);
      }
      summarize(group, { name, end, tries });
      group.units.add(unit);
      this.#groupOf.set(unit, group);
    }
    return this.#ungrouped.size === 0;
  }

  /** The units of a group, in name order. */
  units(fingerprint: string): SortedList<Unit> | undefined {
    this.group();
    return this.#groups.get(fingerprint)?.units;
  }

  isOf(unit: Unit, fingerprint: string): boolean {
    return this.#groupOf.get(unit)?.fingerprint === fingerprint;
  }

  rows(workSpec: string): FailureRow[] {
    this.group();
    return [...this.#groups.values()].map(({ units, ...group }) => ({
      workSpec,
      ...group,
      count: units.size,
    }));
  }
}
