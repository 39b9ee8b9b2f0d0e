import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { exportLines, importLines, type ExportOptions, type ImportOptions } from "../../src/bulk/index.ts";
import {
  cborData,
  dataToCbor,
  Engine,
  jsonData,
  ManualClock,
  type Coordinate,
  type WorkUnitRow,
} from "../../src/core/index.ts";
import { openMemory } from "../../src/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-transfer-"));
// the last test checks that the import leaves no temporary files
process.env.TMPDIR = directory;
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const opened: Coordinate[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});
let files = 0;

function memory(clock = new ManualClock(1_000_000)): Coordinate {
  const { verbs } = openMemory({ clock });
  opened.push(verbs);
  return verbs;
}

async function sqlite(): Promise<Coordinate> {
  const store = await openSqlite(path.join(directory, `${files++}.sqlite`));
  const engine = new Engine(store, { clock: new ManualClock(2_000_000) });
  opened.push(engine);
  return engine;
}

async function exported(coordinate: Coordinate, options: Partial<ExportOptions> = {}): Promise<string> {
  let text = "";
  for await (const piece of exportLines(coordinate, "ns", { now: 0, ...options })) text += piece;
  return text;
}

const imported = (coordinate: Coordinate, text: string, options: Partial<ImportOptions> = {}, ns = "ns") =>
  importLines(
    coordinate,
    ns,
    (async function* () {
      // chunks that do not end at line ends
      for (let at = 0; at < text.length; at += 1000) yield Buffer.from(text.slice(at, at + 1000));
    })(),
    { name: "x.jsonl", ...options },
  );

/** Fills the namespace with units of every status. */
async function furnish(coordinate: Coordinate): Promise<void> {
  await coordinate.setWorkSpecs("ns", [
    { data: jsonData('{"name":"first","then":"second","weight":7,"ratio":1.0}') },
    { data: jsonData('{"name":"second","continuous":true,"interval":60}') },
  ]);
  await coordinate.setWorkSpecMeta("ns", "first", { paused: true, weight: 3 });
  await coordinate.setWorkSpecMeta("ns", "first", { paused: false });
  await coordinate.setWorkSpecMeta("ns", "second", { paused: true });
  await coordinate.addWorkUnits("ns", "first", [
    { name: "done", data: jsonData('{"x": 1.0, "output": {"made": {}}}') },
    { name: "failed", priority: 5 },
    { name: "running", priority: 4 },
    { name: "waiting", data: jsonData("{}"), priority: -2 },
    { name: "later", notBefore: 9_000_000_000_000 },
    { name: "odd\u001b[31m\n", data: cborData(dataToCbor(jsonData('{"b":1}'))) },
  ]);
  await coordinate.addWorkUnits("ns", "first", [
    { name: "b-blocked", dependencies: [{ workUnit: "waiting", kind: "soft" }] },
    { name: "a-blocked", dependencies: [{ workUnit: "b-blocked" }] },
  ]);
  const made = await coordinate.makeAttempts(
    "ns",
    ["done", "failed", "running"].map((workUnit) => ({ workSpec: "first", workUnit, worker: "w1" })),
  );
  await coordinate.settleAttempts("ns", [
    {
      attempt: made[0]!.id,
      action: "finish",
      data: jsonData('{"x": 1.0, "output": {"made": {"y":2}}, "result": true}'),
    },
    { attempt: made[1]!.id, action: "fail", data: jsonData('{"traceback":"oops"}') },
  ]);
}

const essence = ({ workSpec, name, status, data, priority, notBefore, dependencies }: WorkUnitRow) => ({
  workSpec,
  name,
  status: status === "pending" ? "available" : status,
  data: data === null ? null : typeof data === "string" ? data : [...data],
  priority,
  notBefore,
  dependencies: status === "blocked" ? dependencies : [],
});

async function everything(coordinate: Coordinate, ns = "ns"): Promise<unknown> {
  const { rows } = await coordinate.listWorkSpecs(ns);
  const units = [];
  for (const { name } of rows) units.push(...(await coordinate.listWorkUnits(ns, name)).rows.map(essence));
  return { specs: rows.map(({ name, data, meta }) => ({ name, data, meta })), units };
}

describe("export and import", () => {
  test.each([
    ["memory", async () => memory()],
    ["sqlite", sqlite],
  ])("everything comes back in %s, and nothing that was finished makes new work", async (_name, open) => {
    const from = memory();
    await furnish(from);
    const text = await exported(from);
    const to = await open();
    expect(await imported(to, text)).toEqual({ specs: 2, units: 9, attempts: 2 });
    expect(await everything(to)).toEqual(await everything(from));
    const [done] = await to.getWorkUnits("ns", "first", ["done"]);
    expect(done?.activeAttempt).toMatchObject({ worker: "w1", status: "finished" });
    // a second export has the same work specs
    expect((await exported(to)).split("\n").filter((line) => line.includes('"kind":"spec"'))).toEqual(
      text.split("\n").filter((line) => line.includes('"kind":"spec"')),
    );
  });

  test("into another namespace, and over what is there only when asked", async () => {
    const coordinate = memory();
    await furnish(coordinate);
    const text = await exported(coordinate);
    await expect(imported(coordinate, text)).rejects.toThrow(
      "x.jsonl:2: work spec first already exists; use --merge",
    );
    await imported(coordinate, text, {}, "copy");
    expect(await everything(coordinate, "copy")).toEqual(await everything(coordinate));
    await imported(coordinate, text, { merge: true }, "copy");
    expect(await everything(coordinate, "copy")).toEqual(await everything(coordinate));
  });

  test("what is asked for only: some specs, some units, no units, with attempts", async () => {
    const coordinate = memory();
    await furnish(coordinate);
    const kinds = (text: string): string[] =>
      text
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { kind: string }).kind);
    expect(kinds(await exported(coordinate, { specsOnly: true }))).toEqual(["export", "spec", "spec", "end"]);
    expect(kinds(await exported(coordinate, { workSpecs: ["second"] }))).toEqual([
      "export",
      "spec",
      "unit",
      "end",
    ]);
    expect(kinds(await exported(coordinate, { query: { statuses: ["failed"] }, attempts: true }))).toEqual([
      "export",
      "spec",
      "spec",
      "unit",
      "attempt",
      "end",
    ]);
    await expect(exported(coordinate, { workSpecs: ["nobody"] })).rejects.toMatchObject({
      code: "no_such_work_spec",
    });
  });

  test("a file that was cut off is told, and its work specs stay paused until it is whole", async () => {
    const from = memory();
    await furnish(from);
    const text = await exported(from);
    const cut = text.slice(0, text.lastIndexOf('{"kind":"end"'));
    const to = memory();
    await expect(imported(to, cut)).rejects.toThrow("the input is incomplete, its last line is missing");
    expect((await to.getWorkSpecs("ns", ["first"]))[0]?.meta).toMatchObject({
      paused: true,
      nextWorkSpecName: "",
    });
    await imported(to, text, { merge: true });
    expect(await everything(to)).toEqual(await everything(from));
  });

  test.each([
    ["", "x.jsonl: the input is empty"],
    ['{"kind":"spec"}\n', "x.jsonl:1: expected a file written by export"],
    ['{"kind":"export","version":9}\n', "x.jsonl:1: unknown version 9; expected 1"],
    ['{"kind":"export","version":1}\nnonsense\n', "x.jsonl:2: Bad argument JSON: is malformed"],
    ['{"kind":"export","version":1}\n[1]\n', "x.jsonl:2: expected an object"],
    ['{"kind":"export","version":1}\n{"kind":"weather"}\n', "x.jsonl:2: unknown kind weather"],
    [
      '{"kind":"export","version":1}\n{"kind":"spec","name":"s"}\n',
      "x.jsonl:2: expected name, data and meta",
    ],
    [
      '{"kind":"export","version":1}\n{"kind":"unit","spec":"s","name":"u","status":"available","data":null}\n',
      "must come before its units",
    ],
    ['{"kind":"export","version":1}\n{"kind":"end","units":3}\n', "expected 3 units, got 0"],
    [
      '{"kind":"export","version":1}\n{"kind":"end","units":0}\n{"kind":"end","units":0}\n',
      "x.jsonl:3: unexpected line after the end of the export",
    ],
    [
      '{"kind":"export","version":1}\n{"kind":"spec","name":"s","data":{"name":"s"},"meta":{}}\n{"kind":"unit","spec":"s","name":"u","status":"blocked","data":null,"dependencies":[{"workSpec":"s","workUnit":"v","kind":"hard"}]}\n{"kind":"end","units":1}\n',
      "x.jsonl:3: u depends on a unit that does not exist",
    ],
  ])("%.60j is refused", async (text, message) => {
    await expect(imported(memory(), text)).rejects.toThrow(message);
  });

  test("nothing is left in the temporary directory", () => {
    expect(readdirSync(directory).filter((name) => name.startsWith("coordinate-import-"))).toEqual([]);
  });
});
