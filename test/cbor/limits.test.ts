/** Limits for one caller of CBOR-RPC; and duplicate keys. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test, vi } from "vitest";
import { connectCbor } from "../../src/cbor/index.ts";
import { encodeData } from "../../src/core/index.ts";
import { LargeRequests } from "../../src/traffic/index.ts";
import { withServer, type Served } from "./serve.ts";
import { Dict, encode, Raw, show, t, u, wrap, type Value } from "./wire.ts";

/** A list of `count` empty maps. */
function emptyMaps(count: number): Raw {
  const head = Buffer.alloc(5);
  head[0] = 0x9a;
  head.writeUInt32BE(count, 1);
  return new Raw(Buffer.concat([head, Buffer.alloc(count, 0xa0)]));
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe("long messages", () => {
  test("items are counted while they are read", async () => {
    await withServer(
      async ({ client }) => {
        const params = [u("n"), u("s"), emptyMaps(5_000_000)];
        const start = performance.now();
        const answer = show(
          await client.raw(wrap(encode({ id: 1, method: u("coordinate.addWorkUnits"), params }))),
        );
        assert.match(answer, /units: more than 1000 items/);
        assert.ok(performance.now() - start < 10_000);
      },
      { limits: { maxItems: 1000 } },
    );
  });

  test("a message of too many items ends the connection", async () => {
    await withServer(async ({ client, malformed }) => {
      client.socket.write(wrap(encode({ id: 1, method: "now", params: [emptyMaps(10_000_000)] })));
      await client.ended();
      assert.deepEqual(malformed, ["too many items in one message"]);
    });
  });

  test("the event loop turns while a long message is scanned", async () => {
    await withServer(async ({ client, engine }) => {
      await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
      const asked = vi.spyOn(engine, "addWorkUnits");
      const data = new Raw(Buffer.concat([Buffer.of(0xa1, 0x61, 0x78), emptyMaps(6_000_000).bytes]));
      const message = wrap(encode({ id: 1, method: "add_work_units", params: ["s", [t("a", data)]] }));
      const answer = client.raw(message);
      let turns = 0;
      while (asked.mock.calls.length === 0) {
        await new Promise((resolve) => setImmediate(resolve));
        if (client.socket.writableLength === 0) turns += 1;
      }
      // 6 MB, scanned in chunks of 256 kB
      assert.ok(turns > 15, `${turns} turns`);
      assert.equal(show(await answer), "{b'id': 1, b'result': [True, None]}");
    });
  });

  test("a message that drips ends the connection, however often a byte comes", async () => {
    await withServer(
      async ({ client, malformed }) => {
        const bytes = wrap(encode({ id: 1, method: "now", params: [Buffer.alloc(1000)] }));
        let at = 0;
        const drip = setInterval(() => client.socket.write(bytes.subarray(at, ++at)), 20);
        await client.ended();
        clearInterval(drip);
        assert.ok(at < 100);
        assert.deepEqual(malformed, ["a message arrives too slowly"]);
      },
      { limits: { stallMs: 200 } },
    );
  });
});

test("a large answer to a wait is sent in turn, and the wait before it holds none", async () => {
  const large = new LargeRequests({ atOnce: 1 });
  await withServer(
    async ({ listener, engine }) => {
      await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
      const names = Array.from({ length: 200 }, (_, i) => `u${i}`);
      await engine.addWorkUnits(
        "",
        "s",
        names.map((name) => ({ name })),
      );
      const client = await connectCbor(`127.0.0.1:${listener.port}`);
      const answer = client.awaitWorkUnits("", "s", names, { waitMs: 60_000 });
      await vi.waitUntil(() => engine.waiting === 1);
      let end = (): void => undefined;
      const other = large.turn({}, () => new Promise<void>((resolve) => (end = resolve)));
      let answered = false;
      void answer.then(() => (answered = true));
      await engine.cancelWorkUnits("", "s", { all: true });
      await sleep(50);
      assert.equal(answered, false);
      end();
      await other;
      assert.equal((await answer).length, 200);
      await client.close();
    },
    { large },
  );
});

describe("many requests of one connection", () => {
  test("lists take turns, and what has not started when the connection closes never does", async () => {
    await withServer(async ({ client, connect, engine }) => {
      await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
      let running = 0;
      let max = 0;
      let started = 0;
      vi.spyOn(engine, "listWorkUnits").mockImplementation(async () => {
        started += 1;
        max = Math.max(max, ++running);
        await sleep(10);
        running -= 1;
        return { rows: [], next: null };
      });
      const other = await connect();
      const call = wrap(encode({ id: 1, method: u("coordinate.listWorkUnits"), params: [u(""), u("s")] }));
      client.socket.write(Buffer.concat(Array.from({ length: 500 }, () => call)));
      await vi.waitUntil(() => started > 3);
      // a small request is served before the waiting lists
      assert.match(await other.shown("now"), /^\d+$/);
      client.close();
      await sleep(100);
      const then = started;
      await sleep(200);
      assert.equal(started, then);
      assert.ok(then < 500);
      assert.equal(max, 2);
    });
  });
});

test("a wait with the id of another is refused, and the first one ends with the connection", async () => {
  await withServer(async ({ client, engine }) => {
    const params = [u("n"), { worker: u("w"), waitMs: 60_000 }];
    const wait = wrap(encode({ id: 1, method: u("coordinate.requestAttempts"), params }));
    client.socket.write(wait);
    await vi.waitFor(() => assert.equal(engine.waiting, 1));
    assert.match(show(await client.raw(wait)), /another request with this id is waiting/);
    client.close();
    await vi.waitFor(() => assert.equal(engine.waiting, 0));
  });
});

describe("keys that are there twice", () => {
  const twice = (key: string, a: Value, b: Value): Dict =>
    new Dict([
      [key, a],
      [u(key), b],
    ]);

  test("in the envelope", async () => {
    await withServer(async ({ client }) => {
      const envelope = (...entries: [Value, Value][]): Buffer =>
        wrap(encode(new Dict([["id", 1], ["params", []], ["method", "now"], ...entries])));
      for (const key of ["id", "params", "method"])
        assert.match(
          show(await client.raw(envelope([u(key), key === "params" ? [] : "now"]))),
          new RegExp(`error.*repeated key ${key}`),
        );
      // unknown keys may repeat
      assert.match(show(await client.raw(envelope(["x", 1], ["x", 2]))), /b'result'/);
    });
  });

  test("in parameters", async () => {
    await withServer(async ({ client, engine }) => {
      await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
      await assert.rejects(
        client.call("del_work_units", "s", twice("all", false, true)),
        /options: repeated key all/,
      );
      await assert.rejects(
        client.call("coordinate.deleteWorkUnits", u(""), u("s"), twice("all", false, true)),
        /all: repeated key/,
      );
      // data is stored unchanged
      assert.equal(await client.shown("add_work_units", "s", [t("k", twice("x", 1, 2))]), "[True, None]");
      assert.equal(
        await client.shown("get_work_units", "s", { work_unit_keys: ["k"] }),
        "[[(b'k', {b'x': 1, u'x': 2})], None]",
      );
    });
  });
});

describe("who may connect", () => {
  test("an allow list", async () => {
    const say = async ({ client }: Served): Promise<void> => {
      assert.match(await client.shown("now"), /^\d+$/);
    };
    await withServer(say, { allow: ["10.0.0.0/8", "127.0.0.1"] });
    // the connection or its first request fails
    await assert.rejects(withServer(say, { allow: ["127.0.0.2", "10.0.0.0/8"] }));
    await assert.rejects(
      withServer(async () => undefined, { allow: ["10.0.0.0/33"] }),
      /allow: expected an address/,
    );
  });
});
