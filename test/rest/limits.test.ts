/** Limits for one caller: pipelines, long bodies, unread responses, idle connections. */
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { encodeData, Engine, override, type Coordinate } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import {
  EventLog,
  eventRoutes,
  listen,
  RestClient,
  restServer,
  streamRoutes,
  type Listener,
  type ListenOptions,
  type RestServerOptions,
} from "../../src/rest/index.ts";
import { LargeRequests } from "../../src/traffic/index.ts";

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(
  given: Partial<RestServerOptions> & {
    wrap?: (engine: Engine) => Coordinate;
    listen?: Partial<ListenOptions>;
  },
): Promise<{ engine: Engine; url: string; dial: () => Promise<Socket>; stop: Listener["stop"] }> {
  const engine = new Engine(new MemoryStore());
  await engine.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
  const { wrap, listen: listening, ...options } = given;
  const { app } = restServer({ coordinate: wrap?.(engine) ?? engine, ...options });
  const listener = await listen(app, { at: { host: "127.0.0.1", port: 0 }, ...listening });
  closing.push(
    () => engine.close(),
    () => listener.stop(0),
  );
  return {
    engine,
    url: listener.url,
    stop: (graceMs) => listener.stop(graceMs),
    dial: async () => {
      const socket = createConnection({ host: "127.0.0.1", port: listener.port });
      closing.push(() => void socket.destroy());
      socket.on("error", () => undefined);
      await once(socket, "connect");
      return socket;
    },
  };
}

const post = (verb: string, body: string): string =>
  `POST /v1/namespace/n/${verb} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

function hear(socket: Socket): () => string {
  let text = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return () => text;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe("pipelines", () => {
  /** A server whose `getNamespace` calls end when the test calls `finish`. */
  async function slow(options: Partial<RestServerOptions> = {}) {
    const running: (() => void)[] = [];
    let started = 0;
    const served = await serve({
      ...options,
      wrap: (engine) =>
        override(engine, {
          getNamespace: async () => {
            started += 1;
            await new Promise<void>((resolve) => running.push(resolve));
            return { name: `answer ${started}`, settings: (await engine.setNamespace("n", {})).settings };
          },
        }),
    });
    return { ...served, started: () => started, finish: () => running.shift()?.() };
  }

  test("requests of one connection run one at a time, and are answered in their order", async () => {
    const { dial, started, finish } = await slow();
    const socket = await dial();
    const heard = hear(socket);
    socket.write(post("get-namespace", "{}").repeat(20));
    await vi.waitUntil(() => started() === 1);
    await sleep(50);
    expect(started()).toBe(1);
    for (let i = 1; i <= 20; i++) {
      await vi.waitUntil(() => started() === i);
      finish();
    }
    await vi.waitUntil(() => heard().includes("answer 20"));
    expect([...heard().matchAll(/answer (\d+)/g)].map(([, number]) => Number(number))).toEqual(
      Array.from({ length: 20 }, (_, i) => i + 1),
    );
  });

  test("what has not started when the connection closes never does", async () => {
    const { dial, started, finish } = await slow();
    const socket = await dial();
    socket.write(post("get-namespace", "{}").repeat(20));
    await vi.waitUntil(() => started() === 1);
    socket.destroy();
    await sleep(50);
    finish();
    await sleep(50);
    expect(started()).toBe(1);
  });

  test("every request is reported once, even if its caller disconnects before the answer", async () => {
    const statuses: number[] = [];
    const { dial, started, finish } = await slow({ onAnswer: ({ status }) => statuses.push(status) });
    const [patient, impatient] = [await dial(), await dial()];
    patient.write(post("get-namespace", "{}"));
    await vi.waitUntil(() => started() === 1);
    finish();
    await vi.waitUntil(() => statuses.length === 1);
    impatient.write(post("get-namespace", "{}"));
    await vi.waitUntil(() => started() === 2);
    impatient.destroy();
    await vi.waitUntil(() => statuses.length === 2);
    finish();
    await sleep(50);
    expect(statuses).toEqual([200, 499]);
  });

  test("a connection that sends a thousand in advance is closed, and others are served", async () => {
    const { dial, started } = await slow();
    const socket = await dial();
    socket.resume();
    socket.write(post("get-namespace", "{}").repeat(1000));
    await vi.waitUntil(() => socket.closed, 5000);
    expect(started()).toBeLessThanOrEqual(1);
    const other = await dial();
    const heard = hear(other);
    other.write(post("tally", "{}"));
    await vi.waitUntil(() => heard().includes("200 OK"));
  });

  test("large requests of many connections take turns; small ones pass them", async () => {
    let running = 0;
    let max = 0;
    const { dial } = await serve({
      wrap: (engine) =>
        override(engine, {
          listWorkUnits: async () => {
            max = Math.max(max, ++running);
            await sleep(20);
            running -= 1;
            return { rows: [], next: null };
          },
        }),
    });
    const all = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const socket = await dial();
        const heard = hear(socket);
        socket.write(post("list-work-units", '{"workSpec":"s"}'));
        return heard;
      }),
    );
    const quick = await dial();
    const heard = hear(quick);
    quick.write(post("tally", "{}"));
    await vi.waitUntil(() => heard().includes("200 OK"));
    expect(all.filter((one) => one() !== "").length).toBeLessThan(30);
    await vi.waitUntil(() => all.every((one) => one().includes("200 OK")), 10_000);
    expect(max).toBe(2);
  });
});

describe("a connection that has read much", () => {
  const waits = {
    awaitWorkUnits: (client: Coordinate) =>
      client.awaitWorkUnits("n", "s", ["open"], { waitMs: 60_000, signal: stop.signal }),
    takeMessages: (client: Coordinate) =>
      client.takeMessages("n", "q", { waitMs: 60_000, signal: stop.signal }),
    requestAttempts: (client: Coordinate) =>
      client.requestAttempts("n", { worker: "w", tasks: ["none"], waitMs: 60_000, signal: stop.signal }),
  };
  let stop: AbortController;

  test.each([
    ["the shared connection", {}],
    ["HTTP", { oneConnection: false }],
  ])("holds no turn while it waits, over %s", async (_over, options) => {
    stop = new AbortController();
    const { engine, url } = await serve({});
    const names = Array.from({ length: 200 }, (_, i) => ({ name: `u${i}` }));
    const big = { name: "big", data: encodeData({ x: "x".repeat(10 * 2 ** 20) }) };
    await engine.addWorkUnits("n", "s", [...names, { name: "open" }, big]);
    const [greedy, honest] = [new RestClient(url, options), new RestClient(url, options)];
    closing.push(
      () => greedy.close(),
      () => honest.close(),
    );
    // one connection each, so that the next requests reuse the costly ones
    const held = [];
    for (const wait of Object.values(waits)) {
      await greedy.getWorkUnits("n", "s", ["big"]);
      held.push(wait(greedy));
      await sleep(50);
    }
    const took: number[] = [];
    for (let i = 0; i < 100; i++) {
      const start = performance.now();
      await honest.listWorkUnits("n", "s", { prefix: "u", limit: 200 });
      await greedy.tally("n");
      took.push(performance.now() - start);
    }
    took.sort((a, b) => a - b);
    expect(took[98]).toBeLessThan(500);
    stop.abort();
    await Promise.all(held);
  });

  test("holds no turn while it streams events", async () => {
    const { engine, url } = await serve({ routes: eventRoutes(new EventLog()) });
    await engine.addWorkUnits("n", "s", [{ name: "big", data: encodeData({ x: "x".repeat(10 * 2 ** 20) }) }]);
    const client = new RestClient(url, { oneConnection: false });
    closing.push(() => client.close());
    const streams: Promise<unknown>[] = [];
    for (let i = 0; i < 2; i++) {
      await client.getWorkUnits("n", "s", ["big"]);
      await new Promise<void>((onOpen) => void streams.push(client.events("n", { onOpen }).next()));
    }
    expect((await client.listWorkUnits("n", "s", { prefix: "u", limit: 200 })).rows).toEqual([]);
    await client.close();
    await Promise.all(streams);
  });
});

test("a long body that waits for room holds no turn", async () => {
  let asked = 0;
  const { engine, dial } = await serve({
    wrap: (engine) =>
      override(engine, {
        addWorkUnits: (...args) => {
          asked += 1;
          return engine.addWorkUnits(...args);
        },
      }),
  });
  await engine.setWorkSpecs("n", [{ data: encodeData({ name: "full", max_waiting: 1 }) }]);
  await engine.addWorkUnits("n", "full", [{ name: "first" }]);
  const add = (name: string): string =>
    `{"workSpec":"full","waitMs":60000,"units":[{"name":"${name}","data":{"x":"${"x".repeat(300_000)}"}}]}`;
  for (const name of ["second", "third"]) (await dial()).write(post("add-work-units", add(name)));
  await vi.waitUntil(() => asked === 2);
  const other = await dial();
  const heard = hear(other);
  other.write(post("list-work-units", '{"workSpec":"s"}'));
  await vi.waitUntil(() => heard().includes("200 OK"), 5000);
});

test.each([
  ["the shared connection", {}],
  ["HTTP", { oneConnection: false }],
])("a large answer to a wait is sent in turn, over %s", async (_over, options) => {
  const large = new LargeRequests({ atOnce: 1 });
  const { engine, url } = await serve({ large });
  const names = Array.from({ length: 200 }, (_, i) => `u${i}`);
  await engine.addWorkUnits(
    "n",
    "s",
    names.map((name) => ({ name })),
  );
  await engine.cancelWorkUnits("n", "s", { all: true });
  const client = new RestClient(url, options);
  closing.push(() => client.close());
  let end = (): void => undefined;
  const other = large.turn({}, () => new Promise<void>((resolve) => (end = resolve)));
  let answered = false;
  const answer = client.awaitWorkUnits("n", "s", names, { waitMs: 60_000 }).finally(() => (answered = true));
  expect(await client.awaitWorkUnits("n", "s", ["u1"], { waitMs: 60_000 })).toHaveLength(1);
  await sleep(50);
  expect(answered).toBe(false);
  end();
  await other;
  expect(await answer).toHaveLength(200);
});

test("long answers to callers that have disconnected are not counted", async () => {
  const answer: (() => void)[] = [];
  const closed: Promise<unknown>[] = [];
  const { dial } = await serve({
    large: new LargeRequests({ maxAnswerBytes: 100_000 }),
    routes: [
      {
        id: "long",
        method: "GET",
        path: "/long",
        scope: "open",
        family: "daemon",
        summary: "",
        handle: async ({ reply }) => {
          closed.push(once(reply.raw, "close"));
          await new Promise<void>((resolve) => answer.push(resolve));
          return "x".repeat(60_000);
        },
      },
    ],
  });
  for (let i = 1; i <= 3; i++) {
    const socket = await dial();
    socket.write("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await vi.waitUntil(() => answer.length === i);
    socket.destroy();
  }
  await Promise.all(closed);
  for (const one of answer) one();
  const other = await dial();
  const heard = hear(other);
  other.write(post("list-work-units", '{"workSpec":"s"}'));
  await vi.waitUntil(() => heard().includes("200 OK"), 2000);
});

describe("long bodies", () => {
  const long = (item: string, count: number): string =>
    `{"workSpec":"s","units":[${`${item},`.repeat(count - 1)}${item}]}`;

  test("items are counted while they are read", async () => {
    const { dial } = await serve({ maxItems: 10_000 });
    for (const [body, said] of [
      [long("{}", 8_000_000), "units: more than 10000 items"],
      [long("[1,2,3]", 3_000_000), "units: more than 10000 items"],
      [`{"workSpec":"s","units":[${`[${"1,".repeat(9999)}1],`.repeat(150)}1]}`, "more than 1000000 values"],
    ] as const) {
      const socket = await dial();
      const heard = hear(socket);
      const before = process.memoryUsage().heapUsed;
      socket.write(post("add-work-units", body));
      await vi.waitUntil(() => heard().includes(said), 20_000);
      expect(heard()).toMatch(/^HTTP\/1.1 413 /);
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(250e6);
    }
  });

  test("the event loop turns while a long body is read", async () => {
    const { dial, engine } = await serve({ maxItems: 100_000 });
    const socket = await dial();
    const heard = hear(socket);
    const filler = "x".repeat(200);
    let serial = 0;
    const units = Array.from({ length: 50_000 }, () => `{"name":"${serial++}","data":{"f":"${filler}"}}`);
    const reading = vi.spyOn(engine, "addWorkUnits");
    socket.write(post("add-work-units", `{"workSpec":"s","units":[${units.join(",")}]}`));
    let turns = 0;
    let received = false;
    while (reading.mock.calls.length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      // count turns only after everything has been sent, when the server only reads
      if (socket.writableLength === 0) received = true;
      if (received) turns += 1;
    }
    // 13 MB, read in chunks of 256 kB
    expect(turns).toBeGreaterThan(20);
    await vi.waitUntil(() => heard().includes("200 OK"), 20_000);
  });

  test("bodies that are under way are bounded over all connections", async () => {
    const { dial } = await serve({ maxBodyBytesHeld: 1_000_000, maxBodyBytes: 10_000_000 });
    const start = (await dial()).setNoDelay();
    const head = (length: number): string =>
      `POST /v1/namespace/n/tally HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
    start.write(head(5_000_000) + " ".repeat(900_000));
    await sleep(200);
    const other = await dial();
    const heard = hear(other);
    other.write(head(300_000) + " ".repeat(299_998) + "{}");
    await vi.waitUntil(() => heard().includes("\r\n\r\n"), 5000);
    expect(heard()).toMatch(/^HTTP\/1.1 503 /);
    expect(heard()).toContain('"code":"overloaded"');
    expect(heard().toLowerCase()).toContain("retry-after: 1");
    // the bytes of the first connection are free after it has closed
    start.destroy();
    await sleep(100);
    const again = await dial();
    const later = hear(again);
    again.write(head(300_000) + " ".repeat(299_998) + "{}");
    await vi.waitUntil(() => later().includes("\r\n\r\n"), 5000);
    expect(later()).toMatch(/^HTTP\/1.1 200 /);
  });

  test("an unknown path is refused before its body is read", async () => {
    const { dial } = await serve({});
    const socket = await dial();
    const heard = hear(socket);
    socket.write(post("no-such-verb", " ".repeat(100_000) + "{}"));
    await vi.waitUntil(() => heard().includes("No such path"));
    expect(heard()).toMatch(/^HTTP\/1.1 404 /);
  });

  test("a load whose caller disconnects is no bug", async () => {
    const bugs: unknown[] = [];
    const statuses: number[] = [];
    const { dial } = await serve({
      routes: streamRoutes(),
      onAnswer: ({ status }) => statuses.push(status),
      onBug: (error) => bugs.push(error),
    });
    const socket = await dial();
    socket.write(
      "POST /v1/namespace/n/work-spec/s/work-units HTTP/1.1\r\nHost: localhost\r\n" +
        'Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{"name":"u"}\n',
    );
    await sleep(50);
    socket.destroy();
    await vi.waitUntil(() => statuses.length === 1);
    await sleep(50);
    expect(bugs).toEqual([]);
  });

  test("a key of the envelope that is there twice", async () => {
    const { dial } = await serve({});
    const socket = await dial();
    const heard = hear(socket);
    socket.write(post("get-work-units", '{"workSpec":"s","names":[],"workSpec":"t"}'));
    await vi.waitUntil(() => heard().includes("repeated key"));
    expect(heard()).toMatch(/^HTTP\/1.1 400 /);
  });
});

describe("silence", () => {
  test("headers that do not come end the connection soon after their time", async () => {
    const { dial } = await serve({ listen: { headersMs: 400 } });
    const [silent, dripping] = [await dial(), await dial()];
    for (const socket of [silent, dripping]) socket.resume();
    const start = performance.now();
    const drip = setInterval(() => dripping.write("x"), 50);
    dripping.write("GET / HTTP/1.1\r\nX: ");
    await vi.waitUntil(() => silent.closed && dripping.closed, 10_000);
    clearInterval(drip);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  test("two Host headers", async () => {
    const { dial } = await serve({});
    const socket = await dial();
    const heard = hear(socket);
    socket.write("GET / HTTP/1.1\r\nHost: localhost\r\nhost: 127.0.0.1\r\n\r\n");
    await vi.waitUntil(() => heard().includes("Host: repeated header"));
    expect(heard()).toMatch(/^HTTP\/1.1 400 /);
  });
});

test("a stop ends in time although the clock is set back", async () => {
  const { dial, stop } = await serve({});
  const socket = await dial();
  socket.write(post("tally", "{}").slice(0, -1));
  await sleep(50);
  let isOver = false;
  const stopped = stop(2200).then(() => (isOver = true));
  const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() - 3_600_000);
  await vi.waitUntil(() => isOver, 10_000).finally(() => clock.mockRestore());
  await stopped;
});

test("a health check of HTTP/1.0 needs no Host", async () => {
  const { dial } = await serve({});
  const socket = await dial();
  const heard = hear(socket);
  socket.write("GET / HTTP/1.0\r\n\r\n");
  await vi.waitUntil(() => heard().includes("}"));
  expect(heard()).toMatch(/^HTTP\/1.1 200 /);
});

describe("events", () => {
  test("what is kept of them is bounded in characters, and a watcher is told what it missed", async () => {
    const log = new EventLog({ maxCharacters: 10_000 });
    const stop = new AbortController();
    const watcher = log.watch("n", undefined, stop.signal);
    await watcher.next();
    const event = {
      type: "workUnits" as const,
      verb: "addWorkUnits",
      time: 1,
      items: () => ["x".repeat(1000)],
    };
    for (let i = 0; i < 8; i++) log.add("n", event);
    let got = "";
    while (!got.includes(".8\n")) got += String((await watcher.next()).value);
    expect(got.match(/addWorkUnits/g)?.length).toBe(8);
    for (let i = 0; i < 100; i++) log.add("n", event);
    expect((await watcher.next()).value).toContain("reset");
    stop.abort();
  });

  test("a watcher whose token was revoked is disconnected", async () => {
    let isValid = true;
    const identity = { id: "t", may: () => isValid, somewhere: () => isValid };
    const log = new EventLog();
    const { dial } = await serve({ access: { identify: () => identity }, routes: eventRoutes(log, 20) });
    const socket = await dial();
    const heard = hear(socket);
    socket.write("GET /v1/namespace/n/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await vi.waitUntil(() => heard().includes(": ping"));
    isValid = false;
    await vi.waitUntil(() => socket.closed && log.watchers === 0);
  });

  test("a watcher who does not read is sent no more than a piece", async () => {
    const log = new EventLog();
    const { dial } = await serve({ routes: eventRoutes(log) });
    const socket = await dial();
    socket.pause();
    socket.write("GET /v1/namespace/n/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await vi.waitUntil(() => log.watchers === 1);
    const before = process.memoryUsage().rss;
    const event = {
      type: "workUnits" as const,
      verb: "addWorkUnits",
      time: 1,
      items: () => ["x".repeat(100_000)],
    };
    for (let i = 0; i < 3000; i++) {
      log.add("n", event);
      if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(250e6);
  });
});
