/** Many requests over one connection: what both sides promise, and what a hostile caller gets. */
import { Buffer } from "node:buffer";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { createConnection, createServer as createTcpServer, Socket } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import type { FastifyRequest } from "fastify";
import { afterEach, describe, expect, test, vi } from "vitest";
import { encodeData, Engine, override, type Coordinate } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import {
  HttpError,
  includesScope,
  listen,
  RestClient,
  restServer,
  type Access,
  type Answered,
  type Identity,
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
  } = {},
) {
  const engine = new Engine(new MemoryStore());
  await engine.setWorkSpecs("n", [{ data: encodeData({ name: "s", runtime: "node" }) }]);
  const { wrap, listen: listening, ...options } = given;
  let connections = 0;
  const { app } = restServer({ coordinate: wrap?.(engine) ?? engine, ...options });
  const sockets: Socket[] = [];
  app.addHook("onRequest", async ({ raw }) => {
    if (!sockets.includes(raw.socket)) sockets.push(raw.socket);
  });
  const listener = await listen(app, {
    at: { host: "127.0.0.1", port: 0 },
    onConnection: () => (connections += 1),
    ...listening,
  });
  closing.push(
    () => engine.close(),
    () => listener.stop(0),
  );
  const client = (options: { token?: string } = {}): RestClient => {
    const one = new RestClient(listener.url, { ...options, retries: 0 });
    closing.push(() => one.close());
    return one;
  };
  return { engine, listener, client, sockets, connections: () => connections };
}

/** A caller that writes what it likes. */
async function open(port: number, headers: Record<string, string> = {}) {
  const request = httpRequest({
    port,
    method: "POST",
    path: "/v1/calls",
    agent: false,
    headers: { "content-type": "application/x-coordinate-calls", ...headers },
  });
  request.on("error", () => undefined);
  closing.push(() => void request.destroy());
  request.flushHeaders();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  let heard = "";
  response.setEncoding("utf8").on("data", (chunk: string) => (heard += chunk));
  response.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  await vi.waitFor(() => expect(heard).toMatch(/^ready\n/));
  return { request, response, heard: () => heard, closed };
}

const frame = (words: string, text: string): string => `${words} ${Buffer.byteLength(text)}\n${text}`;
const tally = (number: number): string => frame(`${number} /v1/namespace/n/tally`, "{}");

test("a hundred requests share one connection, and a wait among them holds up none", async () => {
  const { client, engine, connections } = await serve();
  const coordinate = client();
  const waiting = coordinate.requestAttempts("n", { worker: "w", runtimes: ["node"], waitMs: 60_000 });
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      coordinate.addWorkUnits("n", "s", [{ name: `u${i}`, data: encodeData({ i }) }]),
    ),
  );
  expect(await waiting).toMatchObject([{ workUnit: "u0" }]);
  const [row] = await coordinate.tally("n");
  expect(row?.counts).toMatchObject({ available: 99, pending: 1 });
  expect(connections()).toBe(1);
});

test("in one turn the request that waited is answered before the one that added the unit", async () => {
  const { listener, engine } = await serve();
  const worker = await open(listener.port);
  const adder = await open(listener.port);
  const order: string[] = [];
  worker.request.write(
    frame("1 /v1/namespace/n/request-attempts", '{"worker":"w","runtimes":["node"],"waitMs":60000}'),
  );
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  // called with its socket below
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const { write } = Socket.prototype;
  const spied = vi.spyOn(Socket.prototype, "write").mockImplementation(function (this: Socket, ...args) {
    const text = String(args[0]);
    if (text.includes('"workUnit":"u"')) order.push("worker");
    else if (text.includes('"created":true')) order.push("adder");
    return Reflect.apply(write, this, args);
  });
  try {
    adder.request.write(frame("1 /v1/namespace/n/add-work-units", '{"workSpec":"s","units":[{"name":"u"}]}'));
    await vi.waitFor(() => expect(order).toHaveLength(2));
  } finally {
    spied.mockRestore();
  }
  expect(order).toEqual(["worker", "adder"]);
  await vi.waitFor(() => expect(adder.heard()).toContain('"created":true'));
  expect(worker.heard()).toContain('"workUnit":"u"');
});

test("data is the text that it was, line ends included", async () => {
  const { client, connections } = await serve();
  const data = '{"a":\n 1.0,\r\n "é":"\\n"}';
  await client().addWorkUnits("n", "s", [{ name: "u", data: data as ReturnType<typeof encodeData> }]);
  const [row] = await client().getWorkUnits("n", "s", ["u"]);
  expect(row?.data).toBe(data);
  expect(connections()).toBe(2);
});

test("a long request goes by itself", async () => {
  const { client, connections } = await serve();
  const coordinate = client();
  await coordinate.tally("n");
  await coordinate.addWorkUnits("n", "s", [{ name: "u", data: encodeData({ long: "x".repeat(100_000) }) }]);
  const [row] = await coordinate.getWorkUnits("n", "s", ["u"]);
  expect(row?.data).toHaveLength(100_011);
  expect(connections()).toBe(2);
});

test("a long answer that was taken leaves no limit on silence behind", async () => {
  const { client, engine, sockets } = await serve();
  await engine.addWorkUnits("n", "s", [{ name: "u", data: encodeData({ long: "x".repeat(100_000) }) }]);
  const coordinate = client();
  await coordinate.getWorkUnits("n", "s", ["u"]);
  await vi.waitFor(() => expect(sockets.map(({ timeout }) => timeout ?? 0)).toEqual([0]));
});

test("a long answer to a caller that has disconnected is not counted", async () => {
  const { client, sockets } = await serve({
    large: new LargeRequests({ maxAnswerBytes: 100_000 }),
    wrap: (engine) =>
      override(engine, {
        listNamespaces: async () => {
          const { settings } = await engine.setNamespace("n", {});
          // the answer is written before the response learns that its socket is gone
          for (const socket of sockets) socket.destroy();
          return [{ name: "x".repeat(60_000), settings }];
        },
      }),
  });
  for (let i = 0; i < 3; i++) await expect(client().listNamespaces()).rejects.toThrow();
  expect((await client().listWorkUnits("n", "s", { limit: 200 })).rows).toEqual([]);
});

test("a wait that is cancelled ends, and the connection goes on", async () => {
  const { client, engine, connections } = await serve();
  const coordinate = client();
  const controller = new AbortController();
  const waiting = coordinate.requestAttempts("n", {
    worker: "w",
    runtimes: ["node"],
    waitMs: 60_000,
    signal: controller.signal,
  });
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  controller.abort();
  expect(await waiting).toEqual([]);
  expect(engine.waiting).toBe(0);
  await coordinate.tally("n");
  expect(connections()).toBe(1);
});

test("what a caller was given who has gone is given back, untried", async () => {
  const { client, engine } = await serve();
  const coordinate = client();
  const waiting = coordinate.requestAttempts("n", { worker: "w", runtimes: ["node"], waitMs: 60_000 });
  const ended = expect(waiting).rejects.toThrow();
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  await coordinate.close();
  await ended;
  await vi.waitFor(() => expect(engine.waiting).toBe(0));
  await engine.addWorkUnits("n", "s", [{ name: "u", data: encodeData({}) }]);
  const attempts = await engine.requestAttempts("n", { worker: "v", runtimes: ["node"] });
  expect(attempts).toMatchObject([{ workUnit: "u", number: 1 }]);
});

test.each([
  ["a wait", "request-attempts", '{"worker":"w","runtimes":["node"],"waitMs":60000}'],
  ["another request", "tally", "{}"],
])("%s with the number of a wait ends the connection, and the wait", async (_, verb, body) => {
  const { listener, engine } = await serve();
  const caller = await open(listener.port);
  const wait = '{"worker":"w","runtimes":["node"],"waitMs":60000}';
  caller.request.write(frame("5 /v1/namespace/n/request-attempts", wait));
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  caller.request.write(frame(`5 /v1/namespace/n/${verb}`, body));
  await caller.closed;
  await vi.waitFor(() => expect(engine.waiting).toBe(0));
});

describe("who asks", () => {
  const withdrawn = new Set<string>();
  const access: Access = {
    identify: (request: FastifyRequest): Identity => {
      const [, token = ""] = /^Bearer (.*)$/.exec(request.headers.authorization ?? "") ?? [];
      if (token === "" || withdrawn.has(token)) throw new HttpError("unauthorized", "This needs a token");
      const [scope = "", namespace = ""] = token.split("@");
      return {
        id: token,
        may: (wanted, ns) => includesScope([scope as "read"], wanted) && ns === namespace,
        somewhere: (wanted) => includesScope([scope as "read"], wanted),
      };
    },
  };

  test("is asked of every request: scope, namespace, and whether the token still holds", async () => {
    const answered: Answered[] = [];
    const { client, connections } = await serve({ access, onAnswer: (one) => answered.push(one) });
    const reader = client({ token: "read@n" });
    await reader.tally("n");
    await expect(reader.tally("other")).rejects.toThrow("scope read in that namespace");
    await expect(reader.addWorkUnits("n", "s", [])).rejects.toThrow("scope write");
    expect(await reader.listNamespaces()).toMatchObject([{ name: "n" }]);
    withdrawn.add("read@n");
    await expect(reader.tally("n")).rejects.toThrow("needs a token");
    expect(connections()).toBe(1);
    expect(
      answered.map(({ route, ns, identity, status }) => [route?.id, ns, identity?.id ?? null, status]),
    ).toEqual([
      ["tally", "n", "read@n", 200],
      ["tally", "other", "read@n", 403],
      ["addWorkUnits", "n", "read@n", 403],
      ["listNamespaces", "", "read@n", 200],
      ["tally", "n", null, 401],
    ]);
  });

  test("nobody without a token is answered", async () => {
    const { client } = await serve({ access });
    await expect(client().tally("n")).rejects.toThrow("needs a token");
  });
});

describe("bad input", () => {
  test.each([
    ["no number of bytes", "1 /v1/namespace/n/tally x\n{}"],
    ["a line without end", "1 /" + "x".repeat(40_000)],
    ["a text that is too long", "1 /v1/namespace/n/tally 65537\n"],
    ["a number that is none", frame("x /v1/namespace/n/tally", "{}")],
    ["invalid UTF-8", Buffer.concat([Buffer.from("1 /v1/namespace/n/tally 2\n"), Buffer.of(0xff, 0xfe)])],
  ])("%s ends the connection", async (_, bytes) => {
    const { listener, client } = await serve();
    const caller = await open(listener.port);
    caller.request.write(bytes);
    await caller.closed;
    expect(await client().tally("n")).toHaveLength(1);
  });

  test.each([
    ["another path", frame("1 /metrics", "{}"), /^1 404 .*"not_found"/s],
    ["no namespace of that form", frame("1 /v1/namespace/%zz/tally", "{}"), /^1 400 /],
    ["what is no JSON", frame("1 /v1/namespace/n/tally", "{"), /^1 400 .*"bad_argument"/s],
    ["what is no object", frame("1 /v1/namespace/n/tally", "null"), /^1 400 /],
    ["a field that is not there", frame("1 /v1/namespace/n/tally", '{"x":1}'), /unknown field/],
  ])("%s is refused, and the next request is served", async (_, bytes, said) => {
    const { listener } = await serve();
    const caller = await open(listener.port);
    caller.request.write(bytes);
    await vi.waitFor(() => expect(caller.heard().slice("ready\n".length)).toMatch(said));
    caller.request.write(tally(2));
    await vi.waitFor(() => expect(caller.heard()).toMatch(/2 200 \d+\n\[/));
  });

  test("bytes one by one are a request", async () => {
    const { listener } = await serve();
    const caller = await open(listener.port);
    for (const byte of Buffer.from(tally(7) + tally(8))) {
      caller.request.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    await vi.waitFor(() => expect(caller.heard()).toMatch(/7 200 [\s\S]*8 200 /));
  });

  test("a caller that does not read is not read from either", async () => {
    let asked = 0;
    const { listener, engine } = await serve({
      wrap: (engine) =>
        override(engine, {
          listWorkUnits: (...args) => {
            asked += 1;
            return engine.listWorkUnits(...args);
          },
        }),
    });
    await engine.addWorkUnits(
      "n",
      "s",
      Array.from({ length: 50 }, (_, i) => ({ name: `u${i}`, data: encodeData({ x: "x".repeat(10_000) }) })),
    );
    const { request, response } = await open(listener.port);
    response.pause();
    for (let i = 0; i < 2000; i++)
      request.write(frame(`${i} /v1/namespace/n/list-work-units`, '{"workSpec":"s","limit":50}'));
    await vi.waitFor(() => expect(asked).toBeGreaterThan(2));
    await new Promise((resolve) => setTimeout(resolve, 500));
    // half a megabyte each: all of them would be a gigabyte
    expect(asked).toBeLessThan(300);
  });

  test("one that asks nothing makes room for others", async () => {
    const { listener, client } = await serve({ listen: { maxConnections: 2 } });
    const first = await open(listener.port);
    const second = await open(listener.port);
    expect(await client().tally("n")).toHaveLength(1);
    await Promise.race([first.closed, second.closed]);
  });
});

describe("a server that cannot", () => {
  test("is asked by requests for themselves: one of an earlier version", async () => {
    const paths: string[] = [];
    const server = createServer((request, response) => {
      paths.push(request.url ?? "");
      request.resume();
      const known = request.url?.startsWith("/v1/namespace/n/") === true;
      response.writeHead(known ? 200 : 404, { "content-type": "application/json" }).end(known ? "[]" : "{}");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    closing.push(() => void server.close());
    const client = new RestClient(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
    closing.push(() => client.close());
    expect(await client.tally("n")).toEqual([]);
    expect(await client.tally("n")).toEqual([]);
    expect(paths).toEqual(["/v1/calls", "/v1/namespace/n/tally", "/v1/namespace/n/tally"]);
  });

  test("or one behind a proxy that keeps back a body until it ends", async () => {
    const { listener } = await serve();
    const proxy = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("error", () => undefined);
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { method, url, headers } = request;
        const onward: ClientRequest = httpRequest(
          { port: listener.port, method, path: url, headers: { ...headers, connection: "close" } },
          (answer) => {
            response.writeHead(answer.statusCode ?? 500, answer.headers);
            answer.pipe(response);
          },
        );
        onward.end(Buffer.concat(chunks));
      });
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    closing.push(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    const client = new RestClient(`http://127.0.0.1:${(proxy.address() as { port: number }).port}`);
    closing.push(() => client.close());
    expect(await client.tally("n")).toHaveLength(1);
    expect(await client.tally("n")).toHaveLength(1);
  });
});

test("a server that was too busy to open the shared connection is asked for it again, ever more rarely", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  closing.push(() => void vi.useRealTimers());
  let asked = 0;
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === "/v1/calls") asked += 1;
    else response.writeHead(200, { "content-type": "application/json" }).end("[]");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = new RestClient(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
  closing.push(
    () => void server.close(),
    () => server.closeAllConnections(),
    () => client.close(),
  );
  const tallyWhileTried = async (tries: number): Promise<void> => {
    const tally = client.tally("n");
    while (asked < tries) await new Promise(setImmediate);
    await vi.advanceTimersByTimeAsync(2000);
    expect(await tally).toEqual([]);
  };
  await tallyWhileTried(1);
  expect(await client.tally("n")).toEqual([]);
  await vi.advanceTimersByTimeAsync(60_000);
  await tallyWhileTried(2);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await client.tally("n")).toEqual([]);
  expect(asked).toBe(2);
  await vi.advanceTimersByTimeAsync(180_000);
  await tallyWhileTried(3);
});

test("a connection that breaks is made anew, and what was under way is sent again", async () => {
  const { listener, engine } = await serve();
  const through = new Set<Socket>();
  const relay = createTcpServer((socket) => {
    through.add(socket);
    const upstream = createConnection({ port: listener.port, host: "127.0.0.1" });
    socket.pipe(upstream).pipe(socket);
    for (const one of [socket, upstream]) one.on("error", () => undefined);
    socket.once("close", () => upstream.destroy());
  }).listen(0, "127.0.0.1");
  await once(relay, "listening");
  closing.push(
    () => {
      for (const socket of through) socket.destroy();
    },
    () => void relay.close(),
  );
  const client = new RestClient(`http://127.0.0.1:${(relay.address() as { port: number }).port}`, {
    backoffMs: 1,
  });
  closing.push(() => client.close());
  const warned = vi.fn();
  process.on("warning", warned);
  closing.push(() => void process.off("warning", warned));
  const names = Array.from({ length: 20 }, (_, i) => `u${i}`);
  const waiting = names.map((worker) =>
    client.requestAttempts("n", { worker, runtimes: ["node"], waitMs: 60_000 }),
  );
  await vi.waitFor(() => expect(engine.waiting).toBe(20));
  for (const socket of through) socket.destroy();
  await vi.waitFor(() => expect(through.size).toBeGreaterThan(1));
  await client.addWorkUnits(
    "n",
    "s",
    names.map((name) => ({ name, data: encodeData({}) })),
  );
  const given = (await Promise.all(waiting)).flat().map(({ workUnit }) => workUnit);
  expect(given.sort()).toEqual(names.sort());
  // of listeners that add up, for one
  expect(warned).not.toHaveBeenCalled();
});

test("a request that is not answered in time fails alone, and the next ones use another connection", async () => {
  let stuck: () => void = () => undefined;
  const { listener, engine, connections } = await serve({
    wrap: (engine) =>
      override(engine, {
        getNamespace: async (...args) => {
          await new Promise<void>((resolve) => (stuck = resolve));
          return engine.getNamespace(...args);
        },
      }),
  });
  const client = new RestClient(listener.url, { retries: 0, timeoutMs: 300 });
  closing.push(() => client.close());
  const waiting = client.requestAttempts("n", { worker: "w", runtimes: ["node"], waitMs: 60_000 });
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  await expect(client.getNamespace("n")).rejects.toThrow("no answer within 300 ms");
  await client.addWorkUnits("n", "s", [{ name: "u", data: encodeData({}) }]);
  expect(await waiting).toMatchObject([{ workUnit: "u" }]);
  expect(connections()).toBe(2);
  stuck();
});

test("more waits than the connection takes leave it open for other requests", async () => {
  const { client, engine, connections } = await serve();
  const coordinate = client();
  const controller = new AbortController();
  const waits = Array.from({ length: 600 }, (_, i) =>
    coordinate.requestAttempts("n", {
      worker: `w${i}`,
      runtimes: ["node"],
      waitMs: 60_000,
      signal: controller.signal,
    }),
  );
  await vi.waitFor(() => expect(engine.waiting).toBe(600), { timeout: 20_000 });
  // 512 share one connection, the others have one each
  expect(connections()).toBe(1 + 88);
  expect(await coordinate.tally("n")).toHaveLength(1);
  controller.abort();
  expect((await Promise.all(waits)).flat()).toEqual([]);
});

test("a stop ends waits with an answer, and refuses what comes later as not done", async () => {
  const stopping = new AbortController();
  const { listener, engine } = await serve({ stopping: stopping.signal });
  const caller = await open(listener.port);
  const wait = '{"worker":"w","runtimes":["node"],"waitMs":60000}';
  caller.request.write(frame("5 /v1/namespace/n/request-attempts", wait));
  await vi.waitFor(() => expect(engine.waiting).toBe(1));
  stopping.abort();
  await caller.closed;
  expect(caller.heard()).toBe("ready\n5 200 2\n[]");
});

test("an idle connection does not keep a process", async () => {
  const { listener } = await serve();
  const program = `
    import { RestClient } from "${path.resolve("src/rest/index.ts")}";
    const client = new RestClient("${listener.url}");
    console.log((await client.tally("n")).length);
  `;
  const run = promisify(execFile)(process.execPath, [
    "--disable-warning=ExperimentalWarning",
    "--import",
    path.resolve("examples/typescript.mjs"),
    "--input-type=module",
    "--eval",
    program,
  ]);
  expect((await run).stdout.trim()).toBe("1");
});
