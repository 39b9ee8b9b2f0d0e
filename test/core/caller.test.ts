import { expect, test } from "vitest";
import { Engine, ManualClock, serveVerb, type Caller } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

test("a wait that a server serves ends after an hour", async () => {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock });
  const caller: Caller = {
    waiting: () => new AbortController().signal,
    turn: () => undefined,
    hasHungUp: () => false,
    isStopping: () => false,
  };
  const hourMs = 3_600_000;
  const answer = serveVerb(engine, "requestAttempts", ["n", { worker: "w", waitMs: 100 * hourMs }], caller);
  await expect.poll(() => engine.waiting).toBe(1);
  clock.advance(hourMs);
  expect(await answer).toEqual([]);
  await engine.close();
});
