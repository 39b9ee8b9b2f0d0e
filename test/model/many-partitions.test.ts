/** Random histories of a work spec with many partitions, compared with a model that finds the next partition by a full search. */
import { expect, test } from "vitest";
import {
  encodeData,
  Engine,
  ManualClock,
  seededRandom,
  type Store,
  type WorkUnitInput,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const ns = "n";
/** More partitions than one chunk of a sorted list holds. */
const partitions = Array.from({ length: 1200 }, (_, i) => `p${String(i).padStart(4, "0")}`);

interface Rules {
  fair: boolean;
  limit: number;
  ordered: boolean;
}

interface Unit {
  name: string;
  priority: number;
  runs: boolean;
  /** Whether the unit has been claimed before. */
  begun: boolean;
}

const byClaim = (a: Unit, b: Unit): number => b.priority - a.priority || (a.name < b.name ? -1 : 1);

/** The units that have not ended, by partition. */
class Model {
  readonly #rules: Rules;
  readonly #units = new Map<string, Unit[]>();
  #cursor = "";

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  add({ name, partition = "", priority = 0 }: WorkUnitInput): void {
    const units = this.#units.get(partition) ?? [];
    this.#units.set(partition, [...units, { name, priority, runs: false, begun: false }]);
  }

  #unitOf(name: string): [units: Unit[], index: number] {
    for (const units of this.#units.values()) {
      const index = units.findIndex((unit) => unit.name === name);
      if (index >= 0) return [units, index];
    }
    throw new Error(`no unit ${name}`);
  }

  finish(name: string): void {
    const [units, index] = this.#unitOf(name);
    units.splice(index, 1);
  }

  retry(name: string): void {
    const [units, index] = this.#unitOf(name);
    units[index]!.runs = false;
  }

  /** The next unit that the partition may hand out, and the rank of the partition. */
  #next(units: readonly Unit[]): { unit: Unit; rank: number } | undefined {
    const { fair, limit, ordered } = this.#rules;
    const waiting = units.filter(({ runs }) => !runs).sort(byClaim);
    const begun = ordered ? units.filter((unit) => unit.begun) : [];
    const running = units.filter(({ runs }) => runs).length;
    if (begun.some(({ runs }) => runs) || (limit > 0 && running >= limit)) return undefined;
    const unit = begun.length > 0 ? begun.sort(byClaim)[0] : waiting[0];
    return unit && { unit, rank: fair ? 0 : 0 - waiting[0]!.priority };
  }

  claim(count: number): string[] {
    const names: string[] = [];
    const open = new Map<string, { unit: Unit; rank: number }>();
    for (const [partition, units] of this.#units) {
      const next = this.#next(units);
      if (next !== undefined) open.set(partition, next);
    }
    while (names.length < count && open.size > 0) {
      let lowest = Infinity;
      for (const { rank } of open.values()) lowest = Math.min(lowest, rank);
      const partition = first(open, lowest, (one) => one > this.#cursor) ?? first(open, lowest, () => true)!;
      const { unit } = open.get(partition)!;
      unit.runs = unit.begun = true;
      names.push(unit.name);
      this.#cursor = partition;
      const next = this.#next(this.#units.get(partition)!);
      if (next === undefined) open.delete(partition);
      else open.set(partition, next);
    }
    return names;
  }
}

/** The first partition of the rank, by name, for which `isNext` is true. */
function first(
  open: ReadonlyMap<string, { rank: number }>,
  rank: number,
  isNext: (partition: string) => boolean,
): string | undefined {
  let found: string | undefined;
  for (const [partition, one] of open)
    if (one.rank === rank && isNext(partition) && (found === undefined || partition < found))
      found = partition;
  return found;
}

async function run(store: Store, rules: Rules, seed: number): Promise<void> {
  const random = seededRandom(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const engine = new Engine(store, { clock: new ManualClock(1_000_000), random });
  const { fair, limit, ordered } = rules;
  const keys = { max_running_per_partition: limit, ...(fair && { fair: "partition" }) };
  await engine.setWorkSpecs(ns, [
    { data: encodeData({ name: "s", ...keys, ...(ordered && { order: "partition" }) }) },
  ]);
  const model = new Model(rules);
  const running = new Map<string, string>();
  let added = 0;
  for (let step = 0; step < 16; step++) {
    const units = Array.from({ length: below(3) === 0 ? below(1200) : below(60) }, () => ({
      name: `u${below(9)}-${added++}`,
      partition: partitions[below(partitions.length)]!,
      priority: below(20) === 0 ? below(4) : 0,
    }));
    await engine.addWorkUnits(ns, "s", units);
    for (const unit of units) model.add(unit);
    const number = 1 + below(step % 4 === 0 ? 400 : 120);
    const attempts = await engine.requestAttempts(ns, { worker: "w", number });
    expect(
      attempts.map(({ workUnit }) => workUnit),
      `step ${step} of seed ${seed}`,
    ).toEqual(model.claim(number));
    for (const { workUnit, id } of attempts) running.set(workUnit, id);
    const ended = [...running].filter(() => below(3) > 0);
    const changes = ended.map(([name, attempt]) => {
      const action = below(5) === 0 ? ("retry" as const) : ("finish" as const);
      model[action](name);
      running.delete(name);
      return { attempt, action };
    });
    if (changes.length > 0) await engine.settleAttempts(ns, changes);
    if (step % 6 === 5) await engine.sweep();
  }
  await engine.close();
}

const kinds: Record<string, Rules> = {
  turns: { fair: true, limit: 0, ordered: false },
  "a limit": { fair: false, limit: 1, ordered: false },
  "a limit of two, and turns": { fair: true, limit: 2, ordered: false },
  order: { fair: false, limit: 0, ordered: true },
};

const stores: Record<string, () => Store | Promise<Store>> = {
  memory: () => new MemoryStore(),
  sqlite: () => openSqlite(":memory:", { durability: "off" }),
  "sqlite by the rules": () => openSqlite(":memory:", { durability: "off", fastPaths: false }),
};

for (const [name, open] of Object.entries(stores))
  for (const [kind, rules] of Object.entries(kinds))
    test(`${kind} of 1,200 partitions, on ${name}`, { timeout: 300_000 }, async () => {
      for (const seed of [1, Math.floor(Math.random() * 2 ** 31)]) await run(await open(), rules, seed);
    });
