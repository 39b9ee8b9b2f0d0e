import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import zlib, { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import {
  BulkError,
  findFormat,
  openSource,
  readEntries,
  readMapping,
  type Entry,
  type FormatOptions,
} from "../../src/bulk/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-input-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string | Buffer): string {
  const full = path.join(directory, name);
  writeFileSync(full, content);
  return full;
}

/** Compresses with Node where it supports zstd, as `openSource` does, or else with the `zstd` program. */
const zstd = (text: string): Buffer =>
  (zlib as { zstdCompressSync?: (text: string) => Buffer }).zstdCompressSync?.(text) ??
  execFileSync("zstd", ["-qc"], { input: text });

const nobody = Readable.from([]);

async function read(name: string, options: FormatOptions = {}, stdin: Readable = nobody): Promise<Entry[]> {
  const source = openSource(name, stdin);
  const all: Entry[] = [];
  for await (const some of readEntries(source, await findFormat(source), options)) all.push(...some);
  return all;
}

const names = (entries: readonly Entry[]): string[] =>
  entries.flatMap(({ units }) => units.map(({ name }) => name));
const problems = (entries: readonly Entry[]): string[] =>
  entries.filter(({ problem }) => problem !== "").map(({ line, problem }) => `${line}: ${problem}`);

async function failure(run: Promise<unknown> | (() => Promise<unknown>)): Promise<string> {
  try {
    await (typeof run === "function" ? run() : run);
  } catch (error) {
    if (error instanceof BulkError) return error.message.replace(`${directory}/`, "");
    throw error;
  }
  return "";
}

describe("lines of JSON", () => {
  test("blank lines and comments are skipped, and lines keep their numbers", async () => {
    const entries = await read(file("a.jsonl", '# head\n\n"a"\n  \nbad\n{"b":{},"c":{}}\n"d"'));
    expect(names(entries)).toEqual(["a", "b", "c", "d"]);
    expect(entries.map(({ line }) => line)).toEqual([3, 5, 6, 7]);
    expect(problems(entries)).toEqual([expect.stringMatching(/^5: expected an object/)]);
  });

  test("CRLF, a byte order mark, no end of the last line, nothing at all", async () => {
    expect(names(await read(file("crlf.jsonl", '\ufeff"a"\r\n"b"\r\n\r\n"c"')))).toEqual(["a", "b", "c"]);
    expect(await read(file("empty.jsonl", ""))).toEqual([]);
    expect(await read(file("blank.jsonl", "\n\n \n"))).toEqual([]);
    expect(await read(file("empty.jsonl.gz", gzipSync("")))).toEqual([]);
  });

  test("a line of a megabyte, and lines across the chunks of a reader", async () => {
    const long = `{"name":"long","data":{"x":"${"é".repeat(500_000)}"}}`;
    const entries = await read(file("long.jsonl", `"a"\n${long}\n"b"\n`));
    expect(names(entries)).toEqual(["a", "long", "b"]);
    expect(entries[1]?.units[0]?.data).toHaveLength(500_008);
    const many = Array.from({ length: 30_000 }, (_, i) => `"unit-${i}-${"x".repeat(i % 97)}é"\n`).join("");
    const all = await read(file("many.jsonl", many));
    expect(names(all)).toEqual(
      many
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as string),
    );
  });

  test("bytes that are no UTF-8 are bad in JSON, and a name in plain lines", async () => {
    const bytes = Buffer.concat([
      Buffer.from('"a"\n'),
      Buffer.of(0x22, 0xff, 0x22, 0x0a),
      Buffer.from('"b"\n'),
    ]);
    const entries = await read(file("bytes.jsonl", bytes));
    expect(names(entries)).toEqual(["a", "b"]);
    expect(problems(entries)).toEqual(["2: not valid UTF-8"]);
    const plain = await read(
      file("bytes.txt", Buffer.from([0x61, 0x0a, 0xff, 0x0d, 0x0a, 0x1b, 0x5b, 0x0a])),
    );
    expect(names(plain)).toEqual(["a", "\udcff", "\u001b["]);
  });

  test("the sum of all before tells one input from another", async () => {
    const sum = async (text: string): Promise<number | undefined> =>
      (await read(file("sum.jsonl", text))).at(-1)?.checksum;
    expect(await sum('"a"\n"b"\n')).toBe(await sum('"a"\n"b"\n'));
    expect(await sum('"a"\n"b"\n')).not.toBe(await sum('"c"\n"b"\n'));
    const whole = await read(file("from.jsonl", '"a"\n"b"\n"c"\n'));
    const rest = await read(file("from.jsonl", '"a"\n"b"\n"c"\n'), { from: 2 });
    expect(names(rest)).toEqual(["c"]);
    expect(rest[0]?.checksum).toBe(whole[1]?.checksum);
    expect(rest[1]?.checksum).toBe(whole[2]?.checksum);
  });
});

describe("compressed input", () => {
  const text = '"a"\n"b"\n';

  test("gzip, also of several members, and zstd; by content where there is no name", async () => {
    expect(names(await read(file("a.jsonl.gz", gzipSync(text))))).toEqual(["a", "b"]);
    const members = Buffer.concat([gzipSync('"a"\n'), gzipSync('"b"\n')]);
    expect(names(await read(file("members.gz", members)))).toEqual(["a", "b"]);
    expect(names(await read("-", {}, Readable.from([gzipSync(text)])))).toEqual(["a", "b"]);
    const zst = zstd(text);
    expect(names(await read(file("a.jsonl.zst", zst)))).toEqual(["a", "b"]);
    expect(names(await read("-", {}, Readable.from([...zst].map((byte) => Buffer.of(byte)))))).toEqual([
      "a",
      "b",
    ]);
  });

  test("what is cut off or damaged is told, after what could be read", async () => {
    const big = gzipSync(Array.from({ length: 20_000 }, (_, i) => `"${i}-${Math.sin(i)}"\n`).join(""));
    const cut = file("cut.jsonl.gz", big.subarray(0, big.length - 20_000));
    expect(await failure(read(cut))).toMatch(/^cut\.jsonl\.gz: the compressed data is damaged or cut off/);
    const damaged = Buffer.from(big);
    damaged.fill(0x55, 50_000, 50_100);
    expect(await failure(read(file("bad.jsonl.gz", damaged)))).toContain("damaged or cut off");
    const zst = zstd(text.repeat(1000));
    expect(await failure(read(file("cut.zst", zst.subarray(0, zst.length - 4))))).toContain(
      "damaged or cut off",
    );
    expect(await failure(read(file("not.jsonl.gz", '"a"\n')))).toBe(
      "not.jsonl.gz: the file name says gzip, but the content is not gzip",
    );
  });

  test("what is not there or no file", async () => {
    expect(await failure(() => read(path.join(directory, "nowhere.jsonl")))).toBe(
      "nowhere.jsonl: no such file",
    );
    expect(await failure(() => read(directory))).toContain("is a directory");
  });
});

describe("formats", () => {
  test.each([
    ["x.jsonl", "nonsense", "jsonl"],
    ["x.ndjson.gz", "", "jsonl"],
    ["x.csv", "{", "csv"],
    ["x.tsv.zst", "", "tsv"],
    ["x.yaml", "", "yaml"],
    ["x.json", '{"a": {}}\n{"b": {}}\n', "jsonl"],
    ["x.json", '{\n  "a": {}\n}\n', "json"],
    ["x.json", `["${"a".repeat(10_000)}"]`, "jsonl"],
    ["x.txt", "https://example.org/\n", "lines"],
    ["x.txt", '# head\n{"a": {}}\n', "jsonl"],
    ["x", "", "jsonl"],
  ])("%s that begins with %.20j is %s", async (name, content, format) => {
    const compressed = name.endsWith("gz") || name.endsWith("zst");
    const source = openSource(compressed ? file(name, "") : file(name, content), nobody);
    expect(await findFormat(source)).toBe(format);
    source.close();
  });

  test("documents: a mapping or a list", async () => {
    const mapping = await read(file("u.yaml", "a: {x: 1}\nb:\nc: 3\n"));
    expect(mapping.map(({ units }) => units[0])).toEqual([
      { name: "a", data: '{"x":1}' },
      { name: "b", data: null },
      undefined,
    ]);
    expect(problems(mapping)).toEqual(["3: c: expected a mapping with the data of a unit"]);
    const list = await read(
      file("l.yaml", "- a\n- {name: b, data: {x: 1}, priority: 2}\n- [c, {y: 2}]\n- 5\n"),
    );
    expect(names(list)).toEqual(["a", "b", "c"]);
    expect(problems(list)).toEqual([expect.stringMatching(/^4: /)]);
    expect(names(await read(file("u.json", '{\n"a": {},\n"b": {}\n}\n')))).toEqual(["a", "b"]);
    expect(await read(file("nothing.yaml", ""))).toEqual([]);
    expect(await failure(read(file("bad.yaml", "a: [\n")))).toContain("bad.yaml:");
    expect(await failure(read(file("scalar.yaml", "3")))).toContain("expected a mapping from names to data");
    expect(await failure(read(file("huge.yaml", Buffer.alloc(17 * 1024 * 1024, "a: 1\n"))))).toContain(
      "convert it to lines of JSON",
    );
  });
});

describe("CSV", () => {
  const rows = async (
    text: string | Buffer,
    options: FormatOptions["csv"] = {},
    ending = "csv",
  ): Promise<Entry[]> => read(file(`x.${ending}`, text), { csv: options });
  const units = async (...args: Parameters<typeof rows>): Promise<unknown[]> =>
    (await rows(...args)).flatMap(({ units: some }) => some);

  test("the first record names the columns; name, priority and delay are what they are, the rest is data", async () => {
    expect(await units("name,priority,url,delay\na,5,http://x,1\nb,,http://y,\n")).toEqual([
      { name: "a", priority: 5, delayMs: 1000, data: '{"url":"http://x"}' },
      { name: "b", data: '{"url":"http://y"}' },
    ]);
    expect(await units("key,url\na,u\n")).toEqual([{ name: "a", data: '{"url":"u"}' }]);
  });

  test("quotes, line ends in fields, CRLF, a byte order mark, another delimiter", async () => {
    expect(await units('\ufeffname,text\r\n"a ""b"", c","two\r\nlines"\r\n')).toEqual([
      { name: 'a "b", c', data: '{"text":"two\\r\\nlines"}' },
    ]);
    expect(await units("name\tx\na\t1\n", {}, "tsv")).toEqual([{ name: "a", data: '{"x":"1"}' }]);
    expect(await units("name;x\na;1\n", { delimiter: ";" })).toEqual([{ name: "a", data: '{"x":"1"}' }]);
  });

  test("columns that are fields of a unit, and columns that are given twice", async () => {
    expect(await units("name,priority,delay,deadline,expires,partition,x\na,1,2,3,4,p,y\n")).toEqual([
      {
        name: "a",
        priority: 1,
        delayMs: 2000,
        deadlineMs: 3000,
        expiresMs: 4000,
        partition: "p",
        data: '{"x":"y"}',
      },
    ]);
    expect(await failure(rows("name,name\na,b\n"))).toContain("two columns for name; choose the columns");
    expect(await failure(rows("name,x,x\na,1,2\n"))).toContain("two columns for data.x;");
    expect(await failure(rows("name,name\na,b\n", { mapping: [readMapping("name=name")] }))).toContain(
      "two columns are called name; use the number of one",
    );
    expect(await units("name,name\na,b\n", { mapping: [readMapping("name=2")] })).toEqual([{ name: "b" }]);
    expect(await units("name,,\na,,\n")).toMatchObject([{ name: "a" }]);
  });

  test("a mapping chooses columns and types", async () => {
    const mapping = [
      "name=url",
      "data.size=bytes:number",
      "data.ok=2:boolean",
      "data.more=extra:json",
      "priority=p",
    ].map(readMapping);
    expect(await units('url,ok,bytes,extra,p\nu,yes,12,"[1,{""a"":2}]",3\nv,,,,\n', { mapping })).toEqual([
      { name: "u", priority: 3, data: '{"size":12,"ok":true,"more":[1,{"a":2}]}' },
      { name: "v", data: '{"size":null,"ok":null,"more":null}' },
    ]);
    expect(
      await units("a,1\nb,2\n", { header: false, mapping: ["name=1", "data.n=2:number"].map(readMapping) }),
    ).toEqual([
      { name: "a", data: '{"n":1}' },
      { name: "b", data: '{"n":2}' },
    ]);
    expect(await units("a,1\n", { header: false })).toEqual([{ name: "a", data: '{"2":"1"}' }]);
  });

  test("a bad record is told by the line it begins on", async () => {
    const mapping = ["name=name", "data.n=n:number"].map(readMapping);
    const entries = await rows('name,n\na,1\n"b\nb",x\nc,2,3\nd,4\n', { mapping });
    expect(names(entries)).toEqual(["a", "d"]);
    expect(problems(entries)).toEqual([
      '3: n: expected a number, got "x"',
      "5: expected 2 columns as in the first record, got 3",
    ]);
  });

  test("what makes no sense as a whole", async () => {
    expect(await failure(rows("url,n\na,1\n"))).toBe(
      "x.csv: no column for the name; choose one of url, n with --column name=COLUMN",
    );
    expect(await failure(rows("name,url\na,1\n", { mapping: [readMapping("name=nam")] }))).toBe(
      "x.csv: no such column nam; did you mean name?",
    );
    expect(await failure(rows('name\n"a\nb\n'))).toMatch(/^x\.csv:2: /);
    expect(await failure(async () => readMapping("weight=x"))).toContain("expected TARGET=COLUMN");
    expect(await rows("")).toEqual([]);
    expect(await rows("name\n")).toEqual([]);
  });
});
