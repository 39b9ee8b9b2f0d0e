/** Whole processes: a daemon that is killed and restarted, and programs whose tasks misbehave. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { handles } from "../../src/index.ts";
import { RestClient } from "../../src/rest/index.ts";
import { Worker, type UnitTask } from "../../src/worker/index.ts";
import { startProcess, type Started } from "../daemon/built.ts";
import { recorder, until, type Line } from "./setup.ts";

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}

test(
  "a daemon that is killed and started again: nothing is lost, nothing done twice for it, one warning",
  { timeout: 120_000 },
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "worker-daemon-"));
    const port = await freePort();
    const serve = (): Promise<Started> =>
      startProcess([
        "--backend",
        `sqlite:${path.join(directory, "store.sqlite")}`,
        "--http",
        `127.0.0.1:${port}`,
        "--data-dir",
        directory,
      ]);
    let daemon = await serve();
    const client = new RestClient(daemon.url, { retries: 1, backoffMs: 10 });
    onTestFinished(async () => {
      await client.close();
      daemon.child.kill("SIGKILL");
      await daemon.ended;
      rmSync(directory, { recursive: true, force: true });
    });
    const ns = handles(client).namespace("n");
    const spec = await ns.setWorkSpec({ name: "s", runtime: "node", max_getwork: 20 });
    const count = 4000;
    await spec.addWorkUnits(Array.from({ length: count }, (_, i) => [`u${i}`] as const));
    const ran = new Map<string, number>();
    const lines: Line[] = [];
    const task: UnitTask = async ({ name }) => {
      ran.set(name, (ran.get(name) ?? 0) + 1);
      if (ran.size % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    };
    const worker = new Worker(ns, { name: "w", concurrency: 3, log: recorder(lines), tasks: { s: task } });
    const running = worker.run();
    for (let kills = 1; kills <= 2; kills++) {
      await until("it works", () => ran.size > kills * 500);
      daemon.child.kill("SIGKILL");
      await daemon.ended;
      await new Promise((resolve) => setTimeout(resolve, 700));
      daemon = await serve();
    }
    await until("all", async () => (await ns.tally())[0]?.counts.finished === count, 60);
    await worker.stop();
    await running;
    expect(ran.size).toBe(count);
    expect([...ran.values()].every((times) => times === 1)).toBe(true);
    expect(worker.counts.refused).toBe(0);
    const warnings = lines.filter(({ message }) => message.includes("does not answer"));
    expect(warnings.length).toBeLessThanOrEqual(2);
    expect(warnings.length).toBeGreaterThan(0);
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  },
);

/** Runs a program against the sources and returns its output. */
async function program(code: string): Promise<{ stdout: string; stderr: string }> {
  const root = path.join(import.meta.dirname, "../..");
  const directory = mkdtempSync(path.join(tmpdir(), "worker-program-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const file = path.join(directory, "program.mts");
  writeFileSync(file, code);
  return promisify(execFile)(process.execPath, ["--import", "./examples/typescript.mjs", file], {
    cwd: root,
  });
}

const misbehaving = (options: string): string => `
  import { openMemory } from "coordinate";
  import { Worker } from "coordinate/worker";
  const coordinate = openMemory();
  const ns = coordinate.namespace();
  const spec = await ns.setWorkSpec({ name: "s", runtime: "node" });
  await spec.addWorkUnits([["a"], ["b"], ["c"]]);
  const task = async ({ name, attempt }) => {
    if (name === "a") void Promise.reject(new Error("nobody waits for this"));
    if (name === "b" && attempt.number === 1) {
      await spec.retry({ names: ["b"] });
      void attempt.finish();
    }
  };
  const worker = new Worker(ns, { tasks: { s: task } ${options} });
  const running = worker.run();
  while (worker.counts.finished < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  await worker.stop();
  await running;
  console.log("finished", worker.counts.finished);
  await coordinate.close();
`;

test(
  "promises that reject in a task and that nobody waits for do not end the process",
  { timeout: 60_000 },
  async () => {
    const { stdout, stderr } = await program(misbehaving(""));
    expect(stdout).toContain("finished 3");
    expect(stderr).toContain("error: unhandled promise rejection");
    expect(stderr).toContain("nobody waits for this");
  },
);

test("unless they are to be left to Node", { timeout: 60_000 }, async () => {
  await expect(program(misbehaving(', unhandledRejections: "leave"'))).rejects.toThrow(
    "nobody waits for this",
  );
});

test("a worker that has stopped keeps nothing alive", { timeout: 60_000 }, async () => {
  const { stdout } = await program(`
    import { openMemory } from "coordinate";
    import { Worker } from "coordinate/worker";
    const coordinate = openMemory();
    const ns = coordinate.namespace();
    const spec = await ns.setWorkSpec({ name: "s", runtime: "node" });
    await spec.addWorkUnits([["a"]]);
    const worker = new Worker(ns, { tasks: { s: () => new Promise(() => undefined) } });
    const running = worker.run();
    while (worker.counts.claimed === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    void worker.stop();
    await worker.stop();
    await running;
    console.log("stopped");
  `);
  expect(stdout).toContain("stopped");
});
