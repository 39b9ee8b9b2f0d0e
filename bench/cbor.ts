/**
 * What the CBOR-RPC wire costs: `get_work` and `update_work_unit` as Python's workers call them, one request at a
 * time per connection, and in batches; beside the REST wire of the same engine in the same run. The server is one
 * process, the load another.
 *
 *   npm run bench:cbor                    BENCH_SECONDS=2 for each figure
 */
import { Buffer } from "node:buffer";
import { fork } from "node:child_process";
import { createConnection, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { connectCbor, listenCborRpc } from "../src/cbor/index.ts";
import { encodeData, Engine, type Coordinate } from "../src/core/index.ts";
import { MemoryStore } from "../src/memory/index.ts";
import { listen, restServer } from "../src/rest/index.ts";

const seconds = Number(process.env.BENCH_SECONDS ?? 2);
const rounds = 3;

async function serve(): Promise<void> {
  const engine = new Engine(new MemoryStore());
  const cbor = await listenCborRpc(engine, { at: { port: 0 } });
  const rest = await listen(restServer({ coordinate: engine }).app, { at: { host: "127.0.0.1", port: 0 } });
  let cpu = process.cpuUsage();
  process.on("disconnect", () => process.exit(1));
  process.on("message", () => {
    const used = process.cpuUsage(cpu);
    cpu = process.cpuUsage();
    process.send?.({ cpuMs: (used.user + used.system) / 1000 });
  });
  process.send?.({ cbor: cbor.port, rest: rest.port });
}

// ---- as little client as possible: it shares the machine with the server

class Connection {
  readonly #socket: Socket;
  #resolve: (bytes: Buffer) => void = () => undefined;
  #isWhole: (bytes: Buffer) => boolean = () => true;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(port: number) {
    this.#socket = createConnection({ host: "127.0.0.1", port, noDelay: true });
    this.#socket.on("data", (chunk: Buffer) => {
      this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
      if (!this.#isWhole(this.#bytes)) return;
      const bytes = this.#bytes;
      this.#bytes = Buffer.alloc(0);
      this.#resolve(bytes);
    });
  }

  ask(request: Buffer | string, isWhole: (bytes: Buffer) => boolean): Promise<Buffer> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#isWhole = isWhole;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

const text = (value: string): Buffer => Buffer.concat([Buffer.of(0x40 | value.length), Buffer.from(value)]);

/** A message of less than 256 bytes, wrapped. */
function frame(method: string, ...params: Buffer[]): Buffer {
  const inner = Buffer.concat([
    Buffer.of(0xa3),
    text("params"),
    Buffer.of(0x80 | params.length),
    ...params,
    text("id"),
    Buffer.of(1),
    text("method"),
    text(method),
  ]);
  return Buffer.concat([Buffer.of(0xd8, 24, 0x58, inner.length), inner]);
}

const frameEnd = (bytes: Buffer, at: number): number => {
  const info = bytes[at + 2]! & 31;
  if (info < 24) return at + 3 + info;
  if (info === 24) return at + 4 + bytes[at + 3]!;
  return info === 25 ? at + 5 + bytes.readUInt16BE(at + 3) : at + 7 + bytes.readUInt32BE(at + 3);
};
const hasFrames =
  (wanted: number) =>
  (bytes: Buffer): boolean => {
    let at = 0;
    for (let found = 0; found < wanted; found++) {
      if (at + 7 > bytes.length) return false;
      at = frameEnd(bytes, at);
    }
    return at <= bytes.length;
  };
const oneFrame = hasFrames(1);

const getWork = frame(
  "get_work",
  text("w"),
  Buffer.concat([Buffer.of(0xa1), text("max_jobs"), Buffer.of(1)]),
);
const finish = frame(
  "update_work_unit",
  text("ws"),
  text("u000000000"),
  Buffer.concat([Buffer.of(0xa1), text("status"), Buffer.of(4)]),
);
const keyAt = finish.indexOf("u000000000");
/** Where the unit's key stands in the answer to `get_work`: behind the id, the pair, the tuple and the spec's name. */
const answeredKeyAt = 24;

async function cborPair(connection: Connection): Promise<number> {
  const work = await connection.ask(getWork, oneFrame);
  if (work[answeredKeyAt - 1] !== 0x4a) throw new Error(`no work: ${work.toString("hex")}`);
  const request = Buffer.from(finish);
  work.copy(request, keyAt, answeredKeyAt, answeredKeyAt + 10);
  const done = await connection.ask(request, oneFrame);
  if (done.at(-2) !== 0xf5) throw new Error(`not finished: ${done.toString("hex")}`);
  return 1;
}

/** A hundred jobs in one answer, a hundred updates in one piece: Python's protocol has no update of many. */
const getMany = frame(
  "get_work",
  text("w"),
  Buffer.concat([Buffer.of(0xa1), text("max_jobs"), Buffer.of(0x18, 100)]),
);

async function cborBatch(connection: Connection): Promise<number> {
  const work = await connection.ask(getMany, oneFrame);
  const updates: Buffer[] = [];
  for (let at = work.indexOf("\x4au"); at >= 0; at = work.indexOf("\x4au", at + 11)) {
    const request = Buffer.from(finish);
    work.copy(request, keyAt, at + 1, at + 11);
    updates.push(request);
  }
  if (updates.length === 0) throw new Error("out of work");
  await connection.ask(Buffer.concat(updates), hasFrames(updates.length));
  return updates.length;
}

const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

function wholeHttp(bytes: Buffer): boolean {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const length = /content-length: (\d+)/i.exec(bytes.toString("latin1", 0, end));
  return bytes.length >= end + 4 + Number(length?.[1]);
}
const bodyOf = (bytes: Buffer): string => bytes.toString("utf8", bytes.indexOf("\r\n\r\n") + 4);

const restStep =
  (number: number) =>
  async (connection: Connection): Promise<number> => {
    const base = "/v1/namespace/rest";
    const answer = await connection.ask(
      post(`${base}/request-attempts`, `{"worker":"w","number":${number}}`),
      wholeHttp,
    );
    const attempts = JSON.parse(bodyOf(answer)) as { id: string }[];
    if (attempts.length === 0) throw new Error("out of work");
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" }));
    await connection.ask(post(`${base}/settle-attempts`, JSON.stringify({ changes })), wholeHttp);
    return attempts.length;
  };

// ---- measuring

async function main(): Promise<void> {
  const child = fork(fileURLToPath(import.meta.url), ["serve"], { stdio: "inherit" });
  const next = <Message>(): Promise<Message> =>
    new Promise((resolve) => child.once("message", resolve as never));
  const ports = await next<{ cbor: number; rest: number }>();
  const usage = async (): Promise<number> => {
    const answer = next<{ cpuMs: number }>();
    child.send("usage");
    return (await answer).cpuMs;
  };
  const client = await connectCbor(`127.0.0.1:${ports.cbor}`);

  const measure = async (port: number, connections: number, step: (c: Connection) => Promise<number>) => {
    const all = Array.from({ length: connections }, () => new Connection(port));
    let count = 0;
    let stop = false;
    let begun = 0;
    const loops = all.map(async (connection) => {
      // not `count += await …`: that adds to what count was before the others had their turn
      const first = await step(connection);
      count += first;
      begun++;
      while (!stop) {
        const done = await step(connection);
        count += done;
      }
    });
    // to connect a hundred times is not what is measured
    while (begun < connections) await new Promise((resolve) => setTimeout(resolve, 20));
    await usage();
    const from = count;
    const start = performance.now();
    await new Promise((resolve) => setTimeout(resolve, (seconds / rounds) * 1000));
    const cpuMs = await usage();
    const done = count - from;
    const rate = (done * 1000) / (performance.now() - start);
    stop = true;
    await Promise.all(loops);
    for (const connection of all) connection.close();
    return { rate, cpu: (cpuMs * 1000) / done };
  };
  type Measured = Awaited<ReturnType<typeof measure>>;
  const median = (rows: Measured[], key: keyof Measured): number =>
    rows.map((row) => row[key]).sort((a, b) => a - b)[rows.length >> 1] ?? 0;
  const show = (rows: Measured[]): string =>
    `${Math.round(median(rows, "rate")).toLocaleString("en")} pairs/s, server's CPU ${median(rows, "cpu").toFixed(0)} us a pair`;

  for (const [what, connections, cborStep, jsonStep, units] of [
    ["1 connection", 1, cborPair, restStep(1), 100_000],
    ["10 connections", 10, cborPair, restStep(1), 150_000],
    ["100 connections", 100, cborPair, restStep(1), 150_000],
    ["batches of 100, 4 connections", 4, cborBatch, restStep(100), 500_000],
  ] as const) {
    await fill(client, "", "ws", units);
    await fill(client, "rest", "ws", units);
    const cbor: Measured[] = [];
    const rest: Measured[] = [];
    // turn and turn about, so that whatever else the machine does falls on both
    for (let i = 0; i < rounds; i++) {
      cbor.push(await measure(ports.cbor, connections, cborStep));
      rest.push(await measure(ports.rest, connections, jsonStep));
    }
    console.log(`${what}\n  CBOR-RPC ${show(cbor)}\n  REST     ${show(rest)}`);
    await client.deleteNamespace("");
    await client.deleteNamespace("rest");
  }
  await client.close();
  child.kill();
}

async function fill(client: Coordinate, ns: string, spec: string, units: number): Promise<void> {
  await client.setWorkSpecs(ns, [{ data: encodeData({ name: spec }) }]);
  for (let i = 0; i < units; i += 5000) {
    await client.addWorkUnits(
      ns,
      spec,
      Array.from({ length: 5000 }, (_, j) => ({
        name: `u${String(i + j).padStart(9, "0")}`,
        data: encodeData({ n: i + j }),
      })),
    );
  }
}

if (process.argv[2] === "serve") await serve();
else await main();
