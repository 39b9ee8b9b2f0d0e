import assert from "node:assert/strict";
import { decodeData, encodeData, type BatchRow } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const batch = async (t: Context, name = "b"): Promise<BatchRow> =>
  present((await t.c.getBatches(t.ns, [name]))[0]);
const counts = async (t: Context, name = "b"): Promise<number[]> => {
  const { total, finished, failed } = await batch(t, name);
  return [total, finished, failed];
};
/** Two work specs, a third one for the callback, and a sealed batch of three units. */
async function three(t: Context, on?: "ended" | "finished"): Promise<void> {
  await t.spec("s");
  await t.spec("r");
  await t.spec("after");
  await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after", ...(on !== undefined && { on }) } }]);
  await t.add("s", { name: "1", batch: "b" }, { name: "2", batch: "b" });
  await t.add("r", { name: "3", batch: "b" });
  await t.c.setBatches(t.ns, [{ name: "b", sealed: true }]);
}
/** Settles everything that may be claimed. */
async function settleAll(t: Context, action: "finish" | "fail", workSpecs: string[]): Promise<void> {
  for (const workSpec of workSpecs)
    for (const attempt of await t.claim({ number: 100, workSpecs: [workSpec] }))
      await t.settled(attempt, action);
}
const followers = async (t: Context): Promise<string[]> => Object.keys(await t.statuses("after"));

export const batches: CaseGroup = {
  concept: "batches",
  cases: [
    {
      name: "units of any work specs are counted by how they ended",
      async run(t) {
        await three(t);
        assert.deepEqual(await counts(t), [3, 0, 0]);
        await settleAll(t, "finish", ["r"]);
        assert.deepEqual(await counts(t), [3, 1, 0]);
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "fail");
        assert.deepEqual(await counts(t), [3, 1, 1]);
        assert.deepEqual((await t.unit("s", "1")).labels, ["batch:b"]);
      },
    },
    {
      name: "a unit in a batch may have as many labels of its own as any other",
      async run(t) {
        await t.spec("s");
        const labels = Array.from({ length: 8 }, (_, i) => `l${i}`);
        await t.add("s", { name: "u", labels, batch: "b" });
        const given = (await t.unit("s", "u")).labels;
        assert.deepEqual(given, ["batch:b", ...labels]);
        await t.add("s", { name: "v", labels: given });
        assert.deepEqual(await counts(t), [2, 0, 0]);
        await t.refuses(
          "too_large",
          t.add("s", { name: "w", labels: [...labels, "l8"], batch: "b" }),
          /labels: 9 items, at most 8$/,
        );
        assert.deepEqual(await counts(t), [2, 0, 0]);
      },
    },
    {
      name: "when all have ended, one unit is made, named by the batch, with its counts, and not before",
      async run(t) {
        await three(t);
        await settleAll(t, "finish", ["s"]);
        assert.deepEqual(await followers(t), []);
        await settleAll(t, "fail", ["r"]);
        const attempt = await t.claimOne({ workSpecs: ["after"] });
        assert.equal(attempt.workUnit, "b");
        assert.deepEqual(decodeData(present(attempt.data)), { batch: "b", total: 3, finished: 2, failed: 1 });
        assert.equal((await batch(t)).doneTime, t.now);
      },
    },
    {
      name: "a unit that an output adds again outside of its batch is no longer counted in it",
      async run(t) {
        await three(t);
        await t.spec("first", { then: "s" });
        await settleAll(t, "finish", ["r"]);
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "finish");
        assert.deepEqual(await counts(t), [3, 2, 0]);
        // one of them has ended, and the other one was the last that the batch waited for
        await t.add("first", { name: "f", data: encodeData({ output: ["1", "2"] }) });
        await t.settled(await t.claimOne({ workSpecs: ["first"] }), "finish");
        assert.deepEqual(await t.statuses("s"), { 1: "available", 2: "available" });
        assert.deepEqual(await counts(t), [1, 1, 0]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "a batch that is retried runs all its failed units again, in whatever order they depend on one another",
      async run(t) {
        await t.spec("r");
        await t.spec("s");
        await t.add("s", { name: "b", batch: "b" });
        await t.add("r", {
          name: "a",
          batch: "b",
          dependencies: [{ workSpec: "s", workUnit: "b", kind: "hard" }],
        });
        await settleAll(t, "fail", ["s"]);
        assert.deepEqual(await counts(t), [2, 0, 2]);
        assert.equal(await t.c.changeBatch(t.ns, "b", "retry"), 2);
        assert.deepEqual(await counts(t), [2, 0, 0]);
        await settleAll(t, "finish", ["s", "r"]);
        assert.deepEqual(await counts(t), [2, 2, 0]);
      },
    },
    {
      name: "a failed unit that is deleted no longer keeps its batch from finishing, and one that is not kept does",
      async run(t) {
        await three(t, "finished");
        await settleAll(t, "finish", ["s"]);
        await settleAll(t, "fail", ["r"]);
        assert.deepEqual(await followers(t), []);
        assert.deepEqual(await counts(t), [3, 2, 1]);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "r", { names: ["3"] }), 1);
        assert.deepEqual(await counts(t), [2, 2, 0]);
        assert.deepEqual(await followers(t), ["b"]);
        // a batch that has ended does not change
        await t.c.deleteWorkUnits(t.ns, "s", { all: true });
        assert.deepEqual(await counts(t), [2, 2, 0]);

        await t.spec("retired", { retention: { failed: { max_age: 1 } } });
        await t.c.setBatches(t.ns, [{ name: "c", then: { workSpec: "after", on: "finished" } }]);
        await t.add("retired", { name: "x", batch: "c" });
        await t.c.setBatches(t.ns, [{ name: "c", sealed: true }]);
        await settleAll(t, "fail", ["retired"]);
        await t.advance(2000);
        await t.sweep();
        assert.deepEqual(await t.statuses("retired"), {});
        assert.deepEqual(await counts(t, "c"), [1, 0, 1]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "it is made once: not again when units come back and end again",
      async run(t) {
        await three(t);
        await settleAll(t, "fail", ["s", "r"]);
        await settleAll(t, "finish", ["after"]);
        assert.equal(await t.c.changeBatch(t.ns, "b", "retry"), 3);
        assert.deepEqual(await counts(t), [3, 0, 0]);
        await settleAll(t, "finish", ["s", "r"]);
        assert.deepEqual(await counts(t), [3, 3, 0]);
        assert.deepEqual(await t.statuses("after"), { b: "finished" });
      },
    },
    {
      name: "on finished: a failure holds it up until the unit has been done again",
      async run(t) {
        await three(t, "finished");
        await settleAll(t, "finish", ["s"]);
        await settleAll(t, "fail", ["r"]);
        assert.deepEqual(await followers(t), []);
        assert.equal(await t.c.changeBatch(t.ns, "b", "retry"), 1);
        await settleAll(t, "finish", ["r"]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "not before the batch is sealed, and at once when it is",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.add("s", { name: "1", batch: "b" });
        await settleAll(t, "finish", ["s"]);
        await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after", workUnit: "sum" } }]);
        assert.deepEqual(await followers(t), []);
        await t.c.setBatches(t.ns, [{ name: "b", sealed: true }]);
        assert.deepEqual(await followers(t), ["sum"]);
      },
    },
    {
      name: "outputs stay in the batch of the unit that made them",
      async run(t) {
        await t.spec("s", { then: "r" });
        await t.spec("r");
        await t.spec("after");
        await t.add("s", { name: "1", batch: "b" });
        await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after" }, sealed: true }]);
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "finish", {
          data: encodeData({ output: ["x", "y"] }),
        });
        assert.deepEqual(await counts(t), [3, 1, 0]);
        await settleAll(t, "finish", ["r"]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "units that fail without running count: too many retries, a dependency, a lease that ends",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.spec("after");
        await t.add("s", { name: "1", batch: "b" });
        await t.add("s", { name: "2", batch: "b", dependencies: [{ workUnit: "1" }] });
        await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after" }, sealed: true }]);
        await t.claimOne({ lifetimeMs: 10, workSpecs: ["s"] });
        await t.advance(10);
        await t.sweep();
        assert.deepEqual(await counts(t), [2, 0, 2]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "cancel ends what has not ended, and the batch with it",
      async run(t) {
        await three(t);
        const attempt = await t.claimOne({ workSpecs: ["s"] });
        assert.equal(await t.c.changeBatch(t.ns, "b", "cancel"), 3);
        assert.deepEqual(await counts(t), [3, 0, 3]);
        assert.deepEqual(await followers(t), ["b"]);
        assert.notEqual((await t.settle(attempt, "finish")).error, null);
      },
    },
    {
      name: "a failure that turns out to be none, a unit added again, moved or deleted: counts stay right",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "1", batch: "b" }, { name: "2", batch: "b" }, { name: "3", batch: "b" });
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail");
        await t.settled(attempt, "finish");
        assert.deepEqual(await counts(t), [3, 1, 0]);
        await t.add("s", { name: "1", batch: "b" });
        assert.deepEqual(await counts(t), [3, 0, 0]);
        await t.add("s", { name: "2", batch: "c" });
        assert.deepEqual(
          [await counts(t), await counts(t, "c")],
          [
            [2, 0, 0],
            [1, 0, 0],
          ],
        );
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["3"] });
        assert.deepEqual(await counts(t), [1, 0, 0]);
        await t.settled(await t.claimOne(), "finish");
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["1"] });
        assert.deepEqual(await counts(t), [1, 1, 0]);
        const made = await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "2", worker: "w" }]);
        await t.settled(present(made[0]), "finish");
        assert.deepEqual(await counts(t, "c"), [1, 1, 0]);
        await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "2", worker: "w" }]);
        assert.deepEqual(await counts(t, "c"), [1, 0, 0]);
      },
    },
    {
      name: "an empty batch ends when it is sealed; one without then ends too",
      async run(t) {
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "b", then: { workSpec: "after" }, sealed: true },
          { name: "c", sealed: true },
        ]);
        assert.deepEqual(await followers(t), ["b"]);
        assert.ok((await batch(t, "c")).doneTime > 0);
      },
    },
    {
      name: "a batch in a batch counts as a unit, and what it makes belongs there",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "inner", parent: "b", then: { workSpec: "s", workUnit: "sum" } },
          { name: "b", then: { workSpec: "after" } },
        ]);
        await t.add("s", { name: "1", batch: "inner" });
        await t.c.setBatches(t.ns, [
          { name: "inner", sealed: true },
          { name: "b", sealed: true },
        ]);
        assert.deepEqual(await counts(t), [1, 0, 0]);
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "finish");
        assert.deepEqual(await counts(t), [2, 1, 0]);
        assert.deepEqual(await followers(t), []);
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "finish");
        assert.deepEqual(await counts(t), [2, 2, 0]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "cancel and retry reach the batches in a batch, and what they count there follows",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "innermost", parent: "inner", sealed: true },
          { name: "inner", parent: "b" },
          { name: "b", then: { workSpec: "after", on: "finished" } },
          { name: "other" },
        ]);
        for (const name of ["b", "inner", "innermost", "other"]) await t.add("s", { name, batch: name });
        await t.c.setBatches(t.ns, [
          { name: "inner", sealed: true },
          { name: "b", sealed: true },
        ]);
        assert.equal(await t.c.changeBatch(t.ns, "b", "cancel"), 3);
        const all = async (): Promise<number[][]> => [
          await counts(t, "innermost"),
          await counts(t, "inner"),
          await counts(t),
          await counts(t, "other"),
        ];
        // the innermost batch ended when it was sealed empty, and was reopened by its unit
        assert.deepEqual(await all(), [
          [1, 0, 1],
          [2, 0, 2],
          [2, 0, 2],
          [1, 0, 0],
        ]);
        assert.equal(await t.c.changeBatch(t.ns, "b", "retry"), 3);
        assert.deepEqual(await all(), [
          [1, 0, 0],
          [2, 0, 0],
          [2, 0, 0],
          [1, 0, 0],
        ]);
        await settleAll(t, "finish", ["s"]);
        assert.deepEqual(await all(), [
          [1, 1, 0],
          [2, 2, 0],
          [2, 2, 0],
          [1, 1, 0],
        ]);
        assert.deepEqual(await followers(t), ["b"]);
      },
    },
    {
      name: "cancel reaches what an inner batch makes when it ends, in whatever work spec",
      async run(t) {
        await t.spec("after");
        await t.spec("s");
        await t.c.setBatches(t.ns, [
          { name: "inner", parent: "b", then: { workSpec: "after" } },
          { name: "b", sealed: true },
        ]);
        await t.add("s", { name: "1", batch: "inner" });
        await t.c.setBatches(t.ns, [{ name: "inner", sealed: true }]);
        assert.equal(await t.c.changeBatch(t.ns, "b", "cancel"), 2);
        assert.deepEqual(await t.statuses("after"), { inner: "failed" });
        assert.deepEqual(await counts(t), [2, 0, 2]);
        assert.equal((await batch(t)).doneTime, t.now);
      },
    },
    {
      name: "a batch that has ended counts as such in the batch that it is put into",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "1", batch: "inner" });
        await t.c.setBatches(t.ns, [{ name: "inner", sealed: true }]);
        await settleAll(t, "fail", ["s"]);
        await t.c.setBatches(t.ns, [
          { name: "inner", parent: "b" },
          { name: "b", sealed: true },
        ]);
        assert.deepEqual(await counts(t), [1, 0, 1]);
        assert.ok((await batch(t)).doneTime > 0);
      },
    },
    {
      name: "listed by name, a page at a time; deleted, its units stay",
      async run(t) {
        await t.spec("s");
        for (const name of ["c", "a", "b"]) await t.add("s", { name, batch: name });
        const first = await t.c.listBatches(t.ns, { limit: 2 });
        assert.deepEqual([first.rows.map(({ name }) => name), first.next], [["a", "b"], "b"]);
        const rest = await t.c.listBatches(t.ns, { previous: "b" });
        assert.deepEqual(
          rest.rows.map(({ name }) => name),
          ["c"],
        );
        assert.deepEqual(await t.c.deleteBatches(t.ns, ["b", "x"]), [true, false]);
        assert.deepEqual(await t.c.getBatches(t.ns, ["b"]), [null]);
        await settleAll(t, "finish", ["s"]);
        assert.deepEqual(await t.c.getBatches(t.ns, ["b"]), [null]);
        assert.deepEqual(await counts(t, "a"), [1, 1, 0]);
      },
    },
    {
      name: "a deleted batch no longer holds up its parent, which ends once",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "b", then: { workSpec: "after" } },
          { name: "inner", parent: "b" },
          { name: "other", parent: "b" },
        ]);
        await t.add("s", { name: "1", batch: "inner" });
        await t.c.setBatches(t.ns, [{ name: "b", sealed: true }]);
        assert.deepEqual(await counts(t), [2, 0, 0]);
        assert.deepEqual(await t.c.deleteBatches(t.ns, ["inner", "inner"]), [true, false]);
        assert.deepEqual([await counts(t), await followers(t)], [[1, 0, 0], []]);
        assert.deepEqual(await t.c.deleteBatches(t.ns, ["other"]), [true]);
        assert.deepEqual([await counts(t), await followers(t)], [[0, 0, 0], ["b"]]);
        const attempt = await t.claimOne({ workSpecs: ["after"] });
        assert.deepEqual(decodeData(present(attempt.data)), { batch: "b", total: 0, finished: 0, failed: 0 });
        await t.settled(attempt, "finish");
        // the unit of the deleted batch stays, and counts nowhere
        await settleAll(t, "finish", ["s"]);
        assert.deepEqual([await counts(t), await t.statuses("after")], [[0, 0, 0], { b: "finished" }]);
      },
    },
    {
      name: "the end of a parent by a delete is seen by a waiting worker and by the batch around it",
      async run(t) {
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "inner", parent: "b", then: { workSpec: "after" } },
          { name: "innermost", parent: "inner" },
          { name: "b", sealed: true },
          { name: "inner", sealed: true },
        ]);
        const waiting = t.c.requestAttempts(t.ns, { worker: "w", number: 1, waitMs: 20_000 });
        if (t.subject.waiting !== undefined) await t.untilWaiting(1);
        await t.c.deleteBatches(t.ns, ["innermost"]);
        const [attempt] = await waiting;
        assert.deepEqual(
          [await counts(t), await counts(t, "inner")],
          [
            [2, 1, 0],
            [0, 0, 0],
          ],
        );
        await t.settled(present(attempt), "finish");
        assert.deepEqual(await counts(t), [2, 2, 0]);
        assert.equal((await batch(t)).doneTime, t.now);
      },
    },
    {
      name: "a deleted batch that had ended counts in its parent as a deleted unit does",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after", on: "finished" } }]);
        for (const name of ["failed", "finished", "reopened", "open"]) {
          await t.c.setBatches(t.ns, [{ name, parent: "b" }]);
          await t.add("s", { name, batch: name });
          if (name === "open") continue;
          await t.c.setBatches(t.ns, [{ name, sealed: true }]);
          await settleAll(t, name === "finished" ? "finish" : "fail", ["s"]);
        }
        await t.c.changeBatch(t.ns, "reopened", "retry");
        await t.c.setBatches(t.ns, [{ name: "b", sealed: true }]);
        assert.deepEqual(await counts(t), [4, 1, 1]);
        await t.c.deleteBatches(t.ns, ["finished"]);
        assert.deepEqual(await counts(t), [4, 1, 1]);
        await t.c.deleteBatches(t.ns, ["failed"]);
        assert.deepEqual(await counts(t), [3, 1, 0]);
        await t.c.deleteBatches(t.ns, ["reopened"]);
        assert.deepEqual([await counts(t), await followers(t)], [[2, 1, 0], []]);
        await t.c.deleteBatches(t.ns, ["open"]);
        assert.deepEqual([await counts(t), await followers(t)], [[1, 1, 0], ["b"]]);
      },
    },
    {
      name: "batches in a deleted batch go on without a parent, also when a batch of that name is made again",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [
          { name: "outer" },
          { name: "b", parent: "outer" },
          { name: "inner", parent: "b", then: { workSpec: "after" } },
          { name: "gone", parent: "b" },
        ]);
        await t.add("s", { name: "1", batch: "inner" });
        assert.deepEqual(await t.c.deleteBatches(t.ns, ["b", "gone"]), [true, true]);
        assert.deepEqual(await counts(t, "outer"), [0, 0, 0]);
        assert.deepEqual(await t.c.getBatches(t.ns, ["b", "gone"]), [null, null]);
        assert.equal((await batch(t, "inner")).parent, null);
        await t.c.setBatches(t.ns, [{ name: "b" }, { name: "inner", sealed: true }]);
        await settleAll(t, "finish", ["s"]);
        assert.deepEqual(
          [await counts(t), await counts(t, "inner")],
          [
            [0, 0, 0],
            [1, 1, 0],
          ],
        );
        assert.deepEqual((await t.unit("after", "inner")).labels, []);
        await t.c.setBatches(t.ns, [{ name: "inner", parent: "outer" }]);
        assert.deepEqual(await counts(t, "outer"), [1, 1, 0]);
      },
    },
    {
      name: "a cycle of batches is refused, and nothing of the call is stored",
      async run(t) {
        await t.c.setBatches(t.ns, [{ name: "a" }, { name: "c", parent: "b" }, { name: "b", parent: "a" }]);
        await t.refuses(
          "bad_argument",
          t.c.setBatches(t.ns, [
            { name: "new", sealed: true },
            { name: "a", sealed: true, parent: "c" },
          ]),
          /parent: batches form a cycle: a -> c -> b -> a$/,
        );
        await t.refuses(
          "bad_argument",
          t.c.setBatches(t.ns, [
            { name: "x", parent: "y" },
            { name: "y", parent: "z" },
            { name: "z", parent: "x" },
          ]),
          /parent: batches form a cycle: z -> x -> y -> z$/,
        );
        assert.deepEqual(
          (await t.c.listBatches(t.ns)).rows.map((row) => [row.name, row.parent, row.sealed, row.total]),
          [
            ["a", null, false, 1],
            ["b", "a", false, 1],
            ["c", "b", false, 0],
          ],
        );
      },
    },
    {
      name: "of two calls that close a cycle together, one is refused",
      async run(t) {
        for (let i = 0; i < 5; i++) {
          const [a, b] = [`a${i}`, `b${i}`];
          if (i % 2 === 0) await t.c.setBatches(t.ns, [{ name: a }, { name: b }]);
          const results = await Promise.allSettled([
            t.c.setBatches(t.ns, [{ name: a, parent: b }]),
            t.c.setBatches(t.ns, [{ name: b, parent: a }]),
          ]);
          assert.deepEqual(results.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
        }
      },
    },
    {
      name: "the parent of a batch cannot be changed; giving it again, or none, keeps it",
      async run(t) {
        await t.c.setBatches(t.ns, [{ name: "inner", parent: "b" }]);
        const moved = [
          { name: "inner", parent: "other" },
          { name: "fresh", parent: "b" },
        ];
        const refused = /parent: batch inner is in batch b and cannot be moved to other$/;
        await t.refuses("bad_argument", t.c.setBatches(t.ns, moved), refused);
        await t.refuses(
          "bad_argument",
          t.c.setBatches(t.ns, [
            { name: "twice", parent: "b" },
            { name: "twice", parent: "inner" },
          ]),
          /parent: batch twice is in batch b and cannot be moved to inner$/,
        );
        await t.c.setBatches(t.ns, [{ name: "inner", parent: "b" }, { name: "inner" }]);
        assert.deepEqual(
          (await t.c.listBatches(t.ns)).rows.map((row) => [row.name, row.parent, row.total]),
          [
            ["b", null, 1],
            ["inner", "b", 0],
          ],
        );
      },
    },
    {
      name: "what is wrong is refused by name",
      async run(t) {
        await t.refuses("bad_argument", t.c.setBatches(t.ns, [{ name: "b", parent: "b" }]), /parent/);
        await t.refuses(
          "bad_argument",
          t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "s", on: "never" as "ended" } }]),
          /on/,
        );
        await t.refuses("too_large", t.c.setBatches(t.ns, [{ name: "b".repeat(300) }]));
        await t.refuses("bad_argument", t.c.changeBatch(t.ns, "b", "stop" as "cancel"), /action/);
      },
    },
    {
      name: "a batch that ends because its units are deleted may make a unit with the name of one of them",
      async run(t) {
        await t.spec("s");
        for (const workUnit of ["1", "n".repeat(3000)]) {
          await t.add("s", { name: workUnit, batch: "b", labels: ["red"] }, { name: "2", batch: "b" });
          const [before] = (await t.c.listWorkUnits(t.ns, "s", { label: "red" })).rows;
          await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "s", workUnit }, sealed: true }]);
          assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { all: true }), 2);
          const { rows } = await t.c.listWorkUnits(t.ns, "s");
          assert.deepEqual(
            rows.map(({ name, status, labels }) => [name, status, labels]),
            [[workUnit, "available", []]],
          );
          assert.notEqual(rows[0]?.id, before?.id);
          await t.settled(await t.claimOne(), "finish");
          await t.c.deleteWorkUnits(t.ns, "s", { all: true });
          await t.c.deleteBatches(t.ns, ["b"]);
        }
      },
    },
    {
      name: "many units that end at the same moment lead to one unit",
      async run(t) {
        await t.spec("s");
        await t.spec("after");
        await t.c.setBatches(t.ns, [{ name: "b", then: { workSpec: "after" } }]);
        await t.add("s", ...Array.from({ length: 40 }, (_, i) => ({ name: `u${i}`, batch: "b" })));
        await t.c.setBatches(t.ns, [{ name: "b", sealed: true }]);
        const attempts = await t.claim({ number: 40 });
        await Promise.all(attempts.map((attempt) => t.settled(attempt, "finish")));
        assert.deepEqual(await counts(t), [40, 40, 0]);
        assert.equal((await t.attempts("after", "b")).length, 0);
        assert.deepEqual(await t.statuses("after"), { b: "available" });
      },
    },
  ],
};
