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
  type BatchInput,
  type Coordinate,
  type WorkUnitRow,
} from "../../src/core/index.ts";
import { openMemory } from "../../src/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { turns, wrapped } from "../worker/setup.ts";

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
    expect(await imported(to, text)).toEqual({
      specs: 2,
      units: 9,
      attempts: 2,
      leftOut: ["older attempts, which no longer count as tries: 1"],
    });
    expect(await everything(to)).toEqual(await everything(from));
    const [done] = await to.getWorkUnits("ns", "first", ["done"]);
    expect(done?.activeAttempt).toMatchObject({ worker: "w1", status: "finished" });
    // a second export has the same work specs
    expect((await exported(to)).split("\n").filter((line) => line.includes('"kind":"spec"'))).toEqual(
      text.split("\n").filter((line) => line.includes('"kind":"spec"')),
    );
  });

  test("a work spec that was paused by hand gives no work at any moment, and its metadata is the file's or that of its data", async () => {
    const from = memory();
    await from.setWorkSpecs("ns", [
      { data: jsonData('{"name":"paused"}') },
      { data: jsonData('{"name":"second","weight":7,"continuous":true}') },
    ]);
    await from.addWorkUnits("ns", "paused", [{ name: "u" }]);
    await from.setWorkSpecMeta("ns", "paused", { paused: true });
    await from.setWorkSpecMeta("ns", "second", { paused: true });
    // a file of an earlier version may lack some metadata
    const text = (await exported(from)).replace(/("name":"second".*"meta":).*/, "$1{}}");
    const clock = new ManualClock(1_000_000);
    const to = memory(clock);
    const waiting = to.requestAttempts("ns", { worker: "w", workSpecs: ["paused"], waitMs: 3000 });
    // the answer takes a while, as over a network
    const far = wrapped(to, {
      setWorkSpecs: async (...args) => {
        const rows = await to.setWorkSpecs(...args);
        await turns();
        return rows;
      },
    });
    await imported(far, text);
    clock.advance(3000);
    expect(await waiting).toEqual([]);
    const rows = await to.getWorkSpecs("ns", ["paused", "second"]);
    expect(rows.map((row) => row?.meta)).toMatchObject([
      { paused: true },
      { paused: false, continuous: true, weight: 7 },
    ]);
  });

  test("labels, queues, retries and reasons of units; limits and settings of the namespace", async () => {
    const from = memory();
    await from.setNamespace("ns", { policy: "python", share: "time", desired: "idle" });
    await from.setLimits("ns", [{ name: "api", maxRunning: 1, rate: { limit: 5, periodMs: 1000 } }]);
    await from.setWorkSpecs("ns", [
      { data: jsonData('{"name":"s","limits":["api"],"max_waiting":2,"breaker":{"failures":0.1,"min":1}}') },
      { data: jsonData('{"name":"other"}') },
    ]);
    await from.addWorkUnits("ns", "s", [{ name: "cancelled", labels: ["l"] }, { name: "late" }]);
    await from.cancelWorkUnits("ns", "s", { names: ["cancelled"] });
    await from.addWorkUnits("ns", "s", [
      { name: "waits", labels: ["a", "b"], queues: ["q"], maxRetries: 3, retry: { attempts: 2 } },
    ]);
    const [attempt] = await from.makeAttempts("ns", [{ workSpec: "s", workUnit: "late", worker: "w1" }]);
    await from.settleAttempts("ns", [{ attempt: attempt!.id, action: "fail", reason: "late" }]);
    await from.addWorkUnits("ns", "s", [{ name: "running", queues: ["q"], partition: "p" }]);
    await from.makeAttempts("ns", [{ workSpec: "s", workUnit: "running", worker: "w1" }]);
    await from.addWorkUnits("ns", "s", [{ name: "one more", deadline: 5e12, expires: 6e12 }]);
    const text = await exported(from);
    const to = memory();
    await imported(to, text);
    const rows = async (of: Coordinate) =>
      (await of.listWorkUnits("ns", "s")).rows.map(
        ({ id: _id, activeAttempt: _attempt, attempts: _attempts, createdTime: _created, ...row }) => ({
          ...row,
          status: row.status === "pending" ? "available" : row.status,
        }),
      );
    expect(await rows(to)).toEqual(await rows(from));
    expect(await to.listLimits("ns")).toMatchObject([
      { name: "api", maxRunning: 1, rate: { limit: 5, periodMs: 1000 } },
    ]);
    // what the workers should do now is not a setting of the file
    expect((await to.getNamespace("ns")).settings).toEqual({
      policy: "python",
      share: "time",
      desired: "run",
    });
    expect((await to.getWorkSpecs("ns", ["s"]))[0]?.meta).toMatchObject({ maxWaiting: 2, breakerState: {} });
    // a work spec takes its limits along, and no other settings
    const kinds = (await exported(from, { workSpecs: ["s"] })).match(/"kind":"(?!unit)\w+"/g);
    expect(kinds).toEqual(['"kind":"export"', '"kind":"limit"', '"kind":"spec"', '"kind":"end"']);
    expect(await exported(from, { workSpecs: ["other"] })).not.toContain('"kind":"limit"');
    // existing limits and settings change only with --merge
    const used = memory();
    await used.setLimits("ns", [{ name: "api", maxRunning: 9 }]);
    await expect(imported(used, text)).rejects.toThrow("x.jsonl:3: limit api already exists; use --merge");
    await used.setWorkSpecs("ns", [{ data: jsonData('{"name":"mine"}') }]);
    await used.deleteLimits("ns", ["api"]);
    await used.setNamespace("ns", { policy: "weighted", share: "choices" });
    expect((await imported(used, text)).leftOut).toContain(
      "policy and share of the namespace, which has work specs already; --merge sets them",
    );
    expect((await used.getNamespace("ns")).settings.policy).toBe("weighted");
    await imported(used, text, { merge: true });
    expect((await used.getNamespace("ns")).settings.policy).toBe("python");
  });

  test("queues of units that ended get no second message", async () => {
    const from = memory();
    await from.setWorkSpecs("ns", [{ data: jsonData('{"name":"s"}') }]);
    await from.addWorkUnits("ns", "s", [{ name: "u", queues: ["q"] }]);
    const [attempt] = await from.makeAttempts("ns", [{ workSpec: "s", workUnit: "u", worker: "w1" }]);
    await from.settleAttempts("ns", [{ attempt: attempt!.id, action: "finish" }]);
    const to = memory();
    expect((await imported(to, await exported(from))).leftOut).toEqual(["queues of units that had ended: 1"]);
    expect(await to.countMessages("ns", ["q"])).toEqual([0]);
  });

  test.each([
    ["memory", async () => memory()],
    ["sqlite", sqlite],
  ])("batches in %s: an ended one stays ended, an open one ends once", async (_name, open) => {
    const from = memory();
    await from.setWorkSpecs("ns", [{ data: jsonData('{"name":"s"}') }, { data: jsonData('{"name":"t"}') }]);
    const batch = (name: string, more: Partial<BatchInput> = {}): BatchInput => ({
      name,
      sealed: true,
      then: { workSpec: "t" },
      ...more,
    });
    const end = async (of: Coordinate, ...names: string[]): Promise<void> => {
      const made = names.map((workUnit) => ({ workSpec: "s", workUnit, worker: "w" }));
      for (const { id } of await of.makeAttempts("ns", made))
        await of.settleAttempts("ns", [{ attempt: id, action: "finish" }]);
    };
    const add = (of: Coordinate, name: string, inBatch: string) =>
      of.addWorkUnits("ns", "s", [{ name, batch: inBatch }]);
    await add(from, "d1", "done");
    await add(from, "d2", "done");
    await add(from, "o1", "open");
    await add(from, "o2", "open");
    await add(from, "a1", "again");
    await from.setBatches("ns", [
      batch("outer"),
      batch("done", { parent: "outer" }),
      batch("open", { parent: "outer" }),
      batch("again"),
      { name: "growing", then: { workSpec: "t" } },
    ]);
    await end(from, "d1", "d2", "o1", "a1");
    // its units run again after the end
    await from.resetWorkUnits("ns", "s", { names: ["a1"] });
    await from.deleteWorkUnits("ns", "t", { names: ["again"] });
    await from.deleteWorkUnits("ns", "s", { names: ["d2"] });

    const text = await exported(from);
    const to = await open();
    expect((await imported(to, text)).leftOut).toEqual([
      "older attempts, which no longer count as tries: 1",
      "members of batches that had been deleted: 1",
    ]);
    const essential = async (of: Coordinate) =>
      (await of.listBatches("ns")).rows.map(({ createdTime: _created, doneTime, ...row }) => ({
        ...row,
        isDone: doneTime > 0,
      }));
    const expected = (await essential(from)).map((row) =>
      row.name === "done" ? { ...row, total: 1, finished: 1 } : row,
    );
    expect(await essential(to)).toEqual(expected);
    const names = async () => (await to.listWorkUnits("ns", "t")).rows.map(({ name }) => name);
    expect(await names()).toEqual(["done"]);
    await end(to, "a1");
    expect(await names()).toEqual(["done"]);
    await end(to, "o2");
    expect(await names()).toEqual(["done", "open"]);
    // the unit that an inner batch made belongs to the outer one
    const made = ["done", "open"].map((workUnit) => ({ workSpec: "t", workUnit, worker: "w" }));
    for (const { id } of await to.makeAttempts("ns", made))
      await to.settleAttempts("ns", [{ attempt: id, action: "finish" }]);
    expect(await names()).toEqual(["done", "open", "outer"]);
  });

  test("a batch whose units have all ended in the file alone is not sealed", async () => {
    const from = memory();
    await from.setWorkSpecs("ns", [{ data: jsonData('{"name":"s"}') }, { data: jsonData('{"name":"t"}') }]);
    await from.addWorkUnits("ns", "s", [{ name: "u", batch: "b" }]);
    await from.setBatches("ns", [{ name: "b", sealed: true, then: { workSpec: "t" } }]);
    // the unit ended after the export had read the batch
    const text = (await exported(from)).replace('"status":"available"', '"status":"finished"');
    const to = memory();
    expect((await imported(to, text)).leftOut).toEqual([
      "batch b: not sealed, because all its units in the file have ended",
    ]);
    expect((await to.listWorkUnits("ns", "t")).rows).toEqual([]);
    await expect(imported(to, text.replace('"name":"s"', '"name":"z"'))).rejects.toThrow(
      "x.jsonl: batch b already exists; use --merge",
    );
  });

  test("workers of imported attempts are not active, and those that were stay so", async () => {
    const from = memory();
    await furnish(from);
    await from.cancelWorkUnits("ns", "first", { names: ["waiting"] });
    const to = memory();
    await to.updateWorkers("ns", [{ name: "mine", active: true }]);
    const text = await exported(from);
    await imported(to, text);
    const { rows } = await to.listWorkers("ns");
    expect(rows.map(({ name, active }) => [name, active])).toEqual([
      ["import", false],
      ["mine", true],
      ["w1", false],
    ]);
    await to.updateWorkers("ns", [{ name: "w1", active: true }]);
    await imported(to, text, { merge: true });
    expect((await to.getWorkers("ns", ["w1"]))[0]?.active).toBe(true);
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
    ["a list of names\n", "x.jsonl:1: expected a file written by export"],
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
