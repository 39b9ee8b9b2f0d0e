/** Inline functions, sent as source text: who must allow them, and what they may do in the worker process. */
import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Jobs, JobPool } from "../../src/jobs/index.ts";
import { Bench, fn, quick, sqliteStack } from "./stack.ts";

/** Made from text, so that no compiler has added code to the function. */
const made = (source: string): ((...args: readonly unknown[]) => unknown) =>
  (0, eval)(`(${source}\n)`) as (...args: readonly unknown[]) => unknown;

describe("inline functions", () => {
  let bench: Bench;
  let jobs: Jobs;
  let pool: JobPool;
  beforeAll(async () => {
    bench = await Bench.open(sqliteStack);
    jobs = bench.jobs({ inline: true });
    await jobs.allowInline();
    pool = await jobs.startPool({ ...quick, workers_nr_max: 1, inline: true, inlineHeapMb: 48 });
  }, 120_000);
  afterAll(async () => {
    await pool.stop({ graceful: false });
    await bench.close();
  });

  test("run, with args and kwargs, beside functions of modules", async () => {
    const product = await jobs.schedule(made("(a, b, { c }) => a * b * c"), {
      args: [2, 3],
      kwargs: { c: 7 },
    });
    expect(await product.wait()).toBe(42);
    expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
    const after = await jobs.schedule(made("() => 'after'"), { dependencies: [product] });
    expect(await after.wait()).toBe("after");
    expect(await jobs.results([product.id, after])).toEqual([42, "after"]);
    expect(await jobs.count({ state: "OK" })).toBe(3);
  });

  test("the client must allow them", async () => {
    await expect(bench.jobs().schedule(() => 1)).rejects.toMatchObject({ code: "not_supported" });
  });

  test("the namespace must allow them", async () => {
    const own = bench.jobs({ inline: true });
    await expect(own.schedule(() => 1)).rejects.toThrow(/allowInline/);
    expect(await own.count()).toBe(0);
  });

  test("the worker must allow them: one that does not is never offered one", async () => {
    const own = bench.jobs({ inline: true });
    await own.allowInline();
    const plain = await own.startPool({ ...quick, workers_nr_max: 1 });
    const job = await own.schedule(() => 1);
    expect(await (await own.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
    expect((await job.load()).state).toBe("NEW");
    await plain.stop();
    // a unit with an inline function in the ordinary work spec does not run either
    const [row] = await bench.coordinate.getWorkUnits(own.namespace, job.workSpec, [job.id]);
    await bench.coordinate.addWorkUnits(own.namespace, "jobs", [{ name: job.id, data: row!.data }]);
    const open = await own.startPool({ ...quick, workers_nr_max: 1, inline: true });
    expect(await job.wait()).toBe(1);
    const [moved] = await bench.coordinate.awaitWorkUnits(own.namespace, "jobs", [job.id], {
      waitMs: 20_000,
    });
    expect(moved?.status).toBe("failed");
    await open.stop();
  });

  test.each([
    [
      "read a file",
      "async () => (await import('node:fs')).readFileSync('/etc/passwd', 'utf8')",
      /ERR_ACCESS_DENIED|restricted/,
    ],
    [
      "write a file",
      "async () => (await import('node:fs')).writeFileSync('/tmp/coordinate-inline', 'x')",
      /restricted/,
    ],
    ["start a process", "async () => (await import('node:child_process')).execSync('id')", /restricted/],
    [
      "start a thread",
      "async () => new (await import('node:worker_threads')).Worker('1', { eval: true })",
      /restricted/,
    ],
  ])("cannot %s", async (_what, source, message) => {
    const { state, error } = await (await jobs.schedule(made(source))).settled();
    expect(state).toBe("ERROR");
    expect(error?.message).toMatch(message);
  });

  test("have no environment", async () => {
    expect(await (await jobs.schedule(made("() => Object.keys(process.env)"))).wait()).toEqual([]);
  });

  test("that use too much memory end their process, and only that", async () => {
    const job = await jobs.schedule(
      made("() => { const all = []; for (;;) all.push(new Array(1000).fill(all.length)); }"),
    );
    expect(await job.settled()).toMatchObject({ state: "ERROR", error_cat: "CRASH" });
    expect(await (await jobs.schedule(made("() => 1"))).wait()).toBe(1);
  });

  test("are compiled once, and again in another process", async () => {
    const source = "function counted() { return (counted.calls = (counted.calls ?? 0) + 1); }";
    const first = await jobs.schedule(made(source));
    const second = await jobs.schedule(made(source));
    expect([await first.wait(), await second.wait()]).toEqual([1, 2]);
  });

  test("are not run when their content is not what their key says", async () => {
    const job = await jobs.schedule(made("() => 'the real one'"), { delayMs: 600_000 });
    const { action_id } = await job.load();
    const { encodeData } = await import("../../src/index.ts");
    await bench.coordinate.deleteActions(jobs.namespace, [action_id]);
    const forged = { kind: "inline", module: "", methodname: "anonymous", code: "() => 'forged'" };
    await bench.coordinate.putActions(jobs.namespace, [{ key: action_id, data: encodeData(forged) }]);
    await bench.coordinate.setWorkUnitDelays(jobs.namespace, job.workSpec, { names: [job.id] }, 0);
    const { state, error } = await job.settled();
    expect([state, error?.message]).toEqual(["ERROR", expect.stringContaining("does not match its key")]);
  });

  test("must be signed, where the worker wants it so", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const other = generateKeyPairSync("ed25519");
    const namespace = "signed";
    const open = bench.jobs({ inline: true, namespace });
    await open.allowInline();
    const strict = await open.startPool({
      ...quick,
      workers_nr_max: 1,
      inline: true,
      trustedKeys: [publicKey],
    });
    const unsigned = await open.schedule(() => 1);
    expect((await unsigned.settled()).error?.message).toMatch(/not signed/);
    const wrong = await bench
      .jobs({ inline: true, namespace, signingKey: other.privateKey })
      .schedule(() => 1);
    expect((await wrong.settled()).error?.message).toMatch(/not signed/);
    const right = await bench.jobs({ inline: true, namespace, signingKey: privateKey }).schedule(() => 1);
    expect(await right.wait()).toBe(1);
    await strict.stop();
  });
});
