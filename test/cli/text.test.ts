/** The helpers that all commands use: escapes, widths, tables, times, JSON, words. */
import { describe, expect, test } from "vitest";
import { quote, show, showJson, showText, unescape } from "../../src/cli/escape.ts";
import { rawData, withData, writeJson } from "../../src/cli/json.ts";
import { splitWords } from "../../src/cli/shell.ts";
import { cut, tableLines, width, wrap } from "../../src/cli/table.ts";
import { bytes, count, duration, rate, readCount, readDuration, time, unitsIn } from "../../src/cli/units.ts";
import { jsonData, nameFromBytes } from "../../src/core/index.ts";

describe("names", () => {
  test.each([
    ["plain", "plain"],
    ["é 測", "é 測"],
    ["a\nb\tc\rd", "a\\nb\\tc\\rd"],
    ["\u001b[2J", "\\x1b[2J"],
    ["\u0000\u007f", "\\x00\\x7f"],
    ["\u009b31m", "\\u{9b}31m"],
    ["a\\b", "a\\\\b"],
    ["\u202eevil\u200b", "\\u{202e}evil\\u{200b}"],
    [nameFromBytes(Uint8Array.of(0x66, 0xff, 0xfe)), "f\\xff\\xfe"],
    ["😀", "😀"],
    ["", ""],
  ])("%j is shown as %s, and read back", (name, shown) => {
    expect(show(name)).toBe(shown);
    expect(unescape(shown)).toBe(name);
  });

  test("every sequence of bytes can be typed", () => {
    for (let byte = 0; byte < 256; byte++) {
      const name = nameFromBytes(Uint8Array.of(0x61, byte, 0x62));
      expect(unescape(show(name))).toBe(name);
      // no control characters
      expect(show(name)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    }
  });

  test.each(["\\q", "\\x1", "\\u{110000}", "\\"])("%s is not a valid escape", (text) => {
    expect(() => unescape(text)).toThrow(/is not a valid escape/);
  });

  test("in a sentence, a name has visible ends", () => {
    expect(quote("a")).toBe("a");
    expect(quote("a b")).toBe('"a b"');
    expect(quote("")).toBe('""');
  });

  test("a traceback keeps its lines", () => {
    expect(showText("a\n\tb\\c\u001b[31m")).toBe("a\n\tb\\c\\x1b[31m");
  });
});

describe("tables", () => {
  const plain = (_style: unknown, text: string): string => text;

  test.each([
    ["abc", 3],
    ["測試", 4],
    ["é", 1],
    ["\u001b[31mred\u001b[39m", 3],
  ])("%j takes %i columns", (text, columns) => {
    expect(width(text)).toBe(columns);
  });

  test.each([
    ["abcdef", 4, "abc…"],
    ["abc", 3, "abc"],
    ["測試測試", 5, "測試…"],
    ["Привет, world", 9, "Привет, …"],
    ["Error: host … did not answer", 20, "Error: host … did n…"],
    ["abc", 1, "…"],
    ["abc", 0, ""],
  ])("%s in %i columns is %s", (text, max, shown) => {
    expect(cut(text, max)).toBe(shown);
  });

  test("a table gives way where it may, the widest column first", () => {
    const columns = [
      { head: "Name", min: 4 },
      { head: "N", align: "right" as const },
      { head: "Note", min: 4 },
    ];
    const rows = [["a-very-long-name", "12345", "a note"]];
    expect(tableLines(columns, rows, Infinity, plain)).toEqual([
      "Name                  N  Note",
      "a-very-long-name  12345  a note",
    ]);
    expect(tableLines(columns, rows, 22, plain)).toEqual(["Name         N  Note", "a-very…  12345  a note"]);
    expect(tableLines(columns, rows, 17, plain)).toEqual(["Name      N  Note", "a-v…  12345  a n…"]);
  });

  test("in a window that is too narrow for its columns, a row takes several lines", () => {
    const columns = ["Name", "In", "Out", "Failed"].map((head) => ({ head, min: 4 }));
    const rows = [
      ["a-long-name-indeed", "1", "2,000", "30"],
      ["b", "", "7", "a long reason, cut"],
    ];
    expect(tableLines(columns, rows, 17, plain)).toEqual([
      "a-long-name-inde…",
      "  In 1  Out 2,000",
      "  Failed 30",
      "b",
      "  Out 7",
      "  Failed a long …",
    ]);
  });

  test("what is in a cell cannot leave it", () => {
    const lines = tableLines(
      [{ head: "A" }, { head: "B" }],
      [["x\ny", { text: "\u001b[0m", style: "red" }]],
      80,
      plain,
    );
    expect(lines).toEqual(["A     B", "x\\ny  \\x1b[0m"]);
  });

  test("sentences are broken between words, and keep their indent", () => {
    expect(wrap("  one two three", 9, "    ")).toEqual(["  one two", "    three"]);
    expect(wrap("a-word-that-is-too-long b", 5)).toEqual(["a-word-that-is-too-long", "b"]);
  });
});

describe("numbers and times", () => {
  test.each([
    [0, "0"],
    [999, "999"],
    [1000, "1,000"],
    [1234567, "1,234,567"],
  ])("%i is %s", (value, shown) => expect(count(value)).toBe(shown));

  test.each([
    [0, "0 ms"],
    [999, "999 ms"],
    [1500, "1.5 s"],
    [12_345, "12 s"],
    [60_000, "1 min"],
    [200_000, "3 min 20 s"],
    [3_600_000, "1 h"],
    [18_720_000, "5 h 12 min"],
    [90_000_000, "1 d 1 h"],
    [-1500, "-1.5 s"],
    [Infinity, "forever"],
  ])("%d ms is %s", (ms, shown) => expect(duration(ms)).toBe(shown));

  test("a rate is shown with its period, and with its burst where it has one", () => {
    expect(unitsIn({ limit: 100, periodMs: 60_000, burst: 10 })).toBe("100 in 1 min, 10 at once");
    expect(unitsIn({ limit: 0.5 })).toBe("0.5 in 1.0 s");
  });

  test.each([
    ["90", 90_000],
    ["1.5h", 5_400_000],
    ["250ms", 250],
    ["15 min", 900_000],
    ["7d", 604_800_000],
  ])("%s is %d ms", (text, ms) => expect(readDuration(text, "--x")).toBe(ms));

  test.each(["", "soon", "-1", "1y", "1h30m"])("%j is no time", (text) => {
    expect(() => readDuration(text, "--x")).toThrow(/--x: expected a time/);
  });

  test.each(["", "1.5", "-1", "1e3", "9".repeat(16)])("%j is no count", (text) => {
    expect(() => readCount(text, "--n")).toThrow(/--n: expected a whole number/);
  });

  test("rates, sizes and the day where it is not today", () => {
    expect([0, 0.021, 12.34, 1234.5].map(rate)).toEqual(["0/s", "0.02/s", "12.3/s", "1,235/s"]);
    expect([0, 1023, 1536, 5 * 1024 ** 3].map(bytes)).toEqual([
      "0 bytes",
      "1023 bytes",
      "1.5 KiB",
      "5.0 GiB",
    ]);
    const now = new Date(2026, 4, 6, 12, 0, 0).getTime();
    expect(time(now - 1000, now)).toBe("11:59:59");
    expect(time(now - 86_400_000, now)).toBe("2026-05-05 12:00:00");
  });
});

describe("JSON", () => {
  const data = jsonData('{"b":1.0,"a":[1,{"n":12345678901234567890}],"e":{},"s":"x, {y}: \\"z\\""}');

  test("data is printed as it was written, in any form", () => {
    expect(writeJson(rawData(data))).toBe(data);
    expect(writeJson(withData({ name: "u", data, none: undefined }), 2)).toBe(`{
  "name": "u",
  "data": {
    "b": 1.0,
    "a": [
      1,
      {
        "n": 12345678901234567890
      }
    ],
    "e": {},
    "s": "x, {y}: \\"z\\""
  }
}`);
  });

  test("as JSON.stringify for all else", () => {
    const value = { a: [1, "x", null, true, []], b: {}, c: { d: [{}] } };
    expect(writeJson(value)).toBe(JSON.stringify(value));
    expect(writeJson(value, 4)).toBe(JSON.stringify(value, null, 4));
  });

  test("a string of megabytes, plain or of escapes", () => {
    for (const text of ["x".repeat(15_000_000), "\n".repeat(4_000_000)]) {
      const data = jsonData(JSON.stringify({ text }));
      expect(writeJson(rawData(data), 2) === JSON.stringify({ text }, null, 2)).toBe(true);
    }
  });

  test("nothing in it that a terminal obeys", () => {
    const shown = showJson(JSON.stringify("\u009b\u202e\u001b"));
    expect(shown).toBe('"\\u009b\\u202e\\u001b"');
    expect(JSON.parse(shown)).toBe("\u009b\u202e\u001b");
  });
});

describe("the shell's words", () => {
  test.each([
    ["a b  c", ["a", "b", "c"]],
    [`a 'b "c' "d 'e"`, ["a", `b "c`, "d 'e"]],
    [`a\\ b "x\\"y" 'p\\q'`, ["a b", 'x"y', "p\\q"]],
    [`-W '' ""`, ["-W", "", ""]],
    ["  ", []],
  ])("%s", (line, words) => expect(splitWords(line)).toEqual(words));

  test.each([`"a`, "'a"])("%s has no closing quote", (line) =>
    expect(() => splitWords(line)).toThrow(/missing closing/),
  );
});
