/** What happens to jobs when processes, supervisors and daemons are killed without notice. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openJobs, type Jobs } from "../../src/jobs/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { run } from "../cli/in-process.ts";
import { freePort } from "../postgres/server.ts";
import { descendants, isAlive, until } from "../worker/process/processes.ts";
import { builtFile } from "../daemon/built.ts";
import { Bench, fn, functions, linesOf, quick, sqliteStack } from "./stack.ts";

/** The processes started here, so that none is left running. */
const started = new Set<ChildProcess>();

async function startProcess(file: string, args: readonly string[], serves: RegExp): Promise<ChildProcess> {
  const child = spawn(process.execPath, [builtFile(file), ...args], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  await until(
    `${file} ${serves}: ${output}`,
    () => {
      if (child.exitCode !== null) throw new Error(output);
      return serves.test(output);
    },
    60_000,
  );
  return child;
}

async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await ended;
}

describe("a worker process is killed", () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await Bench.open(sqliteStack);
  }, 120_000);
  afterAll(() => bench.close());

  test(
    "its job is in CRASH or tried again, others go on, and there is another process",
    { timeout: 60_000 },
    async () => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick, workers_nr_min: 2, workers_nr_max: 2 });
      await until("both are there", async () => (await jobs.workers.list({ running: true })).length === 2);
      const file = bench.file("lines");
      const [once, again] = await jobs.scheduleAll([
        { fn: fn("noteAndSleep"), args: [file, "once", 60_000] },
        { fn: fn("noteAndSleep"), args: [file, "again", 1500], retries: 1 },
      ]);
      await until("both run", () => linesOf(file).length === 2);
      const pids = [...pool.workers.values()].map(({ pid }) => pid);
      for (const pid of pids) process.kill(pid, "SIGKILL");
      expect(await once!.settled()).toMatchObject({ state: "ERROR", error_cat: "CRASH", attempts: 1 });
      expect(await again!.wait()).toBe("again");
      expect((await again!.load()).attempts).toBe(2);
      expect(linesOf(file).sort()).toEqual(["again", "again", "once"]);
      await until("there are two others", () => [...pool.workers.values()].every(({ pid }) => isAlive(pid)));
      await pool.stop();
    },
  );
});

describe("with a daemon", () => {
  let directory = "";
  let port = 0;
  let client: RestClient;
  let jobs: Jobs;
  let daemon: ChildProcess;
  const url = (): string => `http://127.0.0.1:${port}`;
  const startDaemon = (): Promise<ChildProcess> =>
    startProcess(
      "cli/coordinated.js",
      ["--backend", `sqlite:${path.join(directory, "store.sqlite")}`, "--http", `127.0.0.1:${port}`],
      /serves/,
    );
  const startPool = (name: string): Promise<ChildProcess> =>
    startProcess(
      "cli/main.js",
      [
        "worker",
        "--jobs",
        "--address",
        url(),
        "--namespace",
        "crash",
        "--name",
        name,
        "--root",
        functions,
      ].concat(["--workers-min", "2", "--workers-max", "2", "--lease", "2s", "--heartbeat", "200ms"]),
      /runs jobs/,
    );
  beforeAll(async () => {
    directory = mkdtempSync(path.join(tmpdir(), "coordinate-jobs-crash-"));
    port = await freePort();
    daemon = await startDaemon();
    client = new RestClient(url(), { retries: 2 });
    jobs = openJobs(client, { namespace: "crash" });
  }, 120_000);
  afterAll(async () => {
    for (const child of started) await kill(child, "SIGKILL");
    await client.close();
    rmSync(directory, { recursive: true, force: true });
  });

  test(
    "the supervisor is killed: no process is left, no job is stuck or lost, every waiter is answered",
    { timeout: 120_000 },
    async () => {
      const first = await startPool("first");
      const file = path.join(directory, "lines");
      const handles = await jobs.scheduleAll([
        { fn: fn("noteAndSleep"), args: [file, "once", 60_000] },
        { fn: fn("noteAndSleep"), args: [file, "again", 500], retries: 1 },
        ...Array.from({ length: 5 }, (_, n) => ({ fn: fn("add"), args: [n, n] })),
      ]);
      const waiting = jobs.settled(handles);
      await until("both run", () => linesOf(file).length === 2);
      const children = descendants(first.pid!);
      await kill(first, "SIGKILL");
      await until("its processes are gone", () => !children.some(isAlive));
      await until("nothing is RUNNING any more", async () => (await jobs.count({ state: "RUNNING" })) === 0);
      const second = await startPool("second");
      const [once, again, ...sums] = await waiting;
      expect(once).toMatchObject({ state: "ERROR", error_cat: "CRASH" });
      expect(once?.error?.message).toMatch(/^the lease of worker first\/w\d+\/1 ended$/);
      expect(again).toMatchObject({ state: "OK", result: "again", attempts: 2 });
      expect(sums.map(({ result }) => result)).toEqual([0, 2, 4, 6, 8]);
      await until("the lost workers are seen", async () => {
        const lost = (await jobs.workers.list({ pool: "first" })).map(({ state }) => state);
        return lost.length === 2 && lost.every((state) => state === "ERROR");
      });
      expect((await jobs.workers.reap()).length).toBe(2);
      await kill(second, "SIGTERM");
      expect(second.exitCode).toBe(0);
      expect((await jobs.workers.list({ pool: "second" })).map(({ state }) => state)).toEqual([
        "HALTED",
        "HALTED",
      ]);
    },
  );

  test(
    "the daemon is killed and started again: workers and waiters go on, and nothing is lost",
    { timeout: 120_000 },
    async () => {
      const pool = await startPool("third");
      const file = path.join(directory, "more-lines");
      const count = 60;
      const handles = await jobs.scheduleAll(
        Array.from({ length: count }, (_, n) => ({
          fn: fn("noteAndSleep"),
          args: [file, String(n), 20],
          retries: 3,
        })),
      );
      const waiting = jobs.settled(handles);
      await until("some have run", () => linesOf(file).length > 5);
      await kill(daemon, "SIGKILL");
      daemon = await startDaemon();
      const settled = await waiting;
      expect(settled.map(({ state, result }) => [state, result])).toEqual(
        Array.from({ length: count }, (_, n) => ["OK", String(n)]),
      );
      await kill(pool, "SIGTERM");
    },
  );

  test("the command line: run, wait, show, list, cancel", { timeout: 60_000 }, async () => {
    const pool = await startPool("fourth");
    const at = ["--address", url(), "--namespace", "crash"];
    const call = (...words: string[]) => run([...words, ...at]);
    const sum = await call(
      "job",
      "run",
      "./sums.mjs#add",
      "--args",
      "[20,22]",
      "--name",
      "answer",
      "--wait",
      "30s",
    );
    expect(sum).toMatchObject({ code: 0, out: "42\n", err: "" });
    const ratio = await call(
      "job",
      "run",
      "./sums.mjs#divide",
      "--args",
      "[1,0]",
      "--category",
      "bad",
      "--wait",
    );
    expect(ratio.code).toBe(1);
    expect(ratio.err).toMatch(/^ERROR: RangeError: division by zero\n\s+at divide/);
    const later = await call("job", "run", "./sums.mjs#sleep", "--args", "[60000]", "--name", "long");
    expect(later.code).toBe(0);
    const id = later.out.trim();
    expect((await call("job", "wait", id, "--wait", "100ms")).err).toMatch(/waited 100 ms/);
    expect(await call("job", "cancel", "long")).toMatchObject({ code: 0 });
    expect(await call("job", "cancel", "long")).toMatchObject({ code: 2 });
    const shown = await call("job", "answer");
    expect(shown.out).toMatch(
      /State\s+OK[^]*Function\s+\.\/sums\.mjs#add[^]*Args\s+\[20,22\][^]*Result\s+42/,
    );
    const listed = await call("jobs", "--state", "ERROR", "--category", "bad");
    expect(listed.out).toMatch(/ERROR\s+\.\/sums\.mjs#divide\s+bad/);
    const json = JSON.parse(
      (await call("jobs", "--state", "error", "--error-category", "halted", "--json")).out,
    ) as object[];
    expect(json).toMatchObject([{ id, name: "long", error_cat: "HALTED" }]);
    expect((await call("jobs", "--state", "OK", "--count")).out).toMatch(/^\d+ jobs\n$/);
    expect((await call("jobs", "--state", "DONE")).code).toBe(2);
    expect((await call("job", "run", "./sums.mjs#add", "--args", "{")).err).toMatch(/--args: not JSON/);
    const missing = "coordinate job: no such job nobody; coordinate jobs lists them\n";
    for (const words of [["nobody"], ["wait", "nobody"], ["cancel", "nobody"]])
      expect(await call("job", ...words)).toMatchObject({ code: 1, err: missing });
    expect((await call("worker")).err).toMatch(/--jobs/);
    await kill(pool, "SIGTERM");
  });
});
