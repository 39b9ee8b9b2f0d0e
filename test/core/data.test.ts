import { deepStrictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cborEntries, cborItems } from "../../src/core/cbor-item.ts";
import {
  cborData,
  type Data,
  dataByteLength,
  type DataLimits,
  dataGetText,
  dataToCbor,
  dataToJson,
  dataWith,
  decodeData,
  encodeData,
  Float,
  jsonData,
  Tuple,
  Uuid,
} from "../../src/core/data.ts";
import { type ErrorCode, isCoordinateError } from "../../src/core/errors.ts";
import { jsonItems, jsonMembers } from "../../src/core/json-text.ts";

function errorOf(run: () => unknown): { code: ErrorCode; value: string } | null {
  try {
    run();
    return null;
  } catch (error) {
    if (!isCoordinateError(error)) throw error;
    return { code: error.code, value: error.value };
  }
}

function hex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"));
}

function toHex(data: Uint8Array): string {
  return Buffer.from(data).toString("hex");
}

/** The hex of one CBOR item as the value of the only key "a". */
function inMap(item: string): Uint8Array {
  return hex(`a1 6161 ${item}`);
}

/** Uses Node's comparison: toStrictEqual reads the `constructor` of objects, which may be data here. */
function expectSame(actual: unknown, expected: unknown): void {
  deepStrictEqual(actual, expected);
}

const uuid = Uuid.parse("00112233-4455-6677-8899-aabbccddeeff");

/** All values that data can hold, including those that only CBOR can represent. */
const values = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(
      null,
      true,
      false,
      0,
      -0,
      NaN,
      Infinity,
      -Infinity,
      2 ** 53,
      1e21,
      uuid,
      new Float(1),
    ),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.bigInt(-(2n ** 80n), 2n ** 80n),
    fc.string({ unit: "binary" }),
    fc.uint8Array({ maxLength: 8 }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.array(tie("value"), { maxLength: 4 }).map((items) => Tuple.from(items)),
    tie("object"),
  ),
  object: fc.dictionary(
    fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("__proto__", "constructor", "10", "2")),
    tie("value"),
    {
      maxKeys: 4,
      noNullPrototype: true,
    },
  ),
})).object;

/** The value that decoding returns for an encoded value: bigints that fit become numbers. */
function normal(value: unknown, precise: boolean): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === "number") {
    const isFloat = Number.isInteger(value) && (!Number.isSafeInteger(value) || Object.is(value, -0));
    return precise && isFloat ? new Float(value) : value;
  }
  if (value instanceof Float) return precise ? value : value.value;
  if (value instanceof Tuple) return Tuple.from(value.map((item) => normal(item, precise)));
  if (Array.isArray(value)) return value.map((item) => normal(item, precise));
  if (value === null || typeof value !== "object" || value instanceof Uint8Array || value instanceof Uuid)
    return value;
  const object: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    Object.defineProperty(object, key, {
      value: normal(item, precise),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return object;
}

describe("jsonData", () => {
  test.each([
    "{}",
    ' { "a" : [ 1 , 2.50 , -0 , 1e5 , 1E+5 , true , false , null ] , "b" : { } }\r\n\t',
    '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9 é 😀 \\ud800","a":1}',
    '{"__proto__":{"x":1},"constructor":2}',
    `{"long":"${"x".repeat(100)}\\n${"é".repeat(100)}\\\\"}`,
    '{"n":12345678901234567890123}',
  ])("keeps %s", (text) => {
    expect(jsonData(text)).toBe(text);
    expect(() => JSON.parse(text) as unknown).not.toThrow();
  });

  test.each<[text: string, problem: string]>([
    ["", "expected a JSON object"],
    ["[]", "expected a JSON object"],
    ['"{}"', "expected a JSON object"],
    ["null", "expected a JSON object"],
    ["\ufeff{}", "expected a JSON object"],
    ["{", "malformed JSON at character 1"],
    ["{}x", "malformed JSON at character 2"],
    ['{"a":1,}', "malformed JSON at character 7"],
    ['{"a":[1,]}', "malformed JSON at character 8"],
    ["{a:1}", "malformed JSON at character 1"],
    ['{"a" 1}', "malformed JSON at character 5"],
    ['{"a":01}', "malformed JSON at character 6"],
    ['{"a":1.}', "malformed JSON at character 7"],
    ['{"a":+1}', "malformed JSON at character 5"],
    ['{"a":NaN}', "malformed JSON at character 5"],
    ['{"a":nul}', "malformed JSON at character 5"],
    ['{"a":"\n"}', "malformed JSON at character 6"],
    ['{"a":"\\x"}', "malformed JSON at character 7"],
    ['{"a":"\\u12g4"}', "malformed JSON at character 10"],
    ['{"a":"x', "malformed JSON at character 7"],
    [`{"a":"${"x".repeat(100)}`, "malformed JSON at character 106"],
    ['{"a":"\ud800"}', "malformed JSON at character 6"],
    ['{"a":"\udc80"}', "malformed JSON at character 6"],
    [`{"a":${"1".repeat(1236)}}`, "a number of 1236 characters at character 5"],
  ])("refuses %j", (text, problem) => {
    expect(errorOf(() => jsonData(text))).toEqual({ code: "bad_data", value: problem });
  });

  test("accepts what JSON.parse accepts, and nothing else", () => {
    const piece = fc.oneof(
      fc.constantFrom("true", "false", "null", '"a"', '"a":', "\\u00e9", '{"a":', "é"),
      fc.string({
        unit: fc.constantFrom(...Array.from('{}[],:"\\ \n0123-+.eEtfnu')),
        minLength: 1,
        maxLength: 1,
      }),
    );
    const broken = fc.tuple(fc.json(), fc.nat(), piece).map(([text, at, put]) => {
      const cut = at % (text.length + 1);
      return text.slice(0, cut) + put + text.slice(cut + (at % 2));
    });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(piece).map((pieces) => pieces.join("")),
          fc.json(),
          broken,
        ),
        (inner) => {
          const text = `{"k":${inner}}`;
          let parses = true;
          try {
            JSON.parse(text);
          } catch {
            parses = false;
          }
          const error = errorOf(() => jsonData(text));
          // except values that CBOR cannot represent
          if (parses && /out of range|lone surrogate/.test(error?.value ?? "")) return;
          expect(error === null).toBe(parses);
        },
      ),
      { numRuns: 5000 },
    );
  });

  test.each([
    ['{"a":1e400}', /number out of range at character 5/],
    ['{"a":[-1.5E+999]}', /number out of range/],
    ['{"\\ud800":1}', /lone surrogate in the key/],
    ['{"a":{"x\\uD83D":1}}', /lone surrogate in the key/],
    ['{"\\udc7f":1}', /lone surrogate in the key/],
  ])("refuses %s, which other forms cannot keep apart", (text, message) => {
    expect(errorOf(() => jsonData(text))?.value).toMatch(message);
  });

  test.each(['{"a":1e308}', '{"a":1e-400}', '{"\\ud83d\\ude00":1}', '{"\\udc80":1}', '{"a":"\\ud800"}'])(
    "accepts %s",
    (text) => {
      expect(jsonData(text)).toBe(text);
    },
  );

  test("a key with a lone surrogate is refused of JavaScript values too", () => {
    expect(errorOf(() => encodeData({ "x\ud800": 1 }))?.value).toMatch(/lone surrogate in the key/);
    expect(encodeData({ x: "\ud800" })).toBe('{"x":"\\ud800"}');
  });

  test.each<[depth: number, limits: DataLimits | undefined, ok: boolean]>([
    [512, undefined, true],
    [513, undefined, false],
    [100_000, undefined, false],
    [3, { maxDepth: 3 }, true],
    [4, { maxDepth: 3 }, false],
    [1025, { maxDepth: 1_000_000 }, false],
  ])("depth %d with %j is allowed: %s", (depth, limits, ok) => {
    const text = `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
    const error = errorOf(() => jsonData(text, limits));
    if (ok) expect(error).toBeNull();
    else expect(error?.value).toMatch(/^nested too deeply at character \d+$/);
    const bytes = inMap("81".repeat(depth - 2) + "80");
    const cborError = errorOf(() => cborData(bytes, limits));
    if (ok) expect(cborError).toBeNull();
    else expect(cborError?.value).toMatch(/^nested too deeply at byte \d+$/);
  });

  test("counts bytes of UTF-8 against the limit", () => {
    expect(jsonData('{"a":"€€"}', { maxBytes: 14 })).toBe('{"a":"€€"}');
    expect(errorOf(() => jsonData('{"a":"€€"}', { maxBytes: 13 }))).toEqual({
      code: "too_large",
      value: "data of 14 bytes, the limit is 13",
    });
    const half = "x".repeat(8 * 1024 * 1024);
    expect(errorOf(() => jsonData(`{"a":"${half}${half}"}`))?.code).toBe("too_large");
    expect(errorOf(() => jsonData(`{"a":"${half}"}`))).toBeNull();
  });
});

describe("cborData", () => {
  test.each<[what: string, item: string, value: unknown]>([
    ["integers", "86 00 17 1818 190100 1a00010000 1b001fffffffffffff", [0, 23, 24, 256, 65536, 2 ** 53 - 1]],
    ["longer heads than need be", "82 1800 1b0000000000000001", [0, 1]],
    ["negative integers", "83 20 3818 3b001ffffffffffffe", [-1, -25, -(2 ** 53 - 1)]],
    ["64-bit integers", "82 1bffffffffffffffff 3bffffffffffffffff", [2n ** 64n - 1n, -(2n ** 64n)]],
    ["the edge of exactness", "82 1b0020000000000000 3b001fffffffffffff", [2n ** 53n, -(2n ** 53n)]],
    [
      "big integers",
      "84 c249010000000000000000 c349010000000000000000 c240 c34101",
      [2n ** 64n, -(2n ** 64n) - 1n, 0, -2],
    ],
    ["a big integer in parts", "c25f 4101 4100 ff", 256],
    ["floats", "84 f93e00 fa3fc00000 fb3ff8000000000000 fb3ff0000000000000", [1.5, 1.5, 1.5, 1]],
    ["half floats", "85 f90001 f98000 f97c00 f9fc00 f97bff", [2 ** -24, -0, Infinity, -Infinity, 65504]],
    ["not a number", "f97e00", NaN],
    ["simple values", "84 f4 f5 f6 f7", [false, true, null, null]],
    ["text", "64 f09f9880", "😀"],
    ["text with a byte order mark", "63 efbbbf", "\ufeff"],
    ["text in parts", "7f 6161 60 6162 ff", "ab"],
    ["bytes", "42 ff00", Uint8Array.of(0xff, 0)],
    ["bytes in parts", "5f 41ff 4100 ff", Uint8Array.of(0xff, 0)],
    ["an indefinite array", "9f 01 9f ff ff", [1, []]],
    ["an indefinite map", "bf 6161 01 6162 bf ff ff", { a: 1, b: {} }],
    ["a tuple", "d880 82 01 d880 80", Tuple.of(1, new Tuple())],
    ["an indefinite tuple", "d880 9f 01 ff", Tuple.of(1)],
    ["a UUID", `d825 50 00112233445566778899aabbccddeeff`, uuid],
    ["a UUID in parts", "d825 5f 480011223344556677 488899aabbccddeeff ff", uuid],
    ["byte keys", "a2 4161 01 41ff 02", { a: 1, "\udcff": 2 }],
    [
      "other keys",
      "a8 01 00 20 01 f5 02 f6 03 fb3ff0000000000000 04 fb3ff8000000000000 05 820102 06 d880 81 4101 07",
      {
        "1": 0,
        "-1": 1,
        true: 2,
        null: 3,
        "1.0": 4,
        "1.5": 5,
        "[1,2]": 6,
        '[{"$base64":"AQ=="}]': 7,
      },
    ],
    ["repeated keys: the last", "a3 6161 01 4161 02 6161 03", { a: 3 }],
  ])("%s", (_what, item, value) => {
    const bytes = inMap(item);
    const data = cborData(bytes);
    expect(data).toBe(bytes);
    expect(decodeData(data)).toStrictEqual({ a: value });
  });

  test.each<[bytes: string, problem: string | RegExp]>([
    ["", "expected a CBOR map"],
    ["80", "expected a CBOR map"],
    ["f6", "expected a CBOR map"],
    ["d9d9f7 a0", "expected a CBOR map"],
    ["a0 00", "malformed CBOR at byte 1: more after the end of the map"],
    ["a1", "malformed CBOR at byte 0: end of input"],
    ["a1 6161", "malformed CBOR at byte 3: end of input"],
    ["a1 6161 1800 00", /more after the end/],
    ["a1 6161 19 00", /end of input/],
    ["a1 6161 62 61", /end of input/],
    ["a1 6161 1c", /reserved length/],
    ["a1 6161 1f", /out of place/],
    ["a1 6161 ff", /out of place/],
    ["a1 6161 df80", /out of place/],
    ["bf 6161 ff", /out of place/],
    ["bf", /end of input/],
    ["a1 6161 9f", /end of input/],
    ["a1 6161 5f 41 00", /end of input/],
    ["a1 6161 5f 6161 ff", /part of a string is of another type/],
    ["a1 6161 7f 7f ff ff", /out of place/],
    ["a1 6161 61ff", /text is not UTF-8/],
    ["a1 6161 63eda080", /text is not UTF-8/],
    ["a1 6161 7f 61c3 61a9 ff", /text is not UTF-8/],
    ["a1 6161 e0", /unknown simple value/],
    ["a1 6161 f8 20", /unknown simple value/],
    ["a1 6161 c0 60", /tag 0 is not supported/],
    ["a1 6161 d818 41f6", /tag 24 is not supported/],
    ["a1 6161 d81c 80", /tag 28 is not supported/],
    ["a1 6161 dbffffffffffffffff 00", /tag 18446744073709552000 is not supported/],
    ["a1 6161 d880 a0", /tuple is not an array/],
    ["a1 6161 d880 d880 80", /tuple is not an array/],
    ["a1 6161 d880", /end of input/],
    ["a1 6161 d825 4100", /UUID is not 16 bytes/],
    ["a1 6161 d825 60", /UUID is not a byte string/],
    ["a1 6161 c2 00", /big integer is not a byte string/],
    [`a1 6161 c2 590201 ${"ff".repeat(513)}`, /integer of more than 512 bytes/],
    ["bb7fffffffffffffff", /end of input/],
    ["bbffffffffffffffff", /end of input/],
    ["a1 6161 9bffffffffffffffff", /end of input/],
    ["a1 6161 5bffffffffffffffff", /end of input/],
    ["a1 6161 9affffffff 00", /end of input/],
  ])("refuses %s", (bytes, problem) => {
    const error = errorOf(() => cborData(hex(bytes)));
    expect(error?.code).toBe("bad_data");
    expect(error?.value).toMatch(problem);
  });

  test("random bytes are refused with an error of ours, or can be used in every way", () => {
    const random = fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((tail) => Uint8Array.of(0xbf, 0x61, 0x61, ...tail)),
      fc.uint8Array({ maxLength: 40 }),
      // mostly heads of small items, so that the decoder gets further
      fc
        .array(
          fc.constantFrom(
            0x00,
            0x20,
            0x40,
            0x41,
            0x60,
            0x61,
            0x80,
            0x81,
            0x9f,
            0xa1,
            0xbf,
            0xc2,
            0xd8,
            0x80,
            0x25,
            0xf6,
            0xf9,
            0xff,
          ),
        )
        .map((tail) => Uint8Array.of(0xbf, ...tail, 0xff)),
      fc.tuple(values, fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
        const bytes = dataToCbor(encodeData({ value, u: uuid }));
        bytes[at % bytes.length] = byte;
        return bytes;
      }),
    );
    let accepted = 0;
    fc.assert(
      fc.property(random, (bytes) => {
        const error = errorOf(() => cborData(bytes));
        if (error !== null) {
          expect(error.code).toBe("bad_data");
          return;
        }
        accepted += 1;
        const data = cborData(bytes);
        const { text } = dataToJson(data);
        expect(jsonData(text)).toBe(text);
        expect(Object.keys(decodeData(data)).sort()).toEqual(Object.keys(JSON.parse(text) as object).sort());
        cborData(dataWith(data, "k", "v") as Uint8Array);
        expect(({} as Record<string, unknown>).x).toBeUndefined();
      }),
      { numRuns: 5000 },
    );
    expect(accepted).toBeGreaterThan(100);
  });
});

describe("encodeData", () => {
  class Point {
    readonly x = 1;
    readonly y = { z: 2 };
    sum(): number {
      return this.x + this.y.z;
    }
  }

  test.each<[what: string, value: unknown, json: string]>([
    ["nothing", {}, "{}"],
    [
      "scalars",
      { a: 1, b: -1.5, c: "é\ud800", d: null, e: true },
      '{"a":1,"b":-1.5,"c":"é\\ud800","d":null,"e":true}',
    ],
    ["undefined", { a: undefined, b: [undefined, 1] }, '{"b":[null,1]}'],
    ["dates", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    ["toJSON", { a: { toJSON: (key: string) => [key] } }, '{"a":["a"]}'],
    ["toJSON at the top", { toJSON: () => ({ a: 1 }) }, '{"a":1}'],
    ["instances", new Point(), '{"x":1,"y":{"z":2}}'],
    ["no prototype", Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    ["__proto__", JSON.parse('{"__proto__":{"x":1}}'), '{"__proto__":{"x":1}}'],
    ["floats that look like it in JSON", { a: 1e21, b: 5e-324 }, '{"a":1e+21,"b":5e-324}'],
    ["inherited keys are not data", Object.create({ inherited: 1n }), "{}"],
  ])("as JSON: %s", (_what, value, json) => {
    expect(encodeData(value)).toBe(json);
  });

  test.each<[what: string, value: unknown, item: string]>([
    ["bigint", 5n, "05"],
    ["long integers", 2n ** 64n - 1n, "1bffffffffffffffff"],
    ["longer integers", 2n ** 64n, "c249010000000000000000"],
    ["negative ones", -(2n ** 64n), "3bffffffffffffffff"],
    ["longer negative ones", -(2n ** 64n) - 1n, "c349010000000000000000"],
    ["Float", new Float(1), "fb3ff0000000000000"],
    ["-0", -0, "fb8000000000000000"],
    ["NaN", NaN, "fb7ff8000000000000"],
    ["infinity", -Infinity, "fbfff0000000000000"],
    ["integers that are not exact", 2 ** 53, "fb4340000000000000"],
    ["bytes", Uint8Array.of(1, 2), "420102"],
    ["Buffer", Buffer.of(1, 2), "420102"],
    ["UUID", uuid, "d82550 00112233445566778899aabbccddeeff"],
    [
      "tuple",
      Tuple.of(1, [undefined, new Date(0)]),
      "d88082 01 82 f6 7818 313937302d30312d30315430303a30303a30302e3030305a",
    ],
    [
      "Map",
      new Map<unknown, unknown>([
        ["b", 1],
        [2, null],
        [Uint8Array.of(255), true],
        ["gone", undefined],
      ]),
      "a3 6162 01 02 f6 41ff f5",
    ],
    ["boxed values", [new Float(0), Object("x"), Object(1)], "83 fb0000000000000000 6178 01"],
    ["toJSON", [1n, { toJSON: () => 2n }], "82 01 02"],
    ["escaped bytes", [1n, "\udcff", "😀"], "83 01 41ff 64f09f9880"],
    ["lone surrogates", [1n, "\ud800\udc80x\ud800"], "82 01 48 f0908280 78 eda080"],
  ])("as CBOR: %s", (_what, value, item) => {
    expect(toHex(encodeData({ a: value }) as Uint8Array)).toBe(toHex(inMap(item)));
  });

  test.each<[value: unknown, problem: RegExp]>([
    [null, /expected an object, got /],
    [undefined, /expected an object, got /],
    ["x", /expected an object, got /],
    [[1], /expected an object, got /],
    [Tuple.of(1), /expected an object, got /],
    [new Date(0), /expected an object, got a Date/],
    [uuid, /expected an object, got /],
    [Uint8Array.of(0xa0), /expected an object, got /],
    [{ f: () => 1 }, /a function in "f" cannot be stored/],
    [{ a: [Symbol("x")] }, /a symbol in "0" cannot be stored/],
    [{ s: new Set([1]) }, /a Set in "s" cannot be stored/],
    [{ p: Promise.resolve(1) }, /a promise \(a missing await\?\) in "p" cannot be stored/],
    [{ i: new Map().keys() }, /an iterator or a generator in "i" cannot be stored/],
    [{ s: new Float64Array(1) }, /a Float64Array in "s" cannot/],
    [{ s: new ArrayBuffer(1) }, /an ArrayBuffer in "s" cannot/],
    [{ m: new Map([[{}, 1]]) }, /a key that is an object/],
    [{ m: new Map([[undefined, 1]]) }, /a key that is undefined/],
  ])("refuses %s", (value, problem) => {
    const error = errorOf(() => encodeData(value));
    expect(error?.code).toBe("bad_data");
    expect(error?.value).toMatch(problem);
  });

  test("refuses what contains itself or is too deep", () => {
    const cyclic: Record<string, unknown> = { a: 1 };
    cyclic.self = [cyclic, cyclic];
    const map = new Map<string, unknown>();
    map.set("self", map);
    let deep: unknown = [];
    for (let level = 0; level < 600; level++) deep = level % 2 ? { deep } : [deep];
    for (const value of [cyclic, { map }, { deep }, { toJSON: () => cyclic }]) {
      expect(errorOf(() => encodeData(value))).toEqual({
        code: "bad_data",
        value: "nested too deeply, or contains itself",
      });
    }
  });

  test("refuses what is too large, in either encoding", () => {
    expect(errorOf(() => encodeData({ a: "é" }, { maxBytes: 9 }))?.code).toBe("too_large");
    expect(encodeData({ a: "é" }, { maxBytes: 10 })).toBe('{"a":"é"}');
    expect(errorOf(() => encodeData({ a: new Uint8Array(8) }, { maxBytes: 11 }))?.code).toBe("too_large");
    expect(encodeData({ a: new Uint8Array(8) }, { maxBytes: 12 })).toHaveLength(12);
    const shared = "x".repeat(1000);
    expect(errorOf(() => encodeData({ a: 1n, b: Array<string>(100_000).fill(shared) }))?.code).toBe(
      "too_large",
    );
  });

  test("what is encoded comes back", () => {
    fc.assert(
      fc.property(values, fc.boolean(), (value, precise) => {
        const data = encodeData(value);
        expectSame(decodeData(data, { precise }), normal(value, precise));
        if (typeof data === "string") expect(jsonData(data)).toBe(data);
        else expect(cborData(data)).toBe(data);
        // precise decoding and encoding again give the same values, in both encodings
        const again = encodeData(decodeData(data, { precise: true }));
        expectSame(decodeData(again, { precise: true }), decodeData(data, { precise: true }));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("the two wires", () => {
  // as the Go client sends and expects them
  test.each<[base64: string, value: Record<string, unknown>, json: string]>([
    ["oWNrZXnYgIA=", { key: new Tuple() }, '{"key":[]}'],
    [
      "o2RuYW1lY2Zvb2F02ICDAWF4QXlhddglUAECAwAAAAAAAAAAAAAAAAA=",
      {
        name: "foo",
        t: Tuple.of(1, "x", Uint8Array.of(0x79)),
        u: Uuid.parse("01020300-0000-0000-0000-000000000000"),
      },
      '{"name":"foo","t":[1,"x","y"],"u":"01020300-0000-0000-0000-000000000000"}',
    ],
    ["oWFt2CVQABEiM0RVZneImaq7zN3u/w==", { m: uuid }, '{"m":"00112233-4455-6677-8899-aabbccddeeff"}'],
    ["oWFt2ICCAQI=", { m: Tuple.of(1, 2) }, '{"m":[1,2]}'],
  ])("vector %s", (base64, value, json) => {
    const bytes = new Uint8Array(Buffer.from(base64, "base64"));
    expect(decodeData(cborData(bytes), { precise: true })).toStrictEqual(value);
    expect(encodeData(value)).toEqual(bytes);
    expect(dataToJson(cborData(bytes))).toEqual({ text: json, lossless: false });
  });

  test("vector with floats of both widths", () => {
    const data = cborData(new Uint8Array(Buffer.from("o2Fh+z/wAAAAAAAAYWL6P8AAAGF02ICA", "base64")));
    expect(decodeData(data)).toStrictEqual({ a: 1, b: 1.5, t: new Tuple() });
    expect(decodeData(data, { precise: true })).toStrictEqual({ a: new Float(1), b: 1.5, t: new Tuple() });
    expect(dataToJson(data)).toEqual({ text: '{"a":1.0,"b":1.5,"t":[]}', lossless: false });
  });

  test.each(["{}", '{"key":"value"}'])("vector %s is JSON as it stands", (text) => {
    expect(encodeData(JSON.parse(text))).toBe(text);
    expect(dataToJson(jsonData(text))).toEqual({ text, lossless: true });
  });

  test.each<[json: string, cbor: string]>([
    ["{}", "a0"],
    ['{"10":1,"2":2,"b":3,"a":4}', "a4 62313001 613202 616203 616104"],
    ['{"a":1.0}', "a1 6161 fb3ff0000000000000"],
    ['{"a":1}', "a1 6161 01"],
    ['{"a":-1}', "a1 6161 20"],
    ['{"a":1e21}', "a1 6161 fb444b1ae4d6e2ef50"],
    ['{"a":-0.0}', "a1 6161 fb8000000000000000"],
    ['{"a":12345678901234567890}', "a1 6161 1bab54a98ceb1f0ad2"],
    ['{"a":-123456789012345678901}', "a1 6161 c349 06b14e9f812f366c34"],
    ['{"a":[true,false,null,"\\u00e9\\n"]}', "a1 6161 84 f5 f4 f6 63c3a90a"],
    ['{"__proto__":{"x":1}}', "a1 69 5f5f70726f746f5f5f a1 6178 01"],
  ])("%s in CBOR", (json, cbor) => {
    const bytes = dataToCbor(jsonData(json));
    expect(toHex(bytes)).toBe(toHex(hex(cbor)));
    const back = dataToJson(cborData(bytes));
    expect(back.lossless).toBe(true);
    expect(toHex(dataToCbor(jsonData(back.text)))).toBe(toHex(bytes));
  });

  test.each<[item: string, json: string, lossless: boolean]>([
    ["fb3ff0000000000000", "1.0", true],
    ["fb8000000000000000", "-0.0", true],
    ["fb444b1ae4d6e2ef50", "1e+21", true],
    ["fb4340000000000000", "9007199254740992.0", true],
    ["1b0020000000000001", "9007199254740993", true],
    ["c249010000000000000000", "18446744073709551616", true],
    ["f7", "null", true],
    ["7f 6122 6161 ff", '"\\"a"', true],
    ["f97e00", "null", false],
    ["f97c00", "null", false],
    ["43ff0001", '{"$base64":"/wAB"}', false],
    ["43c3a921", '"é!"', false],
    ["d88080", "[]", false],
    ["a1 4162 01", '{"b":1}', true],
    ["a1 41ff 01", '{"\\udcff":1}', false],
    ["a1 01 01", '{"1":1}', false],
    ["9f 01 bf ff ff", "[1,{}]", true],
  ])("%s in JSON", (item, json, lossless) => {
    expect(dataToJson(cborData(inMap(item)))).toEqual({ text: `{"a":${json}}`, lossless });
  });

  test("JSON comes back from CBOR with its numbers as they were", () => {
    const number = fc.oneof(
      fc.integer().map(String),
      fc.bigInt(-(2n ** 100n), 2n ** 100n).map(String),
      fc.integer().map((n) => `${n}.0`),
    );
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ unit: "grapheme" })), number, (keys, literal) => {
        const text = `{${keys.map((key) => `${JSON.stringify(key)}:[${literal}]`).join(",")}}`;
        expect(dataToJson(cborData(dataToCbor(jsonData(text))))).toEqual({
          text: text.replaceAll("[-0]", "[0]"),
          lossless: true,
        });
      }),
    );
  });

  test("decoding JSON keeps long integers, and floats when precise", () => {
    const data = jsonData(
      '{"a":9007199254740993,"b":1.0,"c":[1e2,0.5],"d":"1234567890123456","__proto__":1}',
    );
    const plain = decodeData(data);
    expect(plain.a).toBe(9007199254740993n);
    expect(plain.b).toBe(1);
    expect(Object.keys(plain)).toEqual(["a", "b", "c", "d", "__proto__"]);
    expect(Object.getPrototypeOf(plain)).toBe(Object.prototype);
    expect(decodeData(data, { precise: true }).c).toStrictEqual([new Float(100), 0.5]);
  });

  test("decoding JSON by hand is decoding JSON", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom("", " ", "\n\t"),
        (value, indent) => {
          fc.pre(!/\d{16}/.test(JSON.stringify(value)));
          const data = jsonData(
            JSON.stringify({ value, big: 0 }, null, indent).replace(
              /"big":(\s*)0/,
              '"big":$1 12345678901234567890',
            ),
          );
          expect(decodeData(data)).toStrictEqual({
            ...(JSON.parse(data) as object),
            big: 12345678901234567890n,
          });
        },
      ),
    );
  });

  test("sizes are of the encoding", () => {
    expect(dataByteLength(jsonData('{"a":"é"}'))).toBe(10);
    expect(dataByteLength(cborData(inMap("01")))).toBe(4);
  });
});

describe("UUIDs and tuples", () => {
  test("are what they say", () => {
    expect(String(uuid)).toBe("00112233-4455-6677-8899-aabbccddeeff");
    expect(JSON.stringify({ uuid, float: new Float(1.5) })).toBe(
      '{"uuid":"00112233-4455-6677-8899-aabbccddeeff","float":1.5}',
    );
    expect(Uuid.parse("00112233-4455-6677-8899-AABBCCDDEEFF").bytes).toEqual(uuid.bytes);
    expect(Tuple.of(3)).toHaveLength(1);
    expect(+new Float(2) + 1).toBe(3);
  });

  test.each(["", "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddeefg"])(
    "%j is no UUID",
    (text) => {
      expect(errorOf(() => Uuid.parse(text))?.code).toBe("bad_data");
      expect(errorOf(() => new Uuid(Buffer.from(text)))?.code).toBe("bad_data");
    },
  );
});

describe("one key as text", () => {
  test.each<[json: string | null, result: string]>([
    [null, '{"k":"v\\n"}'],
    ["{}", '{"k":"v\\n"}'],
    [" { } ", ' { "k":"v\\n"} '],
    ['{"a":1.0}', '{"a":1.0,"k":"v\\n"}'],
    ['{"a":"}" }\n', '{"a":"}" ,"k":"v\\n"}\n'],
    ['{"k" : {"x":[1]} , "a":1.0}', '{"k" : "v\\n" , "a":1.0}'],
    ['{"k":1,"a":{"k":2},"k":3}', '{"k":"v\\n","a":{"k":2},"k":"v\\n"}'],
    ['{"\\u006b":1}', '{"\\u006b":"v\\n"}'],
  ])("set in %s", (json, result) => {
    const data = dataWith(json === null ? null : jsonData(json), "k", "v\n");
    expect(data).toBe(result);
    expect(jsonData(data as string)).toBe(result);
    expect(dataGetText(data, "k")).toBe("v\n");
  });

  test.each<[cbor: string, result: string]>([
    ["a0", "a1 616b 6176"],
    ["bf ff", "bf 616b 6176 ff"],
    ["a1 6161 f90000", "a2 6161 f90000 616b 6176"],
    ["b800", "a1 616b 6176"],
    ["a2 616b 820102 6161 00", "a2 616b 6176 6161 00"],
    ["a1 416b 00", "a1 416b 6176"],
    ["a2 416b 00 616b 01", "a2 416b 6176 616b 6176"],
    ["bf 7f 616b ff 00 ff", "bf 7f 616b ff 6176 ff"],
    [`b7 ${"416100".repeat(23)}`, `b818 ${"416100".repeat(23)} 616b 6176`],
  ])("set in %s", (cbor, result) => {
    const data = dataWith(cborData(hex(cbor)), "k", "v") as Uint8Array;
    expect(toHex(data)).toBe(toHex(hex(result)));
    expect(dataGetText(cborData(data), "k")).toBe("v");
  });

  test("keeps every other entry as it was, to the byte", () => {
    fc.assert(
      fc.property(
        values,
        fc.string({ unit: "binary" }),
        fc.string(),
        fc.boolean(),
        (value, key, text, present) => {
          const source = encodeData(present ? { ...value, [key]: 1, z: uuid } : value);
          for (const data of [source, cborData(dataToCbor(source)), jsonData(dataToJson(source).text)]) {
            const changed = dataWith(data, key, text);
            expect(dataGetText(changed, key)).toBe(text);
            expect(entries(changed, key)).toEqual(entries(data, key));
          }
        },
      ),
    );
  });

  test.each<[json: string, text: string | null]>([
    ['{"a":1}', null],
    ['{"k":1}', null],
    ['{"k":null}', null],
    ['{"k":"x","k":"y\\u0000"}', "y\0"],
    ['{"a":{"k":"x"},"b":"\\"k\\":\\"y\\""}', null],
  ])("read from %s", (json, text) => {
    expect(dataGetText(jsonData(json), "k")).toBe(text);
    expect(dataGetText(cborData(dataToCbor(jsonData(json))), "k")).toBe(text);
  });

  test("read from bytes", () => {
    expect(dataGetText(cborData(hex("a1 416b 41ff")), "k")).toBe("\udcff");
    expect(dataGetText(cborData(hex("a1 616b 41ff")), "k")).toBe("\udcff");
  });
});

/** The raw entries of the data, without those of one key. */
function entries(data: Data, but: string): string[] {
  if (typeof data === "string") {
    return [...jsonMembers(data)]
      .filter(({ key }) => key !== but)
      .map(({ key, start, end }) => `${key}:${data.slice(start, end)}`);
  }
  return [...cborEntries(data, 0)]
    .filter(
      ({ key }) =>
        Object.keys(
          decodeData(cborData(Buffer.concat([hex("a1"), data.subarray(key.start, key.end), hex("00")]))),
        )[0] !== but,
    )
    .map(
      ({ key, start, end }) => toHex(data.subarray(key.start, key.end)) + toHex(data.subarray(start, end)),
    );
}

describe("slices", () => {
  test("of JSON join to the same text", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue()), (object, array) => {
        const text = jsonData(JSON.stringify({ ...object, array }));
        const members = [...jsonMembers(text)];
        expect(
          `{${members.map(({ key, start, end }) => `${JSON.stringify(key)}:${text.slice(start, end)}`).join(",")}}`,
        ).toBe(text);
        const list = members.find(({ key }) => key === "array");
        const items = [...jsonItems(text, list?.start)].map(({ start, end }) => text.slice(start, end));
        expect(`[${items.join(",")}]`).toBe(text.slice(list?.start, list?.end));
      }),
    );
  });

  test("of JSON with white space leave it out", () => {
    const text = jsonData(' { "a" : 1.0 , "b" : [ ] ,\n"c":"\\\\" , "d" : [ true ,{ } , "x]" , -1e5 ]\n} ');
    expect([...jsonMembers(text)].map(({ key, start, end }) => [key, text.slice(start, end)])).toEqual([
      ["a", "1.0"],
      ["b", "[ ]"],
      ["c", '"\\\\"'],
      ["d", '[ true ,{ } , "x]" , -1e5 ]'],
    ]);
    const list = [...jsonMembers(text)].at(-1)?.start;
    expect([...jsonItems(text, list)].map(({ start, end }) => text.slice(start, end))).toEqual([
      "true",
      "{ }",
      '"x]"',
      "-1e5",
    ]);
  });

  test("of CBOR join to the same bytes", () => {
    fc.assert(
      fc.property(fc.array(values), (array) => {
        const bytes = cborData(dataToCbor(encodeData({ array: Tuple.from(array) })));
        const [entry] = [...cborEntries(bytes, 0)];
        const start = entry?.start ?? 0;
        const items = [...cborItems(bytes, start)];
        expect(items).toHaveLength(array.length);
        // each item starts where the previous one ended, and the last ends with the map
        expect(items.slice(1).map((item) => item.start)).toEqual(items.slice(0, -1).map((item) => item.end));
        if (items.length > 0) expect(items.at(-1)?.end).toBe(bytes.length);
      }),
    );
  });
});
