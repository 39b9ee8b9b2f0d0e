/** Invalid input: every response is a typed JSON error with the right status, and other clients are not affected. */
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { listen, RestClient, restServer, streamRoutes, type Listener } from "../../src/rest/index.ts";

let engine: Engine;
let listener: Listener;
let client: RestClient;
let server: ReturnType<typeof restServer>;
const bugs: unknown[] = [];

beforeAll(async () => {
  engine = new Engine(new MemoryStore());
  server = restServer({
    coordinate: engine,
    routes: streamRoutes(),
    maxBodyBytes: 1_000_000,
    onBug: (error) => bugs.push(error),
  });
  listener = await listen(server.app, { at: { host: "127.0.0.1", port: 0 }, bodyMs: 500, headersMs: 500 });
  client = new RestClient(listener.url);
  await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
});

afterAll(async () => {
  await client.close();
  await listener.stop(100);
  await server.app.close();
  await engine.close();
  expect(bugs).toEqual([]);
});

const open = async (): Promise<Socket> => {
  const socket = createConnection({ host: "127.0.0.1", port: listener.port });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return socket;
};

/** Sends bytes and returns what comes back until the connection ends or is silent for 100 ms. */
async function raw(...pieces: (string | Buffer)[]): Promise<string> {
  const socket = await open();
  let got = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (got += chunk));
  for (const piece of pieces) socket.write(piece);
  const ended = once(socket, "close");
  for (let length = -1; length !== got.length || length === 0;) {
    length = got.length;
    if (
      await Promise.race([
        ended.then(() => true),
        new Promise<false>((resolve) => setTimeout(() => resolve(false), 100)),
      ])
    )
      break;
  }
  socket.destroy();
  return got;
}

const post = (path: string, body: string | Buffer, type = "application/json"): (string | Buffer)[] => [
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`,
  body,
];

const add = "/v1/namespace/n/add-work-units";

describe("bodies", () => {
  test.each([
    ["malformed JSON", '{"units":[', 400],
    ["more than one value", "{}{}", 400],
    ["a list", "[]", 400],
    ["a text", '"x"', 400],
    ["objects nested 100,000 deep", '{"units":'.repeat(100_000), 400],
    [
      "lists nested 100,000 deep in data",
      `{"workSpec":"s","units":[{"name":"u","data":{"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}}]}`,
      400,
    ],
    ["data that is a list", '{"workSpec":"s","units":[{"name":"u","data":[]}]}', 400],
    ["invalid UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 400],
    ["a number that is none", '{"workSpec":"s","units":[{"name":"u","priority":1e999}]}', 400],
    ["a control character in a text", '{"workSpec":"s\u0001"}', 400],
    ["an unknown field", '{"workSpec":"s","units":[],"unit":1}', 400],
    ["a lone surrogate that stands for no byte", '{"workSpec":"s","units":[{"name":"\\ud800"}]}', 400],
    ["__proto__", '{"__proto__":{"workSpec":"s"},"units":[]}', 400],
    ["no body", "", 400],
    ["a name of 5,000 bytes", `{"workSpec":"s","units":[{"name":"${"x".repeat(5000)}"}]}`, 413],
    ["a million bytes too many", `{"workSpec":"s","units":[{"name":"${"x".repeat(1_000_000)}"}]}`, 413],
  ])("%s", async (_what, body, status) => {
    const got = await raw(...post(add, body));
    expect(got).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(got.split("\r\n\r\n")[1] ?? "")).toHaveProperty("code");
  });

  test("keys like __proto__ in data are data", async () => {
    const data = '{"__proto__":{"polluted":1},"constructor":2,"a":1.0,"a":2.0}';
    expect(await raw(...post(add, `{"workSpec":"s","units":[{"name":"p","data":${data}}]}`))).toMatch(
      /^HTTP\/1.1 200 /,
    );
    const [row] = await client.getWorkUnits("n", "s", ["p"]);
    expect(row?.data).toBe(data);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test("a body that says it has 2 GB is refused before it is sent", async () => {
    const got = await raw(
      `POST ${add} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2147483648\r\n\r\n{`,
    );
    expect(got).toMatch(/^HTTP\/1.1 413 /);
  });

  test("a chunked body without end is cut off at the limit", async () => {
    const socket = await open();
    let got = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (got += chunk));
    socket.write(
      `POST ${add} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const chunk = `10000\r\n${" ".repeat(65_536)}\r\n`;
    for (let i = 0; i < 100 && got === ""; i++) {
      socket.write(chunk);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(got).toMatch(/^HTTP\/1.1 413 /);
    socket.destroy();
  });
});

describe("paths and methods", () => {
  test.each([
    ["GET /nope", 404],
    ["GET /v1/namespace/n/add-work-units", 405],
    ["PUT /summary", 405],
    ["PATCH /namespace/n", 405],
    ["PROPFIND /", 405],
    ["OPTIONS /v1/tally", 405],
    ["GET /namespace/%zz", 400],
    ["GET /namespace/%ff", 400],
    ["GET /namespace/-***", 400],
    ["GET //", 404],
    ["GET /namespace/n/../../etc/passwd", 404],
    [`GET /namespace/${"x".repeat(3000)}`, 413],
    ["POST /clock", 404],
  ])("%s is %i", async (line, status) => {
    const got = await raw(`${line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`);
    expect(got).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(got.split("\r\n\r\n")[1] ?? "")).toHaveProperty("code");
  });

  test.each([
    ".",
    "..",
    "a---b",
    "a/b",
    "a\u0000b",
    "-",
    "",
    "日本",
    "\udcff\udc80",
    "x".repeat(1024),
    "%2e",
    "a b+c",
  ])("the name %j works everywhere", async (name) => {
    const spec = name === "" ? "empty" : name;
    await client.setWorkSpecs(name, [{ data: encodeData({ name: spec }) }]);
    await client.addWorkUnits(name, spec, [{ name }]);
    const [attempt] = await client.requestAttempts(name, { worker: name });
    expect(attempt).toMatchObject({ workSpec: spec, workUnit: name, worker: name });
    const rows = [];
    for await (const row of client.exportWorkUnits(name, spec)) rows.push(row.name);
    expect(rows).toEqual([name]);
    expect((await client.listNamespaces()).map((row) => row.name)).toContain(name);
    await client.deleteNamespace(name);
  });
});

describe("what is not HTTP", () => {
  test.each([
    ["garbage", "\u0000\u0001\u0002 hello\r\n\r\n"],
    ["pipelined garbage", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n\u0007\u0007garbage\r\n\r\n"],
    [
      "both lengths",
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["two lengths", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"],
    ["a huge header", `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(40_000)}\r\n\r\n`],
    ["no host", "GET / HTTP/1.1\r\n\r\n"],
  ])("%s is 400 and the end of the connection", async (_what, text) => {
    const got = await raw(text);
    expect(got).toMatch(/HTTP\/1.1 400 /);
    expect((await client.tally("n")).length).toBe(1);
  });

  test("a connection that is half closed is still answered", async () => {
    const socket = await open();
    let got = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (got += chunk));
    socket.end("GET /namespace HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(socket, "close");
    expect(got).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe("slow clients", () => {
  test("headers and bodies that do not come end the connection; others are served meanwhile", async () => {
    const slow = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const socket = await open();
        if (i % 2 === 0) socket.write("GET / HTTP/1.1\r\nHost: local");
        else
          socket.write(
            `POST ${add} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
          );
        return { socket, ended: once(socket, "close") };
      }),
    );
    const start = performance.now();
    for (let i = 0; i < 50; i++) await client.tally("n");
    expect((performance.now() - start) / 50).toBeLessThan(50);
    // Node checks for late headers only every 30 s, so only the bodies, which are checked more often, are awaited
    const bodies = slow.filter((_, i) => i % 2 === 1);
    await Promise.all(bodies.map(({ ended }) => ended));
    for (const { socket } of slow) socket.destroy();
  });
});
