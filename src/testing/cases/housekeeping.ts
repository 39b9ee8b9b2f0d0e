import assert from "node:assert/strict";
import type { CaseGroup, Context } from "../stack.ts";

const day = 24 * 3600 * 1000;

async function endAll(t: Context, spec: string, names: string[], action: "finish" | "fail"): Promise<void> {
  await t.add(spec, ...names);
  for (const attempt of await t.claim({ number: names.length, workSpecs: [spec] }))
    await t.settled(attempt, action);
}

export const housekeeping: CaseGroup = {
  concept: "housekeeping",
  cases: [
    {
      name: "units tried too often are failed even when nobody asks for work",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "u");
        await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        const { exhausted } = await t.tidy();
        assert.ok(exhausted >= 1);
        const unit = await t.unit("s", "u");
        assert.equal(unit.status, "failed");
        assert.match(String(unit.data), /too many retries/);
      },
    },
    {
      name: "units tried too often by a limit that is set later are failed too",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.settled(await t.claimOne(), "retry");
        await t.c.setWorkSpecMeta(t.ns, "s", { maxRetries: 1 });
        await t.tidy();
        assert.equal(await t.status("s", "u"), "failed");
      },
    },
    {
      name: "tidying changes nothing that anybody can see, but for what is tried too often and retention",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", delayMs: 100 });
        await t.claimOne({ lifetimeMs: 100 });
        await t.advance(100);
        const before = await t.c.listWorkUnits(t.ns, "s");
        await t.tidy();
        assert.deepEqual(await t.c.listWorkUnits(t.ns, "s"), before);
        assert.equal((await t.counts("s")).available, 2);
      },
    },
    {
      name: "retention by age: ended units older than that are removed, totals are kept",
      async run(t) {
        await t.spec("s", { retention: { finished: { max_age: 60 }, failed: { max_age: 120 } } });
        await endAll(t, "s", ["a", "b"], "finish");
        await endAll(t, "s", ["c"], "fail");
        await t.advance(30_000);
        await endAll(t, "s", ["d"], "finish");
        await t.add("s", "waiting");
        await t.advance(30_000);
        await t.tidy();
        assert.deepEqual(await t.statuses("s"), { c: "failed", d: "finished", waiting: "available" });
        const row = (await t.c.tally(t.ns))[0];
        assert.deepEqual([row?.counts.finished, row?.removed], [1, { finished: 2, failed: 0 }]);
        await t.advance(60_000);
        await t.tidy();
        assert.deepEqual(await t.statuses("s"), { waiting: "available" });
        assert.deepEqual((await t.c.tally(t.ns))[0]?.removed, { finished: 3, failed: 1 });
      },
    },
    {
      name: "retention by count: the newest are kept",
      async run(t) {
        await t.spec("s", { retention: { finished: { max_count: 2 } } });
        for (const name of ["d", "c", "b", "a"]) {
          await endAll(t, "s", [name], "finish");
          await t.advance(1);
        }
        await t.tidy();
        assert.deepEqual(await t.statuses("s"), { a: "finished", b: "finished" });
      },
    },
    {
      name: "retention that is set later holds for what ended before",
      async run(t) {
        await t.spec("s");
        await endAll(t, "s", ["a", "b", "c"], "finish");
        await t.spec("s", { retention: { finished: { max_count: 0 } } });
        await t.tidy();
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "without retention ended units are kept for ever",
      async run(t) {
        await t.spec("s");
        await endAll(t, "s", ["a"], "finish");
        await t.advance(3650 * day);
        await t.tidy();
        assert.deepEqual(await t.statuses("s"), { a: "finished" });
      },
    },
    {
      name: "a removed unit can be added again, and is a new one",
      async run(t) {
        await t.spec("s", { retention: { finished: { max_count: 0 } } });
        await endAll(t, "s", ["a"], "finish");
        await t.tidy();
        const [added] = await t.c.addWorkUnits(t.ns, "s", [{ name: "a" }]);
        assert.equal(added?.created, true);
      },
    },
    {
      name: "workers that have been inactive for a week are forgotten, others are not",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.c.updateWorkers(t.ns, [
          { name: "old", active: true },
          { name: "child", active: true, parent: "parent" },
        ]);
        await t.claimOne({ worker: "holder", lifetimeMs: 30 * day });
        await t.advance(7 * day + 3_600_000);
        await t.c.updateWorkers(t.ns, [
          { name: "new", active: true },
          { name: "child", active: true },
        ]);
        await t.tidy();
        assert.deepEqual(
          (await t.c.listWorkers(t.ns)).rows.map(({ name }) => name),
          ["child", "holder", "new", "parent"],
        );
      },
    },
  ],
};
