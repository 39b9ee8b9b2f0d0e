/** How a child process runs the units of a claim, without the process. */
import assert from "node:assert/strict";
import { test } from "vitest";
import { silentLogger, type BulkContext } from "../../../src/worker/index.ts";
import { attemptLog } from "../../../src/worker/log.ts";
import { runUnits } from "../../../src/worker/process/units.ts";
import { bench } from "../setup.ts";

test("a result that cannot be read fails its own unit only", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s" });
  await t.ns.workSpec("s").addWorkUnits([["a"], ["b"]]);
  const attempts = await t.ns.worker("w").requestAttempts({ number: 2 });
  const getPrototypeOf = (): never => {
    throw new Error("no prototype");
  };
  const odd = new Proxy({}, { getPrototypeOf });
  const { signal } = new AbortController();
  const done = (): Promise<void> => Promise.resolve();
  const context: BulkContext = {
    ...{
      signal,
      expired: signal,
      log: silentLogger,
      clock: t.clock,
      worker: "w",
      renew: done,
      progress: done,
    },
    workSpec: { name: "s", data: { name: "s" } },
  };
  const log = attemptLog(silentLogger, attempts[0]!, t.clock);
  await runUnits(
    ({ name }) => (name === "a" ? odd : {}),
    attempts,
    context,
    1,
    () => log,
  );
  assert.match(String((await t.data("s", "a")).traceback), /cannot be stored: no prototype/);
  assert.equal(await t.status("s", "b"), "finished");
});
