/** Four engines on one database, with connections that are cut or with deletes: each batch makes its following unit once. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
let url: string;
const stores: PostgresStore[] = [];

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  stores.push(...(await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url, poolSize: 3 })))));
}, 60_000);

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

test("the unit that follows a batch is made once, by whichever of four engines ends the last", async () => {
  const ns = "batches";
  const clock = new ManualClock(1_000_000);
  const random = seededRandom(7);
  const engines = stores.map((store, i) => new Engine(store, { clock, random: seededRandom(i) }));
  const [first] = engines;
  const names = Array.from({ length: 6 }, (_, i) => `batch ${i}`);
  await first!.setWorkSpecs(ns, [
    { data: encodeData({ name: "s", then: "r" }) },
    { data: encodeData({ name: "r" }) },
    { data: encodeData({ name: "after" }) },
  ]);
  await first!.setBatches(
    ns,
    names.map((name) => ({ name, then: { workSpec: "after" } })),
  );
  for (const batch of names)
    await first!.addWorkUnits(
      ns,
      "s",
      Array.from({ length: 20 }, (_, i) => ({ name: `${batch}.${i}`, batch })),
    );
  await first!.setBatches(
    ns,
    names.map((name) => ({ name, sealed: true })),
  );
  const loop = async (engine: Engine, worker: string): Promise<void> => {
    for (let idle = 0; idle < 40;) {
      try {
        const attempts = await engine.requestAttempts(ns, {
          worker,
          number: 3,
          lifetimeMs: 1e9,
          workSpecs: ["s", "r"],
        });
        if (attempts.length === 0) {
          idle++;
          await new Promise((resolve) => setTimeout(resolve, 25));
          continue;
        }
        idle = 0;
        for (const { id, workUnit } of attempts) {
          const settle = {
            attempt: id,
            action: random() < 0.2 ? ("fail" as const) : ("finish" as const),
            data: encodeData({ output: workUnit.includes("made") ? [] : [`${workUnit} made`] }),
          };
          // a lost response: repeating the call changes nothing
          for (let sent = false; !sent;)
            sent = await engine.settleAttempts(ns, [settle]).then(
              () => true,
              () => false,
            );
        }
      } catch {
        // the connection was cut: units claimed by a call without a response come back when their leases expire, below
      }
    }
  };
  const cutting = new AbortController();
  const cuts = (async () => {
    for (let i = 0; i < 12 && !cutting.signal.aborted; i++) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      await query(
        url,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'coordinate'",
      );
    }
  })();
  await Promise.all(engines.flatMap((engine, i) => [loop(engine, `w${i}`), loop(engine, `v${i}`)]));
  cutting.abort();
  await cuts;
  // expire the leases of units claimed by calls whose response was lost
  clock.advance(2e9);
  await loop(first!, "last");
  const { rows } = await first!.listWorkUnits(ns, "after");
  expect(rows.map(({ name }) => name)).toEqual(names);
  for (const row of rows) expect([row.attempts, row.status]).toEqual([0, "available"]);
  const batches = await first!.getBatches(ns, names);
  const tally = await first!.tally(ns);
  const ended = (what: "finished" | "failed"): number =>
    tally.filter(({ workSpec }) => workSpec !== "after").reduce((sum, { counts }) => sum + counts[what], 0);
  for (const what of ["finished", "failed"] as const)
    expect(batches.reduce((sum, batch) => sum + (batch?.[what] ?? 0), 0)).toBe(ended(what));
  for (const batch of batches) expect(batch!.finished + batch!.failed).toBe(batch!.total);
}, 180_000);

test("a parent ends once while its child batches end and are deleted by four engines, as is its own parent", async () => {
  const ns = "deletes";
  const clock = new ManualClock(1_000_000);
  const engines = stores.map((store, i) => new Engine(store, { clock, random: seededRandom(i) }));
  const [first] = engines;
  await first!.setWorkSpecs(ns, [
    { data: encodeData({ name: "s" }) },
    { data: encodeData({ name: "after" }) },
  ]);
  for (let round = 0; round < 5; round++) {
    const [outer, parent] = [`outer ${round}`, `parent ${round}`];
    const children = Array.from({ length: 8 }, (_, i) => `child ${round}.${i}`);
    await first!.setBatches(ns, [
      { name: outer },
      { name: parent, parent: outer, then: { workSpec: "after" } },
      ...children.map((name) => ({ name, parent })),
    ]);
    await first!.addWorkUnits(
      ns,
      "s",
      children.map((name) => ({ name, batch: name })),
    );
    await first!.setBatches(
      ns,
      [parent, ...children].map((name) => ({ name, sealed: true })),
    );
    const attempts = await first!.requestAttempts(ns, { worker: "w", number: 8, workSpecs: ["s"] });
    await Promise.all([
      ...attempts.map(({ id }, i) => engines[i % 4]!.settleAttempts(ns, [{ attempt: id, action: "finish" }])),
      ...children
        .filter((_, i) => i % 2 === 0)
        .map((name, i) => engines[(i + 1) % 4]!.deleteBatches(ns, [name])),
      engines[round % 4]!.deleteBatches(ns, [outer]),
    ]);
    const [batch] = await first!.getBatches(ns, [parent]);
    // a child that was deleted before it ended is not counted
    expect(batch).toMatchObject({ parent: null, doneTime: clock.now(), finished: batch?.total, failed: 0 });
    expect(batch!.total).toBeGreaterThanOrEqual(4);
  }
  const { rows } = await first!.listWorkUnits(ns, "after");
  expect(rows.map(({ name, attempts }) => [name, attempts])).toEqual(
    Array.from({ length: 5 }, (_, round) => [`parent ${round}`, 0]),
  );
}, 60_000);
