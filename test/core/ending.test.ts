/** Waiting for units to end: how often it reads the units, and that it misses no change between a read and the watch that follows. */
import { expect, test } from "vitest";
import { encodeData, Engine, type Store } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

interface Setting {
  /** Whether the store calls `seen` in the same step as the read. */
  readonly atOnce: boolean;
  /** Called after the units were read, before they are returned. */
  readonly onRead?: (looks: number) => Promise<void> | void;
}

/** A memory store that counts the reads of units. */
function storeOf({ atOnce, onRead }: Setting): { store: Store; looks: () => number } {
  const store = new MemoryStore();
  const read = store.getWorkUnits.bind(store);
  let looks = 0;
  store.getWorkUnits = async (ns, ref, names, now, seen) => {
    const rows = await read(ns, ref, names, now, atOnce ? seen : undefined);
    looks++;
    await onRead?.(looks);
    return rows;
  };
  return { store, looks: () => looks };
}

async function claimed(engine: Engine, names: readonly string[]): Promise<string[]> {
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name, data: encodeData({}) })),
  );
  const attempts = await engine.requestAttempts("", { worker: "w", number: names.length });
  return attempts.map(({ id }) => id);
}

const finish = (engine: Engine, ids: readonly string[]): Promise<unknown> =>
  engine.settleAttempts(
    "",
    ids.map((attempt) => ({ attempt, action: "finish" as const })),
  );

for (const atOnce of [true, false]) {
  const what = atOnce ? "a store that watches as it reads" : "a store that cannot watch as it reads";

  test(`${what}: a wait for many costs ${atOnce ? "two" : "three"} looks`, async () => {
    const { store, looks } = storeOf({ atOnce });
    const engine = new Engine(store);
    const names = Array.from({ length: 20 }, (_, n) => `u${n}`);
    const ids = await claimed(engine, names);
    const waiting = engine.awaitWorkUnits("", "s", names, { waitMs: 600_000 });
    await expect.poll(() => engine.waiting, { timeout: 20_000 }).toBe(1);
    for (const id of ids) await finish(engine, [id]);
    expect((await waiting).every((row) => row?.status === "finished")).toBe(true);
    expect(looks()).toBe(atOnce ? 2 : 3);
    await engine.close();
  });

  test(`${what}: what ends between the look and the watch is not missed`, async () => {
    for (const any of [false, true]) {
      let ids: string[] = [];
      const onRead = async (looks: number): Promise<void> => {
        if (looks === 1) await finish(engine, ids);
      };
      const engine: Engine = new Engine(storeOf({ atOnce, onRead }).store);
      ids = await claimed(engine, ["a", "b"]);
      const rows = await engine.awaitWorkUnits("", "s", ["a", "b"], { waitMs: 600_000, any });
      expect(rows.map((row) => row?.status)).toEqual(["finished", "finished"]);
      await engine.close();
    }
  });

  test(`${what}: a unit that ended and was added again before it was looked at is waited for again`, async () => {
    let ids: string[] = [];
    const onRead = async (looks: number): Promise<void> => {
      if (looks > 1) return;
      await finish(engine, ids);
      await engine.addWorkUnits("", "s", [{ name: "a", data: encodeData({ again: true }) }]);
    };
    const engine: Engine = new Engine(storeOf({ atOnce, onRead }).store);
    ids = await claimed(engine, ["a"]);
    const waiting = engine.awaitWorkUnits("", "s", ["a"], { waitMs: 600_000 });
    await expect.poll(() => engine.waiting, { timeout: 20_000 }).toBe(1);
    const [again] = await engine.requestAttempts("", { worker: "w" });
    await finish(engine, [again!.id]);
    expect((await waiting)[0]?.attempts).toBe(2);
    await engine.close();
  });
}
