/**
 * A reader with an old snapshot prevents the removal of dead rows: the index of waiting units keeps an entry for every claimed
 * unit, and a claim that scans all of them becomes slower and slower. The server counts the pages that a claim reads, so that
 * the speed of the machine does not matter.
 */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openPostgres } from "../../src/postgres/index.ts";
import { openServer, query, type Server } from "./server.ts";
import { WrappedPool } from "./wrapped-pool.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer("quiet");
}, 60_000);
afterAll(() => server.stop());

const units = Number(process.env.SNAPSHOT_UNITS ?? 20_000);
const batch = 100;

/** The pages read so far to find waiting units, due units and expired leases; null while not measuring. */
let pages: number | null = null;

/** While measuring, runs each statement under EXPLAIN first, rolls it back, and then executes it. */
const measuringPool = (url: string): WrappedPool =>
  new WrappedPool(url, async (client, config) => {
    if (pages !== null && /^\s*(WITH|SELECT)/.test(config.text)) {
      const { text, values } = config;
      await client.query("SAVEPOINT measured");
      const { rows } = await client.query<{ "QUERY PLAN": { Plan: Plan }[] }>({
        text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
        ...(values !== undefined && { values }),
      });
      const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
      if (plan === undefined) throw new Error("not explained");
      pages += searched(plan);
      await client.query("ROLLBACK TO SAVEPOINT measured");
    }
    return client.query(config);
  });

interface Plan {
  "Index Name"?: string;
  "Shared Hit Blocks": number;
  "Shared Read Blocks": number;
  Plans?: Plan[];
}

/** The pages, including those of the rows, that were read by scans of the indexes for finding units. */
function searched(plan: Plan): number {
  if (["waiting_order", "lease_expiration", "unit_pkey"].includes(plan["Index Name"] ?? ""))
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"];
  return (plan.Plans ?? []).reduce((sum, part) => sum + searched(part), 0);
}

test("under a held snapshot a claim and a finish do not read more and more", async () => {
  const url = await server.createDatabase();
  const pool = measuringPool(url);
  const engine = new Engine(await openPostgres({ pool }));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: units + 20 * batch }, (_, i) => ({ name: String(i).padStart(6, "0") })),
  );
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM coordinate.unit LIMIT 1");
  let done = 0;
  const claim = async (): Promise<void> => {
    const attempts = await engine.requestAttempts("", { worker: "w", number: batch });
    done += attempts.length;
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
  };
  /** The minimum of five claims: an occasional page split, or a search that starts at the beginning, is not typical. */
  const measured = async (): Promise<number> => {
    const counts: number[] = [];
    for (let i = 0; i < 5; i++) {
      pages = 0;
      await claim();
      counts.push(pages);
    }
    pages = null;
    return Math.min(...counts);
  };
  for (let i = 0; i < 5; i++) await claim();
  const before = await measured();
  while (done < units) await claim();
  const after = await measured();
  await reader.query("ROLLBACK");
  await reader.end();
  await engine.close();
  await pool.end();
  expect(before).toBeGreaterThan(0);
  expect(after).toBeLessThan(4 * before);
}, 120_000);

test("under a held snapshot the rows of a unit stay in their page", async () => {
  const url = await server.createDatabase();
  const engine = new Engine(await openPostgres({ url, notify: false }));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: 1000 }, (_, i) => ({ name: `unit-${i}`, data: encodeData({ n: i }) })),
  );
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM coordinate.unit LIMIT 1");
  const worker = "worker.example.com:12345.1";
  const attempts = await engine.requestAttempts("", { worker, number: 1000 });
  await engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  await engine.close();
  const updates =
    "SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'unit'";
  await expect.poll(() => query(url, updates), { timeout: 10_000 }).toEqual([{ all: 2000, hot: 2000 }]);
  await reader.end();
}, 60_000);
