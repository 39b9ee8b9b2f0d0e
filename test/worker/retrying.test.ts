/** Tasks that throw: the engine applies the retry policy, and the events and the log of the worker say what follows. */
import assert from "node:assert/strict";
import { expect, test } from "vitest";
import { snooze, type Logger } from "../../src/worker/index.ts";
import { bench, until } from "./setup.ts";

test("a task that throws is tried again after the back-off, and says its cause when there are no tries left", async () => {
  const t = bench();
  const retry = { attempts: 3, backoff: { kind: "fixed", delay: 10 } };
  await t.ns.setWorkSpec({ name: "s", retry });
  await t.ns.workSpec("s").addWorkUnits([["u", { own: true }]]);
  const lines: string[] = [];
  const log: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_details: unknown, text?: string) => lines.push(text ?? ""),
    error: () => undefined,
    child: () => log,
  };
  const worker = t.start({
    log,
    tasks: {
      s: ({ attempt }) => {
        throw new Error(`boom ${attempt.number}`);
      },
    },
  });
  const told: unknown[] = [];
  worker.on("retried", ({ delayMs, triesLeft, error }) => told.push([delayMs, triesLeft, error?.message]));
  worker.on("failed", ({ number, error }) => told.push([number, error?.message]));
  for (const tries of [1, 2]) {
    await until("it waits", async () => (await t.status("s", "u")) === "delayed" && told.length === tries);
    await t.advance(10_000);
  }
  await until("it has failed", async () => (await t.status("s", "u")) === "failed" && told.length === 3);
  assert.deepEqual(told, [
    [10_000, 2, "boom 1"],
    [10_000, 1, "boom 2"],
    [3, "boom 3"],
  ]);
  const data = await t.data("s", "u");
  assert.equal(data.traceback, "too many retries");
  assert.match(String(data.last_error), /^Error: boom 3/);
  assert.deepEqual([data.own, data.tries], [true, 3]);
  assert.equal((await t.ns.workSpec("s").workUnit("u")).reason, "exhausted");
  expect(lines).toEqual([
    expect.stringMatching(/it will be tried again in 10 s, 2 more times at most/),
    expect.stringMatching(/it will be tried again in 10 s, 1 more time at most/),
    expect.stringMatching(/it will not be tried again/),
  ]);
});

test("a task that throws when it is too late for another try has failed", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s", max_retries: 3 });
  await t.ns.workSpec("s").addWorkUnits([{ name: "u", expiresMs: 1000 }]);
  const worker = t.start({
    tasks: {
      s: async () => {
        await t.advance(2000);
        throw new Error("boom");
      },
    },
  });
  await until("it has ended", () => worker.counts.failed + worker.counts.retried === 1);
  assert.deepEqual([worker.counts.failed, worker.counts.retried], [1, 0]);
  assert.equal((await t.ns.workSpec("s").workUnit("u")).reason, "late");
});

test("a unit that is put off has all its tries still", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s", max_retries: 1 });
  await t.ns.workSpec("s").addWorkUnits([["u"]]);
  t.start({
    tasks: {
      s: ({ attempt }) => {
        if (attempt.number < 4) throw snooze(1000);
      },
    },
  });
  for (let i = 0; i < 3; i++) {
    await until("it sleeps", async () => (await t.status("s", "u")) === "delayed");
    await t.advance(1000);
  }
  await until("it is done", async () => (await t.status("s", "u")) === "finished");
});
