/** Adding units that exist. */
import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

test("an add is applied although the unit was added by a daemon whose clock is ahead", async () => {
  const store = new MemoryStore();
  const ahead = new Engine(store, { clock: new ManualClock(1_000_500) });
  const behind = new Engine(store, { clock: new ManualClock(1_000_000) });
  await ahead.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await ahead.addWorkUnits("", "s", [{ name: "u", data: encodeData({ version: 1 }) }]);
  const [added] = await behind.addWorkUnits("", "s", [{ name: "u", data: encodeData({ version: 2 }) }]);
  expect(added?.ignored).toBeUndefined();
  const [row] = await behind.getWorkUnits("", "s", ["u"]);
  expect(row?.data).toEqual(encodeData({ version: 2 }));
});

test.each(["data", "ignore"] as const)(
  "a put that keeps the dependencies of its unit (%s) does not hide a cycle that an earlier one closes",
  async (onConflict) => {
    const engine = new Engine(new MemoryStore(), { clock: new ManualClock(1_000_000) });
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    const data = encodeData({});
    const after = (workUnit: string): { workSpec: string; workUnit: string; kind: "hard" }[] => [
      { workSpec: "s", workUnit, kind: "hard" },
    ];
    const added = engine.addWorkUnits("", "s", [
      { name: "a", data, dependencies: after("b") },
      { name: "b", data, dependencies: after("a") },
      { name: "b", data, dependencies: [], onConflict },
    ]);
    await expect(added).rejects.toMatchObject({ code: "dependency_cycle" });
    expect(await engine.getWorkUnits("", "s", ["a", "b"])).toEqual([null, null]);
  },
);

test.each(["data", "ignore"] as const)(
  "dependencies that a put does not set (%s) form no cycle",
  async (onConflict) => {
    const engine = new Engine(new MemoryStore(), { clock: new ManualClock(1_000_000) });
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    const data = encodeData({});
    await engine.addWorkUnits("", "s", [{ name: "a", data }]);
    const added = await engine.addWorkUnits("", "s", [
      { name: "b", data, dependencies: [{ workSpec: "s", workUnit: "a", kind: "hard" }] },
      { name: "a", data, dependencies: [{ workSpec: "s", workUnit: "b", kind: "hard" }], onConflict },
    ]);
    expect(added.map(({ status }) => status)).toEqual(["blocked", "available"]);
  },
);
