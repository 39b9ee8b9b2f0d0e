import { mkdtempSync, readFileSync, rmSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { commandRuntime, type CommandRuntimeOptions } from "../../../src/worker/index.ts";
import { openBench, type Told } from "../process/harness.ts";
import { isAlive, until } from "../process/processes.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-command-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const node = process.execPath;

async function run(
  spec: { command: readonly string[]; [key: string]: unknown },
  unit: readonly [string, object?] = ["unit", {}],
  options: CommandRuntimeOptions = {},
  lifetimeMs = 60_000,
): Promise<Told> {
  const bench = openBench();
  await bench.add("spec", [unit], { runtime: "command", ...spec });
  await bench.work([commandRuntime({ graceMs: 300, ...options })], { lifetimeMs });
  const [attempt] = await bench.attempts("spec", unit[0]);
  return attempt!;
}

describe("a command", () => {
  test("what it writes to its standard error is the log of the attempt", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], {
      runtime: "command",
      command: ["sh", "-c", "echo one >&2; echo two >&2; echo '{}'"],
    });
    await bench.work([commandRuntime()]);
    expect(await bench.log("spec", "a")).toEqual(["one", "two"]);
  });

  test("gets the unit's data as JSON, and what it prints is kept as text", async () => {
    const told = await run({ command: ["cat"] }, ["a", { n: 1, text: "ä" }]);
    // the output of cat is a JSON object and therefore becomes the data
    expect(told).toMatchObject({ status: "finished", data: { n: 1, text: "ä", command: { exit_code: 0 } } });
    const text = await run({ command: ["echo", "{name}"] }, ["a b", { n: 1 }]);
    expect(text).toMatchObject({
      status: "finished",
      data: { n: 1, stdout: "a b\n", command: { exit_code: 0 } },
    });
  });

  test("JSON on its standard output becomes the data, and its output makes further units", async () => {
    const bench = openBench();
    await bench.namespace.setWorkSpec({ name: "next", runtime: "nobody" });
    const script = "console.log(JSON.stringify({ output: { made: { from: process.argv[1] } } }))";
    await bench.add("spec", [["a"]], {
      runtime: "command",
      then: "next",
      command: [node, "-e", script, "{name}"],
    });
    const { worker, ended } = bench.start([commandRuntime()]);
    await until("the unit is made", async () => {
      const [unit] = await bench.namespace.verbs.getWorkUnits("test", "next", ["made"]);
      return unit !== null;
    });
    await worker.stop();
    await ended;
  });

  test("numbers on its standard output stay as they are written", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], {
      runtime: "command",
      command: ["echo", '{"f":1.0,"n":12345678901234567890}'],
    });
    await bench.work([commandRuntime()]);
    const [row] = await bench.namespace.verbs.listUnitAttempts("test", "spec", "a");
    expect(row!.data).toMatch(/^\{"f":1.0,"n":12345678901234567890,"command":\{"exit_code":0,"seconds":/);
  });

  test("that fails records its exit code and the end of its standard error", async () => {
    const told = await run({ command: ["sh", "-c", "echo out; echo why >&2; exit 3"] }, ["a", { n: 1 }]);
    expect(told).toMatchObject({
      status: "failed",
      traceback: "sh exited with code 3\nwhy",
      data: { n: 1, stdout: "out\n", command: { exit_code: 3, stderr: "why\n" } },
    });
    expect((await run({ command: ["sh", "-c", "kill -SEGV $$"] })).data.command).toMatchObject({
      signal: "SIGSEGV",
    });
  });

  test("knows its unit by the environment, and not the worker's secrets", async () => {
    process.env.COORDINATE_TOKEN = "secret";
    const told = await run(
      {
        command: ["sh", "-c", 'echo "$COORDINATE_WORK_SPEC $COORDINATE_WORK_UNIT $A $B [$COORDINATE_TOKEN]"'],
        env: { A: "1" },
      },
      ["unit"],
      { env: { B: "2" } },
    );
    delete process.env.COORDINATE_TOKEN;
    expect(told.data.stdout).toBe("spec unit 1 2 []\n");
  });

  test("runs in its directory", async () => {
    expect((await run({ command: ["pwd"], cwd: "/" })).data.stdout).toBe("/\n");
    expect((await run({ command: ["pwd"], cwd: "/no/such/place" })).traceback).toContain(
      "could not be started",
    );
  });

  test.each([
    ["-rf", 'begin with "-"'],
    ["a\0b", "NUL"],
    ["a\udcff", "not UTF-8"],
  ])("the name %j does not reach a program", async (name, text) => {
    const told = await run({ command: ["touch", "{name}"], cwd: directory }, [name]);
    expect(told.status).toBe("failed");
    expect(told.traceback).toContain(text);
    expect(existsSync(path.join(directory, "b"))).toBe(false);
  });

  test.each([
    ["no-such-program-at-all", "there is no such program"],
    ["/etc/passwd", "no permission to execute it"],
  ])("%s cannot be started", async (program, text) => {
    const told = await run({ command: [program] });
    expect(told).toMatchObject({ status: "failed" });
    expect(told.traceback).toContain(text);
  });

  test("arguments that are too long are told as such", async () => {
    const told = await run({ command: ["echo", "{data.long}"] }, ["a", { long: "x".repeat(300_000) }]);
    expect(told.traceback).toContain("its arguments are too long");
  });

  test("that does not read its input, or prints without end, is no trouble", async () => {
    expect((await run({ command: ["true"] }, ["a", { long: "x".repeat(3_000_000) }])).status).toBe(
      "finished",
    );
    const told = await run({ command: ["head", "-c", "3000000", "/dev/zero"] }, ["a"], { maxOutput: 1000 });
    expect(told.data).toMatchObject({ stdout_left_out: 2_999_000 });
    expect((told.data.stdout as string).length).toBe(1000);
    const noisy = await run({
      command: ["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1"],
    });
    expect(noisy.traceback.length).toBeLessThan(9000);
    expect(noisy.traceback).toMatch(/xend$/);
  });

  test("whose result is too large fails and says so", async () => {
    const told = await run({ command: ["sh", "-c", "head -c 17000000 /dev/zero | tr '\\0' x"] }, ["a"], {
      maxOutput: 20_000_000,
    });
    expect(told.traceback).toContain("the result cannot be stored");
  });

  test("that is too slow is ended, with what it started", async () => {
    const file = path.join(directory, "pid");
    const script = `sh -c 'trap "" TERM; while :; do sleep 1; done' & echo $! > ${file}; wait`;
    const told = await run({ command: ["sh", "-c", script], timeout: 0.5 });
    expect(told.traceback).toContain("sh ran for more than 0.5 s");
    await until("the grandchild is dead", () => !isAlive(Number(readFileSync(file, "utf8"))));
  });

  test("may have a timeout that is longer than any timer", async () => {
    expect((await run({ command: ["sleep", "0.3"], timeout: 2 ** 31 })).status).toBe("finished");
  });

  test("whose lease ends is ended", async () => {
    expect((await run({ command: ["sleep", "600"] }, ["a"], {}, 2000)).traceback).toBe("job expired");
  });

  test("that uses too much memory is killed, and what it used is recorded", async () => {
    const grow = "const kept = []; setInterval(() => kept.push(Buffer.alloc(8e6, 1)), 2)";
    const told = await run({ command: [node, "-e", grow] }, ["a"], { memoryLimit: 150 * 1024 * 1024 });
    expect(told.traceback).toMatch(/used \d+ MiB of memory, the limit is 150 MiB/);
    const { memory } = told.data.command as { memory: number };
    expect(memory).toBeGreaterThan(100 * 1024 * 1024);
  });

  test("is ended when its worker stops, its unit is given back, and this does not count as a try", async () => {
    const bench = openBench();
    const file = path.join(directory, "stop");
    await bench.add("spec", [["a"]], {
      runtime: "command",
      max_retries: 1,
      command: ["sh", "-c", `echo $$ > ${file}; sleep 600`],
    });
    const { worker, ended } = bench.start([commandRuntime({ graceMs: 300 })]);
    await until("it runs", () => existsSync(file) && readFileSync(file, "utf8") !== "");
    await worker.stop({ graceMs: 0 });
    await ended;
    expect(await bench.attempts("spec", "a")).toMatchObject([{ status: "expired" }]);
    expect(await bench.namespace.worker("next").requestAttempts()).toHaveLength(1);
    expect(isAlive(Number(readFileSync(file, "utf8")))).toBe(false);
  });

  test("a work spec that makes no sense fails its units and says why", async () => {
    const told = await run({ command: ["{name}"] });
    expect(told.traceback).toContain("command[0]: the program cannot be a placeholder");
  });
});
