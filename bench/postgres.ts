/**
 * What the postgres store does in a second, and what others do on the same server in the same run.
 *
 *   npm run bench:postgres -- [--seconds 3] [--rounds 3] [--units 1000000] [--hold 60] [--off] [--skip turns,flat,raw,hold]
 *   (cd bench && npm install) brings the peers; without them their columns are left out.
 *
 * The server is started for the purpose with its default settings; `--off` adds synchronous_commit=off. Rates are of calls
 * through the engine. Machines are noisy: contenders take turns, round by round, and what is shown is the median of the
 * rounds; beside a rate stands the processor time that a unit cost the server. About six minutes.
 */
import { readdirSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import pg from "pg";
import { encodeData, Engine } from "../src/core/index.ts";
import { openPostgres } from "../src/postgres/index.ts";
import { query, startServer } from "../test/postgres/server.ts";
import { boss, graphile, inTime, rawTable, type Contender, type Meter, type Run } from "./postgres-peers.ts";

const { values: given } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "3" },
    units: { type: "string", default: "1000000" },
    hold: { type: "string", default: "60" },
    off: { type: "boolean", default: false },
    skip: { type: "string", default: "" },
  },
});
const seconds = Number(given.seconds);
const rounds = Number(given.rounds);
const many = Number(given.units);
const skip = new Set(given.skip.split(","));

const began = performance.now();
const server = await startServer({ settings: given.off ? ["synchronous_commit = off"] : [] });
const postmaster = readFileSync(`${server.directory}/postmaster.pid`, "utf8").split("\n")[0];

// ---- measuring

/** Processor time of the server's sessions so far, in microseconds. */
function serverTime(): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const isSession =
        fields[1] === postmaster &&
        readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("postgres: postgres ");
      if (isSession) ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // a process that ended meanwhile
    }
  }
  return ticks * 10_000;
}

const log = new pg.Client({ connectionString: server.url() });
await log.connect();
async function walBytes(): Promise<number> {
  const { rows } = await log.query<{ at: string }>(
    "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text AS at",
  );
  return Number(rows[0]?.at);
}

interface Sample {
  rate: number;
  /** Per unit. */
  serverMicros: number;
  clientMicros: number;
  wal: number;
}

async function reading() {
  const { user, system } = process.cpuUsage();
  return { server: serverTime(), client: user + system, wal: await walBytes() };
}

async function sample(run: (meter: Meter) => Promise<Run>): Promise<Sample> {
  let from = await reading();
  let to: typeof from | null = null;
  const { done, seconds } = await run({
    begin: async () => void (from = await reading()),
    end: async () => void (to = await reading()),
  });
  to ??= await reading();
  return {
    rate: done / seconds,
    serverMicros: (to.server - from.server) / done,
    clientMicros: (to.client - from.client) / done,
    wal: (to.wal - from.wal) / done,
  };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const whole = (value: number): string => Math.round(value).toLocaleString("en");

function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  for (const row of [head, ...rows]) console.log(line(row).trimEnd());
  console.log();
}

// ---- this store

const data = encodeData({ n: 1, path: "/some/where" });

async function coordinate(url: string): Promise<Contender & { work: (batch: number) => Work }> {
  const store = await openPostgres({ url, poolSize: 10 });
  const engine = new Engine(store);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  let next = 0;
  const add = async (count: number): Promise<number> => {
    const from = next;
    next += count;
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: count }, (_, i) => ({
        name: `unit-${String(from + i).padStart(9, "0")}`,
        data,
      })),
    );
    return count;
  };
  const work =
    (batch: number): Work =>
    async (who) => {
      const attempts = await engine.requestAttempts("", { worker: `w${who}`, number: batch });
      if (attempts.length < batch) await add(10_000);
      if (attempts.length === 0) return 0;
      await engine.settleAttempts(
        "",
        attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
      );
      return attempts.length;
    };
  const run = async (batch: number, at: number, time: number): Promise<Run> => inTime(at, time, work(batch));
  return {
    name: "coordinate",
    url,
    add,
    work,
    single: (at, time) => run(1, at, time),
    batched: (at, time) => run(1000, at, time),
    batchedAt: [2, 8],
    close: () => engine.close(),
  };
}

type Work = (who: number) => Promise<number>;

/** Adds, alone and many, and the peers' adds of a thousand. */
async function adds(contenders: readonly Contender[]): Promise<void> {
  const rows: string[][] = [];
  const measure = async (label: string, at: number, count: number, { add }: Contender): Promise<void> => {
    const one = await sample(() => inTime(at, seconds, () => add(count), 300_000));
    rows.push([
      label,
      whole(one.rate),
      one.serverMicros.toFixed(1),
      one.clientMicros.toFixed(1),
      whole(one.wal),
    ]);
  };
  const [ours, ...peers] = contenders;
  if (ours === undefined) return;
  await measure("coordinate: 1, 8 at once", 8, 1, ours);
  await measure("coordinate: 1,000", 1, 1000, ours);
  await measure("coordinate: 10,000 (COPY)", 1, 10_000, ours);
  await measure("coordinate: 10,000 (COPY), 2 at once", 2, 10_000, ours);
  for (const peer of peers) await measure(`${peer.name}: 1,000`, 1, 1000, peer);
  table(["adds of", "a second", "server µs", "client µs", "WAL B"], rows);
}

/** Claim and finish, in turns: every contender once in each round. */
async function turns(contenders: readonly Contender[]): Promise<void> {
  const ways = [
    ...[1, 8, 32].map((at) => ({
      label: `one by one, ${at} at once`,
      runs: contenders.map((one) => ({
        name: one.name,
        run: (meter: Meter) => one.single(at, seconds, meter),
      })),
    })),
    {
      label: "batched",
      runs: contenders.flatMap((one) =>
        one.batchedAt.map((at) => ({
          name: one.batchedAt.length === 1 ? one.name : `${one.name}, ${at} at once`,
          run: (meter: Meter) => one.batched(at, seconds, meter),
        })),
      ),
    },
  ];
  const rows: string[][] = [];
  for (const { label, runs } of ways) {
    const samples = runs.map(() => [] as Sample[]);
    for (let round = 0; round < rounds; round++)
      for (const [i, { run }] of runs.entries()) samples[i]?.push(await sample(run));
    const medians = samples.map((all) => median(all.map(({ rate }) => rate)));
    const ours = Math.max(...medians.filter((_, i) => runs[i]?.name.startsWith("coordinate")));
    for (const [i, all] of samples.entries()) {
      const rates = all.map(({ rate }) => rate);
      rows.push([
        `${label}: ${runs[i]?.name}`,
        whole(medians[i] ?? 0),
        `${whole(Math.min(...rates))}-${whole(Math.max(...rates))}`,
        (ours / (medians[i] ?? 0)).toFixed(2),
        median(all.map(({ serverMicros }) => serverMicros)).toFixed(1),
        median(all.map(({ clientMicros }) => clientMicros)).toFixed(1),
        whole(median(all.map(({ wal }) => wal))),
      ]);
    }
  }
  table(["claim and finish", "a second", "of rounds", "ours/this", "server µs", "client µs", "WAL B"], rows);
}

/** The same work with few and with many units waiting, in turns. */
async function flat(): Promise<void> {
  const sizes = [10_000, many];
  const stores: Awaited<ReturnType<typeof coordinate>>[] = [];
  for (const size of sizes) {
    const store = await coordinate(await server.createDatabase());
    for (let i = 0; i < size; i += 10_000) await store.add(10_000);
    stores.push(store);
  }
  const batches = [1, 100, 1000];
  const rows: string[][] = [];
  for (const batch of batches) {
    const samples = stores.map(() => [] as Sample[]);
    for (let round = 0; round < rounds; round++)
      for (const [i, store] of stores.entries())
        samples[i]?.push(await sample(() => inTime(2, seconds / 2, store.work(batch))));
    const [few = 0, large = 0] = samples.map((all) => median(all.map(({ rate }) => rate)));
    rows.push([
      `batches of ${whole(batch)}, 2 at once`,
      whole(few),
      whole(large),
      (large / few).toFixed(2),
      ...samples.map((all) => median(all.map(({ serverMicros }) => serverMicros)).toFixed(1)),
    ]);
  }
  for (const store of stores) await store.close();
  const waiting = sizes.map((size) => `${whole(size)} wait`);
  table(["claim and finish", ...waiting, "ratio", ...waiting.map((one) => `µs, ${one}`)], rows);
}

async function raw(): Promise<void> {
  const bare = await rawTable(await server.createDatabase(), 500_000);
  const store = await coordinate(await server.createDatabase());
  for (let i = 0; i < 100_000; i += 10_000) await store.add(10_000);
  const samples = { raw: [] as Sample[], ours: [] as Sample[] };
  for (let round = 0; round < rounds; round++) {
    samples.raw.push(await sample(() => bare.batched(2, seconds / 2)));
    samples.ours.push(await sample((meter) => store.batched(2, seconds / 2, meter)));
  }
  await bare.close();
  await store.close();
  const [least, ours] = [samples.raw, samples.ours].map((all) => median(all.map(({ rate }) => rate)));
  console.log(
    `a bare table, batches of 1,000, 2 at once: ${whole(least ?? 0)} a second; this store has ${((ours ?? 0) / (least ?? 1)).toFixed(2)} of it\n`,
  );
}

/** A reader that pins the horizon. */
async function held(): Promise<void> {
  const url = await server.createDatabase();
  const store = await coordinate(url);
  for (let i = 0; i < 100_000; i += 10_000) await store.add(10_000);
  const rate = async (): Promise<number> => (await sample(() => inTime(2, seconds, store.work(100)))).rate;
  const before = await rate();
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM coordinate.unit");
  await inTime(1, Number(given.hold), store.work(100));
  const after = await rate();
  await reader.query("ROLLBACK");
  await reader.end();
  await store.close();
  console.log(
    `a snapshot held for ${given.hold} s, batches of 100, 2 at once: ${whole(before)} a second before, ${whole(after)} after (${Math.round((100 * after) / before)} %)\n`,
  );
}

try {
  const [version] = (await query(server.url(), "SHOW server_version")) as { server_version: string }[];
  const setting = given.off ? "synchronous_commit=off" : "default settings";
  console.log(`PostgreSQL ${version?.server_version}, ${setting}; ${rounds} rounds of ${seconds} s\n`);
  if (!skip.has("turns")) {
    const all = [
      await coordinate(await server.createDatabase()),
      await graphile(await server.createDatabase()),
      await boss(await server.createDatabase()),
    ].filter((one) => one !== null);
    await adds(all);
    await turns(all);
    for (const one of all) await one.close();
  }
  if (!skip.has("flat")) await flat();
  if (!skip.has("raw")) await raw();
  if (!skip.has("hold")) await held();
  console.log(`${Math.round((performance.now() - began) / 1000)} s in all`);
} finally {
  await log.end();
  await server.stop();
}
