import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CoordinateError, nameFromBytes, verbNames } from "../../src/core/index.ts";
import { nameFromUrl, nameToUrl } from "../../src/rest/url-name.ts";
import { verbArgs, verbBody } from "../../src/rest/verbs.ts";
import { readWire, writeLine, writeWire } from "../../src/rest/wire.ts";

function saidOf(run: () => unknown): string {
  try {
    run();
    return "";
  } catch (error) {
    return String(error);
  }
}

/** Values without a member named `data`. */
const plain = fc.jsonValue({ maxDepth: 4 }).filter((value) => !JSON.stringify(value).includes('"data"'));

describe("the wire", () => {
  test("reads what JSON.parse reads, and writes what it reads again", () => {
    fc.assert(
      fc.property(plain, fc.constantFrom(undefined, 1, "\t"), (value, space) => {
        const text = JSON.stringify(value, null, space);
        expect(readWire(text)).toEqual(JSON.parse(text));
        expect(readWire(writeWire(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 2000 },
    );
  });

  test("refuses what JSON.parse refuses", () => {
    const garbled = fc
      .tuple(
        plain,
        fc.nat(),
        fc.constantFrom("", "{", "}", "[", ",", '"', "\\", "1", "e", "\u0001", "-", ".", "tru"),
      )
      .map(([value, at, piece]) => {
        const text = JSON.stringify(value);
        const cut = at % (text.length + 1);
        return text.slice(0, cut) + piece + text.slice(cut + 1);
      });
    const fate = (read: () => unknown): string => {
      try {
        return JSON.stringify(read());
      } catch (error) {
        // duplicate keys are refused here, but not by JSON.parse
        return String(error).includes("repeated key") ? "twice" : "refused";
      }
    };
    fc.assert(
      fc.property(garbled, (text) => {
        if (text.includes('"data"') || /[eE]\+?\d{3}/.test(text)) return;
        const here = fate(() => readWire(text));
        if (here !== "twice") expect(here).toBe(fate(() => JSON.parse(text)));
      }),
      { numRuns: 5000 },
    );
  });

  test("data passes untouched, in both encodings", () => {
    for (const text of [
      '{"a":1.0,"b":{"data":[1e2]},"a":"\\u00e9"}',
      "{ }",
      '{"data":{"x":"}\\""}}',
      '{"n":123456789012345678901234567890}',
    ]) {
      const read = readWire(`{"units":[{"data":${text},"name":"u"}]}`) as { units: [{ data: string }] };
      expect(read.units[0].data).toBe(text);
      expect(writeWire(read)).toBe(`{"units":[{"data":${text},"name":"u"}]}`);
    }
    const bytes = readWire('{"data":"oWNrZXnYgIA="}') as { data: Uint8Array };
    expect(bytes.data).toBeInstanceOf(Uint8Array);
    expect(writeWire(bytes)).toBe('{"data":"oWNrZXnYgIA="}');
  });

  test("base64 is checked as a whole", () => {
    const strict = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
    const text = fc.string({
      unit: fc.constantFrom("A", "z", "9", "+", "/", "=", "-", "_", " ", "é", "\u0141"),
      maxLength: 9,
    });
    fc.assert(
      fc.property(text, (text) => {
        const refused = saidOf(() => readWire(JSON.stringify({ data: text }))).includes("illegal base64");
        expect(refused).toBe(!strict.test(text));
      }),
      { numRuns: 5000 },
    );
  });

  test.each([
    '{"data":5}',
    '{"data":[]}',
    '{"data":true}',
    '{"data":"oW"}',
    '{"data":"oWNrZXn"}',
    '{"data":{"a":}}',
    '{"data":{"a":[}]}',
    '{"data":{',
  ])("%s is refused", (text) => expect(() => readWire(text)).toThrow(CoordinateError));

  test("a line is a line", () => {
    expect(writeLine(readWire('{"data":{\n"a":\r\n"b\\n"}}'))).toBe('{"data":{ "a":  "b\\n"}}\n');
  });

  test("keys of the prototype are keys", () => {
    const read = readWire('{"__proto__":{"x":1},"toString":2}') as object;
    expect(Object.keys(read)).toEqual(["__proto__", "toString"]);
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  });
});

describe("names in URLs", () => {
  test.each([
    ["foo", "foo"],
    ["", "-"],
    ["-", "-LQ"],
    ["-abc", "-LWFiYw"],
    ["\u0000", "-AA"],
    ["a/b", "-YS9i"],
    ["a b", "-YSBi"],
    ["a+b", "-YSti"],
    ["100%", "-MTAwJQ"],
    ["~", "-fg"],
    ["é", "-w6k"],
    ["日本", "-5pel5pys"],
    ["\udcff", "-_w"],
    ["a:b", "a:b"],
    ["a.b_c-d:e", "a.b_c-d:e"],
    [".", "-Lg"],
    ["..", "-Li4"],
  ])("%j is %s", (name, segment) => {
    expect(nameToUrl(name)).toBe(segment);
    expect(nameFromUrl(segment)).toBe(name);
  });

  test("any bytes, there and back, and nothing that a URL would change", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), (bytes) => {
        const name = nameFromBytes(bytes);
        const segment = nameToUrl(name);
        expect(nameFromUrl(segment)).toBe(name);
        expect(new URL(`http://h/x/${segment}/y`).pathname).toBe(`/x/${segment}/y`);
      }),
      { numRuns: 5000 },
    );
  });

  test("encoded forms of harmless names are understood", () => expect(nameFromUrl("-Zm8")).toBe("fo"));
  test.each(["-!", "-A", "-Zm9=", "-a b"])("%s is refused", (segment) =>
    expect(() => nameFromUrl(segment)).toThrow(/illegal base64/),
  );
});

test("a verb's arguments come out of its body as they went in", () => {
  for (const verb of verbNames) {
    const args = Array.from({ length: 4 }, (_, i) => ({ [`field${i}`]: i }));
    const body = verbBody(verb, args);
    const out = verbArgs(verb, body);
    expect(out).toEqual(args.slice(0, out.length));
  }
});
