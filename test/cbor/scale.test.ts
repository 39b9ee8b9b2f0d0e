/** Large loads: long frames, many units, many connections, peers that do not read; and their memory use. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, test } from "vitest";
import { FrameReader } from "../../src/cbor/frame.ts";
import { withServer } from "./serve.ts";
import { type Dict, encode, hex, Raw, request, show, t, wrap, type Value, type WireClient } from "./wire.ts";

const megabyte = 1024 * 1024;

test("10,000 units in one add, and out again", async () => {
  await withServer(async ({ client }) => {
    await client.call("set_work_spec", { name: "ws" });
    const units = Array.from({ length: 10_000 }, (_, i) => t(`unit ${String(i).padStart(5, "0")}`, { n: i }));
    assert.equal(await client.shown("add_work_units", "ws", units), "[True, None]");
    assert.equal(await client.shown("count_work_units", "ws"), "[{1: 10000}, None]");
    const pair = (await client.call("get_work_units", "ws", { limit: 0 })) as Value[];
    assert.equal((pair[0] as Value[]).length, 10_000);
    const few = (await client.call("get_work_units", "ws", {})) as Value[];
    assert.equal((few[0] as Value[]).length, 1000);
    const work = (await client.call("get_work", "w", { max_jobs: 10_000 })) as Value[];
    assert.equal((work[0] as Value[]).length, 10_000);
  });
});

test("more units than one call of a verb may have are added in pieces, when all of them are well", async () => {
  await withServer(
    async ({ client }) => {
      await client.call("set_work_spec", { name: "ws" });
      const units: Value[] = Array.from({ length: 2500 }, (_, i) => t(`u${i}`, {}));
      await assert.rejects(client.call("add_work_units", "ws", [...units, 5]), /work unit not a list/);
      assert.equal(await client.shown("count_work_units", "ws"), "[{}, None]");
      assert.equal(await client.shown("add_work_units", "ws", units), "[True, None]");
      assert.equal(await client.shown("count_work_units", "ws"), "[{1: 2500}, None]");
    },
    { limits: { maxItems: 1000 } },
  );
});

test("a frame of 50 MB, in and out, wrapped and bare", async () => {
  await withServer(async ({ client }) => {
    await client.call("set_work_spec", { name: "ws" });
    const units = Array.from({ length: 5 }, (_, i) => t(`u${i}`, { x: Buffer.alloc(10 * megabyte, i) }));
    const message = encode({ id: 1, method: "add_work_units", params: ["ws", units] });
    assert.ok(message.length > 50 * megabyte);
    assert.equal(show(await client.raw(wrap(message))), "{b'id': 1, b'result': [True, None]}");
    assert.equal(show(await client.raw(message)), "{b'id': 1, b'result': [True, None]}");
    const listed = (await client.call("get_work_units", "ws", {})) as Value[];
    const bytes = (listed[0] as { items: Value[] }[]).map(
      ({ items }) => (items[1] as Dict).get("x") as Buffer,
    );
    assert.deepEqual(
      bytes.map((one) => [one.length, one[0], one.at(-1)]),
      [0, 1, 2, 3, 4].map((i) => [10 * megabyte, i, i]),
    );
  });
});

test("500 connections at once, each with work of its own", async () => {
  await withServer(async ({ client, connect, listener }) => {
    await client.call("set_work_spec", { name: "ws" });
    await client.call(
      "add_work_units",
      "ws",
      Array.from({ length: 1000 }, (_, i) => t(`u${i}`, {})),
    );
    const all = await Promise.all(Array.from({ length: 500 }, () => connect()));
    while (listener.connections < 501) await sleep(5);
    const taken = new Set<string>();
    await Promise.all(
      all.map(async (one, i) => {
        for (let round = 0; round < 2; round++) {
          const [job] = (await one.call("get_work", `w${i}`, {})) as { items: Value[] }[];
          const key = job?.items[1] ?? null;
          taken.add(show(key));
          assert.equal(await one.shown("update_work_unit", "ws", key, { status: 4 }), "[True, None]");
        }
      }),
    );
    assert.equal(taken.size, 1000);
    assert.equal(await client.shown("count_work_units", "ws"), "[{4: 1000}, None]");
  });
});

test("connections come and go", async () => {
  await withServer(async ({ connect, listener }) => {
    for (let round = 0; round < 20; round++) {
      const some = await Promise.all(Array.from({ length: 25 }, () => connect()));
      await Promise.all(some.map((one) => one.call("now")));
      for (const one of some) one.close();
    }
    while (listener.connections > 1) await sleep(5);
  });
});

test("a peer that does not read is not read from, and costs a bounded amount", async () => {
  await withServer(async ({ client, connect }) => {
    await client.call("set_work_spec", { name: "ws" });
    await client.call("add_work_units", "ws", [t("u", { x: Buffer.alloc(megabyte) })]);
    const slow = await connect();
    slow.socket.pause();
    const before = process.memoryUsage().rss;
    const asked = 2000;
    const one = request(1, "get_work_units", ["ws", {}]);
    for (let i = 0; i < asked; i++) slow.socket.write(one);
    await sleep(300);
    const grown = process.memoryUsage().rss - before;
    // the requested responses have 2 GB
    assert.ok(grown < 200 * megabyte, `grew by ${Math.round(grown / megabyte)} MB`);
    // other clients are served at the same time
    assert.equal(await client.shown("count_work_units", "ws"), "[{1: 1}, None]");
    slow.socket.resume();
    for (let i = 0; i < 50; i++) await slow.next();
    slow.close();
  });
});

describe("memory follows what has come, not what was declared", () => {
  const grown = async (run: () => Promise<unknown>): Promise<number> => {
    const before = process.memoryUsage();
    await run();
    const after = process.memoryUsage();
    return after.rss - before.rss;
  };

  test("a thousand connections that announce 200 MB each", async () => {
    await withServer(async ({ connect }) => {
      const all: WireClient[] = [];
      const more = await grown(async () => {
        for (let i = 0; i < 1000; i++) {
          const one = await connect();
          one.socket.write(Buffer.concat([hex("d8185a0c800000"), Buffer.alloc(100)]));
          all.push(one);
        }
        await sleep(100);
      });
      assert.ok(more < 150 * megabyte, `grew by ${Math.round(more / megabyte)} MB`);
      for (const one of all) one.close();
    });
  });

  test("unfinished messages of all connections have a limit together", async () => {
    await withServer(
      async ({ client, connect }) => {
        const all = await Promise.all(Array.from({ length: 8 }, () => connect()));
        for (const one of all)
          one.socket.write(Buffer.concat([hex("d8185a00f00000"), Buffer.alloc(megabyte)]));
        await Promise.race([Promise.all(all.slice(4).map((one) => one.ended())), sleep(2000)]);
        assert.ok(all.filter(({ closed }) => closed).length >= 4);
        assert.equal(await client.shown("now"), "1577836800");
      },
      { limits: { maxUnfinishedBytes: 4 * megabyte } },
    );
  });

  test("the reader holds at most about twice a frame while it comes", () => {
    const budget = { used: 0, max: Infinity };
    const reader = new FrameReader(256 * megabyte, budget);
    const size = 40 * megabyte;
    const head = hex("d8185a02800000");
    let highest = 0;
    reader.push(head);
    for (let sent = 0; sent < size; sent += 65_536) {
      assert.equal(reader.next(), null);
      reader.push(Buffer.alloc(65_536));
      highest = Math.max(highest, budget.used);
    }
    assert.equal(reader.next()?.length, size);
    assert.equal(reader.next(), null);
    assert.equal(budget.used, 0);
    assert.ok(highest <= size + 1024, `${highest}`);
  });

  const flat = (head: string, body: Buffer): Buffer => new Raw(Buffer.concat([hex(head), body])).bytes;
  const length = 20_000_000;
  const count = "01312d00";
  const wide: [string, string, Value][] = [
    [
      "a list of 20,000,000 keys that are none",
      "get_work_unit_status",
      ["ws", new Raw(flat(`9a${count}`, Buffer.alloc(length)))],
    ],
    [
      "20,000,000 units that are none",
      "add_work_units",
      ["ws", new Raw(flat(`9a${count}`, Buffer.alloc(length)))],
    ],
    [
      "20,000,000 states",
      "get_work_units",
      ["ws", { state: new Raw(flat(`9a${count}`, Buffer.alloc(length, 0x18))) }],
    ],
    [
      "20,000,000 empty keys",
      "get_work_unit_status",
      ["ws", new Raw(flat(`9a${count}`, Buffer.alloc(length, 0x40)))],
    ],
    [
      "20,000,000 lists for a verb",
      "coordinate.getAttempts",
      ["", new Raw(flat(`9a${count}`, Buffer.alloc(length, 0x80)))],
    ],
    ["10,000,000 options", "get_work", ["w", new Raw(flat("ba00989680", Buffer.alloc(length)))]],
    ["20,000,000 parameters", "now", new Raw(flat(`9a${count}`, Buffer.alloc(length)))],
    ["10,000,000 envelope keys", "", new Raw(flat("ba00989680", Buffer.alloc(length)))],
    ["20,000,000 lock paths", "lock", ["me", 60, new Raw(flat(`9a${count}`, Buffer.alloc(length, 0x80)))]],
  ];
  test.each(wide)("%s", async (_, method, params) => {
    await withServer(async ({ client, malformed }) => {
      await client.call("set_work_spec", { name: "ws" });
      const state = method === "get_work_units";
      const frame = method === "" ? wrap((params as Raw).bytes) : request(1, method, params);
      const more = await grown(async () => {
        const answer = client.raw(frame).catch(() => null);
        await answer;
      });
      // the frame has 20 MB, and the sender is in the same process and holds it too
      assert.ok(
        more < 5 * frame.length,
        `grew by ${Math.round(more / megabyte)} MB for ${Math.round(frame.length / megabyte)} MB`,
      );
      if (state) assert.ok(malformed.length <= 1);
    });
  });
});
