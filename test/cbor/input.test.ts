/** Frames in all valid forms and in many invalid ones. The server answers if possible and otherwise drops the connection. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "vitest";
import { withServer } from "./serve.ts";
import { Dict, encode, hex, Raw, request, show, t, u, wrap, type Value } from "./wire.ts";

const now: Value = { params: [], id: 1, method: "now" };
const nowAnswer = "{b'id': 1, b'result': 1577836800}";

/** A definite byte string in parts of `size` bytes. */
function inParts(bytes: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size)
    parts.push(encode(Buffer.from(bytes.subarray(at, at + size))));
  return Buffer.concat([hex("d818 5f"), ...parts, hex("ff")]);
}

const inner = encode(now);
const lengths = hex("5b00000000000000");

const forms: Record<string, Buffer> = {
  "as the client sends it": wrap(inner),
  "without the wrapping": inner,
  "with text keys": wrap(
    encode(
      new Dict([
        [u("id"), 1],
        [u("method"), "now"],
        [u("params"), []],
      ]),
    ),
  ),
  "with a text method": wrap(encode({ id: 1, method: u("now"), params: [] })),
  "with parameters in a tuple": wrap(encode({ id: 1, method: "now", params: t() })),
  "with extra keys": wrap(encode({ id: 1, method: "now", params: [], more: { x: [1] }, 5: null })),
  "with odd extra keys": wrap(
    encode(
      new Dict([
        [1, 2],
        [null, 3],
        ["__proto__", { x: 1 }],
        ["id", 1],
        ["method", "now"],
        ["params", []],
      ]),
    ),
  ),
  "with bytes after the message": wrap(Buffer.concat([inner, hex("ff00ff")])),
  "with a long tag": Buffer.concat([hex("d90018"), encode(inner)]),
  "with a longer tag": Buffer.concat([hex("da00000018"), encode(inner)]),
  "with the longest tag": Buffer.concat([hex("db0000000000000018"), encode(inner)]),
  "with a long length": Buffer.concat([hex("d818 59"), Buffer.of(0, inner.length), inner]),
  "with the longest length": Buffer.concat([hex("d818"), lengths, Buffer.of(inner.length), inner]),
  "in parts": inParts(inner, 7),
  "in parts of one byte": inParts(inner, 1),
  "with an endless map and list": wrap(hex("bf 426964 01 466d6574686f64 436e6f77 46706172616d73 9fff ff")),
  "an endless map without the wrapping": hex("bf 426964 01 466d6574686f64 436e6f77 46706172616d73 9fff ff"),
  "with a method in parts": wrap(hex("a3 426964 01 466d6574686f64 5f 416e 426f77 ff 46706172616d73 80")),
};

describe("forms of a request", () => {
  test.each(Object.entries(forms))("%s", async (_, bytes) => {
    await withServer(async ({ client, connect }) => {
      assert.equal(show(await client.raw(bytes)), nowAnswer);
      // also byte by byte, in segments of any size
      const slow = await connect();
      for (const byte of bytes) {
        slow.socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      // the server ignored the bytes after the message in the frame: the next request is read correctly
      assert.equal(show(await slow.next()), nowAnswer);
      assert.equal(show(await slow.raw(wrap(inner))), nowAnswer);
    });
  });

  const ids: [string, Value, string][] = [
    ["zero", 0, "0"],
    ["the largest", 2n ** 64n - 1n, "18446744073709551615"],
    ["negative", -5, "-5"],
    ["null", null, "None"],
    ["bytes", "x", "b'x'"],
    ["text", u("é"), "u'é'"],
    ["a boolean", true, "True"],
    ["a list, which is not given back", [1], "None"],
    ["text that is not UTF-8, which is not given back", new Raw(hex("61ff")), "None"],
    ["not minimal, as it came", new Raw(hex("190001")), "1"],
  ];
  test.each(ids)("an id that is %s", async (_, id, shown) => {
    await withServer(async ({ client }) => {
      assert.equal(
        show(await client.raw(request(id, "now", []))),
        `{b'id': ${shown}, b'result': 1577836800}`,
      );
    });
  });

  test("no id is answered with null", async () => {
    await withServer(async ({ client }) => {
      assert.equal(
        show(await client.raw(wrap(encode({ method: "now", params: [] })))),
        "{b'id': None, b'result': 1577836800}",
      );
    });
  });
});

describe("requests that are answered with an error", () => {
  const failure = (message: string): string => `{b'id': 1, b'error': {u'message': u'${message}'}}`;
  const rows: [string, Value, string][] = [
    ["no params", { id: 1, method: "now" }, "don't understand params: None"],
    ["null params", { id: 1, method: "now", params: null }, "don't understand params: None"],
    ["a map of params", { id: 1, method: "now", params: {} }, "don't understand params: a map"],
    ["params that are a number", { id: 1, method: "now", params: 5 }, "don't understand params: 5"],
    ["no method", { id: 1, params: [] }, "no method"],
    ["a null method", { id: 1, params: [], method: null }, "no method"],
    ["a method that is a number", { id: 1, params: [], method: 7 }, "no method"],
    [
      "a method that is not UTF-8",
      { id: 1, params: [], method: Buffer.from([0xff]) },
      "no such method \ufffd",
    ],
    [
      "an unknown tag beside the request",
      { id: 1, params: [], method: "now", x: new Raw(hex("d9d9f700")) },
      "Bad argument tag 55799 is not supported",
    ],
    [
      "wrapping within the wrapping",
      { id: 1, params: [new Raw(hex("d8184100"))], method: "now" },
      "Bad argument tag 24 is not supported",
    ],
    [
      "a pile of tags",
      { id: 1, params: [new Raw(Buffer.concat([Buffer.alloc(100_000, 0xc1), hex("00")]))], method: "now" },
      "Bad argument tag 1 is not supported",
    ],
    [
      "100,000 nested arrays",
      { id: 1, params: [new Raw(Buffer.concat([Buffer.alloc(100_000, 0x81), hex("00")]))], method: "now" },
      "wrong number of parameters",
    ],
    [
      "100,000 nested endless arrays",
      {
        params: [new Raw(Buffer.concat([Buffer.alloc(100_000, 0x9f), Buffer.alloc(100_000, 0xff)]))],
        id: 1,
        method: "now",
      },
      "Bad argument nested too deep",
    ],
    [
      "100,000 nested arrays of two",
      {
        params: [new Raw(Buffer.concat([Buffer.alloc(100_000, 0x82), hex("00"), Buffer.alloc(100_000, 0)]))],
        id: 1,
        method: "now",
      },
      "Bad argument nested too deep",
    ],
  ];
  test.each(rows)("%s", async (_, message, error) => {
    await withServer(async ({ client }) => {
      assert.equal(show(await client.raw(wrap(encode(message)))), failure(error));
      assert.equal(show(await client.raw(wrap(inner))), nowAnswer);
    });
  });
});

describe("bytes that end the connection", () => {
  const rows: Record<string, Buffer> = {
    "a bare null": hex("f6"),
    "a bare integer": hex("01"),
    "a bare list": hex("80"),
    "a bare byte string": hex("4100"),
    "a break": hex("ff"),
    "a reserved byte": hex("1c"),
    "a reserved length of a tag": hex("dc"),
    "a reserved length of a string": hex("d8185c"),
    "another tag": hex("d81941a0"),
    "a tag that runs for ever": hex("df"),
    "tag 24 around a map": hex("d818a0"),
    "tag 24 around text": hex("d81861a0"),
    "an empty inner item": hex("d81840"),
    "an inner item that is no map": wrap(encode([1])),
    "an inner item that is a number": wrap(encode(1)),
    "a truncated inner item": wrap(inner.subarray(0, inner.length - 1)),
    "an inner map with a break too many": wrap(hex("a1ff01")),
    "an inner map with half an entry": wrap(hex("bf01ff")),
    "an inner string of two types": wrap(hex("a1 5f 6161 ff 01")),
    "an inner endless string in an endless string": wrap(hex("a1 5f 5f 4161 ff ff 01")),
    "an endless integer": wrap(hex("a1 1f 01")),
    "a declared length of 2^63": hex("d8185b8000000000000000"),
    "a declared length of 2^64-1": hex("d8185bffffffffffffffff"),
    "a length beyond the limit": hex("d8185a20000000"),
    "an inner length of 2^63": wrap(hex("a1 426964 5b8000000000000000")),
    "an inner list of 2^32 items": wrap(hex("a1 426964 9affffffff")),
    "an inner map of 2^63 entries": wrap(hex("bb8000000000000000")),
    "a bare map of 2^63 entries": hex("bb8000000000000000"),
    "a bare map with a string of 2^63 bytes": hex("a15b8000000000000000"),
    "a part of 2^63 bytes": hex("d8185f5b8000000000000000"),
    "a part that is no byte string": hex("d8185f6161ff"),
    "nested deeper than anybody looks": wrap(
      Buffer.concat([Buffer.alloc(400_000, 0x9f), Buffer.alloc(400_000, 0xff)]),
    ),
    HTTP: Buffer.from("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "a POST": Buffer.from("POST /v1 HTTP/1.1\r\n\r\n"),
    TLS: hex("160301020001"),
    text: Buffer.from("hello"),
  };
  test.each(Object.entries(rows))("%s", async (_, bytes) => {
    await withServer(async ({ client, connect, malformed }) => {
      client.socket.write(bytes);
      assert.equal(await client.ended(), "RST");
      assert.equal(malformed.length, 1);
      // other connections are not affected
      const other = await connect();
      assert.equal(show(await other.raw(wrap(inner))), nowAnswer);
    });
  });

  test("requests before it are carried out and answered", async () => {
    await withServer(async ({ client, engine }) => {
      client.socket.write(Buffer.concat([request(1, "set_work_spec", [{ name: "ws" }]), hex("f6")]));
      assert.equal(show(await client.next()), "{b'id': 1, b'result': [True, None]}");
      // the server sends a reset, but Node reports a reset that arrives together with data as an end
      await client.ended();
      assert.equal((await engine.listWorkSpecs("")).rows.length, 1);
    });
  });

  test("a message that stops half way, after a time", async () => {
    await withServer(
      async ({ client, connect }) => {
        const idle = await connect();
        client.socket.write(wrap(inner).subarray(0, 10));
        assert.equal(await client.ended(), "RST");
        // a connection may be idle between messages for any time
        assert.equal(show(await idle.raw(wrap(inner))), nowAnswer);
      },
      { limits: { stallMs: 50 } },
    );
  });

  test("a peer that leaves in the middle of a message", async () => {
    await withServer(async ({ client, connect, listener }) => {
      client.socket.end(wrap(inner).subarray(0, 10));
      await client.ended();
      while (listener.connections > 0) await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal(show(await (await connect()).raw(wrap(inner))), nowAnswer);
    });
  });

  test("prototypes stay as they are", async () => {
    await withServer(async ({ client }) => {
      const evil = new Dict([
        ["__proto__", { polluted: 1 }],
        ["constructor", { prototype: { polluted: 1 } }],
        ["name", "ws"],
      ]);
      await client.call("set_work_spec", evil);
      await client.call("add_work_units", "ws", [t("__proto__", evil), t("constructor", evil)]);
      await client.call(
        "get_work",
        "__proto__",
        new Dict([
          ["__proto__", { max_jobs: 5 }],
          ["max_jobs", 2],
        ]),
      );
      await client.call("worker_heartbeat", "constructor", "__proto__", 60, evil, "__proto__");
      await client.call("coordinate.listWorkUnits", "", "ws", evil).catch(() => undefined);
      assert.equal(({} as { polluted?: number }).polluted, undefined);
      assert.equal(await client.shown("mode_counts"), "[{u'__proto__': 1}, None]");
    });
  });
});

describe("many requests at once", () => {
  test("pipelined requests are answered in their order", async () => {
    await withServer(async ({ client }) => {
      await client.call("set_work_spec", { name: "ws" });
      const steps: Buffer[] = [];
      for (let i = 0; i < 500; i++) {
        steps.push(
          request(i * 2, "add_work_units", ["ws", [t(`k${i}`, {})]]),
          request(i * 2 + 1, "count_work_units", ["ws"]),
        );
      }
      client.socket.write(Buffer.concat(steps));
      for (let i = 0; i < 500; i++) {
        assert.equal(show(await client.next()), `{b'id': ${i * 2}, b'result': [True, None]}`);
        assert.equal(show(await client.next()), `{b'id': ${i * 2 + 1}, b'result': [{1: ${i + 1}}, None]}`);
      }
    });
  });

  test("equal ids are answered twice", async () => {
    await withServer(async ({ client }) => {
      client.socket.write(Buffer.concat([wrap(inner), wrap(inner)]));
      assert.equal(show(await client.next()), nowAnswer);
      assert.equal(show(await client.next()), nowAnswer);
    });
  });
});
