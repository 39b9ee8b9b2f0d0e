/**
 * What one worker process does in a second with tasks that do nothing, beside its peers on the same machine in the same run; how
 * long it takes from adding a unit to the start of its task when all is idle; and what idle workers cost.
 *
 *   npm run bench:worker -- [--units 100000] [--seconds 8] [--idle 20] [--only memory,rest,bullmq]
 *   (cd bench && npm install) brings the peers; BullMQ also needs redis-server. Without them their lines are left out.
 *
 * Every subject runs in a process of its own, and so do the servers. Stores are as they come: SQLite and PostgreSQL answer when
 * it is on the disk, Redis appends to its file once a second, as BullMQ's documentation advises.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { open } from "node:fs/promises";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { encodeData, Engine, handles, type Coordinate } from "../src/index.ts";
import { MemoryStore } from "../src/memory/index.ts";
import { openPostgres } from "../src/postgres/index.ts";
import { RestClient } from "../src/rest/client.ts";
import { openSqlite } from "../src/sqlite/index.ts";
import { silentLogger, Worker } from "../src/worker/index.ts";
import { query, startServer } from "../test/postgres/server.ts";

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    units: { type: "string", default: "100000" },
    seconds: { type: "string", default: "8" },
    idle: { type: "string", default: "20" },
    only: { type: "string", default: "" },
    max: { type: "string", default: "" },
    slots: { type: "string", default: "" },
  },
});
const units = Number(given.units);
const seconds = Number(given.seconds);
const self = fileURLToPath(import.meta.url);
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const round = (n: number): string => Math.round(n).toLocaleString("en");

interface Rate {
  rate: number;
  /** Processor time of the worker's process, in microseconds a unit. */
  cpu: number;
}

/** Until all are done or the time is over. */
async function timed(done: () => number, all: number): Promise<Rate> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  while (done() < all && performance.now() - start < seconds * 1000) await sleep(2);
  const count = done();
  const used = process.cpuUsage(cpu);
  return { rate: count / ((performance.now() - start) / 1000), cpu: (used.user + used.system) / count };
}

// ---- subjects: each is run as `worker.js NAME ADDRESS`, and prints its result as JSON

const options = {
  log: silentLogger,
  ...(given.max !== "" && { maxAttempts: Number(given.max) }),
  ...(given.slots !== "" && { concurrency: Number(given.slots) }),
};

async function ours(coordinate: Coordinate, count = units): Promise<Rate> {
  const ns = handles(coordinate).namespace("bench");
  const spec = await ns.setWorkSpec({ name: "s", runtime: "node" });
  await spec.addWorkUnits(Array.from({ length: count }, (_, n) => [`unit-${n}`, { n, path: "/some/where" }]));
  const worker = new Worker(ns, { ...options, tasks: { s: () => undefined } });
  const result = timed(() => worker.counts.finished, count);
  void worker.run();
  const rate = await result;
  await worker.stop();
  await coordinate.close();
  return rate;
}

/** Tells of each unit how long after its adding the task began, in nanoseconds. */
async function listen(address: string): Promise<void> {
  const client = new RestClient(address);
  const ns = handles(client).namespace("latency");
  await ns.setWorkSpec({ name: "s", runtime: "node" });
  const worker = new Worker(ns, {
    ...options,
    tasks: {
      s: ({ data }) => {
        const now = process.hrtime.bigint();
        process.send?.(Number(now - BigInt(data.at as string)));
      },
    },
  });
  process.on("message", () => void worker.stop().then(() => process.exit(0)));
  process.send?.("ready");
  await worker.run();
}

async function idle(address: string): Promise<void> {
  const workers = Array.from({ length: 100 }, () => {
    const ns = handles(new RestClient(address)).namespace("idle");
    return new Worker(ns, { ...options, tasks: { s: () => undefined } });
  });
  process.on("message", () => process.exit(0));
  setTimeout(() => process.send?.("ready"), 3000);
  await Promise.all(workers.map((worker) => worker.run()));
}

interface Graphile {
  run(options: object): Promise<{ stop(): Promise<void> }>;
  makeWorkerUtils(options: object): Promise<{ migrate(): Promise<void>; release(): Promise<void> }>;
  Logger: new (factory: () => () => void) => unknown;
}

async function graphile(url: string): Promise<Rate | null> {
  const name = "graphile-worker";
  const worker = (await import(name).catch(() => null)) as Graphile | null;
  if (worker === null) return null;
  const logger = new worker.Logger(() => () => undefined);
  const utils = await worker.makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  for (let i = 0; i < units; i += 10_000)
    await query(
      url,
      `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
      SELECT json_populate_record(NULL::graphile_worker.job_spec, json_build_object('identifier', 't', 'payload', json_build_object('n', i)))
      FROM generate_series(1, 10000) AS i))`,
    );
  // their plans depend on statistics, which autovacuum would bring within a minute
  await query(url, "VACUUM ANALYZE");
  let done = 0;
  const result = timed(() => done, units);
  // what their page on performance says
  const runner = await worker.run({
    connectionString: url,
    logger,
    concurrency: 24,
    maxPoolSize: 25,
    noHandleSignals: true,
    preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList: {
      t: () => {
        done++;
      },
    },
  });
  const rate = await result;
  await runner.stop();
  await utils.release();
  return rate;
}

interface Boss {
  on(event: string, listener: () => void): void;
  start(): Promise<void>;
  stop(options: object): Promise<void>;
  createQueue(name: string): Promise<void>;
  insert(queue: string, jobs: object[]): Promise<unknown>;
  fetch(queue: string, options: object): Promise<{ id: string }[]>;
  complete(queue: string, ids: string[]): Promise<unknown>;
}

async function boss(url: string): Promise<Rate | null> {
  const name = "pg-boss";
  const module = (await import(name).catch(() => null)) as { PgBoss?: unknown; default?: unknown } | null;
  if (module === null) return null;
  const PgBoss = (module.PgBoss ?? module.default) as new (options: object) => Boss;
  const instance = new PgBoss({ connectionString: url, max: 10 });
  instance.on("error", () => undefined);
  await instance.start();
  await instance.createQueue("q");
  for (let i = 0; i < units; i += 10_000)
    await instance.insert(
      "q",
      Array.from({ length: 10_000 }, (_, n) => ({ data: { n, path: "/some/where" } })),
    );
  await query(url, "VACUUM ANALYZE");
  let done = 0;
  const result = timed(() => done, units);
  // its own polling workers wait half a second between batches: fetch and complete in a loop is its best
  let over = false;
  const loops = Array.from({ length: 2 }, async () => {
    while (!over) {
      const jobs = await instance.fetch("q", { batchSize: 1000 });
      if (jobs.length === 0) return;
      await instance.complete(
        "q",
        jobs.map(({ id }) => id),
      );
      done += jobs.length;
    }
  });
  const rate = await result;
  over = true;
  await Promise.all(loops);
  await instance.stop({ graceful: false });
  return rate;
}

interface BullMq {
  Queue: new (
    name: string,
    options: object,
  ) => { addBulk(jobs: object[]): Promise<unknown>; close(): Promise<void> };
  Worker: new (
    name: string,
    processor: () => Promise<void>,
    options: object,
  ) => { run(): Promise<void>; close(force?: boolean): Promise<void> };
}

async function bullmq(port: string): Promise<Rate | null> {
  const name = "bullmq";
  const module = (await import(name).catch(() => null)) as BullMq | null;
  if (module === null) return null;
  const connection = { host: "127.0.0.1", port: Number(port) };
  const queue = new module.Queue("q", { connection });
  for (let i = 0; i < units; i += 5000)
    await queue.addBulk(
      Array.from({ length: 5000 }, (_, n) => ({ name: "t", data: { n, path: "/some/where" } })),
    );
  let done = 0;
  const worker = new module.Worker(
    "q",
    async () => {
      done++;
      return Promise.resolve();
    },
    { connection, concurrency: Number(positionals[2] ?? "100"), autorun: false },
  );
  const result = timed(() => done, units);
  void worker.run();
  const rate = await result;
  await worker.close(true);
  await queue.close();
  return rate;
}

async function scratch<Answer>(work: (directory: string) => Promise<Answer>): Promise<Answer> {
  const directory = mkdtempSync(path.join(tmpdir(), "bench-worker-"));
  try {
    return await work(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const subjects: Record<string, (address: string) => Promise<Rate | null>> = {
  memory: () => ours(new Engine(new MemoryStore())),
  sqlite: () =>
    scratch(async (directory) => ours(new Engine(await openSqlite(path.join(directory, "store.sqlite"))))),
  rest: (address) => ours(new RestClient(address)),
  postgres: async (url) => ours(new Engine(await openPostgres({ url }))),
  graphile,
  boss,
  bullmq,
};

// ---- the run

function child(...args: string[]): ChildProcess {
  const passed = ["max", "slots", "units", "seconds"].flatMap((key) => {
    const value = given[key as keyof typeof given];
    return value === "" ? [] : [`--${key}`, value];
  });
  return spawn(process.execPath, [...process.execArgv, self, ...passed, ...args], {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
}

async function measure(name: string, label: string, ...args: string[]): Promise<number> {
  const run = child(name, ...args);
  let output = "";
  run.stdout?.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  await new Promise((resolve) => run.once("close", resolve));
  const line = output.split("\n").find((one) => one.startsWith("{"));
  if (line === undefined) {
    console.log(`${label.padEnd(60)} left out: not installed`);
    return 0;
  }
  const { rate, cpu } = JSON.parse(line) as Rate;
  console.log(`${label.padEnd(60)} ${round(rate).padStart(9)}/s   ${cpu.toFixed(1).padStart(6)} µs/unit`);
  return rate;
}

/** The daemon as it is installed, on a file of its own. */
async function daemon(directory: string, backend: string): Promise<{ url: string; process: ChildProcess }> {
  const main = path.join(path.dirname(self), "..", "src", "cli", "coordinated.ts");
  const started = spawn(
    process.execPath,
    [
      ...process.execArgv,
      main,
      "--backend",
      backend === "sqlite" ? `sqlite:${path.join(directory, "store.sqlite")}` : backend,
      "--http",
      "127.0.0.1:0",
      "--data-dir",
      directory,
    ],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  let output = "";
  const url = await new Promise<string>((resolve) => {
    started.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      const match = /serves (\S+)/.exec(output);
      if (match?.[1] !== undefined) resolve(match[1]);
    });
  });
  return { url, process: started };
}

async function withDaemon<Answer>(
  backend: string,
  work: (url: string, process: ChildProcess) => Promise<Answer>,
): Promise<Answer> {
  return scratch(async (directory) => {
    const { url, process: started } = await daemon(directory, backend);
    try {
      return await work(url, started);
    } finally {
      const ended = new Promise((resolve) => started.once("close", resolve));
      started.kill("SIGTERM");
      await ended;
    }
  });
}

async function withRedis<Answer>(work: (port: string) => Promise<Answer>): Promise<Answer | null> {
  const installed = await new Promise<boolean>((resolve) =>
    execFile("redis-server", ["--version"], (error) => resolve(error === null)),
  );
  if (!installed) return null;
  return scratch(async (directory) => {
    const port = String(20_000 + (process.pid % 20_000));
    const settings = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
    const redis = spawn("redis-server", ["--port", port, "--dir", directory, ...settings], {
      stdio: "ignore",
    });
    await sleep(1000);
    try {
      return await work(port);
    } finally {
      const ended = new Promise((resolve) => redis.once("close", resolve));
      redis.kill("SIGTERM");
      await ended;
    }
  });
}

/** Processor time of a process so far, in seconds. */
function cpuOf(pid: number | undefined): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? NaN;

async function latency(backend: string, url: string): Promise<void> {
  const listener = child("listen", url);
  const times: number[] = [];
  let ready: () => void = () => undefined;
  const started = new Promise<void>((resolve) => (ready = resolve));
  listener.on("message", (message) => {
    if (typeof message === "number") times.push(message / 1e6);
    else ready();
  });
  await started;
  await sleep(500);
  const client = new RestClient(url);
  const adds = 300;
  for (let i = 0; i < adds; i++) {
    const data = encodeData({ at: String(process.hrtime.bigint()) });
    await client.addWorkUnits("latency", "s", [{ name: `u${i}`, data }]);
    await sleep(15);
  }
  while (times.length < adds) await sleep(10);
  await client.close();
  listener.send("stop");
  await new Promise((resolve) => listener.once("close", resolve));
  // the first few meet code that was not compiled yet
  console.log(
    `from adding to the start of the task, idle, daemon on ${backend.replace(":", "")}: ${shown(times.slice(20))}`,
  );
}

function shown(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  return [0.5, 0.95, 0.99].map((q) => `p${q * 100} ${quantile(sorted, q).toFixed(2)} ms`).join("  ");
}

/** A unit that is added and claimed is two of them. */
async function diskTime(): Promise<string> {
  return scratch(async (directory) => {
    const file = await open(path.join(directory, "file"), "w");
    const times: number[] = [];
    for (let i = 0; i < 200; i++) {
      const start = performance.now();
      await file.write("x".repeat(4096));
      await file.datasync();
      times.push(performance.now() - start);
    }
    await file.close();
    return shown(times);
  });
}

async function idleCost(url: string, started: ChildProcess): Promise<void> {
  const workers = child("idle", url);
  await new Promise((resolve) => workers.once("message", resolve));
  const before = [cpuOf(started.pid), cpuOf(workers.pid)];
  const start = performance.now();
  await sleep(Number(given.idle) * 1000);
  const elapsed = (performance.now() - start) / 1000;
  const [server = 0, own = 0] = [cpuOf(started.pid), cpuOf(workers.pid)].map(
    (after, i) => ((after - (before[i] ?? 0)) / elapsed) * 100,
  );
  workers.send("stop");
  await new Promise((resolve) => workers.once("close", resolve));
  console.log(
    `100 idle workers: the daemon uses ${server.toFixed(2)} % of a processor, the workers together ${own.toFixed(2)} %`,
  );
}

async function main(): Promise<void> {
  const wanted = (name: string): boolean => given.only === "" || given.only.split(",").includes(name);
  console.log(
    `${cpus().length} x ${cpus()[0]?.model ?? "?"}, Node ${process.version}; ${round(units)} units\n`,
  );
  const rates: Record<string, number> = {};
  const ways = [
    ["defaults", []],
    ["4 slots, 1,000 a batch", ["--slots", "4", "--max", "1000"]],
  ] as const;
  /** With the defaults, and with batches and slots as a person would set them for small tasks. */
  const both = async (name: string, label: string, address: () => Promise<string>): Promise<void> => {
    for (const [how, settings] of ways) {
      const rate = await measure(name, `coordinate, ${label}: ${how}`, await address(), ...settings);
      rates[name] = Math.max(rates[name] ?? 0, rate);
    }
  };
  const none = (): Promise<string> => Promise.resolve("");
  if (wanted("memory")) await both("memory", "memory in the process", none);
  if (wanted("sqlite")) await both("sqlite", "sqlite in the process", none);
  if (wanted("rest"))
    for (const [how, settings] of ways)
      await withDaemon("sqlite", async (url) => {
        const label = `coordinate, daemon on sqlite: ${how}`;
        rates.rest = Math.max(rates.rest ?? 0, await measure("rest", label, url, ...settings));
      });
  if (["postgres", "graphile", "boss"].some(wanted)) {
    const server = await startServer({ settings: ["max_connections = 200"] });
    try {
      if (wanted("postgres")) await both("postgres", "postgres", () => server.createDatabase());
      if (wanted("graphile"))
        rates.graphile = await measure(
          "graphile",
          "graphile-worker, 24 at once, local queue 500",
          await server.createDatabase(),
        );
      if (wanted("boss"))
        rates.boss = await measure(
          "boss",
          "pg-boss, fetch and complete of 1,000, 2 at once",
          await server.createDatabase(),
        );
    } finally {
      await server.stop();
    }
  }
  if (wanted("bullmq")) {
    for (const concurrency of ["25", "100", "300"]) {
      const rate = await withRedis((port) =>
        measure("bullmq", `BullMQ, ${concurrency} at once`, port, concurrency),
      );
      if (rate === null) {
        console.log("BullMQ left out: no redis-server");
        break;
      }
      rates.bullmq = Math.max(rates.bullmq ?? 0, rate);
    }
  }
  const best = Math.max(rates.graphile ?? 0, rates.boss ?? 0, rates.bullmq ?? 0);
  if (best > 0) {
    const ratios = ["memory", "sqlite", "rest", "postgres"]
      .filter((name) => rates[name] !== undefined)
      .map((name) => `${name} ${((rates[name] ?? 0) / best).toFixed(2)}`);
    console.log(`ratio to the fastest peer: ${ratios.join(", ")}`);
  }
  console.log();
  if (wanted("latency")) {
    console.log(`a write of 4 kB and its fdatasync on this disk: ${await diskTime()}`);
    for (const backend of ["sqlite", "memory:"]) await withDaemon(backend, (url) => latency(backend, url));
  }
  if (wanted("idle")) await withDaemon("sqlite", (url, started) => idleCost(url, started));
}

const [subject, address = ""] = positionals;
if (subject === undefined) await main();
else if (subject === "listen") await listen(address);
else if (subject === "idle") await idle(address);
else {
  const result = await subjects[subject]?.(address);
  if (result !== null && result !== undefined) console.log(JSON.stringify(result));
  process.exit(0);
}
