import assert from "node:assert/strict";
import { encodeData, type SharedLimitRow } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

/** Work specs a and b, which share the limit `api`, with units a1 to a3 and b1 to b3. */
async function start(t: Context, keys: Record<string, unknown> = {}): Promise<void> {
  for (const spec of ["a", "b"]) {
    await t.spec(spec, { limits: ["api"], ...keys });
    await t.add(spec, `${spec}1`, `${spec}2`, `${spec}3`);
  }
}

const from = (t: Context, workSpec: string, number = 100): Promise<string[]> =>
  t.claimNames({ workSpecs: [workSpec], number });

const limits = (t: Context): Promise<SharedLimitRow[]> => t.c.listLimits(t.ns);

export const sharedLimits: CaseGroup = {
  concept: "limits",
  cases: [
    {
      name: "limits are defined, redefined as a whole, listed in name order and deleted",
      async run(t) {
        assert.deepEqual(await limits(t), []);
        await t.c.setLimits(t.ns, [
          { name: "b", maxRunning: 2 },
          { name: "\udc80 é", rate: { limit: 5, periodMs: 60_000, burst: 3 } },
        ]);
        await t.spec("s", { limits: ["b", "other", "b"] });
        const nothing = { running: 0, nextTime: 0, workSpecs: [] };
        const rate = { limit: 5, periodMs: 60_000, burst: 3 };
        assert.deepEqual(await limits(t), [
          { ...nothing, name: "b", maxRunning: 2, rate: {}, workSpecs: ["s"] },
          { ...nothing, name: "\udc80 é", maxRunning: 0, rate },
        ]);
        const set = await t.c.setLimits(t.ns, [{ name: "b", rate: { limit: 1 } }]);
        assert.deepEqual(set, [
          { ...nothing, name: "b", maxRunning: 0, rate: { limit: 1 }, workSpecs: ["s"] },
        ]);
        assert.deepEqual(await t.c.deleteLimits(t.ns, ["\udc80 é", "none"]), [true, false]);
        assert.deepEqual(
          (await limits(t)).map(({ name }) => name),
          ["b"],
        );
      },
    },
    {
      name: "what is no limit is refused, and nothing is stored",
      async run(t) {
        const refused = (limit: object, mentions: RegExp): Promise<void> =>
          t.refuses(
            "bad_argument",
            t.c.setLimits(t.ns, [{ name: "good" }, { name: "x", ...limit }]),
            mentions,
          );
        await refused({ maxRunning: -1 }, /maxRunning/);
        await refused({ maxRunning: 1.5 }, /maxRunning/);
        await refused({ rate: { limit: -1 } }, /limit/);
        await refused({ rate: { limit: 1, burst: -2 } }, /burst/);
        await t.refuses("too_large", t.c.setLimits(t.ns, [{ name: "x".repeat(257) }]), /limit/);
        await t.refuses(
          "bad_work_spec",
          t.spec("s", { limits: "api" }),
          /limits: expected a list of strings/,
        );
        assert.deepEqual(await limits(t), []);
      },
    },
    {
      name: "a limit that is not defined limits nothing, and one that is deleted no longer does",
      async run(t) {
        await start(t);
        assert.deepEqual(await from(t, "a", 1), ["a1"]);
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        assert.deepEqual(await from(t, "b"), []);
        await t.c.deleteLimits(t.ns, ["api"]);
        assert.deepEqual(await from(t, "b"), ["b1", "b2", "b3"]);
      },
    },
    {
      name: "no more units run under a limit than it says, over all work specs that share it",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 3 }]);
        await start(t);
        const attempts = await t.claim({ workSpecs: ["a"], number: 2 });
        assert.deepEqual(await from(t, "b"), ["b1"]);
        assert.deepEqual(await t.claimNames(), []);
        assert.equal((await limits(t))[0]?.running, 3);
        await t.settled(attempts[0]!, "finish");
        assert.deepEqual(await from(t, "b"), ["b2"]);
        await t.settled(attempts[1]!, "fail");
        assert.deepEqual(await from(t, "a"), ["a3"]);
        assert.deepEqual(await t.claimNames(), []);
      },
    },
    {
      name: "work specs that do not refer to a limit are not held back",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        await t.spec("c", { limits: ["another"] });
        await t.add("c", "c1", "c2");
        assert.equal((await from(t, "a")).length, 1);
        assert.deepEqual((await t.claimNames()).sort(), ["c1", "c2"]);
      },
    },
    {
      name: "a place is given back when a lease ends, and when a unit is reset, deleted or cancelled",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        const claim = async (workSpec: string): Promise<string[]> =>
          t.claimNames({ workSpecs: [workSpec], lifetimeMs: 60_000 });
        assert.deepEqual(await t.claimNames({ workSpecs: ["a"], lifetimeMs: 1000 }), ["a1"]);
        assert.deepEqual(await claim("b"), []);
        await t.advance(1000);
        assert.deepEqual(await claim("b"), ["b1"]);
        assert.deepEqual(await claim("a"), []);
        await t.c.resetWorkUnits(t.ns, "b", { names: ["b1"] });
        assert.deepEqual(await claim("a"), ["a1"]);
        await t.c.deleteWorkUnits(t.ns, "a", { names: ["a1"] });
        assert.deepEqual(await claim("b"), ["b1"]);
        await t.c.cancelWorkUnits(t.ns, "b", { names: ["b1"] });
        assert.deepEqual(await claim("a"), ["a2"]);
      },
    },
    {
      name: "a lease that ended is not renewed when a unit of another work spec has its place",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        const a1 = await t.claimOne({ workSpecs: ["a"], lifetimeMs: 1000 });
        await t.advance(1000);
        const b1 = await t.claimOne({ workSpecs: ["b"] });
        assert.equal((await t.settle(a1, "renew", { lifetimeMs: 1000 })).error, "lost_lease");
        await t.settled(b1, "finish");
        await t.settled(a1, "renew", { lifetimeMs: 60_000 });
        assert.deepEqual(await from(t, "b"), []);
      },
    },
    {
      name: "units of all work specs take tokens from one bucket",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", rate: { limit: 2, periodMs: 1000, burst: 3 } }]);
        await start(t);
        assert.deepEqual(await from(t, "a", 2), ["a1", "a2"]);
        assert.deepEqual(await from(t, "b"), ["b1"]);
        assert.deepEqual(await t.claimNames(), []);
        assert.equal((await limits(t))[0]?.nextTime, t.now + 500);
        await t.advance(500);
        assert.deepEqual(await from(t, "b"), ["b2"]);
        await t.advance(1000);
        assert.deepEqual(await from(t, "a"), ["a3"]);
        assert.deepEqual(await from(t, "b"), ["b3"]);
      },
    },
    {
      name: "the bucket stays as it is when a limit is redefined",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", rate: { limit: 1, periodMs: 1000 } }]);
        await start(t);
        assert.deepEqual(await from(t, "a"), ["a1"]);
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 10, rate: { limit: 1, periodMs: 1000 } }]);
        assert.deepEqual(await from(t, "b"), []);
        await t.advance(1000);
        assert.deepEqual(await from(t, "b"), ["b1"]);
      },
    },
    {
      name: "a work spec may come under several limits, beside its own, and takes what all allow",
      async run(t) {
        await t.c.setLimits(t.ns, [
          { name: "api", maxRunning: 3 },
          { name: "disk", maxRunning: 2 },
        ]);
        await t.spec("s", { limits: ["disk", "api"], max_running: 10, max_running_per_partition: 2 });
        await t.spec("other", { limits: ["api"] });
        await t.add("s", "s1", "s2", "s3", { name: "s4", partition: "p" });
        await t.add("other", "o1", "o2", "o3");
        assert.deepEqual(await from(t, "s"), ["s4", "s1"]);
        assert.deepEqual(await from(t, "other"), ["o1"]);
        assert.deepEqual(await t.claimNames(), []);
      },
    },
    {
      name: "units that run already are counted when a work spec comes under a limit",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 2 }]);
        await t.spec("a");
        await t.spec("b", { limits: ["api"] });
        await t.add("a", "a1", "a2");
        await t.add("b", "b1", "b2");
        const [a1] = await t.claim({ workSpecs: ["a"], number: 2 });
        await t.c.setWorkSpecs(t.ns, [{ data: encodeData({ name: "a", limits: ["api"] }) }]);
        assert.deepEqual(await from(t, "b"), []);
        await t.settled(a1!, "finish");
        assert.deepEqual(await from(t, "b"), ["b1"]);
      },
    },
    {
      name: "a continuous work spec makes no unit that a limit holds back",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await t.spec("s", { limits: ["api"], continuous: true });
        await start(t);
        const a1 = await t.claimOne({ workSpecs: ["a"] });
        assert.deepEqual(await from(t, "s"), []);
        assert.deepEqual(await t.statuses("s"), {});
        await t.settled(a1, "finish");
        assert.equal((await from(t, "s")).length, 1);
      },
    },
    {
      name: "explain names the limit that holds a work spec back",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        assert.equal((await t.c.explain(t.ns))[1]?.excluded, null);
        await t.claimOne({ workSpecs: ["a"] });
        const row = present((await t.c.explain(t.ns)).find(({ workSpec }) => workSpec === "b"));
        assert.equal(row.excluded, "limit");
        assert.match(row.reason, /limit api/);
      },
    },
    {
      name: "a request that waits is answered when a unit of another work spec gives its place up",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        const a1 = await t.claimOne({ workSpecs: ["a"] });
        const waiting = t.claimNames({ workSpecs: ["b"], number: 1, waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.settled(a1, "finish");
        assert.deepEqual(await waiting, ["b1"]);
      },
    },
    {
      name: "a request that waits is answered when a limit allows more",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        await start(t);
        await t.claimOne({ workSpecs: ["a"] });
        const waiting = t.claimNames({ workSpecs: ["b"], number: 1, waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 2 }]);
        assert.deepEqual(await waiting, ["b1"]);
      },
    },
    {
      name: "a faster rate of a limit holds from then on, whatever the slower one has left",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", rate: { limit: 1, periodMs: 86_400_000 } }]);
        await start(t);
        assert.equal((await from(t, "a")).length, 1);
        await t.c.setLimits(t.ns, [{ name: "api", rate: { limit: 1 } }]);
        assert.equal((await from(t, "b")).length, 1);
        assert.equal((await from(t, "a")).length, 0);
        await t.advance(1000);
        assert.equal((await from(t, "a")).length, 1);
      },
    },
    {
      name: "a request that waits is answered when the rate of a limit has a token",
      async run(t) {
        await t.c.setLimits(t.ns, [{ name: "api", rate: { limit: 1, periodMs: 1000 } }]);
        await start(t);
        await t.claimOne({ workSpecs: ["a"] });
        const waiting = t.claimNames({ workSpecs: ["b"], number: 1, waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.advance(1000);
        assert.deepEqual(await waiting, ["b1"]);
      },
    },
    {
      name: "limits of a namespace are its own, and go with it",
      async run(t) {
        const other = `${t.ns} other`;
        await t.c.setLimits(t.ns, [{ name: "api", maxRunning: 1 }]);
        assert.deepEqual(await t.c.listLimits(other), []);
        await start(t);
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await limits(t), []);
        await start(t);
        assert.equal((await from(t, "a")).length, 3);
      },
    },
  ],
};
