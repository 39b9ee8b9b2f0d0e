/**
 * Hostile clients, in a separate process: `node attackers.ts HTTP_PORT CBOR_PORT SECONDS`. They connect only to
 * 127.0.0.1. Prints how often each attack ran, as one line of JSON.
 */
import { Buffer } from "node:buffer";
import { connect, type Socket } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { callsPath, writeFrame } from "../../src/rest/call-frames.ts";
import { callsType } from "../../src/rest/media.ts";
import { encode, u, wrap } from "../cbor/wire.ts";

const [http = 0, cbor = 0, seconds = 20] = process.argv.slice(2).map(Number);
const until = performance.now() + seconds * 1000;
const done: Record<string, number> = {};
const count = (what: string): void => void (done[what] = (done[what] ?? 0) + 1);
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const over = (): boolean => performance.now() >= until;

const open = new Set<Socket>();

function dial(port: number): Socket {
  const socket = connect({ host: "127.0.0.1", port });
  open.add(socket);
  socket.on("error", () => undefined);
  socket.on("close", () => open.delete(socket));
  return socket;
}

const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => (socket.closed ? resolve() : socket.once("close", () => resolve())));

/** Waits until the socket has closed or the time is up, then destroys it. */
const closedWithin = async (socket: Socket, ms: number): Promise<void> => {
  await Promise.race([closed(socket), sleep(Math.max(0, Math.min(ms, until - performance.now())))]);
  socket.destroy();
};

function post(path: string, body: string | Buffer): Buffer {
  const content = Buffer.from(body as string);
  const head =
    `POST /v1/namespace/n/${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${content.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), content]);
}

/** A message with a list that repeats the same item. */
const many = (open: string, item: string, close: string, bytes: number): string =>
  open + `${item},`.repeat(Math.floor(bytes / (item.length + 1))) + item + close;

const lists = post("list-work-units", '{"workSpec":"big","limit":1000}');
const listCall = wrap(
  encode({ id: 1, method: u("coordinate.listWorkUnits"), params: [u("n"), u("big"), { limit: 1000 }] }),
);
const times = (count: number, call: Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => call));

/** `count` calls over the connection that callers share. */
function sharedCalls(count: number): Buffer {
  const call = writeFrame("1 /v1/namespace/n/list-work-units", '{"workSpec":"big","limit":1000}');
  const body = times(count, Buffer.from(call));
  const head =
    `POST ${callsPath} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${callsType}\r\n` +
    `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`;
  return Buffer.concat([Buffer.from(head), body, Buffer.from("\r\n")]);
}

/** Sends thousands of requests for long responses at once, and reads the responses as fast as they come. */
async function pipelines(port: number, calls: Buffer, name: string): Promise<void> {
  while (!over()) {
    const socket = dial(port);
    socket.resume();
    socket.write(calls);
    await closedWithin(socket, 5000);
    count(name);
  }
}

/** The same, but never reads the responses. */
async function pipelinesUnread(port: number, calls: Buffer, name: string): Promise<void> {
  while (!over()) {
    const socket = dial(port);
    socket.pause();
    socket.write(calls);
    await closedWithin(socket, 3000);
    count(name);
  }
}

async function largeBodies(port: number, bodies: readonly Buffer[], name: string): Promise<void> {
  for (let i = 0; !over(); i++) {
    const socket = dial(port);
    socket.resume();
    socket.write(bodies[i % bodies.length]!);
    // waits for any response
    await Promise.race([
      new Promise((resolve) => socket.once("data", resolve)),
      closedWithin(socket, 10_000),
    ]);
    socket.destroy();
    count(name);
  }
}

/** Opens as many connections as possible, sends nothing, and replaces those that are dropped. */
async function silent(port: number, connections: number, name: string): Promise<void> {
  const mine = new Set<Socket>();
  while (!over()) {
    for (let i = 0; i < 200 && mine.size < connections; i++) {
      const socket = dial(port);
      // without reading, the socket would not notice that it was dropped
      socket.resume();
      mine.add(socket);
      socket.on("close", () => mine.delete(socket));
      count(name);
    }
    await sleep(50);
  }
}

/** Sends one byte from time to time, of a message that never ends. */
async function drips(port: number, start: Buffer, connections: number, name: string): Promise<void> {
  const mine = new Set<Socket>();
  while (!over()) {
    while (mine.size < connections) {
      const socket = dial(port);
      socket.resume();
      mine.add(socket);
      socket.on("close", () => mine.delete(socket));
      socket.write(start);
      count(name);
    }
    for (const socket of mine) socket.write("x");
    await sleep(500);
  }
}

/** Subscribes to events and never reads them. */
async function watchers(port: number, connections: number): Promise<void> {
  const mine = new Set<Socket>();
  while (!over()) {
    while (mine.size < connections) {
      const socket = dial(port);
      socket.pause();
      mine.add(socket);
      socket.on("close", () => mine.delete(socket));
      socket.write("GET /v1/namespace/n/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
      count("watchers");
    }
    await sleep(500);
  }
}

/** Adds units, to cause events with many names for the watchers. */
async function noise(port: number): Promise<void> {
  let serial = 0;
  while (!over()) {
    const socket = dial(port);
    const units = Array.from(
      { length: 100 },
      () => `{"name":"${"x".repeat(500)}${(serial++ % 5000).toString()}"}`,
    );
    socket.write(post("add-work-units", `{"workSpec":"noise","units":[${units.join(",")}]}`));
    await Promise.race([new Promise((resolve) => socket.once("data", resolve)), closedWithin(socket, 5000)]);
    socket.destroy();
    count("noise");
    await sleep(20);
  }
}

const mb = 1024 * 1024;
const bodies = [
  post("add-work-units", many('{"workSpec":"big","units":[', "{}", "]}", 60 * mb)),
  post("get-work-units", many('{"workSpec":"big","names":[', '"a"', "]}", 60 * mb)),
  post("add-work-units", many('{"workSpec":"big","units":[[', "1", "]]}", 30 * mb)),
  post(
    "add-work-units",
    many('{"workSpec":"big","units":[{"name":"a","data":{"a":[', "[]", "]}}]}", 15 * mb),
  ),
];
const frame = (open: Buffer, item: number, bytes: number): Buffer =>
  wrap(Buffer.concat([open, Buffer.alloc(bytes, item)]));
/** A request whose last parameter is a list of `items` empty maps. */
const cborList = (method: string, items: number): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = 0x9a;
  head.writeUInt32BE(items, 1);
  const start = encode({ id: 1, method: u(method) });
  // add a third entry to the map: params, a list of the namespace, the work spec and the long list
  start[0] = 0xa3;
  const params = Buffer.concat([encode("params"), Buffer.of(0x83), encode(u("n")), encode(u("big")), head]);
  return frame(Buffer.concat([start, params]), 0xa0, items);
};
const frames = [
  cborList("coordinate.addWorkUnits", 120_000_000),
  cborList("coordinate.getWorkUnits", 60_000_000),
  cborList("coordinate.addWorkUnits", 30_000_000),
];

const delay = monitorEventLoopDelay();
delay.enable();
await Promise.all([
  ...Array.from({ length: 8 }, () => pipelines(http, times(4000, lists), "pipelined")),
  ...Array.from({ length: 4 }, () => pipelines(cbor, times(4000, listCall), "pipelined over CBOR")),
  ...Array.from({ length: 4 }, () => pipelines(http, sharedCalls(4000), "over the shared connection")),
  ...Array.from({ length: 100 }, () => pipelinesUnread(http, times(1000, lists), "unread")),
  ...Array.from({ length: 20 }, () => pipelinesUnread(cbor, times(1000, listCall), "unread over CBOR")),
  ...Array.from({ length: 20 }, () => pipelinesUnread(http, sharedCalls(1000), "unread, shared")),
  ...Array.from({ length: 4 }, () => largeBodies(http, bodies, "large bodies")),
  ...Array.from({ length: 2 }, () => largeBodies(cbor, frames, "large frames")),
  silent(http, 3000, "silent"),
  silent(cbor, 1500, "silent over CBOR"),
  drips(http, Buffer.from("GET / HTTP/1.1\r\nHost: localhost\r\nX: "), 100, "dripping headers"),
  drips(
    http,
    Buffer.from(
      "POST /v1/namespace/n/tally HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n",
    ),
    100,
    "dripping bodies",
  ),
  drips(http, sharedCalls(1).subarray(0, -60), 100, "dripping calls"),
  drips(cbor, cborList("coordinate.addWorkUnits", 1000).subarray(0, 100), 100, "dripping frames"),
  watchers(http, 100),
  noise(http),
]);
for (const socket of open) socket.destroy();
done["own longest delay, ms"] = Math.round(delay.max / 1e6);
done["own p50 delay, ms"] = Math.round(delay.percentile(50) / 1e6);
console.log(JSON.stringify(done));
process.exit(0);
