import { describe, expect, test } from "vitest";
import { type OutputUnit, readOutputs } from "../../src/core/chaining.ts";
import {
  cborData,
  type Data,
  dataToCbor,
  decodeData,
  encodeData,
  jsonData,
  Tuple,
  Uuid,
} from "../../src/core/data.ts";

function unit(name: string, data: unknown = null, priority = 0, delayMs = 0): unknown {
  return { name, data, priority, delayMs, partition: "" };
}

/** The units with decoded data, so that one expectation fits both encodings. */
function shown(units: readonly OutputUnit[]): unknown[] {
  return units.map((one) => ({ ...one, data: one.data === null ? null : decodeData(one.data) }));
}

/** The same output as JSON text and as CBOR. */
function bothEncodings(output: unknown): Data[] {
  const data = jsonData(JSON.stringify({ before: 1, output, after: [2] }));
  return [data, cborData(dataToCbor(data))];
}

describe("what is created", () => {
  test.each<[what: string, output: unknown, units: unknown[]]>([
    ["an object", { a: { x: 1 }, b: {} }, [unit("a", { x: 1 }), unit("b", {})]],
    ["an object with null data", { a: null }, [unit("a")]],
    ["an object with the empty name", { "": {} }, [unit("", {})]],
    ["a list of names", ["b", "a", "é😀"], [unit("b"), unit("a"), unit("é😀")]],
    ["a list of a list with a name", [["a"]], [unit("a")]],
    ["name and data", [["a", { x: [1, { y: 2 }] }]], [unit("a", { x: [1, { y: 2 }] })]],
    ["name and null", [["a", null]], [unit("a")]],
    ["metadata", [["a", {}, { priority: 5, delay: 1.5 }]], [unit("a", {}, 5, 1500)]],
    ["empty metadata", [["a", {}, {}]], [unit("a", {})]],
    ["null metadata", [["a", {}, null]], [unit("a", {})]],
    ["nulls in metadata", [["a", {}, { priority: null, delay: null }]], [unit("a", {})]],
    ["unknown metadata", [["a", {}, { colour: "red" }]], [unit("a", {})]],
    ["a priority of its own", [["a", {}, null, 7]], [unit("a", {}, 7)]],
    [
      "a priority over that of the metadata",
      [["a", {}, { priority: 5, delay: 2 }, -7.5]],
      [unit("a", {}, -7.5, 2000)],
    ],
    ["a null priority does not", [["a", {}, { priority: 5 }, null]], [unit("a", {}, 5)]],
    ["more elements are ignored", [["a", {}, {}, 1, "x", 9]], [unit("a", {}, 1)]],
    [
      "delay zero and less",
      [
        ["a", {}, { delay: 0 }],
        ["b", {}, { delay: -3 }],
      ],
      [unit("a", {}), unit("b", {})],
    ],
    ["a mixture", ["a", ["b", { x: 1 }], "c"], [unit("a"), unit("b", { x: 1 }), unit("c")]],
    [
      "the last of one name",
      ["a", ["b"], ["a", { x: 1 }], ["a", { x: 2 }]],
      [unit("a", { x: 2 }), unit("b")],
    ],
    ["null", null, []],
    ["an empty object", {}, []],
    ["an empty list", [], []],
    ["an empty string", "", []],
  ])("%s", (_what, output, units) => {
    for (const data of bothEncodings(output)) {
      const outputs = readOutputs(data);
      expect(shown(outputs.units)).toEqual(units);
      expect(outputs.errors).toEqual([]);
    }
  });

  test("nothing without output", () => {
    expect(readOutputs(null)).toEqual({ units: [], errors: [] });
    expect(readOutputs(encodeData({}))).toEqual({ units: [], errors: [] });
    expect(readOutputs(jsonData('{"x":{"output":["a"]},"y":"\\"output\\""}'))).toEqual({
      units: [],
      errors: [],
    });
  });

  test("the key may be written with escapes; the last one counts", () => {
    const data = jsonData('{"output":["a"],"\\u006futput":["b"]}');
    expect(shown(readOutputs(data).units)).toEqual([unit("b")]);
  });

  test("data are the very characters of the output", () => {
    const data = jsonData(
      '{"output" : {"a": {"n": 1.0, "big":12345678901234567890 , "n":2} , "b":[{"x":1}]}}',
    );
    const { units, errors } = readOutputs(data);
    expect(units.map((one) => one.data)).toEqual(['{"n": 1.0, "big":12345678901234567890 , "n":2}']);
    expect(errors).toEqual(['output["b"]: data is an array, not an object']);
  });

  test("data are the very bytes of the output", () => {
    const inner = Buffer.from("bf416e f90000 ff".replaceAll(" ", ""), "hex"); // {_ b"n": 0.0 (half) }
    const bytes = Buffer.concat([Buffer.from("a1466f7574707574a1416b", "hex"), inner]); // {b"output": {b"k": ...}}
    const { units } = readOutputs(cborData(bytes));
    expect(units[0]?.name).toBe("k");
    expect(units[0]?.data).toEqual(new Uint8Array(inner));
    bytes.fill(0); // not a view of the frame
    expect(units[0]?.data).toEqual(new Uint8Array(inner));
  });

  test("what Python sends: tuples, byte strings, names that are not UTF-8", () => {
    const data = encodeData({
      output: Tuple.of(
        Uint8Array.of(0xff, 0x61),
        Tuple.of(
          Uint8Array.of(0x62),
          { u: Uuid.parse("00112233-4455-6677-8899-aabbccddeeff") },
          { delay: 1 },
        ),
        [Uint8Array.of(0x63), null, null, 2n ** 70n],
      ),
    });
    const { units, errors } = readOutputs(data);
    expect(errors).toEqual([]);
    expect(units.map(({ name, priority, delayMs }) => ({ name, priority, delayMs }))).toEqual([
      { name: "\udcffa", priority: 0, delayMs: 0 },
      { name: "b", priority: 0, delayMs: 1000 },
      { name: "c", priority: 2 ** 70, delayMs: 0 },
    ]);
  });

  test("keys of metadata may be bytes", () => {
    const metadata = new Map<unknown, unknown>([
      [Buffer.from("priority"), 3],
      [Buffer.from("delay"), 0.25],
    ]);
    expect(shown(readOutputs(encodeData({ output: [["a", {}, metadata]] })).units)).toEqual([
      unit("a", {}, 3, 250),
    ]);
  });

  test("two spellings of the same bytes are one name", () => {
    const data = jsonData('{"output":[["\\udcc3\\udca9",{"n":1}],["é",{"n":2}]]}');
    expect(shown(readOutputs(data).units)).toEqual([unit("é", { n: 2 })]);
  });
});

describe("what is skipped", () => {
  const long = "x".repeat(5000);

  test.each<[output: unknown, errors: string[]]>([
    ["text", ["output: is a string, not an object or a list"]],
    [5, ["output: is a number, not an object or a list"]],
    [true, ["output: is a boolean, not an object or a list"]],
    [{ a: "x", b: {} }, ['output["a"]: data is a string, not an object']],
    [{ a: [["b"]], b: {} }, ['output["a"]: data is an array, not an object']],
    [["b", 5], ["output[1]: is a number, not a name or a list"]],
    [[null, "b"], ["output[0]: is null, not a name or a list"]],
    [[{ name: "a" }, "b"], ["output[0]: is an object, not a name or a list"]],
    [[[], "b"], ["output[0]: is an empty list"]],
    [[[5, {}], "b"], ["output[0]: name is a number, not a string"]],
    [[["a", "x"], "b"], ["output[0]: data is a string, not an object"]],
    [[["a", {}, 5], "b"], ["output[0]: metadata is a number, not an object"]],
    [[["a", {}, { priority: "5" }], "b"], ["output[0]: priority is a string, not a number"]],
    [[["a", {}, { delay: true }], "b"], ["output[0]: delay is a boolean, not a number"]],
    [[["a", {}, { delay: 1e300 }], "b"], ["output[0]: delay of 1e+300 seconds is too long"]],
    [[["a", {}, {}, "7"], "b"], ["output[0]: priority is a string, not a number"]],
    [[long, "b"], ["output[0]: Too large: work unit name of 5000 bytes, the limit is 4096"]],
    [
      { [long]: {}, b: {} },
      [`output["${"x".repeat(58)}…]: Too large: work unit name of 5000 bytes, the limit is 4096`],
    ],
  ])("%j", (output, errors) => {
    for (const data of bothEncodings(output)) {
      const outputs = readOutputs(data);
      expect(outputs.errors).toEqual(errors);
      expect(outputs.units.map((one) => one.name)).toEqual(typeof output === "object" ? ["b"] : []);
    }
  });

  test("what only CBOR can say", () => {
    const output = [
      ["a", {}, { priority: NaN }],
      ["a", {}, { delay: Infinity }],
      ["a", new Uuid(new Uint8Array(16))],
      [new Uuid(new Uint8Array(16))],
      ["b", {}],
    ];
    expect(readOutputs(encodeData({ output }))).toMatchObject({
      units: [{ name: "b" }],
      errors: [
        "output[0]: priority is NaN",
        "output[1]: delay is Infinity",
        "output[2]: data is a UUID, not an object",
        "output[3]: name is a UUID, not a string",
      ],
    });
    const keys = new Map<unknown, unknown>([
      [1, {}],
      ["b", {}],
    ]);
    expect(readOutputs(encodeData({ output: keys }))).toMatchObject({
      units: [{ name: "b" }],
      errors: ['output["1"]: name is not a string'],
    });
  });

  test("a name that stands for no bytes", () => {
    const { units, errors } = readOutputs(jsonData('{"output":["\\ud800","b"]}'));
    expect(units.map((one) => one.name)).toEqual(["b"]);
    expect(errors).toEqual([
      "output[0]: Bad name: lone surrogate U+D800 at position 0; only U+DC80 to U+DCFF stand for a byte",
    ]);
  });

  test("a hundred errors are told, the rest counted", () => {
    const { units, errors } = readOutputs(
      jsonData(JSON.stringify({ output: [...Array<number>(250).fill(1), "b"] })),
    );
    expect(units).toHaveLength(1);
    expect(errors).toHaveLength(101);
    expect(errors.at(-1)).toBe("and 150 more");
  });

  test("errors are at most 200 characters and never half of one", () => {
    const output = Object.fromEntries(
      Array.from({ length: 100 }, (_, n) => [`${"x".repeat(n)}${"😀".repeat(2000)}`, 1]),
    );
    for (const data of bothEncodings(output)) {
      for (const text of readOutputs(data).errors) {
        expect(text.length).toBeLessThanOrEqual(200);
        expect(Buffer.from(text).toString()).toBe(text);
        expect(text).toMatch(/Too large|data is a number/);
      }
    }
  });
});
