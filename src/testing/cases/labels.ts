import assert from "node:assert/strict";
import { emptyTally, type WorkUnitQuery } from "../../core/index.ts";
import type { CaseGroup, Context } from "../stack.ts";

const listed = async (t: Context, query: WorkUnitQuery): Promise<string[]> =>
  (await t.c.listWorkUnits(t.ns, "s", query)).rows.map(({ name }) => name);

/** Six units with two labels, in every status but blocked. */
async function labelled(t: Context): Promise<void> {
  await t.spec("s");
  await t.add("s", { name: "a1", labels: ["red"] }, { name: "a2", labels: ["red", "big"] }, "a3");
  const attempts = await t.claim({ number: 3 });
  await t.settled(attempts[0]!, "finish");
  await t.settled(attempts[1]!, "fail");
  await t.add(
    "s",
    { name: "b1", labels: ["red"] },
    { name: "b2", labels: ["red"], delayMs: 60_000 },
    { name: "b3", labels: ["big"] },
  );
}

export const labels: CaseGroup = {
  concept: "labels",
  cases: [
    {
      name: "units are found by label, with statuses, prefix and names, in name order and by page",
      async run(t) {
        await labelled(t);
        assert.deepEqual(await listed(t, { label: "red" }), ["a1", "a2", "b1", "b2"]);
        assert.deepEqual(await listed(t, { label: "big" }), ["a2", "b3"]);
        assert.deepEqual(await listed(t, { label: "none" }), []);
        assert.deepEqual(await listed(t, { label: "red", statuses: ["failed", "delayed"] }), ["a2", "b2"]);
        assert.deepEqual(await listed(t, { label: "red", prefix: "a" }), ["a1", "a2"]);
        assert.deepEqual(await listed(t, { label: "red", prefix: "b", statuses: ["available"] }), ["b1"]);
        assert.deepEqual(await listed(t, { label: "red", names: ["b3", "b1", "a1"] }), ["a1", "b1"]);
        const first = await t.c.listWorkUnits(t.ns, "s", { label: "red", limit: 2 });
        assert.equal(first.next, "a2");
        assert.deepEqual(await listed(t, { label: "red", previous: "a2" }), ["b1", "b2"]);
      },
    },
    {
      name: "a unit shows its labels, each once, in the order given",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", labels: ["z", "a", "z"] }, "v");
        assert.deepEqual((await t.unit("s", "u")).labels, ["z", "a"]);
        assert.deepEqual((await t.unit("s", "v")).labels, []);
      },
    },
    {
      name: "the labels of a unit that is added again are those of the new add",
      async run(t) {
        await labelled(t);
        await t.add("s", { name: "a1", labels: ["big"] }, "b1", { name: "a3", labels: ["red"] });
        assert.deepEqual(await listed(t, { label: "red" }), ["a2", "a3", "b2"]);
        assert.deepEqual(await listed(t, { label: "big" }), ["a1", "a2", "b3"]);
        assert.deepEqual((await t.unit("s", "b1")).labels, []);
      },
    },
    {
      name: "labels stay while a unit is claimed, settled, reset and given another priority",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", labels: ["red"] });
        await t.settled(await t.claimOne(), "retry");
        await t.settled(await t.claimOne(), "finish");
        await t.c.resetWorkUnits(t.ns, "s", { label: "red" });
        await t.c.setWorkUnitPriorities(t.ns, "s", { label: "red" }, { set: 7 });
        const row = await t.unit("s", "u");
        assert.deepEqual([row.status, row.priority, row.labels], ["available", 7, ["red"]]);
        assert.deepEqual(await listed(t, { label: "red" }), ["u"]);
      },
    },
    {
      name: "a selection by label changes and deletes those units and no others",
      async run(t) {
        await labelled(t);
        assert.equal(await t.c.setWorkUnitPriorities(t.ns, "s", { label: "big" }, { set: 5 }), 2);
        assert.equal((await t.unit("s", "b3")).priority, 5);
        assert.equal((await t.unit("s", "b1")).priority, 0);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { label: "red", statuses: ["finished"] }), 1);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { label: "red" }), 3);
        assert.deepEqual(await listed(t, {}), ["a3", "b3"]);
        assert.deepEqual(await listed(t, { label: "red" }), []);
        // a new unit of the same name does not inherit the labels
        await t.add("s", "a1");
        assert.deepEqual(await listed(t, { label: "red" }), []);
        assert.deepEqual(await listed(t, { label: "big" }), ["b3"]);
      },
    },
    {
      name: "labels of a work spec that was deleted and made again are gone",
      async run(t) {
        await labelled(t);
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        await t.spec("s");
        await t.add("s", "a1");
        assert.deepEqual(await listed(t, { label: "red" }), []);
      },
    },
    {
      name: "labels mean nothing in another work spec",
      async run(t) {
        await labelled(t);
        await t.spec("other");
        await t.add("other", { name: "x", labels: ["red"] });
        assert.deepEqual((await t.c.listWorkUnits(t.ns, "other", { label: "red" })).rows.length, 1);
        assert.deepEqual(await listed(t, { label: "red" }), ["a1", "a2", "b1", "b2"]);
      },
    },
    {
      name: "a great many units with a label are listed and deleted in slices",
      async run(t) {
        await t.spec("s");
        const units = Array.from({ length: 2500 }, (_, i) => ({
          name: `u${String(i).padStart(4, "0")}`,
          labels: [i % 5 === 0 ? "fifth" : "other"],
        }));
        await t.c.addWorkUnits(t.ns, "s", units);
        assert.equal((await listed(t, { label: "fifth", limit: 1000 })).length, 500);
        assert.equal((await t.c.countWorkUnits(t.ns, "s", { label: "other" })).available, 2000);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { label: "other" }), 2000);
        assert.equal((await t.counts("s")).available, 500);
      },
    },
    {
      name: "units are counted by status: all, by label, by prefix, by name",
      async run(t) {
        await labelled(t);
        const count = (selection: Parameters<typeof t.c.countWorkUnits>[2]) =>
          t.c.countWorkUnits(t.ns, "s", selection);
        const some = (counts: Partial<ReturnType<typeof emptyTally>>) => ({ ...emptyTally(), ...counts });
        assert.deepEqual(await count({ all: true }), await t.counts("s"));
        assert.deepEqual(await count({ statuses: ["failed"] }), some({ failed: 1 }));
        assert.deepEqual(
          await count({ label: "red" }),
          some({ finished: 1, failed: 1, available: 1, delayed: 1 }),
        );
        assert.deepEqual(await count({ label: "red", statuses: ["failed", "pending"] }), some({ failed: 1 }));
        assert.deepEqual(await count({ prefix: "a" }), some({ finished: 1, failed: 1, pending: 1 }));
        assert.deepEqual(await count({ names: ["a3", "b3", "none"] }), some({ pending: 1, available: 1 }));
        await t.advance(60_000);
        assert.deepEqual(
          await count({ label: "red", statuses: ["available", "delayed"] }),
          some({ available: 2 }),
        );
        await t.refuses("empty_query", count({}));
        await t.refuses("no_such_work_spec", t.c.countWorkUnits(t.ns, "none", { all: true }));
        await t.refuses("no_such_work_spec", t.c.countWorkUnits(t.ns, "none", { label: "red" }));
      },
    },
    {
      name: "labels and queues together with dependencies",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", {
          name: "b",
          labels: ["red"],
          queues: ["q"],
          dependencies: [{ workUnit: "a" }],
        });
        assert.deepEqual(await listed(t, { label: "red", statuses: ["blocked"] }), ["b"]);
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await listed(t, { label: "red", statuses: ["available"] }), ["b"]);
        await t.settled(await t.claimOne(), "finish");
        assert.equal((await t.c.takeMessages(t.ns, "q")).length, 1);
      },
    },
    {
      name: "any bytes may be a label, and what is none is refused",
      async run(t) {
        await t.spec("s");
        const odd = ["\udcff\udcfe", "a\u0000b", "é"];
        await t.add("s", { name: "u", labels: odd });
        assert.deepEqual((await t.unit("s", "u")).labels, odd);
        for (const label of odd) assert.deepEqual(await listed(t, { label }), ["u"]);
        const add = (labels: string[]) => t.c.addWorkUnits(t.ns, "s", [{ name: "v", labels }]);
        await t.refuses("bad_name", add([""]), /label/);
        await t.refuses("too_large", add(["x".repeat(257)]), /label/);
        await t.refuses("too_large", add(Array.from({ length: 9 }, (_, i) => `l${i}`)), /labels/);
        await t.refuses("bad_name", t.c.listWorkUnits(t.ns, "s", { label: "" }), /label/);
        assert.deepEqual(await listed(t, {}), ["u"]);
      },
    },
  ],
};
