/** Workers run for minutes of a manual clock: they divide their time in proportion to the weights. */
import { afterEach, describe, expect, test } from "vitest";
import { Engine, ManualClock, seededRandom, type ShareKind, type Store } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { partOf, runShares, type ShareRun, type Spent } from "./share-run.ts";

const open: Engine[] = [];

afterEach(async () => {
  for (const engine of open.splice(0)) await engine.close();
});

type Run = Omit<ShareRun, "engines" | "clock" | "ns">;

async function start(store: Store, share: ShareKind, run: Run): Promise<{ engine: Engine; spent: Spent }> {
  const clock = new ManualClock();
  const engine = new Engine(store, { clock, random: seededRandom(7) });
  open.push(engine);
  await engine.setNamespace("n", { share });
  return { engine, spent: await runShares({ ...run, engines: [engine], clock, ns: "n" }) };
}

/** Runs, and compares the shares with those that `explain` returns. */
async function spend(store: Store, share: ShareKind, run: Run): Promise<Spent> {
  const { engine, spent } = await start(store, share, run);
  for (const { workSpec, measuredShare } of await engine.explain("n")) {
    const part = partOf(share === "time" ? spent.time : spent.choices, workSpec);
    expect(Math.abs((measuredShare ?? NaN) - part)).toBeLessThan(0.1);
  }
  return spent;
}

const takes = (weight: number, ms: number): Run["specs"][string] => ({ weight, ms: () => ms });
const minute = 60_000;

describe.each([
  ["memory", () => Promise.resolve<Store>(new MemoryStore())],
  ["sqlite", (): Promise<Store> => openSqlite(":memory:")],
] as const)("on %s", (_, openStore) => {
  test("units of 5 ms and of 50 ms get the same time at equal weights, and are chosen ten to one", async () => {
    const specs = { short: takes(1, 5), long: takes(1, 50) };
    const run = { specs, workers: 1, warmUpMs: 5000, forMs: minute };
    const { time, choices } = await spend(await openStore(), "time", run);
    expect(Math.abs(partOf(time, "long") - 0.5)).toBeLessThan(0.05);
    const ratio = (choices.short ?? 0) / (choices.long ?? 1);
    expect(ratio).toBeGreaterThan(8);
    expect(ratio).toBeLessThan(12);
  });

  test("with weights of 1 and 3 they get a quarter and three quarters of the time", async () => {
    const specs = { short: takes(1, 5), long: takes(3, 50) };
    const run = { specs, workers: 1, warmUpMs: 5000, forMs: minute };
    const { time } = await spend(await openStore(), "time", run);
    expect(Math.abs(partOf(time, "long") - 0.75)).toBeLessThan(0.05);
  });

  test("with shares of choices they are chosen as often as each other, and the long ones get the time", async () => {
    const specs = { short: takes(1, 5), long: takes(1, 50) };
    const run = { specs, workers: 1, warmUpMs: 5000, forMs: minute };
    const { time, choices } = await spend(await openStore(), "choices", run);
    expect(Math.abs(partOf(choices, "long") - 0.5)).toBeLessThan(0.05);
    expect(partOf(time, "long")).toBeGreaterThan(0.85);
  });
});

test.each([2, 3, 5, 8])("%s workers divide their time as the weights say", async (workers) => {
  const specs = { a: takes(1, 5), b: takes(3, 50), c: takes(4, 20) };
  const run = { specs, workers, warmUpMs: 5000, forMs: minute };
  const { time } = await spend(new MemoryStore(), "time", run);
  for (const [name, { weight }] of Object.entries(specs))
    expect(Math.abs(partOf(time, name) - weight / 8)).toBeLessThan(0.05);
});

test("claims of several units divide time all the same", async () => {
  const specs = { short: takes(1, 5), long: takes(1, 50) };
  const run = { specs, workers: 3, warmUpMs: 20_000, forMs: 4 * minute, number: 10 };
  const { time } = await spend(new MemoryStore(), "time", run);
  expect(Math.abs(partOf(time, "long") - 0.5)).toBeLessThan(0.08);
});

test("units of 1 ms and of 10 s get the same time", async () => {
  const specs = { quick: takes(1, 1), slow: takes(1, 10_000) };
  const run = { specs, workers: 4, warmUpMs: 20_000, forMs: 2 * minute };
  const { time } = await spend(new MemoryStore(), "time", run);
  expect(Math.abs(partOf(time, "slow") - 0.5)).toBeLessThan(0.15);
}, 120_000);

test("a work spec that becomes slower is given the same time after a few minutes", async () => {
  const slower = (at: number): number => (at < 2 * minute ? 5 : 200);
  const specs = { steady: takes(1, 50), changing: { weight: 1, ms: slower } };
  const run = { specs, workers: 2, warmUpMs: 6 * minute, forMs: 4 * minute };
  const { time } = await spend(new MemoryStore(), "time", run);
  expect(Math.abs(partOf(time, "changing") - 0.5)).toBeLessThan(0.08);
});

test("a new work spec whose units never end takes no more than its share and one", async () => {
  const specs = { known: takes(1, 5), endless: takes(1, 10 * minute) };
  const run = { specs, workers: 8, warmUpMs: 0, forMs: minute };
  const { spent } = await start(new MemoryStore(), "time", run);
  expect(spent.choices.endless).toBeLessThanOrEqual(5);
});
