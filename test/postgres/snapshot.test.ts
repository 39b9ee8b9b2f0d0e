/**
 * A reader with an old snapshot prevents the removal of dead rows: the index of waiting units keeps an entry for every claimed
 * unit, and a claim that scans all of them becomes slower and slower. The server counts the pages that a claim reads, so that
 * the speed of the machine does not matter.
 */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openPostgres, type Client, type Pool } from "../../src/postgres/index.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 60_000);
afterAll(() => server.stop());

const units = Number(process.env.SNAPSHOT_UNITS ?? 20_000);
const batch = 100;

/** Connections that, while `pages` is a number, run each statement under EXPLAIN first, roll it back, and then execute it. */
class MeasuringPool implements Pool {
  readonly #pool: pg.Pool;
  /** The pages read so far to find waiting units, due units and expired leases; null while not measuring. */
  pages: number | null = null;

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 2 });
  }

  async connect() {
    const client = await this.#pool.connect();
    const query: Client["query"] = async (config) => {
      if (this.pages !== null && /^\s*(WITH|SELECT)/.test(config.text)) {
        const { text, values } = config;
        await client.query("SAVEPOINT measured");
        const { rows } = await client.query<{ "QUERY PLAN": { Plan: Plan }[] }>({
          text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
          ...(values !== undefined && { values }),
        });
        const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
        if (plan === undefined) throw new Error("not explained");
        this.pages += searched(plan);
        await client.query("ROLLBACK TO SAVEPOINT measured");
      }
      return client.query(config);
    };
    return {
      query,
      release: (destroy?: boolean | Error) => client.release(destroy),
      on: (event: "error", listener: () => void) => client.on(event, listener),
      removeListener: (event: "error", listener: () => void) => client.removeListener(event, listener),
    };
  }

  end(): Promise<void> {
    return this.#pool.end();
  }
}

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
  const pool = new MeasuringPool(url);
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
    const pages: number[] = [];
    for (let i = 0; i < 5; i++) {
      pool.pages = 0;
      await claim();
      pages.push(pool.pages);
    }
    pool.pages = null;
    return Math.min(...pages);
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
