/** `coordinate worker` and `run_one`, as processes. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { decodeData, Engine, systemClock } from "../../src/core/index.ts";
import { handles } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { listen, RestClient, restServer } from "../../src/rest/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { start, type Ran } from "../worker/process/command-line.ts";
import { tasksFile } from "../worker/process/harness.ts";
import { descendants, isAlive, until } from "../worker/process/processes.ts";
import { run } from "./in-process.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-cli-worker-"));
const python = path.join(import.meta.dirname, "..", "worker", "python");
const engine = new Engine(new MemoryStore(), { clock: systemClock() });
let app: ReturnType<typeof restServer>["app"];
let url = "";
let client: RestClient;

beforeAll(async () => {
  ({ app } = restServer({ coordinate: engine }));
  ({ url } = await listen(app, { at: { host: "127.0.0.1", port: 0 } }));
  client = new RestClient(url);
});

afterAll(async () => {
  await client.close();
  await engine.close();
  await app.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Starts a command with the address of the daemon and this namespace. */
function cli(ns: string, args: readonly string[], options: Parameters<typeof start>[1] = {}): Ran {
  const [command = "", ...rest] = args;
  const words = options.program === "coordinate-worker.ts" ? args : [command, ...rest];
  const ran = start([...words, "--address", url, "--namespace", ns], options);
  onTestFinished(() => {
    if (isAlive(ran.pid)) process.kill(ran.pid, "SIGKILL");
  });
  return ran;
}

async function add(ns: string, spec: { name: string; [key: string]: unknown }, units: [string, object?][]) {
  const made = await handles(client).namespace(ns).setWorkSpec(spec);
  await made.addWorkUnits(units.map(([name, data = {}]) => [name, data] as const));
  const count = async (status: "available" | "pending" | "failed" | "finished"): Promise<number> =>
    (await client.tally(ns)).find(({ workSpec }) => workSpec === spec.name)?.counts[status] ?? 0;
  return { count, finished: () => count("finished") };
}

const limit = { timeout: 60_000 };

describe("coordinate worker", () => {
  test("runs tasks until SIGTERM, and what runs is finished first", limit, async () => {
    const { finished } = await add("term", { name: "one", runtime: "node" }, [["a"], ["b", { how: "pid" }]]);
    const pidfile = path.join(directory, "pid");
    const worker = cli("term", ["worker", "--tasks", tasksFile, "--processes", "1", "--pidfile", pidfile]);
    await until("both are finished", async () => (await finished()) === 2, 40_000);
    expect(Number(readFileSync(pidfile, "utf8"))).toBe(worker.pid);
    const processes = descendants(worker.pid);
    worker.child.kill("SIGTERM");
    expect(await worker.ended).toBe(0);
    await until("no process is left", () => !processes.some(isAlive));
    expect(existsSync(pidfile)).toBe(false);
  });

  test("told twice, ends now, gives back what it holds, and exits with 2", limit, async () => {
    const { count } = await add("twice", { name: "one", runtime: "node" }, [["a", { how: "grandchild" }]]);
    const worker = cli("twice", ["worker", "--tasks", tasksFile, "--processes", "1"]);
    // wait until the task has started: at the first signal the worker returns units that are claimed but not started
    await until("the task runs", () => /grandchild \d+/.test(worker.output()), 40_000);
    const processes = descendants(worker.pid);
    worker.child.kill("SIGINT");
    await until("it has heard", () => worker.output().includes("send the signal again"));
    worker.child.kill("SIGINT");
    expect(await worker.ended).toBe(2);
    await until("no process is left", () => !processes.some(isAlive));
    expect(await count("available")).toBe(1);
  });

  test("works on and stops in order when nothing reads its log any more", limit, async () => {
    const worker = cli("unread", ["worker", "--tasks", tasksFile, "--processes", "1"]);
    await until("it has started", () => worker.output().includes("the worker has started"), 40_000);
    worker.child.stderr?.destroy();
    // a failure is logged
    const { count } = await add("unread", { name: "one", runtime: "node" }, [["a", { how: "throw" }]]);
    await until("the unit has failed", async () => (await count("failed")) === 1, 40_000);
    worker.child.kill("SIGTERM");
    expect(await Promise.race([worker.ended, sleep(20_000, "still running", { ref: false })])).toBe(0);
  });

  test("under its own name runs Python jobs, with the settings of the Python worker", limit, async () => {
    const config = path.join(directory, "worker.yaml");
    writeFileSync(config, "coordinate:\n  worker_job_fetch: 5\n  fork_worker:\n    num_workers: 1\n");
    const { finished } = await add("python", { name: "s", module: "jobs", run_function: "double" }, [
      ["a", { n: 1 }],
    ]);
    const worker = cli("python", ["-c", config, "--foreground"], {
      program: "coordinate-worker.ts",
      cwd: python,
    });
    await until("it is finished", async () => (await finished()) === 1, 40_000);
    worker.child.kill("SIGTERM");
    expect(await worker.ended).toBe(0);
  });

  test("is set by ./coordinate.yaml, and tasks may be for any runtime", limit, async () => {
    const cwd = mkdtempSync(path.join(directory, "cwd-"));
    writeFileSync(path.join(cwd, "fork.yaml"), "num_workers: 3\navailable_gb: 2\n");
    writeFileSync(path.join(cwd, "coordinate.yaml"), "worker: !include fork.yaml\n");
    const { finished } = await add("go", { name: "one", runtime: "go" }, [["a"]]);
    const large = await add("go", { name: "large", runtime: "go", task: "one", min_gb: 3 }, [["a"]]);
    const worker = cli("go", ["worker", "--tasks", tasksFile, "--runtime", "go"], { cwd });
    await until("it is finished", async () => (await finished()) === 1, 40_000);
    const [slots] = (await client.listWorkers("go", { root: true })).rows.map(
      ({ data }) => (data === null ? {} : decodeData(data)).slots,
    );
    expect(slots).toBe(3);
    expect(await large.count("available")).toBe(1);
    worker.child.kill("SIGTERM");
    expect(await worker.ended).toBe(0);
  });

  test("of jobs has the size that ./coordinate.yaml says", limit, async () => {
    const cwd = mkdtempSync(path.join(directory, "jobs-"));
    writeFileSync(path.join(cwd, "coordinate.yaml"), "jobs: {workers_nr_min: 2, workers_nr_max: 2}\n");
    const pool = cli("jobs", ["worker", "--jobs"], { cwd });
    // a worker has a child of its own for each slot
    const workers = async (): Promise<number> => {
      const { rows } = await client.listWorkers("jobs", { active: true });
      const root = rows.find(({ parent }) => parent === null);
      return rows.filter(({ parent }) => parent === root?.name).length;
    };
    await until("two workers are there", async () => (await workers()) === 2, 40_000);
    pool.child.kill("SIGTERM");
    expect(await pool.ended).toBe(0);
  });

  test("says what is wrong, and exits", limit, async () => {
    const missing = cli("none", ["worker", "--tasks", "no-such-tasks.js"]);
    expect(await missing.ended).toBe(1);
    expect(missing.output()).toContain("no-such-tasks.js");
    expect(missing.output()).not.toContain("This error is unexpected");
  });

  test.each([
    [[], "use --tasks FILE, --runtime LIST or --jobs"],
    [
      ["--runtime", "perl"],
      "--runtime perl: needs --tasks FILE with tasks for it; without --tasks, only python and command can run",
    ],
    [["--runtime", "command", "--gb", "lots"], "--gb: expected a number"],
    [["--runtime", "node"], "--runtime node needs --tasks FILE"],
    [["--runtime", "command", "--processes", "many"], "--processes: expected a whole number"],
    [["--runtime", "command", "--memory-limit", "lots"], "--memory-limit: expected a size"],
    [["--runtime", "command", "--lease", "soon"], "--lease: expected a time"],
  ])("%j is refused", async (args, text) => {
    const { code, err } = await run(["worker", ...args, "--backend", "memory:"]);
    expect([code, err]).toEqual([2, expect.stringContaining(text)]);
  });
});

describe("coordinate run_one", () => {
  const one = (ns: string, ...args: string[]): Promise<{ code: number; err: string }> =>
    run(["run_one", "--runtime", "command", "--address", url, "--namespace", ns, ...args]);

  test("exits with 2 when there is no work", async () => {
    expect(await one("empty")).toMatchObject({
      code: 2,
      err: "There was no work for this worker; coordinate explain shows why.\n",
    });
    expect(await one("empty", "--quiet")).toMatchObject({ code: 2, err: "" });
  });

  test("runs one fetch, also of a job that fails, and exits with 0", async () => {
    const spec = { name: "s", runtime: "command", command: ["sh", "-c", "exit 1"] };
    const { count } = await add("once", spec, [["a"], ["b"]]);
    expect((await one("once")).code).toBe(0);
    expect([await count("available"), await count("failed")]).toEqual([1, 1]);
  });

  test("fetches until there is no work or a limit is reached", async () => {
    const units = Array.from({ length: 7 }, (_, i): [string] => [`unit-${i}`]);
    const { finished } = await add("limits", { name: "s", runtime: "command", command: ["true"] }, units);
    expect((await one("limits", "--limit-count", "2", "--max-jobs", "2")).code).toBe(0);
    expect(await finished()).toBe(4);
    expect((await one("limits", "--limit-seconds", "0")).code).toBe(2);
    expect(await finished()).toBe(4);
    // the fourth fetch finds no unit
    expect((await one("limits", "--limit-count", "5")).code).toBe(2);
    expect(await finished()).toBe(7);
  });

  test("takes only from the work specs that it is told", async () => {
    await add("specs", { name: "a", runtime: "command", command: ["true"], priority: 5 }, [["a"]]);
    const { finished } = await add("specs", { name: "b", runtime: "command", command: ["true"] }, [["b"]]);
    expect((await one("specs", "--from-work-spec", "b")).code).toBe(0);
    expect(await finished()).toBe(1);
    expect((await one("specs", "--from-work-spec", "b")).code).toBe(2);
  });

  test("works on a store without a daemon", async () => {
    const file = path.join(directory, "own.sqlite");
    const args = ["run_one", "--runtime", "command", "--backend", `sqlite:${file}`];
    const before = await run(args);
    expect([before.code, before.err]).toEqual([1, expect.stringContaining("no store at")]);

    const open = async () => handles(new Engine(await openSqlite(file), { clock: systemClock() }));
    const made = await open();
    const command = { name: "s", runtime: "command", command: ["echo", "{name}"] };
    await (await made.namespace().setWorkSpec(command)).addWorkUnits([["a"]]);
    await made.close();
    expect((await run(args)).code).toBe(0);
    expect((await run(args)).code).toBe(2);
    const after = await open();
    const unit = await after.namespace().workSpec("s").workUnit("a");
    expect([unit.status, unit.data.stdout]).toEqual(["finished", "a\n"]);
    await after.close();
  });
});
