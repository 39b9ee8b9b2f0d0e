import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, parseDocumentText, readDocument } from "../../src/config/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-document-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const full = path.join(directory, name);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

const parse = (text: string, env: Record<string, string> = {}): unknown =>
  parseDocumentText(text, "x.yaml", { env }).value;

const wrong = (read: () => unknown): string => {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return "";
};

describe("documents", () => {
  test("YAML 1.2 and JSON, with anchors, merge keys and long integers", () => {
    expect(parse('{"a": [1, 2.5, null, true, "x"]}')).toEqual({ a: [1, 2.5, null, true, "x"] });
    expect(parse("base: &b {x: 1, y: 2}\nover:\n  <<: *b\n  y: 3\n")).toEqual({
      base: { x: 1, y: 2 },
      over: { x: 1, y: 3 },
    });
    expect(parse("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b]}\n")).toMatchObject({
      c: { x: 1, z: 3 },
    });
    expect(parse("big: 12345678901234567890\nyes: yes\n1: one\n")).toEqual({
      big: 12345678901234567890n,
      yes: "yes",
      1: "one",
    });
    expect(parse("")).toBeNull();
    expect(parse("\ufeffa: 1\r\nb: 2\r\n")).toEqual({ a: 1, b: 2 });
  });

  test("__proto__ is a key like any other", () => {
    const value = parse("__proto__: {polluted: true}\na: {constructor: 1}\n") as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["__proto__", "a"]);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(value.polluted).toBeUndefined();
  });

  test("every value knows its line, also through includes", () => {
    const inner = file("places/inner.yaml", "# one\nx:\n  y: 1\n");
    const outer = file("places/outer.yaml", "a: 1\nb: !include inner.yaml\nc:\n  - 1\n  - {d: 2}\n");
    const document = readDocument(outer);
    expect(document.value).toEqual({ a: 1, b: { x: { y: 1 } }, c: [1, { d: 2 }] });
    expect(document.where(["b"])).toBe(`${outer}:2`);
    expect(document.where(["b", "x", "y"])).toBe(`${inner}:3`);
    expect(document.where(["c", 1, "d"])).toBe(`${outer}:5`);
    expect(document.where(["c", 1, "nothing", "there"])).toBe(`${outer}:5`);
  });

  test("includes are relative to the file that includes, and may be nested", () => {
    file("nested/deep/c.yaml", "[1, 2]");
    file("nested/b.yaml", "c: !include_yaml deep/c.yaml\n");
    const a = file("a.yaml", "b: !include nested/b.yaml\n");
    expect(readDocument(a).value).toEqual({ b: { c: [1, 2] } });
  });

  test("the environment", () => {
    const env = { NAME: "value", EMPTY: "" };
    expect(parse("a: !env NAME\nb: !env OTHER:fallback\nc: !env EMPTY\nd: !env 'OTHER:'\n", env)).toEqual({
      a: "value",
      b: "fallback",
      c: "",
      d: "",
    });
    expect(wrong(() => parse("x: 1\na: !env OTHER\n"))).toBe(
      "x.yaml:2: !env OTHER: this environment variable is not set",
    );
    expect(wrong(() => parse("a: !env 'two words'\n"))).toContain("expected NAME");
  });

  test.each([
    ["a: [1\nb: 2", "x.yaml:2"],
    ["a: 1\na: 2", "x.yaml:2: a is given twice"],
    ["? [complex]\n: 1", "x.yaml:1: a key must be"],
    ["a: *nobody", "x.yaml:1: "],
    ["a: &a [*a]", "no such anchor before it"],
    ["a: 1\n---\nb: 2", "x.yaml:2"],
    ["\n\na: !!python/object/apply:os.system [ls]", "x.yaml:3: unknown tag"],
    ["a: !include_func os.getcwd", "unknown tag !include_func"],
    ["a: !!js/function 'x'", "unknown tag"],
    ["a: !include [b]", "unknown tag"],
    ["<<: 3", "expected a mapping"],
    ["a:\n\t- tab", "x.yaml:2"],
  ])("%j is refused, with its line", (text, message) => {
    expect(wrong(() => parse(text))).toContain(message);
  });

  test("brackets without end are refused", () => {
    expect(wrong(() => parse("[".repeat(100_000)))).toContain("nested too deep");
    expect(wrong(() => parse(`${"[".repeat(150)}${"]".repeat(150)}`))).toBe("x.yaml:1: nested too deep");
  });

  test("aliases that stand for aliases do not grow without end", () => {
    const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 12; i++)
      lines.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(", ")}]`,
      );
    const began = performance.now();
    expect(wrong(() => parse(lines.join("\n")))).toMatch(/^x.yaml:\d+: more than 1000000 values/);
    expect(performance.now() - began).toBeLessThan(5000);
  });

  test("includes that include each other, that are too many, too large, or no files", () => {
    const a = file("circle/a.yaml", "b: !include b.yaml\n");
    file("circle/b.yaml", "\na: !include a.yaml\n");
    expect(wrong(() => readDocument(a))).toMatch(
      /b\.yaml:2: !include .*: includes itself: a\.yaml -> b\.yaml -> a\.yaml/,
    );
    symlinkSync(a, path.join(directory, "circle/link.yaml"));
    const viaLink = file("circle/c.yaml", "x: !include link.yaml\n");
    expect(wrong(() => readDocument(viaLink))).toContain("includes itself");

    file("many/one.yaml", "1");
    const many = file("many/all.yaml", "- !include one.yaml\n".repeat(101));
    expect(wrong(() => readDocument(many))).toContain("more than 100 files");
    const large = file("large.yaml", `a: ${"x".repeat(2000)}\n`);
    expect(wrong(() => readDocument(large, { limits: { bytes: 1000 } }))).toContain("more than 1000 bytes");
    expect(wrong(() => readDocument(file("device.yaml", "a: !include /dev/zero\n")))).toContain(
      "device.yaml:1: !include /dev/zero: not a regular file",
    );
    expect(wrong(() => readDocument(file("gone.yaml", "a: !include nowhere.yaml\n")))).toMatch(
      /gone\.yaml:1: !include .*nowhere\.yaml: no such file/,
    );
    expect(wrong(() => readDocument(path.join(directory, "nothing.yaml")))).toContain("no such file");
    expect(wrong(() => readDocument(directory))).toContain("not a regular file");
  });

  test("a wrong included file is told by its own name and line", () => {
    const inner = file("bad/inner.yaml", "x: 1\ny: [\n");
    const outer = file("bad/outer.yaml", "a: !include inner.yaml\n");
    expect(wrong(() => readDocument(outer))).toContain(`${inner}:`);
  });
});
