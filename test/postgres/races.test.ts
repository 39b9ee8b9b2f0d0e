/** Eight engines on one database, with all kinds of races between them at once. Seeded, and checked with separate SQL statements. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, isCoordinateError, ManualClock, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { schemaVersion } from "../../src/postgres/schema.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
let url: string;
const stores: PostgresStore[] = [];

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  // opened concurrently: they take turns to create the tables
  stores.push(...(await Promise.all(Array.from({ length: 8 }, () => openPostgres({ url, poolSize: 3 })))));
}, 60_000);

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

const times = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));

test("ten daemons that start at once make the tables once", async () => {
  const fresh = await server.createDatabase();
  const many = await Promise.all(times(10, () => openPostgres({ url: fresh, poolSize: 1 })));
  await Promise.all(many.map((store) => store.close()));
  expect(await query(fresh, "SELECT count(*)::int AS n FROM coordinate.migration")).toEqual([
    { n: schemaVersion },
  ]);
}, 60_000);

test.each([1, 2, 3])(
  "eight engines, seed %i: nothing is claimed twice, no limit is passed, counts add up",
  async (seed) => {
    const ns = `race ${seed}`;
    const clock = new ManualClock(1_000_000);
    const engines = stores.map(
      (store, i) => new Engine(store, { clock, random: seededRandom(seed * 100 + i) }),
    );
    const [first] = engines;
    await first!.setWorkSpecs(ns, [
      { data: encodeData({ name: "capped", max_running: 7 }) },
      { data: encodeData({ name: "chained", then: "made" }) },
      { data: encodeData({ name: "made", weight: 40 }) },
      { data: encodeData({ name: "ticking", continuous: true, interval: 60, weight: 5 }) },
      { data: encodeData({ name: "waiting" }) },
    ]);
    const unitsPer = 60;
    for (const spec of ["capped", "chained"])
      await first!.addWorkUnits(
        ns,
        spec,
        times(unitsPer, (i) => ({ name: `u${i}`, data: encodeData({ n: i }) })),
      );
    // each depends on two units of other work specs, which end at the same time on different engines
    await first!.addWorkUnits(
      ns,
      "waiting",
      times(20, (i) => ({
        name: `w${i}`,
        dependencies: [
          { workSpec: "capped", workUnit: `u${i}` },
          { workSpec: "chained", workUnit: `u${i}`, kind: "soft" as const },
        ],
      })),
    );
    const held = new Map<string, string>();
    const runs = new Map<string, number>();
    let running = 0;
    let max = 0;
    const deleted = new Set<string>();

    async function worker(engine: Engine, w: number): Promise<void> {
      const random = seededRandom(seed * 1000 + w);
      for (let idle = 0; idle < 6;) {
        const attempts = await engine.requestAttempts(ns, {
          worker: `w${w}`,
          number: 1 + Math.floor(random() * 4),
        });
        if (attempts.length === 0) {
          idle++;
          await new Promise((resolve) => setTimeout(resolve, 10));
          continue;
        }
        idle = 0;
        for (const { id, workSpec, workUnit } of attempts) {
          const unit = `${workSpec}/${workUnit}`;
          expect(held.get(unit), `${unit} is held by two`).toBeUndefined();
          held.set(unit, id);
          if (workSpec === "capped") max = Math.max(max, ++running);
        }
        await new Promise((resolve) => setTimeout(resolve, random() * 5));
        for (const { workSpec, workUnit } of attempts) {
          held.delete(`${workSpec}/${workUnit}`);
          if (workSpec === "capped") running--;
        }
        const changes = attempts.map(({ id, workSpec, workUnit, number }) => {
          const again = number === 1 && random() < 0.2;
          if (!again) runs.set(`${workSpec}/${workUnit}`, (runs.get(`${workSpec}/${workUnit}`) ?? 0) + 1);
          if (again) return { attempt: id, action: "retry" as const };
          if (workSpec === "chained")
            return {
              attempt: id,
              action: "finish" as const,
              data: encodeData({ output: [`m ${workUnit}`, "shared"] }),
            };
          return { attempt: id, action: "finish" as const };
        });
        // in random order, so that the finishes of several engines conflict
        changes.sort(() => random() - 0.5);
        const answers = await engine.settleAttempts(ns, changes);
        for (const answer of answers) if (answer.error !== null) expect(answer.error).toBe("gone");
      }
    }

    async function disturb(engine: Engine): Promise<void> {
      const random = seededRandom(seed);
      for (let i = 0; i < 15; i++) {
        await new Promise((resolve) => setTimeout(resolve, 15));
        const name = `m u${Math.floor(random() * unitsPer)}`;
        if (random() < 0.5) deleted.add(name);
        await (random() < 0.5
          ? engine.deleteWorkUnits(ns, "made", { names: [name] })
          : engine.setWorkUnitPriorities(ns, "made", { prefix: "m u1" }, { adjust: 1 }));
        await engine.sweep();
      }
    }

    await Promise.all([
      ...engines.flatMap((engine, i) => [worker(engine, 2 * i), worker(engine, 2 * i + 1)]),
      disturb(first!),
    ]);
    expect(max).toBeLessThanOrEqual(7);
    // one unit per interval, however many requests there were
    const { rows: ticks } = await first!.listWorkUnits(ns, "ticking");
    expect(ticks.map(({ status }) => status)).toEqual(["finished"]);
    const statuses = async (spec: string): Promise<Set<string>> =>
      new Set((await first!.listWorkUnits(ns, spec)).rows.map(({ status }) => status));
    for (const spec of ["capped", "chained", "waiting"])
      expect(await statuses(spec)).toEqual(new Set(["finished"]));
    for (const [unit, count] of runs) if (!unit.startsWith("made/")) expect(count, unit).toBe(1);
    await checkCounts(url, ns);
  },
  120_000,
);

/** Checks the counters against a recount. */
async function checkCounts(at: string, ns: string): Promise<void> {
  const rows = await query(
    at,
    `SELECT s.id, t.*, c.* FROM coordinate.spec s JOIN coordinate.namespace n ON n.id = s.namespace,
       LATERAL (SELECT sum(available)::int AS a, sum(delayed)::int AS d, sum(blocked)::int AS b, sum(pending)::int AS p,
         sum(finished)::int AS f, sum(failed)::int AS x FROM coordinate.tally t WHERE t.spec = s.id) t,
       LATERAL (SELECT count(*) FILTER (WHERE status = 0)::int AS ca, count(*) FILTER (WHERE status = 1)::int AS cd,
         count(*) FILTER (WHERE status = 2)::int AS cb, count(*) FILTER (WHERE status = 3)::int AS cp,
         count(*) FILTER (WHERE status = 4)::int AS cf, count(*) FILTER (WHERE status = 5)::int AS cx
         FROM coordinate.unit u WHERE u.spec = s.id) c
     WHERE n.name = convert_to($1, 'UTF8')`,
    [ns],
  );
  for (const row of rows as Record<string, number>[])
    expect([row.a, row.d, row.b, row.p, row.f, row.x]).toEqual([
      row.ca,
      row.cd,
      row.cb,
      row.cp,
      row.cf,
      row.cx,
    ]);
}

test("adds of the same names by all engines make each unit once, and batches in any order do not deadlock", async () => {
  const ns = "same names";
  const engines = stores.map((store) => new Engine(store));
  await engines[0]!.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
  const random = seededRandom(7);
  for (let round = 0; round < 5; round++)
    await Promise.all(
      engines.map((engine) =>
        engine.addWorkUnits(
          ns,
          "s",
          times(50, (i) => ({ name: `r${round} u${i}` })).sort(() => random() - 0.5),
        ),
      ),
    );
  const [tally] = await engines[0]!.tally(ns);
  expect(tally?.counts.available).toBe(250);
  await checkCounts(url, ns);
}, 60_000);

test("two adds at once cannot close a circle of dependencies", async () => {
  const ns = "circle";
  const [a, b] = stores.map((store) => new Engine(store));
  await a!.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
  for (let round = 0; round < 10; round++) {
    const [x, y] = [`x${round}`, `y${round}`];
    await a!.addWorkUnits(ns, "s", [{ name: x }, { name: y }]);
    const answers = await Promise.allSettled([
      a!.addWorkUnits(ns, "s", [{ name: x, dependencies: [{ workUnit: y }] }]),
      b!.addWorkUnits(ns, "s", [{ name: y, dependencies: [{ workUnit: x }] }]),
    ]);
    const refused = answers.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    expect(refused).toHaveLength(1);
    expect(isCoordinateError(refused[0]!.reason, "dependency_cycle")).toBe(true);
  }
}, 60_000);

test("a unit that is added while another ends is never left behind", async () => {
  const ns = "meeting";
  const [a, b] = stores.map((store) => new Engine(store));
  await a!.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }, { data: encodeData({ name: "t" }) }]);
  for (let round = 0; round < 30; round++) {
    await a!.addWorkUnits(ns, "s", [{ name: `d${round}` }]);
    const [attempt] = await a!.requestAttempts(ns, { worker: "w", workSpecs: ["s"] });
    await Promise.all([
      a!.settleAttempts(ns, [{ attempt: attempt!.id, action: "finish" }]),
      b!.addWorkUnits(ns, "t", [
        { name: `e${round}`, dependencies: [{ workSpec: "s", workUnit: `d${round}` }] },
      ]),
    ]);
    const [unit] = await a!.getWorkUnits(ns, "t", [`e${round}`]);
    expect(unit?.status).toBe("available");
  }
}, 60_000);

test("two daemons that sweep at once keep as many ended units as the retention says, and the newest", async () => {
  const clock = new ManualClock(1_000_000);
  const [a, b] = stores.map((store) => new Engine(store, { clock }));
  for (let round = 0; round < 10; round++) {
    const ns = `kept ${round}`;
    await a!.setWorkSpecs(ns, [
      { data: encodeData({ name: "s", retention: { finished: { max_count: 100 } } }) },
    ]);
    const names = times(110, (i) => `u${String(i).padStart(3, "0")}`);
    await a!.addWorkUnits(
      ns,
      "s",
      names.map((name) => ({ name })),
    );
    for (let i = 0; i < 11; i++) {
      clock.advance(1);
      const attempts = await a!.requestAttempts(ns, { worker: "w", number: 10 });
      await a!.settleAttempts(
        ns,
        attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
      );
    }
    await Promise.all([a!.sweep(), b!.sweep()]);
    const { rows } = await a!.listWorkUnits(ns, "s", { limit: 200 });
    expect(rows.map(({ name }) => name)).toEqual(names.slice(10));
    await checkCounts(url, ns);
  }
}, 60_000);

test("a work spec that is set while its namespace is deleted is in the next namespace of this name", async () => {
  const ns = "deleted";
  const [engine] = stores.map((store) => new Engine(store));
  await engine!.setWorkSpecs(ns, [{ data: encodeData({ name: "old" }) }]);
  const orphans = `SELECT convert_from(s.name, 'UTF8') AS name FROM coordinate.spec s JOIN coordinate.namespace n
    ON n.id = s.namespace WHERE n.dead AND NOT s.dead`;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  await other.query("BEGIN");
  await other.query("UPDATE coordinate.namespace SET dead = true WHERE name = 'deleted' AND NOT dead");
  const setting = engine!.setWorkSpecs(ns, [{ data: encodeData({ name: "new" }) }]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await other.query("UPDATE coordinate.spec SET dead = true, died = now() WHERE name = 'old' AND NOT dead");
  await other.query("COMMIT");
  await setting;
  expect(await query(url, orphans)).toEqual([]);
  expect((await engine!.listWorkSpecs(ns)).rows.map(({ name }) => name)).toEqual(["new"]);
  // what older daemons left behind is purged, too
  await other.query("UPDATE coordinate.spec SET dead = false WHERE name = 'old'");
  await engine!.sweep();
  expect(await query(url, orphans)).toEqual([]);
  await other.end();
}, 60_000);
