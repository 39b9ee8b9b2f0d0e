/** Random histories of nested batches: the counts match the units and child batches, and none stays open that could end. */
import { expect, test } from "vitest";
import {
  batchLabel,
  batchOf,
  encodeData,
  endsNow,
  Engine,
  ManualClock,
  seededRandom,
  type BatchRow,
  type Store,
  type WorkUnitRow,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const ns = "n";
const names = Array.from({ length: 8 }, (_, i) => `u${i}`);

/** How a child batch counts in its parent: as an ended unit once it has ended, unless some of its units were retried. */
function outcome({ doneTime, total, finished, failed }: BatchRow): "finished" | "failed" | "open" {
  if (doneTime === 0 || finished + failed < total) return "open";
  return failed > 0 ? "failed" : "finished";
}

/**
 * Units and child batches that had ended stay counted after they are deleted, except failed ones of a batch that is not done: they
 * would block it forever.
 */
type Deleted = Pick<WorkUnitRow, "labels" | "status">;

async function check(engine: Engine, deleted: readonly Deleted[], history: string): Promise<void> {
  const units = [...deleted];
  for (const spec of ["s", "after"]) units.push(...(await engine.listWorkUnits(ns, spec)).rows);
  const { rows } = await engine.listBatches(ns);
  for (const batch of rows) {
    const members = [
      ...units.filter(({ labels }) => batchOf(labels) === batch.name).map(({ status }) => status),
      ...rows.filter(({ parent }) => parent === batch.name).map(outcome),
    ];
    const count = (status: string): number => members.filter((one) => one === status).length;
    expect([batch.name, batch.total, batch.finished, batch.failed], history).toEqual([
      batch.name,
      members.length,
      count("finished"),
      count("failed"),
    ]);
    expect(endsNow(batch), `${batch.name} should have ended: ${history}`).toBe(false);
  }
}

async function run(store: Store, seed: number): Promise<void> {
  const random = seededRandom(seed);
  const draw = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!;
  const engine = new Engine(store, { clock: new ManualClock(1_000_000), random });
  await engine.setWorkSpecs(ns, [
    { data: encodeData({ name: "s" }) },
    { data: encodeData({ name: "after" }) },
  ]);
  const deleted: Deleted[] = [];
  const remember = async (one: Deleted): Promise<void> => {
    const name = batchOf(one.labels);
    const batch = (await engine.listBatches(ns)).rows.find((row) => row.name === name);
    if (one.status === "finished" || (one.status === "failed" && batch?.doneTime !== 0)) deleted.push(one);
  };
  // a deleted batch gets a new name: the units of the old one still have its label
  const batches = ["outer", "inner", "innermost", "beside"];
  const steps: readonly [string, () => Promise<unknown>][] = [
    ["add", () => engine.addWorkUnits(ns, "s", [{ name: draw(names), batch: draw(batches) }])],
    ["add without", () => engine.addWorkUnits(ns, "s", [{ name: draw(names) }])],
    [
      "end",
      async () => {
        const attempts = await engine.requestAttempts(ns, {
          worker: "w",
          number: 1 + Math.floor(random() * 4),
        });
        const action = draw(["finish", "fail"] as const);
        await engine.settleAttempts(
          ns,
          attempts.map(({ id }) => ({ attempt: id, action })),
        );
      },
    ],
    ["seal", () => engine.setBatches(ns, [{ name: draw(batches), sealed: true }])],
    ["then", () => engine.setBatches(ns, [{ name: draw(batches), then: { workSpec: "after" } }])],
    ["put in outer", () => engine.setBatches(ns, [{ name: batches[1]!, parent: batches[0]! }])],
    ["put in inner", () => engine.setBatches(ns, [{ name: batches[2]!, parent: batches[1]! }])],
    [
      "delete batch",
      async () => {
        const at = Math.floor(random() * batches.length);
        const name = batches[at]!;
        const [batch = null] = await engine.getBatches(ns, [name]);
        const state = batch === null ? "open" : outcome(batch);
        if (state !== "open") await remember({ labels: [batchLabel(batch?.parent ?? "")], status: state });
        await engine.deleteBatches(ns, [name]);
        batches[at] = `${name}'`;
      },
    ],
    ["cancel", () => engine.changeBatch(ns, draw(batches), "cancel")],
    ["retry", () => engine.changeBatch(ns, draw(batches), "retry")],
    [
      "delete",
      async () => {
        const name = draw(names);
        const [unit] = await engine.getWorkUnits(ns, "s", [name]);
        if (unit !== null && unit !== undefined) await remember(unit);
        await engine.deleteWorkUnits(ns, "s", { names: [name] });
      },
    ],
  ];
  const history: string[] = [`seed ${seed}`];
  for (let i = 0; i < 60; i++) {
    const [name, step] = draw(steps);
    history.push(name);
    await step();
    await check(engine, deleted, history.join(", "));
  }
  await engine.close();
}

const stores: readonly [string, () => Promise<Store>][] = [
  ["memory", async () => new MemoryStore()],
  ["sqlite", () => openSqlite(":memory:", { durability: "off" })],
];

test.each(stores)("counts of batches in batches, on %s", { timeout: 120_000 }, async (_name, open) => {
  for (let seed = 1; seed <= 60; seed++) await run(await open(), seed);
});
