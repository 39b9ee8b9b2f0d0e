import assert from "node:assert/strict";
import { encodeData, type AddedWorkUnit, type WorkUnitInput } from "../../core/index.ts";
import { present, sameData, type CaseGroup, type Context } from "../stack.ts";

const old = encodeData({ v: "old" });
const fresh = encodeData({ v: "new" });

const add = async (t: Context, ...units: WorkUnitInput[]): Promise<AddedWorkUnit[]> =>
  t.c.addWorkUnits(t.ns, "s", units);
const dataOf = async (t: Context, name = "u"): Promise<string> => String((await t.unit("s", name)).data);

export const conflicts: CaseGroup = {
  concept: "conflicts",
  cases: [
    {
      name: "ignore leaves a unit that exists as it is, and says so",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "u", data: old, priority: 5, labels: ["red"] });
        const [u, v] = await t.c.addWorkUnits(
          t.ns,
          "s",
          [
            { name: "u", data: fresh },
            { name: "v", data: fresh },
          ],
          { onConflict: "ignore" },
        );
        assert.deepEqual([u?.created, u?.ignored, u?.status], [false, true, "available"]);
        assert.deepEqual([v?.created, v?.ignored], [true, undefined]);
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.priority, unit.labels], [5, ["red"]]);
        sameData(unit.data, old);
        await t.settled(await t.claimOne(), "finish");
        await add(t, { name: "u", data: fresh, onConflict: "ignore" });
        assert.equal(await t.status("s", "u"), "finished");
      },
    },
    {
      name: "refuse refuses the whole call with name_exists, and nothing is added",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "u", data: old });
        await t.refuses(
          "name_exists",
          t.c.addWorkUnits(t.ns, "s", [{ name: "v" }, { name: "u", data: fresh }], { onConflict: "refuse" }),
          /work unit u of work spec s/,
        );
        assert.deepEqual(await t.statuses("s"), { u: "available" });
        sameData((await t.unit("s", "u")).data, old);
        await t.refuses("name_exists", add(t, { name: "w" }, { name: "w", onConflict: "refuse" }));
        assert.equal((await add(t, { name: "w", onConflict: "refuse" }))[0]?.created, true);
      },
    },
    {
      name: "data replaces the data and keeps the place: priority, delay, dependencies, queues and labels",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "first" });
        await add(t, {
          name: "u",
          data: old,
          priority: 5,
          notBefore: t.now + 1000,
          dependencies: [{ workUnit: "first" }],
          queues: ["q"],
          labels: ["red"],
        });
        await add(t, { name: "u", data: fresh, priority: 1, dependencies: [], onConflict: "data" });
        const unit = await t.unit("s", "u");
        sameData(unit.data, fresh);
        assert.deepEqual(
          [unit.priority, unit.notBefore, unit.dependencies.length, unit.queues, unit.labels, unit.status],
          [5, t.now + 1000, 1, ["q"], ["red"], "blocked"],
        );
      },
    },
    {
      name: "data of a unit that runs is for its next attempt, and one that has ended becomes available with its priority",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "u", data: old, priority: 3 });
        const attempt = await t.claimOne();
        await add(t, { name: "u", data: fresh, onConflict: "data" });
        assert.equal(await t.status("s", "u"), "pending");
        sameData((await t.attempt(attempt.id)).data, old);
        await t.settled(attempt, "finish");
        await add(t, { name: "u", data: old, onConflict: "data" });
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.priority], ["available", 3]);
        sameData((await t.claimOne()).data, old);
      },
    },
    {
      name: "replace takes a unit from the attempt that runs, which loses its lease",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "u", data: old });
        const attempt = await t.claimOne();
        const [added] = await add(t, { name: "u", data: fresh, priority: 2, onConflict: "replace" });
        assert.deepEqual([added?.created, added?.status], [false, "available"]);
        assert.equal((await t.settle(attempt, "finish")).error, "lost_lease");
        const second = await t.claimOne();
        assert.deepEqual([second.workUnit, second.number], ["u", 2]);
        sameData(second.data, fresh);
        assert.equal((await t.attempts("s", "u"))[0]?.status, "expired");
      },
    },
    {
      name: "debounce: the last one within the time wins, and waits anew",
      async run(t) {
        await t.spec("s");
        await add(t, { name: "u", data: old, debounceMs: 1000 });
        await t.advance(900);
        assert.equal((await add(t, { name: "u", data: fresh, debounceMs: 1000 }))[0]?.status, "delayed");
        await t.advance(999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        sameData((await t.claimOne()).data, fresh);
        await t.refuses("bad_argument", add(t, { name: "v", debounceMs: 5, delayMs: 5 }), /debounceMs/);
      },
    },
    {
      name: "throttle: one within the time, also when it has ended; then it is added again",
      async run(t) {
        await t.spec("s");
        const once = { name: "u", throttleMs: 1000 };
        assert.equal((await add(t, { ...once, data: old }))[0]?.created, true);
        assert.equal((await add(t, { ...once, data: fresh }))[0]?.ignored, true);
        await t.settled(await t.claimOne(), "finish");
        await t.advance(999);
        assert.equal((await add(t, once))[0]?.ignored, true);
        assert.equal(await t.status("s", "u"), "finished");
        await t.advance(1);
        assert.deepEqual(
          (await add(t, { ...once, data: fresh })).map(({ ignored, status }) => [ignored, status]),
          [[undefined, "available"]],
        );
        assert.equal(await dataOf(t), String(fresh));
        assert.equal((await add(t, once))[0]?.ignored, true);
      },
    },
    {
      name: "of many who add the same unit at once with refuse, one succeeds",
      async run(t) {
        await t.spec("s");
        const answers = await Promise.allSettled(
          Array.from({ length: 10 }, () => add(t, { name: "u", onConflict: "refuse" })),
        );
        assert.equal(answers.filter(({ status }) => status === "fulfilled").length, 1);
      },
    },
    {
      name: "a policy that is none is refused by name",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_argument", add(t, { name: "u", onConflict: "merge" as "update" }), /onConflict/);
      },
    },
    {
      name: "max_waiting: an add of more than may wait is refused with queue_full, and nothing is added",
      async run(t) {
        await t.spec("s", { max_waiting: 3 });
        await t.add("s", "a", { name: "b", delayMs: 1000 });
        await t.refuses(
          "queue_full",
          t.add("s", "c", "d"),
          /s has 2 waiting work units; 2 more would exceed max_waiting \(3\)/,
        );
        assert.deepEqual(Object.keys(await t.statuses("s")), ["a", "b"]);
        await t.add("s", "c");
        await t.refuses("queue_full", t.add("s", "d"));
        // a unit that already waits may be added again
        await t.add("s", { name: "a", data: fresh });
        await t.add("s", { name: "x", onConflict: "ignore" }).catch(() => undefined);
      },
    },
    {
      name: "max_waiting: what runs does not wait, and what is made available again does",
      async run(t) {
        await t.spec("s", { max_waiting: 2 });
        await t.add("s", "a", "b");
        const attempt = await t.claimOne();
        await t.add("s", "c");
        await t.settled(attempt, "finish");
        await t.refuses("queue_full", t.add("s", "a"));
        assert.equal(await t.status("s", "a"), "finished");
        // a retry is accepted although the queue is full
        const again = await t.claimOne();
        await t.add("s", "a");
        await t.settled(again, "retry");
        assert.equal((await t.counts("s")).available, 3);
      },
    },
    {
      name: "max_waiting: outputs are always taken",
      async run(t) {
        await t.spec("s", { max_waiting: 1 });
        await t.spec("from", { then: "s" });
        await t.add("s", "a");
        await t.add("from", "x");
        const attempt = await t.claimOne({ workSpecs: ["from"] });
        await t.settled(attempt, "finish", { data: encodeData({ output: ["b", "c"] }) });
        assert.equal((await t.counts("s")).available, 3);
      },
    },
    {
      name: "max_waiting: a producer may wait for room",
      async run(t) {
        await t.spec("s", { max_waiting: 1 });
        await t.add("s", "a");
        const waiting = t.c.addWorkUnits(t.ns, "s", [{ name: "b" }], { waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.claimOne();
        await t.advance(1000);
        assert.equal(present((await waiting)[0]).created, true);
        const vain = t.c.addWorkUnits(t.ns, "s", [{ name: "c" }], { waitMs: 1000 });
        const refused = t.refuses("queue_full", vain);
        await t.untilWaiting(1);
        await t.advance(1000);
        await refused;
      },
    },
    {
      name: "max_waiting: an add of more units than may ever wait is refused at once, and delays no other",
      async run(t) {
        await t.spec("s", { max_waiting: 2 });
        await t.add("s", "a");
        const large = [{ name: "b" }, { name: "c" }, { name: "d" }];
        const problem = /3 new work units for s, at most 2 may wait \(max_waiting\)/;
        await t.refuses("too_large", t.c.addWorkUnits(t.ns, "s", large), problem);
        const options = { waitMs: 60_000 };
        const refused = t.refuses("too_large", t.c.addWorkUnits(t.ns, "s", large, options), problem);
        const added = await t.c.addWorkUnits(t.ns, "s", [{ name: "e" }], options);
        assert.deepEqual(
          added.map(({ name }) => name),
          ["e"],
        );
        await refused;
        // also while another add waits
        const waiting = t.c.addWorkUnits(t.ns, "s", [{ name: "f" }], options);
        await t.untilWaiting(1);
        await t.refuses("too_large", t.c.addWorkUnits(t.ns, "s", large, options), problem);
        await t.claimOne();
        await t.advance(1000);
        assert.equal(present((await waiting)[0]).name, "f");
        // units that run or wait already are not new
        const known = [{ name: "a" }, { name: "e" }, { name: "f" }];
        assert.equal((await t.c.addWorkUnits(t.ns, "s", known, options)).length, 3);
      },
    },
    {
      name: "max_waiting holds exactly when many add at once",
      async run(t) {
        await t.spec("s", { max_waiting: 5 });
        const answers = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => t.add("s", `u${i}`)));
        assert.equal(answers.filter(({ status }) => status === "fulfilled").length, 5);
        assert.equal((await t.counts("s")).available, 5);
      },
    },
  ],
};
