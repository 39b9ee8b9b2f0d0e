/** Waiting for work, beside callers that wait for something else. */
import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

const unit = (name: string) => ({ name, data: encodeData({}) });

test("a producer that waits for room in one namespace delays no worker in another, whatever they are called", async () => {
  // time stands still, so that only a change can wake the worker
  const engine = new Engine(new MemoryStore(), { clock: new ManualClock() });
  await engine.setWorkSpecs("x", [{ data: encodeData({ name: "s", max_waiting: 1 }) }]);
  await engine.setWorkSpecs("add x", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits("x", "s", [unit("a")]);
  const producer = engine.addWorkUnits("x", "s", [unit("b")], { waitMs: 600_000 }).catch(() => undefined);
  await expect.poll(() => engine.waiting).toBe(1);
  const worker = engine.requestAttempts("add x", { worker: "w", waitMs: 5000 });
  await expect.poll(() => engine.waiting).toBe(2);
  await engine.addWorkUnits("add x", "s", [unit("c")]);
  expect((await worker).map(({ workUnit }) => workUnit)).toEqual(["c"]);
  await engine.close();
  await producer;
});
