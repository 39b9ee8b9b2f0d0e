/** Where the listener listens, whom it serves, how it stops, and how the client handles a broken connection. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, test, vi } from "vitest";
import {
  connectCbor,
  listenCborRpc,
  type CborRpcListener,
  type CborRpcOptions,
} from "../../src/cbor/index.ts";
import {
  type AttemptChange,
  type AttemptRequest,
  CoordinateError,
  encodeData,
  Engine,
  jsonData,
  ManualClock,
  type Coordinate,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { makeCertificates } from "./certificates.ts";
import { withServer } from "./serve.ts";
import { request, WireClient } from "./wire.ts";
import { sendAndReset } from "../send-and-reset.ts";
import { whySkipped } from "../skipped-reporter.ts";

const spec = { data: encodeData({ name: "s" }) };

async function serving(
  run: (listener: CborRpcListener, engine: Engine) => Promise<void>,
  options: CborRpcOptions = {},
): Promise<void> {
  const engine = new Engine(new MemoryStore());
  const listener = await listenCborRpc(engine, { at: { port: 0 }, ...options });
  try {
    await run(listener, engine);
  } finally {
    await listener.close();
    await engine.close();
  }
}

const isCode =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof CoordinateError && error.code === code;

describe("where it listens", () => {
  const engine = new Engine(new MemoryStore());
  const refused: [string, CborRpcOptions][] = [
    ["every address", { at: { host: "0.0.0.0", port: 0 } }],
    ["every address, version 6", { at: { host: "::", port: 0 } }],
    ["another machine's name", { at: { host: "example.org", port: 0 } }],
    ["TLS without certificates of clients", { at: { host: "0.0.0.0", port: 0 }, tls: {} }],
    [
      "certificates that are not looked at",
      { at: { host: "0.0.0.0", port: 0 }, tls: { requestCert: true, rejectUnauthorized: false } },
    ],
  ];
  test.each(refused)("not on %s", async (_, options) => {
    await assert.rejects(listenCborRpc(engine, options), isCode("bad_argument"));
  });

  test.each(["127.0.0.1", "localhost", "127.0.0.2"])("on %s", async (host) => {
    await serving(
      async (listener) => {
        const client = await connectCbor(listener.address);
        assert.deepEqual(await client.listNamespaces(), []);
        await client.close();
      },
      { at: { host, port: 0 } },
    );
  });

  test("on every address when it is said", async () => {
    await serving(async (listener) => assert.ok(listener.port > 0), {
      at: { host: "0.0.0.0", port: 0 },
      insecure: true,
    });
  });

  test("on a socket in the file system, for its owner alone", async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "coordinate-cbor-"));
    const at = { path: path.join(directory, "socket") };
    await serving(
      async (listener, other) => {
        assert.equal(listener.address, `unix:${at.path}`);
        assert.equal(statSync(at.path).mode & 0o777, 0o600);
        const client = await connectCbor(listener.address);
        await client.setWorkSpecs("", [spec]);
        assert.equal((await other.listWorkSpecs("")).rows.length, 1);
        await client.close();
        await assert.rejects(listenCborRpc(other, { at }), /another process/);
      },
      { at },
    );
    assert.ok(!existsSync(at.path));
    rmSync(directory, { recursive: true });
  });

  test("a connection without an address is not allowed", async () => {
    await serving(
      async ({ port }, other) => {
        sendAndReset(port, request(1, "set_work_spec", [{ name: "ws" }]));
        // accepted after the first one, whose request has been read by the time this one has ended
        await assert.rejects((await WireClient.connect(port)).call("list_work_specs", {}));
        await sleep(50);
        assert.equal((await other.listWorkSpecs("")).rows.length, 0);
      },
      { allow: ["10.0.0.0/8"] },
    );
  });

  test("a port that is taken is an error", async () => {
    await serving(async ({ port }, other) => {
      await assert.rejects(listenCborRpc(other, { at: { port } }), /EADDRINUSE/);
    });
  });

  test("the verbs can be left out", async () => {
    await serving(
      async (listener) => {
        const client = await connectCbor(listener.address);
        await assert.rejects(client.listNamespaces(), isCode("not_supported"));
        await client.close();
        const python = await WireClient.connect(listener.port);
        assert.equal(await python.shown("list_work_specs", {}), "[[], None]");
        python.close();
      },
      { verbs: false },
    );
  });

  test("the Python methods have one namespace", async () => {
    await serving(
      async (listener, other) => {
        const python = await WireClient.connect(listener.port);
        await python.call("set_work_spec", { name: "ws" });
        assert.equal((await other.listWorkSpecs("legacy")).rows.length, 1);
        assert.equal((await other.listWorkSpecs("")).rows.length, 0);
        python.close();
      },
      { namespace: "legacy" },
    );
  });

  test("archive asks whoever keeps house", async () => {
    let asked = 0;
    await serving(
      async (listener) => {
        const python = await WireClient.connect(listener.port);
        assert.equal(await python.shown("archive", {}), "None");
        assert.equal(asked, 1);
        python.close();
      },
      { archive: async () => void (asked += 1) },
    );
  });
});

describe("TLS", () => {
  // the certificates need openssl, which may not be installed
  const made = makeCertificates();
  const hindrance = made === null ? "there is no openssl" : "";
  test.skipIf(hindrance !== "")(
    `clients with a certificate are served, others are not${whySkipped(hindrance)}`,
    async () => {
      const { ca, server, client, stranger } = made!;
      await serving(
        async (listener) => {
          const known = await connectCbor(`localhost:${listener.port}`, { tls: { ca, ...client } });
          assert.deepEqual(await known.listNamespaces(), []);
          const ask = async (tls: object): Promise<unknown> => {
            const other = await connectCbor(`localhost:${listener.port}`, { tls, retries: 0 });
            try {
              return await other.listNamespaces();
            } finally {
              await other.close();
            }
          };
          await assert.rejects(ask({ ca, ...stranger }), isCode("unavailable"));
          await assert.rejects(ask({ ca }), isCode("unavailable"));
          await assert.rejects(
            ask({ ...client }),
            isCode("unavailable"),
            "a server that the client does not know",
          );
          const plain = await WireClient.connect(listener.port);
          await assert.rejects(plain.call("now"));
          assert.deepEqual(await known.listNamespaces(), []);
          await known.close();
        },
        {
          at: { host: "0.0.0.0", port: 0 },
          tls: { ca, ...server, requestCert: true, rejectUnauthorized: true },
        },
      );
    },
  );
});

describe("how it stops", () => {
  test("idle connections are reset, not closed", async () => {
    await withServer(async ({ client, listener }) => {
      await client.call("now");
      await listener.close();
      await listener.close();
      assert.equal(await client.ended(), "RST");
    });
  });

  test("a request that was taken is answered first", async () => {
    const clock = new ManualClock();
    const engine = new Engine(new MemoryStore(), { clock });
    let go: () => void = () => undefined;
    const slow: Coordinate = Object.assign(Object.create(engine) as Coordinate, {
      tally: async () => {
        await new Promise<void>((resolve) => (go = resolve));
        return [];
      },
      getWorkSpecs: (ns: string, refs: readonly string[]) => engine.getWorkSpecs(ns, refs),
    });
    const listener = await listenCborRpc(slow, { at: { port: 0 }, clock });
    const client = await WireClient.connect(listener.port);
    const answer = client.shown("count_work_units", "ws");
    await sleep(50);
    const closed = listener.close();
    go();
    assert.equal(await answer, "[None, u'No such work spec ws']");
    await closed;
    assert.equal(await client.ended(), "RST");
    await engine.close();
  });

  test("waits for work end, with none", async () => {
    await serving(async (listener) => {
      const client = await connectCbor(listener.address, { retries: 0 });
      const answer = client.requestAttempts("", { worker: "w", waitMs: 60_000 });
      await sleep(50);
      await listener.close();
      assert.deepEqual(await answer, []);
      await client.close();
    });
  });
});

test("work for a Python worker that has gone is given back at once", async () => {
  const engine = new Engine(new MemoryStore());
  await engine.setWorkSpecs("", [spec]);
  await engine.addWorkUnits("", "s", [{ name: "u" }]);
  let go: () => void = () => undefined;
  const slow: Coordinate = Object.assign(Object.create(engine) as Coordinate, {
    requestAttempts: async (ns: string, request: AttemptRequest) => {
      await new Promise<void>((resolve) => (go = resolve));
      return engine.requestAttempts(ns, request);
    },
    settleAttempts: (ns: string, changes: readonly AttemptChange[]) => engine.settleAttempts(ns, changes),
  });
  const listener = await listenCborRpc(slow, { at: { port: 0 } });
  const client = await WireClient.connect(listener.port);
  client.call("get_work", "w", {}).catch(() => undefined);
  await sleep(50);
  client.close();
  while (listener.connections > 0) await sleep(5);
  go();
  for (let tries = 0; tries < 200; tries++) {
    const [row] = await engine.getWorkUnits("", "s", ["u"]);
    if (row?.status === "available" && row.attempts === 1) break;
    assert.ok(tries < 199, "the unit was not given back");
    await sleep(5);
  }
  await listener.close();
  await engine.close();
});

describe("the client of the verbs", () => {
  test("a worker that goes away gives back what was found for it", async () => {
    await serving(async (listener, engine) => {
      await engine.setWorkSpecs("", [spec]);
      const client = await connectCbor(listener.address);
      const waiting = client.requestAttempts("", { worker: "w", waitMs: 60_000 });
      while (engine.waiting === 0) await sleep(1);
      await client.close();
      await assert.rejects(waiting, isCode("closed"));
      while (engine.waiting > 0) await sleep(1);
      await engine.addWorkUnits("", "s", [{ name: "u" }]);
      assert.equal((await engine.requestAttempts("", { worker: "other" })).length, 1);
    });
  });

  test("a long wait is asked for in pieces of ten minutes", async () => {
    await withServer(async ({ listener, engine, clock }) => {
      const client = await connectCbor(listener.address);
      const asked = vi.spyOn(engine, "requestAttempts");
      const minuteMs = 60_000;
      const waiting = client.requestAttempts("", { worker: "w", waitMs: 15 * minuteMs });
      for (const minutes of [10, 5]) {
        await vi.waitUntil(
          () => asked.mock.lastCall?.[1].waitMs === minutes * minuteMs && engine.waiting === 1,
        );
        clock.advance(minutes * minuteMs);
      }
      assert.deepEqual(await waiting, []);
      await client.close();
    });
  });

  test("hundreds of waits and requests on one connection", async () => {
    await serving(async (listener, engine) => {
      const client = await connectCbor(listener.address);
      await client.setWorkSpecs("", [spec]);
      const waits = Array.from({ length: 300 }, (_, i) =>
        client.requestAttempts("", { worker: `w${i}`, waitMs: 60_000 }),
      );
      while (engine.waiting < 300) await sleep(1);
      assert.equal((await client.listWorkSpecs("")).rows.length, 1);
      await client.addWorkUnits(
        "",
        "s",
        Array.from({ length: 300 }, (_, i) => ({ name: `u${i}` })),
      );
      const got = (await Promise.all(waits)).flat();
      assert.equal(new Set(got.map(({ workUnit }) => workUnit)).size, 300);
      assert.equal(listener.connections, 1);
      await client.close();
    });
  });

  test("data is carried as it is, both kinds", async () => {
    await serving(async (listener, engine) => {
      const client = await connectCbor(listener.address);
      await client.setWorkSpecs("", [spec]);
      const text = jsonData('{ "a": 1.0, "a": 2, "big": 12345678901234567890, "é": "\\udc80" }');
      await client.addWorkUnits("", "s", [{ name: "\udcff", data: text }]);
      const [mine] = await client.getWorkUnits("", "s", ["\udcff"]);
      const [theirs] = await engine.getWorkUnits("", "s", ["\udcff"]);
      assert.deepEqual(mine, theirs);
      assert.equal(mine?.data, text);
      await client.close();
    });
  });

  test("what JSON clients store, Python reads", async () => {
    await serving(async (listener, engine) => {
      await engine.setWorkSpecs("", [
        { data: jsonData('{"name": "s", "module": "m", "run_function": "f", "weight": 2.0}') },
      ]);
      await engine.addWorkUnits("", "s", [
        { name: "u", data: jsonData('{"x": [1, 1.0, "é", null]}') },
        { name: "none" },
      ]);
      const python = await WireClient.connect(listener.port);
      assert.equal(
        await python.shown("get_work_spec", "s"),
        "{u'name': u's', u'module': b'm', u'run_function': b'f', u'weight': 2.0}",
      );
      assert.equal(
        await python.shown("get_work_units", "s", {}),
        "[[(b'none', {}), (b'u', {u'x': [1, 1.0, u'é', None]})], None]",
      );
      python.close();
    });
  });

  test("nobody there", async () => {
    await assert.rejects(connectCbor("127.0.0.1:1"), isCode("unavailable"));
    await assert.rejects(connectCbor("unix:/nonexistent/socket"), isCode("unavailable"));
    await assert.rejects(connectCbor("nonsense"), isCode("bad_argument"));
  });

  test("a server that sends nothing is left in time, and asked again", async () => {
    const silent: Socket[] = [];
    const server = createServer((socket) => silent.push(socket)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    try {
      const client = await connectCbor(`127.0.0.1:${port}`, { timeoutMs: 50, retries: 1, backoffMs: 1 });
      const waiting = client.requestAttempts("n", { worker: "w", waitMs: 200 });
      const refused = assert.rejects(waiting, isCode("unavailable"));
      await assert.rejects(client.tally("n"), isCode("unavailable"));
      await refused;
      assert.ok(silent.length > 1);
      await client.close();
      const named = connectCbor(`127.0.0.1:${port}`, { timeoutMs: 50, token: "t" });
      await assert.rejects(named, isCode("unavailable"));
    } finally {
      for (const socket of silent) socket.destroy();
      server.close();
    }
  });

  test("an answer that takes longer than usual is waited for while the server sends others", async () => {
    await serving(async (listener, engine) => {
      let go = (): void => undefined;
      vi.spyOn(engine, "getNamespace").mockImplementation(async (name) => {
        await new Promise<void>((resolve) => (go = resolve));
        return { name, settings: { policy: "default" } } as never;
      });
      const client = await connectCbor(`127.0.0.1:${listener.port}`, { timeoutMs: 200, retries: 0 });
      const slow = client.getNamespace("n");
      for (let i = 0; i < 10; i++) {
        await sleep(50);
        await client.tally("n");
      }
      go();
      assert.equal((await slow).name, "n");
      await client.close();
    });
  });

  test("closed is closed, twice too", async () => {
    await serving(async (listener) => {
      const client = await connectCbor(listener.address);
      await client.close();
      await client.close();
      await assert.rejects(client.listNamespaces(), isCode("closed"));
    });
  });

  test("bad answers of a server break the connection, not the program", async () => {
    const server = createServer(
      (socket) => void socket.on("data", () => socket.write("nonsense")).on("error", () => undefined),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const client = await connectCbor(`127.0.0.1:${port}`, { retries: 1, backoffMs: 1 });
    await assert.rejects(client.listNamespaces(), isCode("unavailable"));
    await assert.rejects(client.lock("", { owner: "me", paths: [["a"]] }), isCode("unknown_outcome"));
    await client.close();
    server.close();
  });

  test("a broken connection is made anew: safe requests are sent again, others are not known", async () => {
    await serving(async (listener, engine) => {
      const proxy = await openProxy(listener.port);
      const client = await connectCbor(`127.0.0.1:${proxy.port}`, { backoffMs: 1 });
      await client.setWorkSpecs("", [spec]);
      // the request is executed, but the response is lost
      proxy.loseAnswers = 1;
      const added = await client.addWorkUnits("", "s", [{ name: "a" }]);
      assert.equal(added[0]?.created, true, "the repeated request answers what the first one did");
      proxy.loseAnswers = 1;
      const [attempt] = await client.requestAttempts("", { worker: "w" });
      assert.equal(attempt?.number, 1, "the same attempt, not a second one");
      proxy.loseAnswers = 1;
      const [changed] = await client.settleAttempts("", [{ attempt: attempt.id, action: "finish" }]);
      assert.equal(changed?.error, null);
      proxy.loseAnswers = 1;
      await assert.rejects(client.deleteWorkUnits("", "s", { all: true }), isCode("unknown_outcome"));
      assert.equal((await engine.listWorkUnits("", "s")).rows.length, 0);
      await client.close();
      proxy.server.close();
      proxy.server.unref();
    });
  });
});

interface Proxy {
  server: Server;
  port: number;
  /** The number of responses to drop. Instead of forwarding such a response, the proxy closes the connection. */
  loseAnswers: number;
}

async function openProxy(to: number): Promise<Proxy> {
  const server = createServer((near: Socket) => {
    const far = connect(to, "127.0.0.1");
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
    near.pipe(far);
    far.on("data", (chunk) => {
      if (proxy.loseAnswers === 0) near.write(chunk);
      else {
        proxy.loseAnswers -= 1;
        near.destroy();
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: Proxy = { server, port: (server.address() as { port: number }).port, loseAnswers: 0 };
  return proxy;
}
