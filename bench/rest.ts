/**
 * What the REST wire costs: requests per second of single claims and finishes, and of batches, beside a bare Fastify
 * route that answers a constant, in the same run. The server is one process, the load another.
 *
 *   npm run bench:rest                 all of it
 *   npm run bench:rest -- single idle load
 */
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import Fastify from "fastify";
import { encodeData } from "../src/core/index.ts";
import { configOf, startDaemon } from "../src/daemon/index.ts";
import { RestClient } from "../src/rest/client.ts";

const secondsEach = Number(process.env.BENCH_SECONDS ?? 4);

async function serveBench(backend: string): Promise<void> {
  const bare = Fastify();
  bare.post("/bare", async () => ({ hello: "world", number: 1 }));
  const bareUrl = await bare.listen({ port: 0, host: "127.0.0.1" });
  const daemon = await startDaemon(
    configOf({
      backend,
      http: ["127.0.0.1:0"],
      logLevel: "warn",
      dataDir: mkdtempSync(path.join(tmpdir(), "bench-")),
    }),
  );
  let cpu = process.cpuUsage();
  // whoever started it has gone: so does it
  process.on("disconnect", () => process.exit(1));
  process.on("message", (message) => {
    if (message === "usage") {
      const used = process.cpuUsage(cpu);
      cpu = process.cpuUsage();
      process.send?.({ cpuMs: (used.user + used.system) / 1000, rss: process.memoryUsage().rss });
    } else if (message === "stop") void daemon.stop().then(() => process.exit(0));
  });
  process.send?.({ bare: bareUrl, daemon: daemon.urls[0] });
}

interface Server {
  child: ChildProcess;
  bare: string;
  daemon: string;
  usage(): Promise<{ cpuMs: number; rss: number }>;
  stop(): Promise<void>;
}

async function startServer(backend: string): Promise<Server> {
  const child = fork(fileURLToPath(import.meta.url), ["server", backend], { stdio: "inherit" });
  const next = <Message>(): Promise<Message> =>
    new Promise((resolve) => child.once("message", resolve as never));
  const { bare, daemon } = await next<{ bare: string; daemon: string }>();
  return {
    child,
    bare,
    daemon,
    usage: () => {
      const answer = next<{ cpuMs: number; rss: number }>();
      child.send("usage");
      return answer;
    },
    stop: async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.send("stop");
      await ended;
    },
  };
}

/** One connection, one request at a time: as little client as possible, for it shares the machine with the server. */
class Connection {
  readonly #socket: Socket;
  readonly #host: string;
  #buffer = "";
  #resolve: (body: string) => void = () => undefined;

  constructor(url: string) {
    const { hostname, port, host } = new URL(url);
    this.#host = host;
    this.#socket = createConnection({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (chunk: string) => this.#take(chunk));
  }

  #take(chunk: string): void {
    this.#buffer = this.#buffer === "" ? chunk : this.#buffer + chunk;
    const end = this.#buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const at = this.#buffer.toLowerCase().indexOf("content-length: ");
    const length = Number.parseInt(this.#buffer.slice(at + 16, at + 26), 10);
    if (this.#buffer.length < end + 4 + length) return;
    const body = this.#buffer.slice(end + 4);
    if (!this.#buffer.startsWith("HTTP/1.1 200")) throw new Error(this.#buffer);
    this.#buffer = "";
    this.#resolve(body);
  }

  post(target: string, body: string): Promise<string> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#socket.write(
        `POST ${target} HTTP/1.1\r\nHost: ${this.#host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

interface Measured {
  /** Requests, or whatever a step counts, per second. */
  rate: number;
  /** Microseconds of the server's processor for each. */
  cpu: number;
}

/** What `connections` callers get done who do `step` again and again. */
async function measure(
  server: Server,
  url: string,
  connections: number,
  seconds: number,
  step: (connection: Connection) => Promise<number>,
): Promise<Measured> {
  const all = Array.from({ length: connections }, () => new Connection(url));
  let count = 0;
  let stop = false;
  const loops = all.map(async (connection) => {
    while (!stop) {
      const done = await step(connection);
      count += done;
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await server.usage();
  const from = count;
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const { cpuMs } = await server.usage();
  const done = count - from;
  const rate = (done * 1000) / (performance.now() - start);
  stop = true;
  await Promise.all(loops);
  for (const connection of all) connection.close();
  return { rate, cpu: (cpuMs * 1000) / done };
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;

async function fill(client: RestClient, ns: string, units: number): Promise<void> {
  await client.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
  for (let i = 0; i < units; i += 5000) {
    await client.addWorkUnits(
      ns,
      "s",
      Array.from({ length: 5000 }, (_, j) => ({
        name: `u${String(i + j).padStart(9, "0")}`,
        data: encodeData({ n: i + j }),
      })),
    );
  }
}

async function single(): Promise<void> {
  const server = await startServer("memory:");
  const client = new RestClient(server.daemon);
  const claimBody = JSON.stringify({ worker: "w" });
  const bareStep = async (connection: Connection): Promise<number> => {
    await connection.post("/bare", claimBody);
    return 1;
  };
  for (const connections of [1, 10, 100]) {
    const ns = `single${connections}`;
    await fill(client, ns, 400_000);
    const base = `/v1/namespace/${ns}`;
    const ourStep = async (connection: Connection): Promise<number> => {
      const [attempt] = JSON.parse(await connection.post(`${base}/request-attempts`, claimBody)) as {
        id: string;
      }[];
      if (attempt === undefined) throw new Error("out of work");
      await connection.post(
        `${base}/settle-attempts`,
        `{"changes":[{"attempt":"${attempt.id}","action":"finish"}]}`,
      );
      return 2;
    };
    // turn and turn about, so that whatever else the machine does falls on both
    const rounds = 7;
    const bare: Measured[] = [];
    const ours: Measured[] = [];
    for (let i = 0; i < rounds; i++) {
      bare.push(await measure(server, server.bare, connections, secondsEach / rounds, bareStep));
      ours.push(await measure(server, server.daemon, connections, secondsEach / rounds, ourStep));
    }
    const of = (rows: Measured[], key: keyof Measured): number => median(rows.map((row) => row[key]));
    const ratio = median(ours.map(({ rate }, i) => rate / bare[i]!.rate));
    report(
      `single, ${connections} connections`,
      `${round(of(ours, "rate"))} requests/s, bare ${round(of(bare, "rate"))}, ratio ${ratio.toFixed(2)}; ` +
        `server's CPU ${of(ours, "cpu").toFixed(0)} us a request, bare ${of(bare, "cpu").toFixed(0)} us`,
    );
    await client.deleteNamespace(ns);
  }
  await fill(client, "batch", 1_500_000);
  const base = "/v1/namespace/batch";
  const body = JSON.stringify({ worker: "w", number: 100 });
  const units = await measure(server, server.daemon, 4, secondsEach, async (connection) => {
    const attempts = JSON.parse(await connection.post(`${base}/request-attempts`, body)) as { id: string }[];
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" }));
    await connection.post(`${base}/settle-attempts`, JSON.stringify({ changes }));
    return attempts.length;
  });
  report("batches of 100, 4 connections", `${round(units.rate)} claim+finish/s`);
  await client.close();
  await server.stop();
}

async function idle(): Promise<void> {
  const server = await startServer("memory:");
  const client = new RestClient(server.daemon);
  await client.setWorkSpecs("idle", [{ data: encodeData({ name: "s" }) }]);
  const before = (await server.usage()).rss;
  const workers = Array.from({ length: 1000 }, () => new Connection(server.daemon));
  for (const [i, connection] of workers.entries()) {
    void connection.post(
      "/v1/namespace/idle/request-attempts",
      JSON.stringify({ worker: `w${i}`, waitMs: 60_000 }),
    );
  }
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await server.usage();
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  const { cpuMs, rss } = await server.usage();
  report(
    "1,000 idle long polls",
    `${(cpuMs / 100).toFixed(2)} % CPU, RSS ${mb(rss)} MB (before them ${mb(before)} MB)`,
  );
  for (const connection of workers) connection.close();
  await client.close();
  await server.stop();
}

async function load(): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), "bench-"));
  const server = await startServer(`sqlite:${dir}/load.sqlite`);
  const client = new RestClient(server.daemon);
  await client.setWorkSpecs("load", [{ data: encodeData({ name: "s" }) }]);
  const total = 1_000_000;
  const units = function* () {
    for (let i = 0; i < total; i++)
      yield {
        name: `u${String(i).padStart(9, "0")}`,
        data: encodeData({ n: i, url: `https://example.org/${i}` }),
      };
  };
  let peak = 0;
  const watch = setInterval(() => void server.usage().then(({ rss }) => (peak = Math.max(peak, rss))), 250);
  const start = performance.now();
  const answer = await client.loadWorkUnits("load", "s", units());
  const seconds = (performance.now() - start) / 1000;
  clearInterval(watch);
  report(
    "load by NDJSON into sqlite",
    `${answer.units} units, ${round(total / seconds)} units/s, RSS at most ${mb(peak)} MB`,
  );
  const from = performance.now();
  let rows = 0;
  for await (const _row of client.exportWorkUnits("load", "s")) rows += 1;
  report(
    "export by NDJSON from sqlite",
    `${rows} units, ${round((rows * 1000) / (performance.now() - from))} units/s, RSS ${mb((await server.usage()).rss)} MB`,
  );
  await client.close();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
}

async function runBench(which: readonly string[]): Promise<void> {
  const parts: Record<string, () => Promise<void>> = { single, idle, load };
  for (const name of which.length > 0 ? which : Object.keys(parts)) await parts[name]?.();
}

function report(what: string, figures: string): void {
  console.log(`${what.padEnd(32)} ${figures}`);
}

function round(value: number): string {
  return Math.round(value).toLocaleString("en");
}

function mb(bytes: number): number {
  return Math.round(bytes / 1e6);
}

if (process.argv[2] === "server") await serveBench(process.argv[3] ?? "memory:");
else await runBench(process.argv.slice(2));
