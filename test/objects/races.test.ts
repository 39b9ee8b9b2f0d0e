/** Changes by other clients between two requests of one method. */
import { describe, expect, test } from "vitest";
import { CoordinateHandle, ManualClock, openMemory, type Coordinate } from "../../src/index.ts";
import { expectError } from "./setup.ts";

/** Runs `meddle` once, just before `verb` is called for the first time after `arm`. */
async function meddled() {
  let armed: { verb: keyof Coordinate; meddle: () => Promise<unknown> } | null = null;
  const plain = openMemory({ clock: new ManualClock() });
  const verbs = new Proxy(plain.verbs, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return async (...args: unknown[]): Promise<unknown> => {
        const meddle = armed?.verb === name ? armed.meddle : null;
        if (meddle !== null) armed = null;
        await meddle?.();
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  });
  const spec = await plain.namespace("test").setWorkSpec({ name: "spec" });
  const ns = new CoordinateHandle(verbs).namespace("test");
  return {
    arm: (verb: keyof Coordinate, meddle: () => Promise<unknown>) => (armed = { verb, meddle }),
    plain: { ns: plain.namespace("test"), spec },
    ns,
    spec: await ns.getWorkSpec("spec"),
  };
}

describe("somebody else was quicker", () => {
  test("setData of a spec that was deleted just now tells that it is gone", async () => {
    const { arm, plain, spec } = await meddled();
    arm("setWorkSpecs", () => plain.spec.delete());
    await expectError("gone", spec.setData({ name: "spec" }));
  });

  test("counts of a spec that was deleted just now", async () => {
    const { arm, plain, spec } = await meddled();
    arm("tally", () => plain.spec.delete());
    await expectError("gone", spec.counts());
  });

  test("addWorkUnit of a unit that was deleted at once", async () => {
    const { arm, plain, spec } = await meddled();
    arm("getWorkUnits", () => plain.spec.deleteWorkUnits({ all: true }));
    await expectError("gone", spec.addWorkUnit("unit"));
    arm("getWorkUnits", async () => {
      await plain.spec.deleteWorkUnits({ all: true });
      await plain.spec.addWorkUnit("unit");
    });
    await expectError("gone", spec.addWorkUnit("unit"));
  });

  test("delete of a unit that was deleted just now", async () => {
    const { arm, plain, spec } = await meddled();
    const unit = await spec.addWorkUnit("unit");
    arm("deleteWorkUnits", () => plain.spec.deleteWorkUnits({ all: true }));
    await expectError("gone", unit.delete());
  });

  test("change of a unit that was deleted just now", async () => {
    const { arm, plain, spec } = await meddled();
    const unit = await spec.addWorkUnit("unit");
    arm("setWorkUnitPriorities", () => plain.spec.deleteWorkUnits({ all: true }));
    await expectError("gone", unit.setPriority(5));
  });

  test("attempts of a unit that was deleted just now", async () => {
    const { arm, plain, spec } = await meddled();
    const unit = await spec.addWorkUnit("unit");
    arm("listUnitAttempts", () => plain.spec.deleteWorkUnits({ all: true }));
    await expectError("gone", unit.attempts());
  });

  test("an attempt for a unit that was deleted just now", async () => {
    const { arm, plain, ns, spec } = await meddled();
    const unit = await spec.addWorkUnit("unit");
    arm("makeAttempts", () => plain.spec.deleteWorkUnits({ all: true }));
    await expectError("gone", ns.worker("worker").makeAttempt(unit));
  });

  test("lineage of a unit whose spec is deleted on the way ends there", async () => {
    const { arm, plain, ns } = await meddled();
    await ns.setWorkSpecs([{ name: "spec", then: "next" }, { name: "next" }]);
    await ns.workSpec("spec").addWorkUnit("a");
    const [attempt] = await ns.worker("worker").requestAttempts();
    await attempt!.finish({ output: ["b"] });
    const unit = await ns.workSpec("next").workUnit("b");
    arm("getWorkUnits", () => plain.spec.delete());
    expect(await unit.lineage()).toEqual([]);
  });
});
