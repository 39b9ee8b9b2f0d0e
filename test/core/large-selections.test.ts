/** Selections of many names are handed to the store in parts: a store sorts the names of each call. */
import { expect, test } from "vitest";
import {
  encodeData,
  Engine,
  type CountSlice,
  type UnitSlice,
  type WorkUnitUpdate,
  type WorkUnitWhere,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

class CountingStore extends MemoryStore {
  /** The names of all calls. */
  names = 0;

  override updateWorkUnits(
    ns: string,
    spec: string,
    update: WorkUnitUpdate,
    now: number,
  ): Promise<UnitSlice> {
    this.names += update.where.names?.length ?? 0;
    return super.updateWorkUnits(ns, spec, update, now);
  }

  override countWorkUnits(
    ns: string,
    spec: string,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<CountSlice> {
    this.names += where.names?.length ?? 0;
    return super.countWorkUnits(ns, spec, where, limit, now);
  }
}

test("units selected by many names are changed and counted once, and the work grows with the names", async () => {
  const store = new CountingStore();
  const engine = new Engine(store);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  const names = Array.from({ length: 40_000 }, (_, i) => String((i * 7919) % 40_009));
  await engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name })),
  );
  const twice = [...names, ...names.slice(0, 100), "nobody"];
  expect(await engine.setWorkUnitPriorities("", "s", { names: twice }, { set: 1 })).toBe(40_000);
  expect(store.names).toBeLessThan(5 * names.length);
  store.names = 0;
  expect((await engine.countWorkUnits("", "s", { names: twice })).available).toBe(40_000);
  expect(store.names).toBeLessThan(5 * names.length);
  await engine.close();
});
