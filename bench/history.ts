/**
 * What the statistics cost: the processor time per unit of an embedded engine and store, with and without statistics. Two engines
 * alternate in turns of one second of their own clocks, so that a temporary slowdown of the machine affects both. After each turn
 * they sweep, as a daemon does. Records are written every ten seconds.
 *
 *   node --import ./examples/typescript.mjs bench/history.ts [units a second] [rounds of ten seconds] [store]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { encodeData, Engine, ManualClock, type Store } from "../src/core/index.ts";
import { MemoryStore } from "../src/memory/index.ts";
import { openSqlite } from "../src/sqlite/index.ts";
import { median } from "./machine.ts";

const perSecond = Number(process.argv[2] ?? 1000);
const rounds = Number(process.argv[3] ?? 12);
const specs = Array.from({ length: 10 }, (_, i) => `spec ${i}`);
const data = encodeData({ key: "value", number: 1 });

interface Subject {
  readonly engine: Engine;
  readonly clock: ManualClock;
  /** Microseconds of processor time, by second of the round (0 to 9), then by round. Records are written in one of the ten seconds. */
  readonly spent: number[][];
}

async function begin(store: Store, history: boolean): Promise<Subject> {
  const clock = new ManualClock();
  const engine = new Engine(store, { history, clock });
  await engine.setWorkSpecs(
    "",
    specs.map((name) => ({ data: encodeData({ name }) })),
  );
  return { engine, clock, spent: Array.from({ length: 10 }, () => []) };
}

/** One second: adds, claims and finishes units in batches, then sweeps. Returns the microseconds of processor time. */
async function second({ engine, clock }: Subject, batch: number, at: number): Promise<number> {
  const before = process.cpuUsage();
  for (let done = 0; done < perSecond; done += batch) {
    const spec = specs[(done / batch) % specs.length]!;
    await engine.addWorkUnits(
      "",
      spec,
      Array.from({ length: batch }, (_, i) => ({ name: `u${at + done + i}`, data })),
    );
    const attempts = await engine.requestAttempts("", { worker: "w", number: batch });
    clock.advance((1000 * batch) / perSecond);
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
    );
  }
  await engine.sweep();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The cost of a round per unit, without outliers: for each of its seconds, the median over all rounds. */
const costOf = (spent: readonly number[][]): number =>
  spent.reduce((sum, second) => sum + median(second), 0) / (10 * perSecond);

/** The standard error of the cost of a round, per unit, estimated from the differences between rounds. */
function errorOf(spent: readonly number[][]): number {
  const squares = spent.map((second) => {
    const middle = median(second);
    const deviation = 1.4826 * median(second.map((one) => Math.abs(one - middle)));
    return (1.2533 * deviation) ** 2 / second.length;
  });
  return Math.sqrt(squares.reduce((sum, one) => sum + one, 0)) / (10 * perSecond);
}

async function compare(name: string, open: () => Promise<Store>, batch: number): Promise<void> {
  const [on, off] = [await begin(await open(), true), await begin(await open(), false)];
  // the first two rounds are not counted: they compile the code
  for (let round = -2; round < rounds; round++)
    for (let i = 0; i < 10; i++) {
      const at = ((round + 2) * 10 + i) * perSecond;
      for (const subject of (round + i) % 2 === 0 ? [on, off] : [off, on]) {
        const spent = await second(subject, batch, at);
        if (round >= 0) subject.spent[i]!.push(spent);
      }
    }
  await on.engine.close();
  await off.engine.close();
  const less = costOf(off.spent);
  // compares adjacent seconds: a disturbance slows down both
  const differences = on.spent.map((second, i) => second.map((one, round) => one - off.spent[i]![round]!));
  const [more, error] = [costOf(differences), errorOf(differences)];
  console.log(
    `${name}, batches of ${batch}: ${less.toFixed(2)} µs a unit without statistics, ${more.toFixed(2)} more with them: ` +
      `${((more / less) * 100).toFixed(1)} ± ${((error / less) * 100).toFixed(1)} %`,
  );
}

const directory = mkdtempSync(path.join(tmpdir(), "bench-history-"));
let serial = 0;
const stores = {
  sqlite: () => openSqlite(path.join(directory, `${++serial}.sqlite`), { durability: "off" }),
  memory: () => Promise.resolve(new MemoryStore()),
};
for (const [name, open] of Object.entries(stores))
  if (process.argv[4] === undefined || process.argv[4] === name)
    for (const batch of [1, 100]) await compare(name, open, batch);
rmSync(directory, { recursive: true, force: true });
