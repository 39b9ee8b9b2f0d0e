import assert from "node:assert/strict";
import {
  encodeData,
  nameFromBytes,
  type AttemptAction,
  type DependencyInput,
  type WorkUnitInput,
} from "../../core/index.ts";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

const after = (name: string, ...dependencies: (string | DependencyInput)[]): WorkUnitInput => ({
  name,
  dependencies: dependencies.map((one) => (typeof one === "string" ? { workUnit: one } : one)),
});

/** Claims exactly this unit and settles it. */
async function end(t: Context, unit: string, action: AttemptAction, spec = "s"): Promise<void> {
  const [made] = await t.c.makeAttempts(t.ns, [{ workSpec: spec, workUnit: unit, worker: "w" }]);
  assert.ok(made);
  await t.settled(made, action);
}

export const dependencies: CaseGroup = {
  concept: "dependencies",
  cases: [
    {
      name: "a unit that waits for another is blocked, says for what, and is not handed out",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"));
        const unit = await t.unit("s", "b");
        assert.equal(unit.status, "blocked");
        assert.deepEqual(unit.dependencies, [
          { workSpec: "s", workUnit: "a", kind: "hard", status: "available" },
        ]);
        assert.deepEqual(await t.claimNames(), ["a"]);
        assert.equal((await t.counts("s")).blocked, 1);
      },
    },
    ...table(
      [
        { kind: "hard", action: "finish", status: "available" },
        { kind: "hard", action: "fail", status: "failed" },
        { kind: "soft", action: "finish", status: "available" },
        { kind: "soft", action: "fail", status: "available" },
        { kind: "hard", action: "retry", status: "blocked" },
        { kind: "soft", action: "expire", status: "blocked" },
      ] as const,
      ({ kind, action, status }) => `a ${kind} dependency: after ${action} the unit is ${status}`,
      async (t, { kind, action, status }) => {
        await t.spec("s");
        await t.add("s", "a", after("b", { workUnit: "a", kind }));
        await end(t, "a", action);
        assert.equal(await t.status("s", "b"), status);
      },
    ),
    {
      name: "a unit that fails by its dependency says so in its data",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { ...after("b", "a"), data: encodeData({ n: 1 }) });
        await end(t, "a", "fail");
        const unit = await t.unit("s", "b");
        const traceback = "dependency a of work spec s failed";
        assert.deepEqual(unit.data, encodeData({ n: 1, traceback, failed_dependency: "a" }));
        assert.equal(unit.activeAttempt?.status, "failed");
      },
    },
    {
      name: "a unit waits for all of its dependencies, in other work specs too",
      async run(t) {
        await t.spec("s");
        await t.spec("other");
        await t.add("other", "x");
        await t.add("s", "a", after("b", "a", { workSpec: "other", workUnit: "x" }));
        await end(t, "a", "finish");
        assert.equal(await t.status("s", "b"), "blocked");
        await end(t, "x", "finish", "other");
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    {
      name: "failing is transitive over hard dependencies, and ends at a soft one",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          "a",
          after("b", "a"),
          after("c", "b"),
          after("d", { workUnit: "c", kind: "soft" }),
          after("e", "d"),
        );
        await end(t, "a", "fail");
        assert.deepEqual(await t.statuses("s"), {
          a: "failed",
          b: "failed",
          c: "failed",
          d: "available",
          e: "blocked",
        });
      },
    },
    {
      name: "a chain of a thousand is failed in one step",
      async run(t) {
        await t.spec("s");
        const name = (i: number): string => String(i).padStart(4, "0");
        await t.add("s", name(0), ...Array.from({ length: 1000 }, (_, i) => after(name(i + 1), name(i))));
        await end(t, name(0), "fail");
        assert.deepEqual(await t.counts("s"), {
          available: 0,
          delayed: 0,
          blocked: 0,
          pending: 0,
          finished: 0,
          failed: 1001,
        });
      },
    },
    {
      name: "one unit lets many go at once",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", ...Array.from({ length: 50 }, (_, i) => after(`b${i}`, "a")));
        await end(t, "a", "finish");
        assert.equal((await t.counts("s")).available, 50);
      },
    },
    {
      name: "a unit of the same call may be waited for, whichever comes first",
      async run(t) {
        await t.spec("s");
        await t.add("s", after("b", "a"), "a");
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "blocked" });
      },
    },
    {
      name: "an unknown dependency is refused, and nothing is added",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_dependency", t.add("s", "x", after("b", "none")), /none/);
        await t.refuses(
          "bad_dependency",
          t.add("s", after("b", { workSpec: "nowhere", workUnit: "x" })),
          /nowhere/,
        );
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "cycles are refused, and nothing is changed",
      async run(t) {
        await t.spec("s");
        await t.refuses("dependency_cycle", t.add("s", after("a", "a")), /a/);
        await t.refuses("dependency_cycle", t.add("s", after("a", "b"), after("b", "a")));
        assert.deepEqual(await t.statuses("s"), {});
        await t.add("s", "a", after("b", "a"), after("c", "b"));
        await t.refuses("dependency_cycle", t.add("s", after("a", "c")));
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "blocked", c: "blocked" });
      },
    },
    {
      name: "there is no cycle through a unit that was deleted",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"), after("c", { workUnit: "b", kind: "soft" }));
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["b"] });
        await t.add("s", after("a", "c"));
        assert.deepEqual(await t.statuses("s"), { a: "blocked", c: "available" });
      },
    },
    {
      name: "the error of a cycle names its units, whatever their bytes",
      async run(t) {
        await t.spec("s");
        const odd = nameFromBytes(Uint8Array.of(0x61, 0xff));
        await t.add("s", "b", after(odd, "b"), after("c", odd));
        await t.refuses("dependency_cycle", t.add("s", after("b", "c")), new RegExp(`b -> c -> ${odd}`));
      },
    },
    {
      name: "the same unit may be waited for along two ways",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"), after("c", "a"), after("d", "b", "c"));
        for (const unit of ["a", "b"]) await end(t, unit, "finish");
        assert.equal(await t.status("s", "d"), "blocked");
        await end(t, "c", "finish");
        assert.equal(await t.status("s", "d"), "available");
      },
    },
    ...table(
      [
        { action: "finish", kind: "hard", status: "available" },
        { action: "fail", kind: "hard", status: "failed" },
        { action: "fail", kind: "soft", status: "available" },
      ] as const,
      ({ action, kind, status }) =>
        `a ${kind} dependency on a unit that ended with ${action} already makes the unit ${status}`,
      async (t, { action, kind, status }) => {
        await t.spec("s");
        await t.add("s", "a");
        await end(t, "a", action);
        const [added] = await t.c.addWorkUnits(t.ns, "s", [after("b", { workUnit: "a", kind })]);
        assert.equal(added?.status, status);
        assert.equal(await t.status("s", "b"), status);
      },
    ),
    {
      name: "a unit with a delay and a dependency waits for both",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { ...after("b", "a"), delayMs: 1000 });
        assert.equal(await t.status("s", "b"), "blocked");
        await end(t, "a", "finish");
        assert.equal(await t.status("s", "b"), "delayed");
        await t.advance(1000);
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    {
      name: "a blocked unit stays blocked past its delay",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { ...after("b", "a"), delayMs: 1000 });
        await t.advance(5000);
        assert.equal(await t.status("s", "b"), "blocked");
      },
    },
    {
      name: "adding over a unit with an empty list of dependencies lets it go",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"));
        await t.add("s", { name: "b", dependencies: [] });
        const unit = await t.unit("s", "b");
        assert.deepEqual([unit.status, unit.dependencies], ["available", []]);
        await end(t, "a", "fail");
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    {
      name: "adding over an available unit with a dependency blocks it",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.add("s", after("b", "a"));
        assert.equal(await t.status("s", "b"), "blocked");
      },
    },
    ...table(
      [
        { kind: "hard", status: "failed" },
        { kind: "soft", status: "available" },
      ] as const,
      ({ kind, status }) => `when a ${kind} dependency is deleted before it ended, the unit is ${status}`,
      async (t, { kind, status }) => {
        await t.spec("s");
        await t.add("s", "a", after("b", { workUnit: "a", kind }));
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        const unit = await t.unit("s", "b");
        assert.equal(unit.status, status);
        assert.deepEqual(
          unit.dependencies.map((one) => one.status),
          [null],
        );
      },
    ),
    {
      name: "when a dependency is deleted after it ended, nothing changes",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "z", after("b", "a", "z"));
        await end(t, "a", "finish");
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        assert.equal(await t.status("s", "b"), "blocked");
        await end(t, "z", "finish");
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    ...table(
      ["added again", "reset", "deleted"] as const,
      (what) => `a dependency that was met stays met when that unit is ${what}`,
      async (t, what) => {
        await t.spec("s");
        await t.add("s", "a", "z", after("b", "a", "z"), after("c", "a"));
        await end(t, "a", "finish");
        if (what === "added again") await t.add("s", "a");
        else if (what === "reset") await t.c.resetWorkUnits(t.ns, "s", { names: ["a"] });
        else await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        assert.equal(await t.status("s", "c"), "available");
        await end(t, "c", "retry");
        assert.equal(await t.status("s", "c"), "available");
        await end(t, "z", "finish");
        assert.equal(await t.status("s", "b"), "available");
      },
    ),
    ...table(
      ["retry", "expire"] as const,
      (action) =>
        `a running unit that comes back by ${action} is failed when what it waits for is broken by then`,
      async (t, action) => {
        await t.spec("s");
        await t.add("s", "a", "b");
        const made = await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "b", worker: "w" }]);
        await t.add("s", after("b", "a"));
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        assert.equal(await t.status("s", "b"), "pending");
        await t.settled(present(made[0]), action);
        assert.equal(await t.status("s", "b"), "failed");
      },
    ),
    {
      name: "a unit that names itself in its output lets its dependents go before it runs again",
      async run(t) {
        await t.spec("s", { then: "s" });
        await t.add("s", "a", after("b", "a"));
        await t.settled(await t.claimOne(), "finish", { data: encodeData({ output: ["a"] }) });
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "available" });
      },
    },
    {
      name: "a dependency that failed and then finished is met",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"));
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail");
        assert.equal(await t.status("s", "b"), "failed");
        await t.settled(attempt, "finish");
        await t.c.resetWorkUnits(t.ns, "s", { names: ["b"] });
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    {
      name: "when the work spec of a dependency is deleted, hard dependents in others fail",
      async run(t) {
        await t.spec("s");
        await t.spec("other");
        await t.add("other", "x");
        await t.add("s", after("b", { workSpec: "other", workUnit: "x" }));
        await t.c.deleteWorkSpecs(t.ns, ["other"]);
        assert.equal(await t.status("s", "b"), "failed");
      },
    },
    {
      name: "units that wait for each other are deleted together without failing on the way",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"), after("c", "b"));
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: ["a", "b"] }), 2);
        assert.deepEqual(await t.statuses("s"), { c: "failed" });
      },
    },
    {
      name: "a failed dependent that is retried is blocked again until its dependency has finished",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", after("b", "a"));
        await end(t, "a", "fail");
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a", "b"] });
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "blocked" });
        await end(t, "a", "finish");
        assert.equal(await t.status("s", "b"), "available");
      },
    },
    {
      name: "units that are reset together do not fail because of one another, whatever their names are",
      async run(t) {
        await t.spec("s");
        await t.add("s", "b", after("a", "b"), after("c", "b"), after("aa", "a"));
        await end(t, "b", "fail");
        assert.equal((await t.counts("s")).failed, 4);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { statuses: ["failed"] }), 4);
        assert.deepEqual(await t.statuses("s"), {
          a: "blocked",
          aa: "blocked",
          b: "available",
          c: "blocked",
        });
        // made by the failure, and none by the reset
        assert.equal((await t.unit("s", "aa")).attempts, 1);
      },
    },
    {
      name: "a unit that is reset fails again if a dependency that is not reset has failed",
      async run(t) {
        await t.spec("s");
        await t.add("s", "b", after("a", "b"), after("aa", "a"));
        await end(t, "b", "fail");
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a", "aa"] });
        assert.deepEqual(await t.statuses("s"), { a: "failed", aa: "failed", b: "failed" });
      },
    },
    {
      name: "thousands of units that are reset wait for a dependency that is reset after them",
      async run(t) {
        await t.spec("s");
        const names = Array.from({ length: 2500 }, (_, i) => `u${i + 1000}`);
        await t.add("s", "z", ...names.map((name) => after(name, "z")));
        await end(t, "z", "fail");
        assert.equal((await t.counts("s")).failed, 2501);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { statuses: ["failed"] }), 2501);
        const { available, blocked } = await t.counts("s");
        assert.deepEqual({ available, blocked }, { available: 1, blocked: 2500 });
      },
    },
    {
      name: "a dependency that fails by too many retries fails its dependents",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a", after("b", "a"));
        await t.settled(await t.claimOne(), "retry");
        assert.deepEqual(await t.claim(), []);
        assert.deepEqual(await t.statuses("s"), { a: "failed", b: "failed" });
      },
    },
    {
      name: "a dependency kind that is neither hard nor soft is refused",
      async run(t) {
        await t.spec("s");
        await t.refuses(
          "bad_argument",
          t.add("s", "a", after("b", { workUnit: "a", kind: "firm" as "hard" })),
          /kind/,
        );
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
  ],
};
