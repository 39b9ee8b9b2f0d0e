import assert from "node:assert/strict";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

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
        const { exhausted } = await t.sweep();
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
        await t.sweep();
        assert.equal(await t.status("s", "u"), "failed");
      },
    },
    {
      name: "sweeping changes nothing that anybody can see, but for what is tried too often and retention",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", delayMs: 100 });
        await t.claimOne({ lifetimeMs: 100 });
        await t.advance(100);
        const before = await t.c.listWorkUnits(t.ns, "s");
        await t.sweep();
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
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), { c: "failed", d: "finished", waiting: "available" });
        const row = (await t.c.tally(t.ns))[0];
        assert.deepEqual([row?.counts.finished, row?.removed], [1, { finished: 2, failed: 0 }]);
        await t.advance(60_000);
        await t.sweep();
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
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), { a: "finished", b: "finished" });
      },
    },
    ...table(
      [["a"], ["a", "b", "c"]],
      (names) => `retention holds for ${names.length} that ended in one call after housekeeping had looked`,
      async (t, names) => {
        await t.spec("s", { retention: { finished: { max_count: 0 } } });
        await endAll(t, "s", ["before"], "finish");
        await t.sweep();
        await endAll(t, "s", names, "finish");
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), {});
        assert.deepEqual((await t.c.tally(t.ns))[0]?.removed, { finished: names.length + 1, failed: 0 });
      },
    ),
    {
      name: "retention that is set later holds for what ended before",
      async run(t) {
        await t.spec("s");
        await endAll(t, "s", ["a", "b", "c"], "finish");
        await t.spec("s", { retention: { finished: { max_count: 0 } } });
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "without retention ended units are kept for ever",
      async run(t) {
        await t.spec("s");
        await endAll(t, "s", ["a"], "finish");
        await t.advance(3650 * day);
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), { a: "finished" });
      },
    },
    {
      name: "a removed unit can be added again, and is a new one",
      async run(t) {
        await t.spec("s", { retention: { finished: { max_count: 0 } } });
        await endAll(t, "s", ["a"], "finish");
        await t.sweep();
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
        await t.sweep();
        assert.deepEqual(
          (await t.c.listWorkers(t.ns)).rows.map(({ name }) => name),
          ["child", "holder", "new", "parent"],
        );
      },
    },
    ...table(
      [["parent", "child"] as const, ["child", "parent"] as const],
      ([first, second]) =>
        `a parent and its child are forgotten together, when the ${first} was known before the ${second}`,
      async (t, names) => {
        for (const name of names) await t.c.updateWorkers(t.ns, [{ name }]);
        await t.c.updateWorkers(t.ns, [{ name: "child", parent: "parent" }]);
        await t.advance(8 * day);
        await t.sweep();
        assert.deepEqual((await t.c.listWorkers(t.ns)).rows, []);
      },
    ),
    {
      name: "a worker that was forgotten is known again by a request for work that finds none",
      async run(t) {
        await t.spec("s");
        assert.deepEqual(await t.claim({ worker: "w" }), []);
        await t.advance(8 * day);
        await t.sweep();
        assert.deepEqual(await t.c.getWorkers(t.ns, ["w"]), [null]);
        assert.deepEqual(await t.claim({ worker: "w" }), []);
        assert.equal((await t.c.getWorkers(t.ns, ["w"]))[0]?.active, true);
      },
    },
    {
      name: "a worker that was forgotten no longer has what others took from it, when one of its name comes again",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        await t.claimOne({ worker: "w", lifetimeMs: 30 * day });
        await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "a", worker: "other" }]);
        const held = async (): Promise<number> =>
          (await t.c.listWorkerAttempts(t.ns, "w", { which: "active" })).rows.length;
        assert.equal(await held(), 1);
        await t.advance(8 * day);
        await t.sweep();
        assert.deepEqual(await t.c.getWorkers(t.ns, ["w"]), [null]);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        assert.equal(await held(), 0);
      },
    },
    {
      name: "a worker that was forgotten is known again by a claim, and holds what it claimed",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.settled(await t.claimOne({ worker: "w" }), "finish");
        await t.advance(8 * day);
        await t.sweep();
        assert.deepEqual(await t.c.getWorkers(t.ns, ["w"]), [null]);
        const { id } = await t.claimOne({ worker: "w" });
        assert.equal((await t.c.getWorkers(t.ns, ["w"]))[0]?.active, true);
        assert.deepEqual(
          (await t.c.listWorkerAttempts(t.ns, "w", { which: "active" })).rows.map((row) => row.id),
          [id],
        );
      },
    },
    ...table(
      [{ checkIn: false }, { checkIn: true }],
      ({ checkIn }) =>
        `a worker that was forgotten and renews late holds its attempt again${checkIn ? ", also when it checks in first" : ""}`,
      async (t, { checkIn }) => {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ worker: "w", lifetimeMs: 1000 });
        await t.advance(8 * day);
        await t.sweep();
        assert.deepEqual(await t.c.getWorkers(t.ns, ["w"]), [null]);
        if (checkIn) await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        await t.settled(attempt, "renew", { lifetimeMs: 60_000 });
        const active = async (): Promise<string[]> =>
          (await t.c.listWorkerAttempts(t.ns, "w", { which: "active" })).rows.map(({ id }) => id);
        assert.deepEqual(await active(), [attempt.id]);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        assert.deepEqual(await active(), [attempt.id]);
        await t.settled(attempt, "finish");
        assert.deepEqual(await active(), []);
      },
    ),
    {
      name: "a page of a worker's attempts goes on after the page before, also when all of that claim is gone since",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d");
        const attempts = [];
        for (let i = 0; i < 4; i++) {
          attempts.push(...(await t.claim({ worker: "w" })));
          await t.advance(1);
        }
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
        );
        const { rows, next } = await t.c.listWorkerAttempts(t.ns, "w", { which: "all", limit: 2 });
        assert.deepEqual(
          rows.map(({ workUnit }) => workUnit),
          ["d", "c"],
        );
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["c"] });
        await t.sweep();
        const rest = await t.c.listWorkerAttempts(t.ns, "w", { which: "all", previous: present(next) });
        assert.deepEqual(
          rest.rows.map(({ workUnit }) => workUnit),
          ["b", "a"],
        );
      },
    },
    {
      name: "a page of a worker's attempts goes on after the page before, also when its last unit is gone since",
      async run(t) {
        await t.spec("s");
        const names = Array.from({ length: 1200 }, (_, i) => `u${String(i).padStart(4, "0")}`);
        await t.add("s", ...names);
        const attempts = await t.claim({ worker: "w", number: names.length });
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
        );
        const { rows, next } = await t.c.listWorkerAttempts(t.ns, "w", { which: "all", limit: 100 });
        await t.c.deleteWorkUnits(t.ns, "s", { names: rows.slice(-10).map(({ workUnit }) => workUnit) });
        await t.sweep();
        const rest = await t.c.listWorkerAttempts(t.ns, "w", {
          which: "all",
          limit: 2000,
          previous: present(next),
        });
        assert.deepEqual(
          rest.rows.map(({ workUnit }) => workUnit),
          names.slice(0, -100).reverse(),
        );
      },
    },
  ],
};
