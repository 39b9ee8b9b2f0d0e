/** Waiting for work, beside callers that wait for something else. */
import { expect, test } from "vitest";
import { CoordinateError, encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

/** A memory store whose reads, once they are slow, last until it is closed, and fail then. */
class ClosedDuringReads extends MemoryStore {
  slow = false;
  reading = 0;
  #fail: (error: Error) => void = () => undefined;
  readonly #closed = new Promise<never>((_, reject) => (this.#fail = reject));

  constructor() {
    super();
    this.#closed.catch(() => undefined);
    for (const read of ["candidates", "getWorkUnits", "takeMessages"] as const) {
      const atOnce = this[read].bind(this) as (...asked: unknown[]) => Promise<never>;
      this[read] = (...asked: unknown[]) => {
        if (!this.slow) return atOnce(...asked);
        this.reading++;
        return this.#closed;
      };
    }
  }

  override async close(): Promise<void> {
    this.#fail(new CoordinateError("closed"));
    await super.close();
  }
}

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

test("close() ends waits whose store is closed during a read", async () => {
  const store = new ClosedDuringReads();
  const clock = new ManualClock();
  const engine = new Engine(store, { clock, pollMs: 1000 });
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", disabled: true }) }]);
  await engine.addWorkUnits("", "s", [unit("a")]);
  const work = engine.requestAttempts("", { worker: "w", waitMs: 60_000 });
  const messages = engine.takeMessages("", "q", { waitMs: 60_000 });
  const ends = engine.awaitWorkUnits("", "s", ["a"], { waitMs: 60_000 });
  await expect.poll(() => engine.waiting).toBe(3);
  store.slow = true;
  clock.advance(2000);
  await expect.poll(() => store.reading).toBe(3);
  await engine.close();
  expect(await work).toEqual([]);
  expect(await messages).toEqual([]);
  expect((await ends).map((one) => one?.status)).toEqual(["available"]);
});
