import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ErrorCode, isCoordinateError } from "../../src/core/errors.ts";
import {
  canonicalName,
  checkName,
  compareNames,
  isPlainName,
  type NameKind,
  nameByteLength,
  nameFromBytes,
  nameHasPrefix,
  nameLimits,
  nameToBytes,
  prefixEnd,
} from "../../src/core/names.ts";

function errorOf(run: () => unknown): { code: ErrorCode; value: string } | null {
  try {
    run();
    return null;
  } catch (error) {
    if (!isCoordinateError(error)) throw error;
    return { code: error.code, value: error.value };
  }
}

/** Bytes that are almost UTF-8, so that every rule of UTF-8 is tested often. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 8 }).map((text) => new Uint8Array(Buffer.from(text))),
  fc
    .array(
      fc.constantFrom(
        0x41,
        0x7f,
        0x80,
        0xa0,
        0xbf,
        0xc3,
        0xe0,
        0xed,
        0xee,
        0xef,
        0xf0,
        0x90,
        0x9f,
        0xf4,
        0x8f,
        0xff,
      ),
      {
        maxLength: 8,
      },
    )
    .map((units) => Uint8Array.from(units)),
);
const names = bytes.map(nameFromBytes);

describe("bytes and names", () => {
  test.each<[what: string, bytes: number[], name: string]>([
    ["nothing", [], ""],
    ["ASCII", [0x61, 0x62], "ab"],
    ["NUL", [0], "\0"],
    ["two bytes", [0xc3, 0xa9], "é"],
    ["a byte order mark, which is kept", [0xef, 0xbb, 0xbf, 0x61], "\ufeffa"],
    ["astral", [0xf0, 0x9f, 0x98, 0x80], "😀"],
    ["U+FFFD itself", [0xef, 0xbf, 0xbd], "\ufffd"],
    ["one bad byte", [0xff], "\udcff"],
    ["a cut character", [0x61, 0xc3], "a\udcc3"],
    ["a cut character before another", [0xe2, 0x82, 0xc3, 0xa9], "\udce2\udc82é"],
    ["overlong", [0xc0, 0x80], "\udcc0\udc80"],
    ["overlong in three", [0xe0, 0x9f, 0xbf], "\udce0\udc9f\udcbf"],
    ["an encoded surrogate", [0xed, 0xa0, 0x80], "\udced\udca0\udc80"],
    ["beyond U+10FFFF", [0xf4, 0x90, 0x80, 0x80], "\udcf4\udc90\udc80\udc80"],
  ])("%s", (_what, raw, name) => {
    expect(nameFromBytes(Uint8Array.from(raw))).toBe(name);
    expect([...nameToBytes(name)]).toEqual(raw);
    expect(nameByteLength(name)).toBe(raw.length);
  });

  test("a view in the middle of a buffer is read alone", () => {
    expect(nameFromBytes(Uint8Array.of(0x61, 0x62, 0xff, 0x63).subarray(1, 3))).toBe("b\udcff");
  });

  test("every byte string comes back", () => {
    fc.assert(
      fc.property(bytes, (raw) => {
        const name = nameFromBytes(raw);
        expect(Buffer.compare(nameToBytes(name), raw)).toBe(0);
        expect(nameByteLength(name)).toBe(raw.length);
        expect(canonicalName(name)).toBe(name);
      }),
      { numRuns: 2000 },
    );
  });

  test("different bytes are different names", () => {
    fc.assert(
      fc.property(
        bytes,
        bytes,
        (a, b) => (nameFromBytes(a) === nameFromBytes(b)) === (Buffer.compare(a, b) === 0),
      ),
      { numRuns: 2000 },
    );
  });

  test.each([
    ["\udcc3\udca9", "é"],
    ["a\udcf0\udc9f\udc98\udc80b", "a😀b"],
    ["\udc41", null],
    ["\ud800", null],
    ["\udfff", null],
    ["\udc80\ud83d", null],
    ["\udc80", "\udc80"],
    ["😀", "😀"],
  ])("canonicalName(%j) is %j", (name, canonical) => {
    if (canonical === null) expect(errorOf(() => canonicalName(name))?.code).toBe("bad_name");
    else expect(canonicalName(name)).toBe(canonical);
  });
});

describe("order", () => {
  test.each([
    ["", "a", -1],
    ["a", "a", 0],
    ["a", "b", -1],
    ["ab", "a", 1],
    ["Z", "a", -1],
    ["z", "é", -1],
    ["\uffff", "😀", -1],
    ["\ue000", "😀", -1],
    ["\ud7ff", "\ue000", -1],
    ["😀", "😁", -1],
    ["\u{1f600}", "\u{20000}", -1],
    ["\udc80", "é", -1],
    ["\udcff", "😀", 1],
    ["\udcc3", "é", -1],
    ["\udcc3z", "é", -1],
    ["\udcf0", "😀", -1],
    ["x\udcff", "x\udcfe", 1],
  ])("%j and %j", (a, b, order) => {
    expect(Math.sign(compareNames(a, b))).toBe(order);
    expect(Math.sign(compareNames(b, a))).toBe(order === 0 ? 0 : -order);
  });

  test("is the order of the bytes", () => {
    fc.assert(
      fc.property(names, names, names, (start, a, b) => {
        // a shared prefix makes the names differ late; concatenating bytes keeps them canonical
        const left = nameFromBytes(Buffer.concat([nameToBytes(start), nameToBytes(a)]));
        const right = nameFromBytes(Buffer.concat([nameToBytes(start), nameToBytes(b)]));
        expect(Math.sign(compareNames(left, right))).toBe(
          Buffer.compare(nameToBytes(left), nameToBytes(right)),
        );
      }),
      { numRuns: 5000 },
    );
  });

  test("of plain names is JavaScript's own", () => {
    fc.assert(
      fc.property(names.filter(isPlainName), names.filter(isPlainName), (a, b) => {
        expect(a < b).toBe(compareNames(a, b) < 0);
      }),
      { numRuns: 2000 },
    );
    expect(["abc", "é", "\ud7ff"].every(isPlainName)).toBe(true);
    expect(["😀", "\ue000", "\udc80"].some(isPlainName)).toBe(false);
  });
});

describe("prefixes", () => {
  test.each<[prefix: string, end: number[] | null]>([
    ["", null],
    ["a", [0x62]],
    ["é", [0xc3, 0xaa]],
    ["a\udcff", [0x62]],
    ["\udcff\udcff", null],
    ["\u007f", [0x80]],
  ])("prefixEnd(%j)", (prefix, end) => {
    const found = prefixEnd(prefix);
    expect(found === null ? null : [...found]).toEqual(end);
  });

  test("the range and nameHasPrefix agree with the bytes", () => {
    const short = fc.uint8Array({ maxLength: 3 }).map(nameFromBytes);
    fc.assert(
      fc.property(names, fc.oneof(short, names), fc.boolean(), (name, other, cut) => {
        const raw = nameToBytes(name);
        const start = cut ? raw.subarray(0, other.length % (raw.length + 1)) : nameToBytes(other);
        const prefix = nameFromBytes(start);
        const expected = raw.subarray(0, start.length).equals(start);
        const end = prefixEnd(prefix);
        expect(nameHasPrefix(name, prefix)).toBe(expected);
        expect(Buffer.compare(raw, start) >= 0 && (end === null || Buffer.compare(raw, end) < 0)).toBe(
          expected,
        );
      }),
      { numRuns: 3000 },
    );
  });
});

describe("checkName", () => {
  const kinds = Object.keys(nameLimits) as NameKind[];

  test.each(kinds)("%s: names up to the limit in bytes", (kind) => {
    const { max } = nameLimits[kind];
    for (const character of ["a", "é", "€", "😀", "\udcff"]) {
      const fits = character.repeat(max / nameByteLength(character));
      expect(checkName(kind, fits)).toBe(fits);
      const over = `${fits}${"a".repeat(max - nameByteLength(fits) + 1)}`;
      expect(errorOf(() => checkName(kind, over))).toEqual({
        code: "too_large",
        value: `${kind} name of ${max + 1} bytes, the limit is ${max}`,
      });
    }
  });

  test.each<[kind: NameKind, allowed: boolean]>([
    ["namespace", true],
    ["work spec", false],
    ["work unit", true],
    ["worker", true],
  ])("%s: the empty name is allowed: %s", (kind, allowed) => {
    if (allowed) expect(checkName(kind, "")).toBe("");
    else
      expect(errorOf(() => checkName(kind, ""))).toEqual({
        code: "bad_name",
        value: expect.stringMatching(`^${kind}: expected 1 to \\d+ bytes, got ""$`) as string,
      });
  });

  test.each<[given: unknown, shown: string]>([
    [5, "5"],
    [null, "null"],
    [undefined, "undefined"],
    [["a"], "a list"],
    [{}, "an object"],
  ])("%j is not a name", (given, shown) => {
    expect(errorOf(() => checkName("work unit", given))).toEqual({
      code: "bad_name",
      value: `work unit: expected a string, got ${shown}`,
    });
  });

  test("gives the canonical spelling", () => {
    expect(checkName("work unit", "\udcc3\udca9")).toBe("é");
    expect(checkName("work unit", "\udc80")).toBe("\udc80");
    expect(checkName("work unit", "../a%2f?#\0")).toBe("../a%2f?#\0");
  });

  test.each(["\ud800", "a\udc00", "\udcff\udbff"])("%j stands for no bytes", (name) => {
    expect(errorOf(() => checkName("worker", name))?.code).toBe("bad_name");
  });
});
