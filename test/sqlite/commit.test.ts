/** Group commit: which calls share a transaction, when they return, and how the failure of one affects the others. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  encodeData,
  Engine,
  isCoordinateError,
  ManualClock,
  nextTurn,
  type AttemptRow,
  type Lock,
} from "../../src/core/index.ts";
import type { SqliteStore } from "../../src/sqlite/index.ts";
import { diskError, Fault, openWithFault } from "./fault.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-commit-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let serial = 0;
let file: string;
let fault: Fault;
let store: SqliteStore;
let engine: Engine;
let clock: ManualClock;

beforeEach(async () => {
  file = path.join(directory, `${++serial}.sqlite`);
  fault = new Fault();
  store = await openWithFault(file, fault);
  clock = new ManualClock();
  engine = new Engine(store, { clock });
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  fault.commits = 0;
});

afterEach(() => engine.close());

const add = (name: string) => engine.addWorkUnits("", "s", [{ name }]);
const available = async (): Promise<number> => (await engine.tally(""))[0]?.counts.available ?? 0;
/** A lock without a deadline cannot be written: its statement fails, after another statement has written. */
const fails = (): Promise<unknown> => {
  const lock = (path: string, deadline: number): Lock => ({ path: [path], owner: "o", deadline });
  return store.locks(
    "",
    [["a"]],
    () => ({ set: [lock("a", 1), lock("b", NaN)], release: [], answer: null }),
    0,
  );
};

test("the lease of a claim that waited for a long call counts from when it was made", async () => {
  await add("u");
  let monotonic = 0;
  const watch = vi.spyOn(performance, "now").mockImplementation(() => monotonic);
  const asked = engine.requestAttempts("", { worker: "w", lifetimeMs: 2000 });
  for (let i = 0; i < 10; i++) await Promise.resolve();
  monotonic += 5000;
  clock.advance(5000);
  const [attempt] = await asked;
  watch.mockRestore();
  expect(attempt).toMatchObject({ startTime: clock.now(), expirationTime: clock.now() + 2000 });
  expect(await engine.getAttempts("", [attempt!.id])).toMatchObject([{ status: "pending" }]);
});

describe("a group", () => {
  test("verbs of one turn share one transaction", async () => {
    await Promise.all(Array.from({ length: 100 }, (_, i) => add(`unit ${i}`)));
    expect(fault.commits).toBe(1);
    fault.commits = 0;
    await Promise.all(Array.from({ length: 50 }, () => engine.requestAttempts("", { worker: "w" })));
    expect(fault.commits).toBe(1);
  });

  test("one that throws before it has written leaves the others alone", async () => {
    const [first, bad, last] = await Promise.allSettled([
      add("first"),
      engine.addWorkUnits("", "s", [{ name: "x", dependencies: [{ workUnit: "nobody" }] }]),
      add("last"),
    ]);
    expect([first.status, bad.status, last.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(fault.commits).toBe(1);
    expect(await available()).toBe(2);
  });

  test("one that fails after it has written is undone alone, and the others are carried out once", async () => {
    const settled = await Promise.allSettled([add("first"), fails(), add("last")]);
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(settled[0]).toMatchObject({ value: [{ id: 1, created: true }] });
    expect(settled[2]).toMatchObject({ value: [{ id: 2, created: true }] });
    expect(await available()).toBe(2);
    expect(await engine.readLocks("", [["a"], ["b"]])).toEqual([null, null]);
    expect(await store.check()).toEqual({ ok: true, problems: [] });
  });

  test("nothing is answered when the commit fails, nothing has happened, and the next goes on", async () => {
    await add("before");
    fault.arm(true);
    const settled = await Promise.allSettled([
      add("a"),
      engine.requestAttempts("", { worker: "new worker" }),
      engine.setWorkSpecs("", [{ data: encodeData({ name: "t" }) }]),
      engine.deleteWorkSpecs("", ["s"]),
    ]);
    for (const one of settled) {
      expect(one.status).toBe("rejected");
      if (one.status === "rejected")
        expect(one.reason).toSatisfy((error) => isCoordinateError(error, "no_space"));
    }
    expect(await available()).toBe(1);
    expect((await engine.listWorkSpecs("")).rows.map(({ name }) => name)).toEqual(["s"]);
    expect((await engine.listWorkers("")).rows).toEqual([]);
    expect((await add("after"))[0]).toMatchObject({ id: 2 });
    expect(await engine.requestAttempts("", { worker: "w", number: 5 })).toHaveLength(2);
    expect(await store.check()).toEqual({ ok: true, problems: [] });
  });

  test("a disk error while committing: the outcome is not known, and then nothing is carried out any more", async () => {
    fault.arm(true, diskError);
    await expect(add("a")).rejects.toSatisfy((error) => isCoordinateError(error, "unknown_outcome"));
    expect(store.failure?.message).toContain(file);
    for (const call of [add("b"), engine.tally(""), engine.requestAttempts("", { worker: "w" })])
      await expect(call).rejects.toSatisfy((error) => isCoordinateError(error, "unavailable"));
  });

  test("what was asked before closing is carried out; what comes after is refused", async () => {
    const before = add("before");
    const closing = store.close();
    await expect(store.tally("", 0)).rejects.toSatisfy((error) => isCoordinateError(error, "closed"));
    expect(await before).toHaveLength(1);
    await closing;
  });
});

describe("a worker that waits", () => {
  /** Resolves when the request has found no unit and waits. */
  const waits = async (requestId: string): Promise<{ claimed: Promise<AttemptRow[]> }> => {
    const claimed = engine.requestAttempts("", { worker: "w", waitMs: 60_000, requestId });
    while (engine.waiting === 0) await nextTurn();
    for (let turns = 0; turns < 5; turns++) await nextTurn();
    fault.commits = 0;
    return { claimed };
  };

  test("claims in the transaction that adds", async () => {
    const { claimed } = await waits("r");
    const [, attempts] = await Promise.all([add("a"), claimed]);
    expect(attempts).toMatchObject([{ workUnit: "a" }]);
    expect(fault.commits).toBe(1);
  });

  test("is answered before whoever added the unit", async () => {
    const { claimed } = await waits("r");
    const order: string[] = [];
    await Promise.all([add("a").then(() => order.push("added")), claimed.then(() => order.push("claimed"))]);
    expect(order).toEqual(["claimed", "added"]);
  });

  test("goes on waiting when there was no space for the unit", async () => {
    const { claimed } = await waits("r");
    fault.arm(true);
    await expect(add("a")).rejects.toSatisfy((error) => isCoordinateError(error, "no_space"));
    expect(await available()).toBe(0);
    await add("b");
    expect(await claimed).toMatchObject([{ workUnit: "b" }]);
    expect(await store.check()).toEqual({ ok: true, problems: [] });
  });

  test("is not given again what is not on the disk yet", async () => {
    await add("a");
    const ask = () => engine.requestAttempts("", { worker: "w", requestId: "r" });
    let repeated: Promise<AttemptRow[]> | undefined;
    // called for the added unit while the claim in the same transaction is not committed
    const unwatch = store.watchWork("", () => {
      repeated ??= Promise.resolve().then(ask);
    });
    const { id } = (await engine.listWorkSpecs("")).rows[0]!;
    fault.arm(true, diskError);
    const claim = { workSpec: { name: "s", id }, worker: "w", limit: 1, lifetimeMs: 1000, maxRetries: 0 };
    const settled = await Promise.allSettled([
      store.claim("", { ...claim, requestId: "r" }, clock.now()),
      add("b"),
    ]);
    expect(settled.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    unwatch();
    expect(repeated).toBeDefined();
    await expect(repeated).rejects.toThrow();
  });
});

describe("long work", () => {
  /**
   * The longest processor time without a turn of the event loop. Not wall-clock time: on a machine that is busy with other tests
   * even an idle loop is late. It includes the engine's own checks of 50,000 items.
   */
  async function longestTurn(work: () => Promise<void>): Promise<number> {
    const done = new AbortController();
    const spent = (): number => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    };
    let longest = 0;
    let last = spent();
    const look = (): void => {
      const now = spent();
      longest = Math.max(longest, now - last);
      last = now;
      if (!done.signal.aborted) setImmediate(look);
    };
    look();
    await work();
    done.abort();
    return longest;
  }

  test("leaves the event loop free", async () => {
    const longest = await longestTurn(async () => {
      const units = Array.from({ length: 50_000 }, (_, i) => ({ name: `unit ${i}`, priority: i % 50 }));
      await engine.addWorkUnits("", "s", units);
      const attempts = await engine.requestAttempts("", { worker: "w", number: 20_000, lifetimeMs: 1000 });
      expect(attempts).toHaveLength(20_000);
      // all leases expire at once
      clock.advance(1000);
      expect(await available()).toBe(50_000);
      const again = await engine.requestAttempts("", { worker: "w", number: 20_000 });
      await engine.settleAttempts(
        "",
        again.map(({ id }) => ({ attempt: id, action: "finish" })),
      );
      expect((await engine.listWorkUnits("", "s", { limit: 10_000 })).rows).toHaveLength(10_000);
      expect(await engine.setWorkUnitPriorities("", "s", { all: true }, { set: 1 })).toBe(50_000);
      await engine.deleteWorkSpecs("", ["s"]);
    });
    expect(longest).toBeLessThan(300);
    console.log(`longest turn: ${Math.round(longest)} ms`);
    expect(await store.check()).toEqual({ ok: true, problems: [] });
    expect((await store.statistics()).units).toBe(0);
  }, 120_000);

  test("a batch is seen whole or not at all, though it takes many turns", async () => {
    const units = Array.from({ length: 30_000 }, (_, i) => ({ name: `unit ${i}` }));
    const adding = engine.addWorkUnits("", "s", units);
    const seen = new Set<number>();
    const added = new AbortController();
    void adding.then(() => added.abort());
    while (!added.signal.aborted) seen.add(await available());
    seen.add(await available());
    expect([...seen].every((count) => count === 0 || count === 30_000)).toBe(true);
  }, 60_000);
});

test("a sweep that could not be committed leaves out no ended unit when it is repeated", async () => {
  const names = Array.from({ length: 2500 }, (_, i) => `u${String(i).padStart(4, "0")}`);
  await engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name })),
  );
  const attempts = await engine.requestAttempts("", { worker: "w", number: names.length });
  await engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", retention: { finished: { max_count: 10 } } }) },
  ]);
  fault.arm(true);
  await expect(engine.sweep()).rejects.toThrow();
  for (let i = 0; i < 10; i++) await engine.sweep();
  expect((await engine.tally(""))[0]?.counts.finished).toBe(10);
});
