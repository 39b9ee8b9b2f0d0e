/** The number of round trips does not grow with the batch, and every hot statement has the same plan for all statistics. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";

import { candidatesSql } from "../../src/postgres/candidates.ts";
import { claimSql, notedClaimSql, plainClaimSql } from "../../src/postgres/claims.ts";
import { forSchema, planSettings } from "../../src/postgres/connection.ts";
import { moveSql } from "../../src/postgres/expiry.ts";
import { finishLanedSql, finishSql, insertSql, settleSql } from "../../src/postgres/fast-paths.ts";
import { laneClaimSql } from "../../src/postgres/lane-claims.ts";
import { purgeQueuesSql } from "../../src/postgres/queues.ts";
import { dropNamespacesSql } from "../../src/postgres/sweep.ts";
import { marksSql } from "../../src/postgres/watching.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer("quiet");
});
afterAll(() => server.stop());

describe("round trips", () => {
  let store: PostgresStore;
  let engine: Engine;
  let serial = 0;

  beforeAll(async () => {
    store = await openPostgres({ url: await server.createDatabase(), notify: false });
    engine = new Engine(store, { clock: new ManualClock(), random: () => 0 });
    await engine.setWorkSpecs("", [
      { data: encodeData({ name: "plain" }) },
      { data: encodeData({ name: "limited", max_running: 1000 }) },
      { data: encodeData({ name: "first", then: "plain" }) },
    ]);
    // allocating a block of ids and looking up a worker happen once and are not part of the budget
    await engine.addWorkUnits("", "plain", [{ name: "warm" }]);
    await engine.requestAttempts("", { worker: "w" });
  });
  afterAll(() => engine.close());

  const add = (spec: string, count: number) =>
    engine.addWorkUnits(
      "",
      spec,
      Array.from({ length: count }, () => ({ name: `unit ${serial++}`, data: encodeData({ n: 1 }) })),
    );

  async function trips(work: () => Promise<unknown>): Promise<number> {
    const before = store.counters.statements;
    await work();
    return store.counters.statements - before;
  }

  test.each([1, 100])("%i units: added, claimed and settled within the budget", async (count) => {
    for (const [spec, claims] of [
      ["plain", 3],
      ["limited", 6],
    ] as const) {
      await add(spec, 1);
      expect(await trips(() => add(spec, count))).toBeLessThanOrEqual(3);
      const request = { worker: "w", number: count, workSpecs: [spec] };
      await engine.requestAttempts("", { ...request, number: 1 });
      let attempts = [] as { id: string }[];
      expect(
        await trips(async () => (attempts = await engine.requestAttempts("", request))),
      ).toBeLessThanOrEqual(claims);
      expect(attempts).toHaveLength(count);
      for (const action of ["renew", "finish"] as const)
        expect(
          await trips(() =>
            engine.settleAttempts(
              "",
              attempts.map(({ id }) => ({ attempt: id, action })),
            ),
          ),
        ).toBe(1);
    }
  });

  test("a unit is added by one statement, with and without a request id", async () => {
    const name = (): { name: string }[] => [{ name: `unit ${serial++}` }];
    await add("plain", 1);
    expect(await trips(() => engine.addWorkUnits("", "plain", name()))).toBe(1);
    const options = { requestId: `add ${serial++}` };
    expect(await trips(() => engine.addWorkUnits("", "plain", name(), options))).toBe(1);
  });

  test("the store's own claim is one statement, and a settle that chains does not grow with the batch", async () => {
    const settle = async (count: number): Promise<number> => {
      await add("first", count);
      const attempts = await engine.requestAttempts("", { worker: "w", number: count, workSpecs: ["first"] });
      const changes = attempts.map(({ id }, i) => {
        const data = encodeData({ output: [`made ${serial++} ${i}`] });
        return { attempt: id, action: "finish" as const, data };
      });
      return trips(() => engine.settleAttempts("", changes));
    };
    const many = await settle(100);
    expect(many).toBe(await settle(1));
    expect(many).toBeLessThanOrEqual(9);
  });

  test("what follows from 100 units costs as many round trips as what follows from one", async () => {
    const run = async (count: number, action: "finish" | "fail"): Promise<number> => {
      const names = Array.from({ length: count }, () => `goes ${serial++}`);
      const after = (prefix: string, of: string): { name: string; dependencies: { workUnit: string }[] } => ({
        name: `${prefix} ${of}`,
        dependencies: [{ workUnit: of }],
      });
      await engine.addWorkUnits("", "plain", [
        ...names.map((name) => ({ name })),
        ...names.map((name) => after("then", name)),
        ...names.map((name) => after("last", `then ${name}`)),
      ]);
      const attempts = await engine.makeAttempts(
        "",
        names.map((workUnit) => ({ workSpec: "plain", workUnit, worker: "w" })),
      );
      return trips(() =>
        engine.settleAttempts(
          "",
          attempts.map(({ id }) => ({ attempt: id, action })),
        ),
      );
    };
    for (const count of [1, 100]) {
      expect(await run(count, "finish")).toBeLessThanOrEqual(10);
      expect(await run(count, "fail")).toBeLessThanOrEqual(12);
    }
  });

  test.each([1, 100])("%i units with queues and labels cost no more round trips", async (count) => {
    const units = Array.from({ length: count }, () => ({
      name: `named ${serial++}`,
      queues: ["a", "b"],
      labels: ["red"],
    }));
    await add("plain", 1);
    expect(await trips(() => engine.addWorkUnits("", "plain", units))).toBeLessThanOrEqual(3);
    // from the first settle on, the store knows how many queues the units of the namespace have
    const [first] = await engine.makeAttempts("", [
      { workSpec: "plain", workUnit: units[0]!.name, worker: "w" },
    ]);
    await engine.settleAttempts("", [{ attempt: first!.id, action: "finish" }]);
    await engine.clearQueue("", "a");
    const attempts = await engine.makeAttempts(
      "",
      units.map(({ name }) => ({ workSpec: "plain", workUnit: name, worker: "w" })),
    );
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" as const }));
    expect(await trips(() => engine.settleAttempts("", changes))).toBe(2);
    expect(await trips(() => engine.takeMessages("", "a"))).toBe(1);
    expect(await trips(() => engine.takeMessages("", "b", { requestId: `take ${serial++}` }))).toBe(1);
    expect(await trips(() => engine.awaitWorkUnits("", "plain", [units[0]!.name]))).toBeLessThanOrEqual(2);
  });
});

describe("plans", () => {
  const claimTypes = [
    "bigint",
    "bigint",
    "bigint",
    "bigint",
    "bytea[]",
    "bigint[]",
    "bigint[]",
    "boolean",
    "bytea",
    "float8",
    "bytea",
    "bigint",
    "text",
    "bigint[]",
  ];
  const laneClaimTypes = [
    ...claimTypes.slice(0, 7),
    "bytea",
    "float8",
    "float8",
    "float8",
    "bigint",
    "float8",
    "bigint[]",
    "bytea[]",
  ];
  const settleTypes = [
    "bytea",
    "bigint",
    "bigint",
    "bigint[]",
    "int[]",
    "smallint[]",
    "bigint[]",
    "bytea[]",
    "boolean[]",
    "bigint",
  ];
  const hot = {
    candidates: [candidatesSql, ["bytea", "bytea[]", "bigint", "bigint"]],
    claim: [claimSql, [...claimTypes, "bytea[]", "bigint"]],
    noted: [notedClaimSql, [...claimTypes, "bytea[]"]],
    plain: [plainClaimSql, claimTypes],
    settle: [
      settleSql({ queued: false, laned: false, fails: false, retries: false, counted: false, sure: false }),
      settleTypes,
    ],
    sure: [
      settleSql({ queued: false, laned: false, fails: false, retries: false, counted: false, sure: true }),
      settleTypes,
    ],
    lanes: [
      laneClaimSql({
        fair: true,
        ordered: false,
        limited: true,
        rated: true,
        takesPlaces: true,
        paced: true,
        noted: true,
      }),
      laneClaimTypes,
    ],
    ordered: [
      laneClaimSql({
        fair: false,
        ordered: true,
        limited: false,
        rated: false,
        takesPlaces: true,
        paced: false,
        noted: false,
      }),
      laneClaimTypes,
    ],
    finish: [finishSql, ["bytea", "bigint", "bigint", "bigint[]", "int"]],
    finishLaned: [finishLanedSql, ["bytea", "bigint", "bigint", "bigint[]", "int"]],
    queued: [
      settleSql({ queued: true, laned: false, fails: false, retries: false, counted: false, sure: false }),
      [...settleTypes, "bigint[]", "int[]"],
    ],
    insert: [
      insertSql,
      [
        "bigint",
        "bigint",
        "bytea",
        "text",
        "float8",
        "bytea",
        "bigint",
        "text",
        "bigint[]",
        "bytea[]",
        "smallint[]",
        "float8[]",
        "bigint[]",
        "bytea[]",
      ],
    ],
    move: [moveSql, ["bigint", "bigint", "bigint", "bigint"]],
    marks: [marksSql, ["bytea[]"]],
    purge: [purgeQueuesSql, ["bigint"]],
  } as const;

  /** The generic plan of a statement, as text. */
  async function plan(client: pg.Client, name: string): Promise<string> {
    const [sql, types] = hot[name as keyof typeof hot];
    await client.query(`PREPARE ${name} (${types.join(", ")}) AS ${forSchema(sql, "coordinate")}`);
    const nulls = types.map((type) => `NULL::${type}`).join(", ");
    const { rows } = await client.query<string[]>({
      text: `EXPLAIN EXECUTE ${name} (${nulls})`,
      rowMode: "array",
    });
    return rows.map(([line]) => line).join("\n");
  }

  /** Which tables are read, and with which index. There are few work specs, so either of their indexes is fine. */
  const scans = (text: string): string[] =>
    [
      ...text.matchAll(
        /(\w[\w ]*Scan)(?: using (\w+))? on (unit|waiting|lease|ended|tally|spec|history|request|message|action)\b/g,
      ),
    ].map(
      ([, how, index, table]) =>
        `${table}: ${how?.replace("Index Only Scan", "Index Scan")} ${(index ?? "").replace(/^spec_.*/, "of specs")}`,
    );

  /** Scans of growing tables without an index condition: they read the whole index every time. */
  const walks = (text: string): string[] => {
    const lines = text.split("\n");
    return lines.filter(
      (line, i) =>
        /Scan.* on (unit|waiting|lease|ended|tally|history|request|message|action|worker|log|lane|note)\b/.test(
          line,
        ) &&
        !/(CTE|Tid) Scan/.test(line) &&
        // requests must be found by id: a namespace has many, the claims of ten minutes
        !(lines[i + 1] ?? "").includes(line.includes(" on request") ? "(id = " : "Index Cond"),
    );
  };

  async function plans(url: string): Promise<Record<string, string[]>> {
    const client = await connected(url);
    const found: Record<string, string[]> = {};
    for (const name of Object.keys(hot)) {
      const text = await plan(client, name);
      expect(walks(text), `${name}:\n${text}`).toEqual([]);
      found[name] = scans(text).sort();
    }
    await client.end();
    return found;
  }

  test("are the same for a new table, an empty one, stale statistics and fresh ones, and scan no table and no whole index", async () => {
    const url = await server.createDatabase();
    const store = await openPostgres({ url, notify: false });
    const engine = new Engine(store, { clock: new ManualClock() });
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    const fresh = await plans(url);
    await query(url, "VACUUM ANALYZE");
    const empty = await plans(url);
    for (const table of ["unit", "waiting", "ended"])
      await query(url, `ALTER TABLE coordinate.${table} SET (autovacuum_enabled = off)`);
    await query(
      url,
      `INSERT INTO coordinate.unit (id, spec, key, status, place, not_before, created)
       SELECT i, 1, convert_to('unit-' || i, 'UTF8'), CASE WHEN i % 100 = 0 THEN 4 ELSE 0 END, 0, 0, 0 FROM generate_series(1, 200000) AS i`,
    );
    await query(
      url,
      "INSERT INTO coordinate.waiting (unit, spec, status, at, key) SELECT id, spec, status, place, key FROM coordinate.unit WHERE status = 0",
    );
    await query(
      url,
      "INSERT INTO coordinate.ended (spec, at, status, units) SELECT spec, id, status, ARRAY[id] FROM coordinate.unit WHERE status = 4",
    );
    const stale = await plans(url);
    await query(url, "ANALYZE coordinate.unit, coordinate.waiting, coordinate.ended");
    const known = await plans(url);
    await engine.close();
    expect(empty).toEqual(fresh);
    expect(stale).toEqual(fresh);
    expect(known).toEqual(fresh);
    for (const scan of Object.values(known).flat()) expect(scan).toMatch(/: (Index|CTE|Tid) Scan /);
    expect(known.claim).toContain("waiting: Index Scan waiting_order");
    expect(known.settle?.filter((scan) => /^(unit|lease)/.test(scan))).toEqual([
      "lease: Index Scan lease_needy",
      "lease: Index Scan lease_pkey",
      "unit: Index Scan unit_pkey",
      "unit: Index Scan unit_pkey",
      "unit: Index Scan unit_timer",
    ]);
  }, 120_000);

  test("a claim never takes more than it asks for, whatever joins the planner uses", async () => {
    const url = await server.createDatabase();
    const store = await openPostgres({
      url,
      notify: false,
      settings: ["enable_material=off", "enable_sort=off", "enable_nestloop=on", "enable_indexscan=off"],
    });
    const engine = new Engine(store, { clock: new ManualClock() });
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: 300 }, (_, i) => ({ name: String(i) })),
    );
    for (let i = 0; i < 50; i++)
      expect(await engine.requestAttempts("", { worker: "w", number: (i % 7) + 1 })).toHaveLength(
        (i % 7) + 1,
      );
    await engine.close();
  });
});

test("housekeeping does not read all work specs for each deleted namespace", async () => {
  const namespaces = 200;
  const url = await server.createDatabase();
  const store = await openPostgres({ url, notify: false });
  const engine = new Engine(store, { clock: new ManualClock() });
  for (let i = 0; i < namespaces; i++)
    await engine.setWorkSpecs(`n${i}`, [{ data: encodeData({ name: "s" }) }]);
  await engine.close();
  await query(url, "UPDATE coordinate.namespace SET dead = true");
  await query(url, "UPDATE coordinate.spec SET dead = true, died = now()");
  const client = await connected(url);
  await client.query(`PREPARE drop_namespaces AS ${forSchema(dropNamespacesSql, "coordinate")}`);
  const explained = await client.query<{ "QUERY PLAN": { Plan: Step }[] }>(
    "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE drop_namespaces (true)",
  );
  await client.end();
  expect(await query(url, "SELECT 1 FROM coordinate.namespace")).toHaveLength(namespaces);
  expect(rowsOf(explained.rows[0]!["QUERY PLAN"][0]!.Plan)).toBeLessThan(10 * namespaces);
});

/** A session with the settings of the store. */
async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    options: planSettings.map((setting) => `-c ${setting}`).join(" "),
  });
  await client.connect();
  return client;
}

interface Step {
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: Step[];
}

/** The rows that the steps of a plan have handled. */
const rowsOf = (step: Step): number =>
  (step["Actual Rows"] + (step["Rows Removed by Filter"] ?? 0) + (step["Rows Removed by Join Filter"] ?? 0)) *
    step["Actual Loops"] +
  (step.Plans ?? []).reduce((sum, part) => sum + rowsOf(part), 0);
