/**
 * What the statistics cost: processor time per unit of an embedded daemon's store and engine with them and without. Two engines take
 * turns of one second of their own time each, so that a machine that is slower for a while is so for both, and tidy up after each, as a
 * daemon does; records are written every ten.
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
  /** Of the first to the tenth second of each round, the microseconds of processor time: records are written in one of the ten. */
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

/** A second: units are added, claimed and finished in batches, and then it is tidied up. */
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

/** A round without disturbances, per unit: of each of its seconds, the median of all rounds. */
const costOf = (spent: readonly number[][]): number =>
  spent.reduce((sum, second) => sum + median(second), 0) / (10 * perSecond);

/** How far the cost of a round may be off, per unit: its standard error, from how the rounds differ. */
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
  // the first two rounds are not counted: the code is compiled meanwhile
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
  // seconds that follow each other: what slows one down slows the other down too
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
