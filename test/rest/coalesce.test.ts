import { describe, expect, test } from "vitest";
import { around, CoordinateError, encodeData, Engine, type Coordinate } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { coalesce } from "../../src/rest/index.ts";

async function counted(): Promise<{ merged: Coordinate; calls: [string, number][] }> {
  const calls: [string, number][] = [];
  const engine = new Engine(new MemoryStore());
  const inner = around(engine, (verb, args, next) => {
    const items = args.findLast((arg) => Array.isArray(arg)) as unknown[] | undefined;
    if (verb === "addWorkUnits" || verb === "settleAttempts") calls.push([verb, items?.length ?? 0]);
    return next();
  });
  await engine.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }, { data: encodeData({ name: "t" }) }]);
  return { merged: coalesce(inner), calls };
}

describe("coalescing", () => {
  test("what arrives together is one call per work spec, and everybody gets their own answer", async () => {
    const { merged, calls } = await counted();
    const answers = await Promise.all([
      merged.addWorkUnits("n", "s", [{ name: "a" }, { name: "b" }]),
      merged.addWorkUnits("n", "s", [{ name: "c" }]),
      merged.addWorkUnits("n", "t", [{ name: "d" }]),
    ]);
    expect(answers.map((rows) => rows.map(({ name }) => name))).toEqual([["a", "b"], ["c"], ["d"]]);
    expect(calls).toEqual([
      ["addWorkUnits", 3],
      ["addWorkUnits", 1],
    ]);
    const attempts = (await merged.requestAttempts("n", { worker: "w", number: 3, workSpecs: ["s"] })).map(
      ({ id }) => id,
    );
    calls.length = 0;
    const settled = await Promise.all(
      attempts.map((attempt) => merged.settleAttempts("n", [{ attempt, action: "finish" }])),
    );
    expect(settled.map(([one]) => one?.attempt)).toEqual(attempts);
    expect(calls).toEqual([["settleAttempts", 3]]);
  });

  test("one that is refused does not take the others with it", async () => {
    const { merged } = await counted();
    const [good, bad] = await Promise.allSettled([
      merged.addWorkUnits("n", "s", [{ name: "a" }]),
      merged.addWorkUnits("n", "s", [{ name: "b", priority: NaN }]),
    ]);
    expect(good.status).toBe("fulfilled");
    expect(bad.status === "rejected" && bad.reason instanceof CoordinateError && bad.reason.message).toMatch(
      /^Bad argument priority/,
    );
    expect((await merged.listWorkUnits("n", "s")).rows.map(({ name }) => name)).toEqual(["a"]);
  });

  test("requests with an id, and large ones, stay by themselves", async () => {
    const { merged, calls } = await counted();
    await Promise.all([
      merged.addWorkUnits("n", "s", [{ name: "a" }], { requestId: "1" }),
      merged.addWorkUnits(
        "n",
        "s",
        Array.from({ length: 200 }, (_, i) => ({ name: `b${i}` })),
      ),
      merged.addWorkUnits("n", "s", [{ name: "c" }]),
    ]);
    expect(calls.map(([, count]) => count).sort()).toEqual([1, 1, 200]);
  });

  test("a failure of the store is everybody's, once", async () => {
    let calls = 0;
    const failing = around(new Engine(new MemoryStore()), async () => {
      calls += 1;
      throw new CoordinateError("unavailable", "gone");
    });
    const merged = coalesce(failing);
    const results = await Promise.allSettled(
      [1, 2, 3].map((n) => merged.settleAttempts("n", [{ attempt: `${n}.1`, action: "finish" }])),
    );
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(calls).toBe(1);
  });
});
