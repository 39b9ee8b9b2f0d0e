/** `addwork` and `export`, run in this process on an SQLite file. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { run, type Ran } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-addwork-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));
let files = 0;
let store = "";
const line = (words: string, input = "", env: Record<string, string> = {}): Promise<Ran> =>
  run(["--backend", `sqlite:${store}`, ...words.split(" ")], { XDG_STATE_HOME: place, ...env }, input);

beforeEach(async () => {
  store = path.join(place, `${files++}.sqlite`);
  const engine = new Engine(await openSqlite(store));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.close();
});

test("export to - is standard output, with nothing else on it", async () => {
  expect((await line("addwork s -u -", '"a"\n')).out).toMatch(/^1 unit from standard input: /);
  const { code, out } = await line("export -o -");
  expect(code).toBe(0);
  expect(
    out
      .trim()
      .split("\n")
      .map((one) => (JSON.parse(one) as { kind: string }).kind),
  ).toEqual(["export", "spec", "unit", "end"]);
  expect(existsSync("-")).toBe(false);
});

test("a state directory that cannot be written is named, with the options that help", async () => {
  // root may write everywhere but below a file
  const env = { XDG_STATE_HOME: store };
  const { code, err } = await line("addwork s -u -", '"a"\n', env);
  expect(code).toBe(1);
  expect(err).toMatch(/not a directory; use --journal FILE .*, or --no-journal /);
  expect((await line("addwork s -u - --no-journal", '"a"\n', env)).code).toBe(0);
  expect((await line("addwork s -u - --sync", '"a"\n', env)).err).toMatch(/--manifest FILE/);
  expect((await line("addwork s -u - --sync --dry-run", '"a"\n', env)).code).toBe(0);
});

test("units that are stored before a refused one in the same request are counted", async () => {
  const input = '"a"\n"b"\n{"name":"c","dependencies":["missing"]}\n"d"\n';
  const { code, err } = await line("addwork s -u -", input);
  expect(code).toBe(1);
  expect(err).toMatch(/standard input:3: .*; 2 units stored; --resume continues/);
  expect((await line("work_units s")).out).toBe("a\nb\n");
  const rest = await line("addwork s -u - --resume", input.replace("missing", "a"));
  expect(rest.out).toMatch(/^4 units from .*: 2 new, 2 replaced;/);
});

test("the help lists everything that a column may be", async () => {
  const { out } = await line("addwork --help");
  expect(out.replace(/\s+/g, " ")).toContain(
    "name, priority, delay, deadline, expires, partition or data.KEY = COLUMN[:TYPE]",
  );
});

test("units get a batch and labels from the command line", async () => {
  const input = '"a"\n{"name":"b","labels":["own"],"batch":"other"}\n';
  expect((await line("addwork s -u - --in-batch night --label x --label y", input)).code).toBe(0);
  const units = JSON.parse((await line("work_units s --details --json")).out) as { labels: string[] }[];
  expect(units.map(({ labels }) => labels)).toEqual([
    ["batch:night", "x", "y"],
    ["batch:other", "own", "x", "y"],
  ]);
  const wrong = await line("addwork s -u - --sync --label x", input);
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("do not apply to --sync")]);
});
