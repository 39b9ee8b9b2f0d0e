import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

test("a sweep that has no time left for a namespace leaves its expired leases to the next one", async () => {
  const clock = new ManualClock(1_000_000);
  const engine = new Engine(new MemoryStore(), { clock });
  for (const ns of ["a", "b"]) {
    await engine.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
    const units = Array.from({ length: 10 }, (_, i) => ({ name: String(i) }));
    await engine.addWorkUnits(ns, "s", units);
    await engine.requestAttempts(ns, { worker: "w", number: units.length, lifetimeMs: 1000 });
  }
  clock.advance(1000);
  expect(await engine.sweep(10)).toMatchObject({ expired: 10, more: true });
  expect(await engine.sweep(10)).toMatchObject({ expired: 10 });
  await engine.close();
});
