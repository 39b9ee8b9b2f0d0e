import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock, readWorkSpec } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

test("the task of a work spec that an earlier version stored is read from its data", async () => {
  const store = new MemoryStore();
  const engine = new Engine(store, { clock: new ManualClock() });
  const put = async (spec: { name: string; [key: string]: unknown }): Promise<void> => {
    const data = encodeData(spec);
    const before = { ...readWorkSpec(data).meta, taskName: "", runsModule: false };
    await store.putWorkSpecs("n", [{ ref: spec.name, data, meta: () => before }]);
    await engine.addWorkUnits("n", spec.name, [{ name: "u" }]);
  };
  await put({ name: "old", task: "mail" });
  await put({ name: "python", module: "jobs" });
  await engine.setWorkSpecMeta("n", "old", { weight: 7 });
  const excluded = async (...tasks: string[]): Promise<(string | null)[]> =>
    (await engine.explain("n", { tasks })).map((one) => one.excluded);
  expect(await excluded("mail")).toEqual([null, "no_task"]);
  expect(await engine.requestAttempts("n", { worker: "w", tasks: ["old"] })).toEqual([]);
  const [attempt] = await engine.requestAttempts("n", { worker: "w", tasks: ["mail"] });
  expect(attempt?.workSpec).toBe("old");
  expect((await engine.getWorkSpecs("n", ["old"]))[0]?.meta).toMatchObject({ taskName: "mail", weight: 7 });
  await engine.close();
});
