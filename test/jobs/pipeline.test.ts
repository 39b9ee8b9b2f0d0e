/** A process gets several jobs before the first has ended: they run in order, and the runner knows which have not started. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { actionKey, type ActionContent } from "../../src/jobs/action.ts";
import { ProcessRunner } from "../../src/jobs/process-runner.ts";
import type { JobOutcome } from "../../src/jobs/job.ts";
import type { RunOptions } from "../../src/jobs/runner.ts";
import { functions, quickSingle } from "./stack.ts";

const folder = mkdtempSync(path.join(tmpdir(), "coordinate-pipeline-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const longMs = 60_000;

let runner: ProcessRunner;
let begun: string[] = [];
let crashes: string[] = [];

beforeEach(() => {
  begun = [];
  crashes = [];
});
afterEach(() => runner.close());

/** Opens a runner with a ready process. By default it never gives up jobs that have not started, even on a slow machine. */
async function open(beginMs = longMs): Promise<void> {
  runner = new ProcessRunner({
    beginMs,
    roots: [functions],
    inline: false,
    execArgv: [],
    program: quickSingle.program,
    graceMs: 200,
    inlineHeapMb: 256,
    onLine: () => undefined,
    onCrash: (text) => crashes.push(text),
    onStarted: () => undefined,
  });
  await runner.ready(new AbortController().signal);
}

let ids = 0;

function run(name: string, args: unknown[], options: Partial<RunOptions> = {}): Promise<JobOutcome | null> {
  const id = `${name}-${++ids}`;
  const content: ActionContent = {
    kind: "module",
    module: "./sums.mjs",
    methodname: name,
    code: "",
    version: "",
  };
  return runner.run(
    {
      id,
      name: id,
      category: "",
      attempt: 1,
      action: { ...content, key: actionKey(content), createdAt: 0 },
      args,
      kwargs: {},
      dependencies: [],
    },
    {
      timeoutMs: Infinity,
      signal: new AbortController().signal,
      onBegun: () => begun.push(name),
      onProgress: () => undefined,
      ...options,
    },
  );
}

const sum = (result: number): object => ({ state: "OK", result });

test("they run in order, one after the other", { timeout: longMs }, async () => {
  await open();
  const file = path.join(folder, "order");
  const lines = Array.from({ length: 12 }, (_, n) => String(n));
  const ended: string[] = [];
  await Promise.all(
    lines.map(async (line) => {
      expect(await run(line === "3" ? "noteAndSleep" : "note", [file, line, 30])).toMatchObject({
        result: line,
      });
      ended.push(line);
    }),
  );
  expect(ended).toEqual(lines);
  expect(begun).toEqual(lines.map((line) => (line === "3" ? "noteAndSleep" : "note")));
  expect(readFileSync(file, "utf8")).toBe(`${lines.join("\n")}\n`);
});

test("the one that runs when the process dies is the one that crashed", { timeout: longMs }, async () => {
  await open();
  const first = run("add", [1, 2]);
  const second = run("sleep", [5, "slow"]);
  const third = run("exit", [3]);
  const file = path.join(folder, "after-exit");
  const fourth = run("note", [file, "ran"]);
  expect(await first).toMatchObject(sum(3));
  expect(await second).toMatchObject({ state: "OK", result: "slow" });
  expect(await third).toMatchObject({ state: "ERROR", category: "CRASH" });
  expect(await fourth).toBeNull();
  expect(existsSync(file)).toBe(false);
  expect(crashes).toHaveLength(1);
  expect(await run("add", [2, 2])).toMatchObject(sum(4));
});

test("behind one that never lets go nothing begins, and it is known soon", { timeout: longMs }, async () => {
  await open(40);
  const file = path.join(folder, "behind");
  const halt = new AbortController();
  const first = run("spin", [], { signal: halt.signal });
  const others = [run("note", [file, "1"]), run("note", [file, "2"])];
  // the others are given up while the first still runs
  expect(await Promise.all(others)).toEqual([null, null]);
  halt.abort(new Error("enough"));
  expect(await first).toMatchObject({ state: "ERROR", category: "HALTED" });
  expect(existsSync(file)).toBe(false);
  expect(begun).toEqual(["spin"]);
});

test("what was given up does not run when the process has time again", { timeout: longMs }, async () => {
  await open(40);
  const file = path.join(folder, "late");
  const first = run("sleep", [400, "slept"]);
  const second = run("note", [file, "given up"]);
  expect(await second).toBeNull();
  expect(await first).toMatchObject({ state: "OK", result: "slept" });
  expect(await run("note", [file, "next"])).toMatchObject({ state: "OK" });
  expect(readFileSync(file, "utf8")).toBe("next\n");
});

test(
  "one that is halted before it begins does not, and the one that runs is left alone",
  {
    timeout: longMs,
  },
  async () => {
    await open();
    const file = path.join(folder, "halted");
    const halt = new AbortController();
    const first = run("sleep", [20, "slept"]);
    const second = run("note", [file, "ran"], { signal: halt.signal });
    halt.abort(new Error("not this one"));
    expect(await second).toBeNull();
    expect(await first).toMatchObject({ state: "OK", result: "slept" });
    expect(existsSync(file)).toBe(false);
    expect(crashes).toEqual([]);
  },
);

test("one whose time is up takes its process with it, and nothing else", { timeout: longMs }, async () => {
  await open();
  const first = run("spin", [], { timeoutMs: 30 });
  const second = run("add", [1, 1]);
  expect(await first).toMatchObject({ state: "ERROR", category: "TIMEOUT" });
  expect(await second).toBeNull();
  expect(await run("add", [1, 1])).toMatchObject(sum(2));
});

test("the time of one that waits for its turn has not begun", { timeout: longMs }, async () => {
  await open();
  const first = run("sleep", [2500, "slept"]);
  const second = run("add", [1, 1], { timeoutMs: 2000 });
  expect(await first).toMatchObject({ state: "OK" });
  expect(await second).toMatchObject(sum(2));
});

for (const length of [15_000, 40_000])
  test(
    `results of ${length} characters arrive, also when they fill the channel before the worker reads`,
    { timeout: longMs },
    async () => {
      await open();
      const outcomes = Array.from({ length: 16 }, () => run("long", [length]));
      await nextTurn();
      // the jobs are sent: block this thread while the process runs them
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      for (const outcome of await Promise.all(outcomes))
        expect(outcome).toMatchObject({ state: "OK", result: "x".repeat(length) });
      expect(await run("add", [1, 2])).toMatchObject(sum(3));
    },
  );
