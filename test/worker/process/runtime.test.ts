import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { Float, Tuple, Uuid, type DataObject } from "../../../src/core/index.ts";
import type { ChildRuntime } from "../../../src/worker/index.ts";
import { collect, execArgv, nodeChildren, openBench, tasksFile } from "./harness.ts";
import { isAlive, until } from "./processes.ts";
import { processRuntime } from "../../../src/worker/index.ts";

const open: ChildRuntime[] = [];

async function children(options: Parameters<typeof nodeChildren>[0] = {}): Promise<ChildRuntime> {
  const runtime = await nodeChildren(options);
  open.push(runtime);
  return runtime;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((runtime) => runtime.close(0)));
});

const names = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`unit-${i}`]);

describe("tasks in child processes", () => {
  test("finish units, by the name of the spec or of its task", async () => {
    const bench = openBench();
    const runtime = await children({ processes: 2 });
    expect(runtime.taskNames).toContain("whole");
    await bench.add("one", names(50));
    await bench.add("other", [["a", { n: 1 }]], { runtime: "node", task: "whole" });
    await bench.work([runtime]);
    expect(await bench.attempts("one", "unit-7")).toMatchObject([
      { status: "finished", data: { done: "unit-7" } },
    ]);
    const [attempt] = await bench.attempts("other", "a");
    expect(attempt).toMatchObject({ status: "finished", data: { n: 1, half: true, spec: "other" } });
    expect(bench.lines.join("")).toContain("half way");
    expect(runtime.pool.children.every(({ pid }) => !isAlive(pid!))).toBe(true);
  });

  test("carry data of every kind", async () => {
    const bench = openBench();
    const given = {
      text: "ä\u{1f600}",
      float: new Float(1),
      big: 2n ** 70n,
      bytes: new Uint8Array([0, 255]),
      tuple: Tuple.of(1, "a"),
      id: Uuid.parse("12345678-1234-1234-1234-123456789abc"),
    };
    await bench.add("whole", [["a", given]]);
    await bench.work([await children()]);
    const [attempt] = await bench.attempts("whole", "a");
    const { tuple, id, bytes, big } = attempt!.data as DataObject & { id: Uuid };
    expect(attempt!.data).toMatchObject({ text: given.text, half: true });
    expect([tuple, String(id), bytes, big]).toEqual([given.tuple, String(given.id), given.bytes, given.big]);
    expect(tuple).toBeInstanceOf(Tuple);
  });

  test("what they print comes to the log, and cannot be taken for a message", async () => {
    const bench = openBench();
    await bench.add("one", [["a", { how: "print" }]]);
    await bench.work([await children()]);
    expect(bench.lines.find((line) => line.includes("hello from a"))).toMatch(/^info: .*"workSpec":"one"/);
  });

  test("what they write and print is kept with the attempt, also while they run", async () => {
    const bench = openBench();
    const directory = mkdtempSync(path.join(tmpdir(), "coordinate-writes-"));
    const file = path.join(directory, "go");
    await bench.add("writes", [["a", { file }]]);
    const { worker, ended } = bench.start([await children()]);
    const texts = ["log of a", "attempt.log of a", "printed by a"];
    await until("all of it is there", async () => {
      const log = await bench.log("writes", "a");
      return texts.every((text) => log.includes(text));
    });
    writeFileSync(file, "");
    await bench.settled();
    expect((await bench.log("writes", "a")).at(-1)).toBe("the end");
    await worker.stop();
    await ended;
    rmSync(directory, { recursive: true });
  });

  test("throw retry(ms, data) gives the unit back", async () => {
    const bench = openBench();
    await bench.add("one", [["a", { how: "retry" }]], { runtime: "node", max_retries: 2 });
    await bench.work([await children()]);
    const [first] = await bench.attempts("one", "a");
    expect(first).toMatchObject({ status: "retryable", data: { seen: true } });
  });

  test("throw retry(ms, data) with data that cannot be stored fails the unit and says so", async () => {
    const bench = openBench();
    await bench.add("unsendable", [["a"]]);
    await bench.work([await children()]);
    expect((await bench.attempts("unsendable", "a"))[0]!.traceback).toBe(
      'the result cannot be stored: Bad data: a function in "f" cannot be stored',
    );
  });

  test("have no store to ask", async () => {
    const bench = openBench();
    await bench.add("nosy", [["a"]]);
    await bench.work([await children()]);
    expect((await bench.attempts("nosy", "a"))[0]!.traceback).toContain(
      "getWorkUnits cannot be called in a child process",
    );
  });

  test("hear the signal when the worker stops", async () => {
    const bench = openBench();
    await bench.add("polite", [["a"]]);
    const { worker, ended } = bench.start([await children()]);
    await until("the unit runs", async () => (await bench.attempts("polite", "a")).length === 1);
    await worker.stop({ graceMs: 0 });
    await ended;
    expect(await bench.attempts("polite", "a")).toMatchObject([
      { status: "retryable", data: { stopped: true } },
    ]);
  });

  test("that end because the worker stops give their units back, and this does not count as a try", async () => {
    const bench = openBench();
    for (const name of ["obeys", "allObey"])
      await bench.add(name, [["a"]], { runtime: "node", max_retries: 1 });
    const { worker, ended } = bench.start([await children({ processes: 2 })]);
    for (const name of ["obeys", "allObey"])
      await until(`${name} runs`, () => bench.lines.join("").includes(`${name} has begun`));
    await worker.stop({ graceMs: 0 });
    await ended;
    expect(await bench.attempts("obeys", "a")).toMatchObject([{ status: "expired" }]);
    expect(await bench.attempts("allObey", "a")).toMatchObject([{ status: "retryable" }]);
    expect(worker.counts).toMatchObject({ failed: 0 });
  });

  test("a second stop ends them at once and gives their units back", async () => {
    const bench = openBench();
    const runtime = await children();
    await bench.add("one", [["a", { how: "block" }]]);
    const { worker, ended } = bench.start([runtime]);
    await until("the unit runs", () => runtime.pool.children.some(({ state }) => state === "busy"));
    const pids = runtime.pool.children.map(({ pid }) => pid!);
    void worker.stop();
    await worker.stop();
    await ended;
    expect(await bench.attempts("one", "a")).toMatchObject([{ status: "expired" }]);
    await until("the children are dead", () => !pids.some(isAlive));
  });
});

describe("a file of tasks", () => {
  test("that is not there", async () => {
    const opening = processRuntime({ tasks: "no-such-file.js", execArgv, log: collect().log });
    await expect(opening).rejects.toThrow(/no-such-file\.js: there is no such file$/);
  });

  test("that exports nothing to run", async () => {
    const opening = processRuntime({
      tasks: tasksFile.replace("tasks.ts", "no-tasks.mjs"),
      log: collect().log,
      execArgv,
    });
    await expect(opening).rejects.toThrow("exports no tasks");
  });

  test("that imports the package where it is not installed", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "coordinate-tasks-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    // require, because the loader of these tests resolves the imports of the package
    const tasks = path.join(folder, "tasks.cjs");
    writeFileSync(tasks, 'const { fail } = require("coordinate/worker");\nexports.one = () => fail("no");\n');
    const opening = processRuntime({ tasks, log: collect().log, execArgv });
    await expect(opening).rejects.toThrow(
      "tasks.cjs imports coordinate, which is not installed in its folder: run npm install coordinate there",
    );
  });

  test("options that make no sense", async () => {
    await expect(processRuntime({ tasks: tasksFile, processes: 0 })).rejects.toThrow(
      "processes: expected an integer",
    );
  });
});
