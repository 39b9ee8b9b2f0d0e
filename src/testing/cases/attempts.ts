import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

const data = (n: number) => encodeData({ n });
const minute = 60_000;

export const attempts: CaseGroup = {
  concept: "attempts",
  cases: [
    {
      name: "a claim makes an attempt: pending, active, with worker, times and the unit's data",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne({ worker: "w", lifetimeMs: 5 * minute });
        assert.deepEqual(attempt, {
          id: attempt.id,
          workSpec: "s",
          workUnit: "u",
          worker: "w",
          number: 1,
          status: "pending",
          active: true,
          startTime: t.now,
          endTime: 0,
          expirationTime: t.now + 5 * minute,
          data: data(1),
          late: false,
          chainingErrors: [],
          progress: null,
        });
        assert.deepEqual(await t.attempt(attempt.id), attempt);
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.attempts, unit.activeAttempt], ["pending", 1, attempt]);
      },
    },
    {
      name: "a lease is 15 minutes when the request does not say, or says 0",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        assert.equal((await t.claimOne()).expirationTime, t.now + 15 * minute);
        assert.equal((await t.claimOne({ lifetimeMs: 0 })).expirationTime, t.now + 15 * minute);
      },
    },
    {
      name: "no work is an empty answer",
      async run(t) {
        assert.deepEqual(await t.claim(), []);
        await t.spec("s");
        assert.deepEqual(await t.claim(), []);
      },
    },
    {
      name: "one unit is handed out when the request does not say how many, or says 0",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        assert.equal((await t.claim()).length, 1);
        assert.equal((await t.claim({ number: 0 })).length, 1);
      },
    },
    {
      name: "as many as asked for are handed out, and no unit twice",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d", "e");
        assert.deepEqual(
          (await t.claim({ number: 2 })).map(({ workUnit }) => workUnit),
          ["a", "b"],
        );
        assert.deepEqual(
          (await t.claim({ number: 10 })).map(({ workUnit }) => workUnit),
          ["c", "d", "e"],
        );
        assert.deepEqual(await t.claim({ number: 10 }), []);
      },
    },
    {
      name: "one request returns attempts of one work spec only",
      async run(t) {
        await t.spec("a");
        await t.spec("b");
        await t.add("a", "1", "2");
        await t.add("b", "1", "2");
        const first = await t.claim({ number: 10 });
        const second = await t.claim({ number: 10 });
        assert.deepEqual([first.length, new Set(first.map(({ workSpec }) => workSpec)).size], [2, 1]);
        assert.deepEqual([second.length, new Set(second.map(({ workSpec }) => workSpec)).size], [2, 1]);
        assert.notEqual(first[0]?.workSpec, second[0]?.workSpec);
      },
    },
    {
      name: "an attempt whose expiration has passed is expired, everywhere, at once",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne({ lifetimeMs: 1000 });
        await t.advance(999);
        assert.equal((await t.attempt(attempt.id)).status, "pending");
        assert.equal((await t.counts("s")).pending, 1);
        await t.advance(1);
        const expired = await t.attempt(attempt.id);
        assert.deepEqual(
          [expired.status, expired.active, expired.endTime],
          ["expired", false, attempt.expirationTime],
        );
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.activeAttempt, unit.data], ["available", null, data(1)]);
        assert.equal((await t.counts("s")).pending, 0);
        assert.deepEqual(
          (await t.c.listWorkUnits(t.ns, "s", { statuses: ["available"] })).rows.map(({ name }) => name),
          ["u"],
        );
        assert.deepEqual((await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" })).rows, []);
        assert.equal((await t.c.explain(t.ns, {}))[0]?.available, 1);
      },
    },
    {
      name: "an expired unit is handed out again, as the next attempt of the same unit",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const first = await t.claimOne({ worker: "one", lifetimeMs: 1000 });
        await t.advance(1000);
        const second = await t.claimOne({ worker: "two" });
        assert.deepEqual([second.workUnit, second.number, second.worker], ["u", 2, "two"]);
        assert.notEqual(second.id, first.id);
        const all = await t.attempts("s", "u");
        assert.deepEqual(
          all.map(({ id, number, worker, status, active }) => [id, number, worker, status, active]),
          [
            [first.id, 1, "one", "expired", false],
            [second.id, 2, "two", "pending", true],
          ],
        );
      },
    },
    {
      name: "a unit comes back to its place by priority when its lease expires",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "z", priority: 1 }, "a");
        await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        assert.deepEqual(await t.claimNames(), ["z", "a"]);
      },
    },
    {
      name: "at most one attempt of a unit is active",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        for (let i = 0; i < 3; i++) {
          await t.claimOne({ lifetimeMs: 10 });
          assert.deepEqual((await t.attempts("s", "u")).filter(({ active }) => active).length, 1);
          await t.advance(10);
        }
        assert.deepEqual(
          (await t.attempts("s", "u")).map(({ number }) => number),
          [1, 2, 3],
        );
      },
    },
    {
      name: "a new attempt starts from the unit's own data, not from what an earlier one wrote",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const first = await t.claimOne();
        await t.settled(first, "renew", { lifetimeMs: 1000, data: data(2) });
        assert.deepEqual((await t.unit("s", "u")).data, data(2));
        await t.advance(1000);
        assert.deepEqual((await t.unit("s", "u")).data, data(1));
        assert.deepEqual((await t.claimOne()).data, data(1));
        assert.deepEqual((await t.attempt(first.id)).data, data(2));
      },
    },
    {
      name: "an attempt of a unit or spec that is not there: unit refused, id null",
      async run(t) {
        await t.spec("s");
        await t.refuses("no_such_work_unit", t.attempts("s", "none"), /none/);
        await t.refuses("no_such_work_spec", t.attempts("none", "u"));
        assert.deepEqual(await t.c.getAttempts(t.ns, ["", "x", "1.1.1", "999999999.1", "-1.1", "1e3.1"]), [
          null,
          null,
          null,
          null,
          null,
          null,
        ]);
      },
    },

    // ---- making attempts

    {
      name: "an attempt is made for a given unit",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", data: data(3) });
        const [made] = await t.c.makeAttempts(t.ns, [
          { workSpec: "s", workUnit: "b", worker: "w", lifetimeMs: minute },
        ]);
        assert.ok(made);
        assert.deepEqual(
          [made.workUnit, made.worker, made.status, made.expirationTime, made.data],
          ["b", "w", "pending", t.now + minute, data(3)],
        );
        assert.deepEqual(await t.claimNames(), ["a"]);
        await t.settled(made, "finish");
        assert.equal(await t.status("s", "b"), "finished");
      },
    },
    ...table(
      ["pending", "finished", "failed", "delayed"] as const,
      (status) => `an attempt can be made for a unit that is ${status}, and takes the unit over`,
      async (t, status) => {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1), ...(status === "delayed" && { delayMs: minute }) });
        const first = status === "delayed" ? null : await t.claimOne();
        if (first !== null && status !== "pending")
          await t.settled(first, status === "finished" ? "finish" : "fail", { data: data(2) });
        const [made] = await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "u", worker: "w" }]);
        assert.ok(made);
        assert.deepEqual([made.data, made.number], [data(1), first === null ? 1 : 2]);
        assert.equal(await t.status("s", "u"), "pending");
        if (first !== null && status === "pending")
          assert.equal((await t.settle(first, "finish")).error, "lost_lease");
        await t.settled(made, "finish");
        assert.equal(await t.status("s", "u"), "finished");
      },
    ),
    {
      name: "attempts for given units are made all or none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        await t.refuses(
          "no_such_work_unit",
          t.c.makeAttempts(t.ns, [
            { workSpec: "s", workUnit: "a", worker: "w" },
            { workSpec: "s", workUnit: "none", worker: "w" },
          ]),
          /none/,
        );
        await t.refuses(
          "no_such_work_spec",
          t.c.makeAttempts(t.ns, [{ workSpec: "none", workUnit: "a", worker: "w" }]),
          /none/,
        );
        assert.equal(await t.status("s", "a"), "available");
        assert.deepEqual(await t.attempts("s", "a"), []);
      },
    },

    // ---- by worker

    {
      name: "a worker's active attempts are those it holds",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        const [a, b] = await t.claim({ number: 2 });
        await t.claimOne({ worker: "other" });
        assert.ok(a && b);
        const active = async (): Promise<string[]> =>
          (await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" })).rows.map(
            ({ workUnit }) => workUnit,
          );
        assert.deepEqual(await active(), ["a", "b"]);
        await t.settled(a, "finish");
        assert.deepEqual(await active(), ["b"]);
        await t.settled(b, "expire");
        assert.deepEqual(await active(), []);
      },
    },
    ...table(
      [
        {
          how: "another attempt was made",
          take: (t: Context) => t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "u", worker: "other" }]),
        },
        { how: "the unit was reset", take: (t: Context) => t.c.resetWorkUnits(t.ns, "s", { all: true }) },
      ],
      ({ how }) => `a worker's active attempts include one that it lost because ${how}, until it settles it`,
      async (t, { take }) => {
        await t.spec("s");
        await t.add("s", "u");
        const lost = await t.claimOne();
        await take(t);
        const active = async (): Promise<unknown[]> =>
          (await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" })).rows.map(({ id, active }) => [
            id,
            active,
          ]);
        assert.deepEqual(await active(), [[lost.id, false]]);
        assert.equal((await t.settle(lost, "finish")).error, "lost_lease");
        assert.deepEqual(await active(), []);
      },
    ),
    {
      name: "all attempts of a worker are listed newest first, also superseded ones, in pages",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2 });
        assert.ok(a && b);
        await t.settled(a, "retry");
        await t.advance(1);
        const again = await t.claimOne();
        await t.settled(again, "finish");
        const all = await t.c.listWorkerAttempts(t.ns, "worker", { which: "all" });
        assert.deepEqual(
          all.rows.map(({ id }) => id),
          [again.id, b.id, a.id],
        );
        const first = await t.c.listWorkerAttempts(t.ns, "worker", { which: "all", limit: 2 });
        assert.deepEqual(
          first.rows.map(({ id }) => id),
          [again.id, b.id],
        );
        // the cursor of a page, or the id of any attempt
        for (const previous of [present(first.next), b.id]) {
          const rest = await t.c.listWorkerAttempts(t.ns, "worker", { which: "all", limit: 2, previous });
          assert.deepEqual([rest.rows.map(({ id }) => id), rest.next], [[a.id], null]);
        }
        for (const previous of [`${b.id}@x`, `${b.id}@1e300`, "@1"])
          await t.refuses(
            "no_such_attempt",
            t.c.listWorkerAttempts(t.ns, "worker", { which: "all", previous }),
          );
      },
    },
    {
      name: "the attempts of a worker's children are those its direct children hold",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d");
        await t.c.updateWorkers(t.ns, [
          { name: "one", parent: "parent" },
          { name: "two", parent: "parent" },
          { name: "grandchild", parent: "one" },
        ]);
        for (const worker of ["one", "two", "grandchild", "parent"]) await t.claimOne({ worker });
        const { rows } = await t.c.listWorkerAttempts(t.ns, "parent", { which: "children" });
        assert.deepEqual(
          rows.map(({ worker, workUnit }) => [worker, workUnit]),
          [
            ["one", "a"],
            ["two", "b"],
          ],
        );
      },
    },
    {
      name: "a worker that is not known has no attempts",
      async run(t) {
        for (const which of ["active", "all", "children"] as const)
          assert.deepEqual(await t.c.listWorkerAttempts(t.ns, "nobody", { which }), { rows: [], next: null });
      },
    },

    // ---- limits of a spec

    {
      name: "max_getwork: no request is given more",
      async run(t) {
        await t.spec("s", { max_getwork: 2 });
        await t.add("s", "a", "b", "c");
        assert.equal((await t.claim({ number: 10 })).length, 2);
        assert.equal((await t.claim({ number: 1 })).length, 1);
      },
    },
    {
      name: "max_running: no more are handed out in one request, and none when that many are pending",
      async run(t) {
        await t.spec("s", { max_running: 2 });
        await t.add("s", "a", "b", "c");
        const got = await t.claim({ number: 10 });
        assert.equal(got.length, 2);
        assert.deepEqual(await t.claim(), []);
        assert.ok(got[0]);
        await t.settled(got[0], "finish");
        assert.deepEqual(await t.claimNames(), ["c"]);
      },
    },
    {
      name: "max_running: an expired attempt no longer counts",
      async run(t) {
        await t.spec("s", { max_running: 1 });
        await t.add("s", "a", "b");
        await t.claimOne({ lifetimeMs: 10 });
        assert.deepEqual(await t.claim(), []);
        await t.advance(10);
        assert.equal((await t.claim()).length, 1);
        assert.deepEqual(await t.claim(), []);
      },
    },
    {
      name: "max_running: an attempt that lost its place cannot renew itself over the limit",
      async run(t) {
        await t.spec("s", { max_running: 1 });
        await t.add("s", "a", "b");
        const late = await t.claimOne({ lifetimeMs: 10 });
        await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["b"] }, { set: 1 });
        await t.advance(10);
        assert.equal((await t.claimOne()).workUnit, "b");
        assert.equal((await t.settle(late, "renew", { lifetimeMs: 1000 })).error, "lost_lease");
        assert.equal((await t.counts("s")).pending, 1);
        await t.settled(late, "finish");
        assert.equal(await t.status("s", "a"), "finished");
      },
    },
    {
      name: "max_running can be changed while work is going on",
      async run(t) {
        await t.spec("s", { max_running: 1 });
        await t.add("s", "a", "b", "c");
        await t.claimOne();
        await t.c.setWorkSpecMeta(t.ns, "s", { maxRunning: 2 });
        assert.equal((await t.claim({ number: 5 })).length, 1);
        await t.c.setWorkSpecMeta(t.ns, "s", { maxRunning: 0 });
        assert.equal((await t.claim({ number: 5 })).length, 1);
      },
    },
    {
      name: "max_retries: a unit with that many attempts is failed and not handed out",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", { name: "u", data: data(1) });
        for (let i = 0; i < 2; i++) {
          await t.claimOne({ lifetimeMs: 10 });
          await t.advance(10);
        }
        assert.deepEqual(await t.claim(), []);
        const unit = await t.unit("s", "u");
        assert.equal(unit.status, "failed");
        assert.deepEqual(
          unit.data,
          encodeData({
            n: 1,
            traceback: "too many retries",
            last_error: "the lease of worker worker ended",
            tries: 2,
          }),
        );
        assert.equal(unit.reason, "exhausted");
        assert.equal(unit.activeAttempt?.status, "failed");
      },
    },
    {
      name: "max_retries: attempts that were retried count like those that expired",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "u");
        await t.settled(await t.claimOne(), "retry");
        assert.deepEqual(await t.claim(), []);
        assert.equal(await t.status("s", "u"), "failed");
      },
    },
    {
      name: "max_retries: an attempt that was given back untried does not count, however often it is said",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "u");
        for (let i = 0; i < 3; i++) {
          const attempt = await t.claimOne();
          const given = await t.settled(attempt, "expire", { untried: true });
          assert.deepEqual([given.status, given.changed], ["expired", true]);
          const again = await t.settled(attempt, "expire", { untried: true });
          assert.deepEqual([again.status, again.changed], ["expired", false]);
          assert.equal(await t.status("s", "u"), "available");
        }
        const tried = await t.claimOne();
        assert.equal(tried.number, 4);
        await t.settled(tried, "expire");
        assert.deepEqual(await t.claim(), []);
        assert.equal(await t.status("s", "u"), "failed");
      },
    },
    {
      name: "untried is said of an expire or a retry only",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id: attempt } = await t.claimOne();
        for (const action of ["finish", "fail", "error", "renew"] as const)
          await t.refuses("bad_argument", t.c.settleAttempts(t.ns, [{ attempt, action, untried: true }]));
        assert.equal(await t.status("s", "u"), "pending");
      },
    },
    {
      name: "max_retries: such a unit takes up a place, so the answer may be shorter",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a");
        await t.settled(await t.claimOne(), "retry");
        await t.add("s", "b", "c");
        assert.deepEqual(
          (await t.claim({ number: 2 })).map(({ workUnit }) => workUnit),
          ["b"],
        );
        assert.equal(await t.status("s", "a"), "failed");
      },
    },
    {
      name: "max_retries: but the answer is not empty while others are available",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a", "b", "c");
        for (const attempt of await t.claim({ number: 3 })) await t.settled(attempt, "retry");
        await t.add("s", "d");
        assert.deepEqual(
          (await t.claim({ number: 1 })).map(({ workUnit }) => workUnit),
          ["d"],
        );
        assert.equal((await t.counts("s")).failed, 3);
      },
    },
    {
      name: "max_retries: a failed unit that is retried or added again is tried anew",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a", "b");
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "retry");
        assert.deepEqual(await t.claim({ number: 2 }), []);
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a"] });
        await t.add("s", "b");
        assert.deepEqual(await t.claimNames(), ["a", "b"]);
      },
    },
    {
      name: "max_retries 0 is no limit",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        for (let i = 1; i <= 20; i++) {
          const attempt = await t.claimOne();
          assert.equal(attempt.number, i);
          await t.settled(attempt, "retry");
        }
      },
    },
  ],
};
