/** All kinds of failures, with real processes, and the outcome of each attempt. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Engine, systemClock } from "../../../src/core/index.ts";
import { handles } from "../../../src/index.ts";
import { openPostgres } from "../../../src/postgres/index.ts";
import { RestClient } from "../../../src/rest/index.ts";
import { Worker, type ChildRuntime } from "../../../src/worker/index.ts";
import { freePort, startServer } from "../../postgres/server.ts";
import { serve, start } from "./command-line.ts";
import { collect, nodeChildren, openBench, tasksFile } from "./harness.ts";
import { descendants, isAlive, until } from "./processes.ts";

async function children(options: Parameters<typeof nodeChildren>[0] = {}): Promise<ChildRuntime> {
  const runtime = await nodeChildren(options);
  onTestFinished(() => runtime.close(0));
  return runtime;
}

const MiB = 1024 * 1024;

describe("a unit that goes wrong in a batch of its own", () => {
  const bad = ["throw", "reject", "never", "block", "exit", "kill", "grow", "grandchild"] as const;

  test("is settled with its reason; the others are finished", { timeout: 60_000 }, async () => {
    const bench = openBench();
    const runtime = await children({ processes: 4, memoryLimit: 250 * MiB, watchMs: 50 });
    const good = Array.from({ length: 8 }, (_, i) => `good-${i}`);
    await bench.add("one", [
      ...bad.map((how) => [how, { how }] as const),
      ...good.map((name) => [name, {}] as const),
    ]);
    await bench.work([runtime], { maxAttempts: 1, concurrency: 4, lifetimeMs: 8000 });

    const told = new Map<string, string>();
    for (const how of bad) {
      const attempts = await bench.attempts("one", how);
      // on a busy machine a unit may have been returned untried because no child was ready in time
      const tried = attempts.filter(({ status }) => status !== "expired");
      expect(tried.map(({ status }) => status)).toEqual(["failed"]);
      told.set(how, tried[0]!.traceback);
    }
    expect(told.get("throw")).toMatch(/^Error: thrown on purpose\n {4}at /);
    expect(told.get("reject")).toMatch(/^Error: rejected on purpose\n {4}at /);
    expect(told.get("never")).toBe("job expired");
    expect(told.get("block")).toBe("job expired");
    expect(told.get("exit")).toBe("the child process exited with code 3\nabout to exit");
    expect(told.get("kill")).toMatch(/^the child process was killed by SIGKILL/);
    expect(told.get("grow")).toMatch(/^the child process used \d+ MiB of memory, the limit is 250 MiB/);
    expect(told.get("grandchild")).toBe("job expired");
    for (const name of good)
      expect((await bench.attempts("one", name)).at(-1)).toMatchObject({
        status: "finished",
        data: { done: name },
      });
    const grandchild = Number(/grandchild (\d+)/.exec(bench.lines.join(""))?.[1]);
    expect(grandchild).toBeGreaterThan(0);
    await until("the grandchild is dead", () => !isAlive(grandchild));
  });
});

describe("a unit that kills its child, in a batch with others", () => {
  test.each(["one", "together"])("%s: only it fails, and nobody's attempt is burnt", async (spec) => {
    const bench = openBench();
    const units = Array.from(
      { length: 12 },
      (_, i) => [`unit-${i}`, i === 5 ? { how: "exit" } : {}] as const,
    );
    await bench.add(spec, units);
    await bench.work([await children()], { maxAttempts: 100 });
    for (const [name, { how }] of units as [string, { how?: string }][]) {
      const attempts = await bench.attempts(spec, name);
      expect(attempts).toHaveLength(1);
      expect(attempts[0]).toMatchObject(how === undefined ? { status: "finished" } : { status: "failed" });
    }
    expect((await bench.attempts(spec, "unit-5"))[0]!.traceback).toContain("exited with code 3");
  });

  test("two of them are both found", async () => {
    const bench = openBench();
    const units = Array.from(
      { length: 6 },
      (_, i) => [`unit-${i}`, i % 4 === 1 ? { how: "kill" } : {}] as const,
    );
    await bench.add("one", units);
    await bench.work([await children()]);
    const states = await Promise.all(
      units.map(async ([name]) => (await bench.attempts("one", name))[0]!.status),
    );
    expect(states).toEqual(["finished", "failed", "finished", "finished", "finished", "failed"]);
  });

  test("again and again, ends by its retry policy", async () => {
    const bench = openBench();
    const retry = { attempts: 3, backoff: { delay: 0.01 } };
    await bench.add("one", [["bad", { how: "kill" }], ["good"]], { runtime: "node", retry });
    await bench.work([await children()]);
    const attempts = await bench.attempts("one", "bad");
    expect(attempts.map(({ status }) => status)).toEqual(["retryable", "retryable", "failed"]);
    expect(attempts[0]!.traceback).toContain("was killed by SIGKILL");
    expect(attempts[2]!.traceback).toBe("too many retries");
    expect(attempts[2]!.data.last_error).toContain("was killed by SIGKILL");
    expect(await bench.attempts("one", "good")).toMatchObject([{ status: "finished" }]);
  });

  test("a child that is killed from outside: its unit fails, the next one runs in another", async () => {
    const bench = openBench();
    const runtime = await children();
    await bench.add("one", [["a", { how: "never" }]]);
    const { worker, ended } = bench.start([runtime], { maxAttempts: 1 });
    await until("it runs", () => runtime.pool.children.some(({ state }) => state === "busy"));
    process.kill(runtime.pool.children[0]!.pid!, "SIGKILL");
    await bench.settled();
    await bench.add("one", [["b"]]);
    await bench.settled();
    await worker.stop();
    await ended;
    expect((await bench.attempts("one", "a"))[0]).toMatchObject({ status: "failed" });
    expect(await bench.attempts("one", "b")).toMatchObject([{ status: "finished" }]);
  });
});

/** Starts a daemon on a file, as a process that can be killed and restarted at the same address. */
async function openDaemon(): Promise<{ client: RestClient; url: string; restart: () => Promise<void> }> {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-crash-"));
  const port = await freePort();
  const store = `sqlite:${path.join(directory, "store.sqlite")}`;
  const args = ["--backend", store, "--http", `127.0.0.1:${port}`, "--data-dir", directory];
  let daemon = await serve(args);
  const client = new RestClient(daemon.url);
  const kill = async (): Promise<void> => {
    daemon.child.kill("SIGKILL");
    await daemon.ended;
  };
  onTestFinished(async () => {
    await client.close();
    await kill();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    client,
    url: daemon.url,
    async restart() {
      await kill();
      daemon = await serve(args);
    },
  };
}

test(
  "a supervisor that is killed leaves no process behind, and others take over what it held",
  { timeout: 90_000 },
  async () => {
    const { client, url } = await openDaemon();
    const namespace = handles(client).namespace();
    const spec = await namespace.setWorkSpec({ name: "one", runtime: "node" });
    await spec.addWorkUnits([
      ["block", { how: "block" }],
      ["never", { how: "never" }],
      ["grandchild", { how: "grandchild" }],
    ]);
    const options = ["--processes", "3", "--max-attempts", "1", "--lease", "6s"];
    const supervisor = start(["worker", "--tasks", tasksFile, "--address", url, ...options]);
    onTestFinished(() => void supervisor.child.kill("SIGKILL"));
    // the processes: three children, the grandchild and its sleep, and the warden
    await until("all three run", () => /grandchild \d+/.test(supervisor.output()), 40_000);
    await until("all are busy", async () => (await namespace.tally())[0]?.counts.pending === 3);
    const grandchild = Number(/grandchild (\d+)/.exec(supervisor.output())?.[1]);
    const processes = descendants(supervisor.pid);
    expect(processes).toContain(grandchild);
    expect(processes.length).toBeGreaterThanOrEqual(5);
    // the blocked child ends later than the others: it does not notice that its channel is closed
    process.kill(supervisor.pid, "SIGKILL");
    await supervisor.ended;
    await until("no process is left", () => !processes.some(isAlive));

    // the leases expire, and another worker, whose task succeeds, gets the units
    await spec.addWorkUnits([["good"]]);
    const tasks = { one: () => ({ by: "another" }) };
    const worker = new Worker(namespace, { tasks, log: collect().log, pollMs: 50 });
    const running = worker.run();
    await until("all are finished", async () => (await namespace.tally())[0]?.counts.finished === 4, 40_000);
    await worker.stop();
    await running;
    const attempts = await client.listUnitAttempts("", "one", "block");
    expect(attempts.map(({ status }) => status)).toEqual(["expired", "finished"]);
  },
);

test(
  "a daemon that is killed and started again: what children report is settled once",
  { timeout: 90_000 },
  async () => {
    const { client, restart } = await openDaemon();
    const namespace = handles(client).namespace();
    const count = Number(process.env.CRASH_UNITS ?? 600);
    const spec = await namespace.setWorkSpec({ name: "one", runtime: "node", max_getwork: 10 });
    await spec.addWorkUnits(Array.from({ length: count }, (_, i) => [`unit-${i}`] as const));
    const runtime = await children({ processes: 2 });
    const worker = new Worker(namespace, { runtimes: [runtime], log: collect().log });
    const running = worker.run();
    await until("some are finished", () => worker.counts.finished > count / 10);
    await restart();
    const finished = async (): Promise<boolean> => (await namespace.tally())[0]?.counts.finished === count;
    await until("all are finished", finished, 60_000);
    await worker.stop();
    await running;
    expect(worker.counts).toMatchObject({ failed: 0, timedOut: 0, unsettled: 0 });
    let seen = 0;
    for await (const unit of spec.workUnits()) {
      const attempts = await client.listUnitAttempts("", "one", unit.name);
      expect(attempts.map(({ status }) => status)).toEqual(["finished"]);
      if (++seen === 50) break;
    }
  },
);

test("a database that is killed and started again in the middle", { timeout: 90_000 }, async () => {
  const server = await startServer();
  const store = await openPostgres({ url: await server.createDatabase() });
  const coordinate = handles(new Engine(store, { clock: systemClock() }));
  onTestFinished(async () => {
    await coordinate.close();
    await server.stop();
  });
  const namespace = coordinate.namespace();
  const count = Number(process.env.CRASH_UNITS ?? 600);
  const spec = await namespace.setWorkSpec({ name: "one", runtime: "node", max_getwork: 10 });
  await spec.addWorkUnits(Array.from({ length: count }, (_, i) => [`unit-${i}`] as const));
  const runtime = await children({ processes: 2 });
  const worker = new Worker(namespace, { runtimes: [runtime], log: collect().log });
  const running = worker.run();
  await until("some are finished", () => worker.counts.finished > count / 10);
  await server.halt("kill");
  await server.start();
  const finished = async (): Promise<boolean> => {
    const [row] = await namespace.tally().catch(() => []);
    return row?.counts.finished === count;
  };
  await until("all are finished", finished, 60_000);
  await worker.stop();
  await running;
  expect(worker.counts).toMatchObject({ failed: 0, timedOut: 0 });
});
