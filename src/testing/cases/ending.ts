import assert from "node:assert/strict";
import { encodeData, type WorkUnitRow } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const brief = (rows: readonly (WorkUnitRow | null)[]): (string | null)[] =>
  rows.map((row) => (row === null ? null : `${row.name} ${row.status}`));

const wait = async (t: Context, names: string[], waitMs = 60_000): Promise<(string | null)[]> =>
  brief(await t.c.awaitWorkUnits(t.ns, "s", names, { waitMs }));

export const ending: CaseGroup = {
  concept: "ending",
  cases: [
    {
      name: "units that have ended are answered at once, in order, null where there is none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2 });
        await t.settled(present(a), "finish", { data: encodeData({ n: 1 }) });
        await t.settled(present(b), "fail");
        const rows = await t.c.awaitWorkUnits(t.ns, "s", ["b", "none", "a", "b"], { waitMs: 60_000 });
        assert.deepEqual(brief(rows), ["b failed", null, "a finished", "b failed"]);
        assert.deepEqual(rows[2], await t.unit("s", "a"));
      },
    },
    {
      name: "without a time to wait they are answered as they stand",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        assert.deepEqual(brief(await t.c.awaitWorkUnits(t.ns, "s", ["a"])), ["a available"]);
        assert.deepEqual(await t.c.awaitWorkUnits(t.ns, "s", [], { waitMs: 60_000 }), []);
      },
    },
    {
      name: "one who waits for many is answered when the last of them has ended",
      async run(t) {
        await t.spec("s");
        const names = Array.from({ length: 20 }, (_, i) => `u${i}`);
        await t.add("s", ...names);
        const attempts = await t.claim({ number: 20 });
        let answered = false;
        const answer = wait(t, names).finally(() => (answered = true));
        await t.untilWaiting(1);
        const last = present(attempts.pop());
        for (const [i, attempt] of attempts.entries())
          await t.settled(attempt, i % 2 === 0 ? "finish" : "fail");
        await t.untilWaiting(1);
        assert.equal(answered, false);
        await t.settled(last, "finish");
        assert.equal((await answer).filter((one) => one?.endsWith("finished") === true).length, 11);
      },
    },
    {
      name: "many who wait for one are all answered",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        const answers = Array.from({ length: 30 }, () => wait(t, ["u"]));
        await t.untilWaiting(30);
        await t.settled(attempt, "fail");
        for (const answer of await Promise.all(answers)) assert.deepEqual(answer, ["u failed"]);
      },
    },
    {
      name: "at the end of the time they are answered as they stand then",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const attempt = await t.claimOne();
        const answer = wait(t, ["a", "b"], 5000);
        await t.untilWaiting(1);
        await t.settled(attempt, "finish");
        await t.advance(4999);
        await t.untilWaiting(1);
        await t.advance(1);
        assert.deepEqual(await answer, ["a finished", "b available"]);
      },
    },
    {
      name: "a wait that is ended is answered as they stand then",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        const stop = new AbortController();
        const answer = t.c.awaitWorkUnits(t.ns, "s", ["a"], { waitMs: 60_000, signal: stop.signal });
        await t.untilWaiting(1);
        stop.abort();
        assert.deepEqual(brief(await answer), ["a available"]);
        await t.untilWaiting(0);
      },
    },
    {
      name: "units that fail without being run are heard of: tried too often, or with what they wait for",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a", { name: "b", dependencies: [{ workUnit: "a" }] });
        await t.settled(await t.claimOne(), "retry");
        const answer = wait(t, ["a", "b"]);
        await t.untilWaiting(1);
        await t.sweep();
        assert.deepEqual(await answer, ["a failed", "b failed"]);
      },
    },
    {
      name: "a unit that is deleted has ended, and so have those of a work spec that is",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const first = wait(t, ["a"]);
        await t.untilWaiting(1);
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        assert.deepEqual(await first, [null]);
        const second = wait(t, ["b"]);
        await t.untilWaiting(1);
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        assert.deepEqual(await second, [null]);
      },
    },
    {
      name: "units of a namespace that is deleted have ended",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        const answer = wait(t, ["a"]);
        await t.untilWaiting(1);
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await answer, [null]);
      },
    },
    {
      name: "a retry, an expired lease and another claim do not end the wait",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        const first = await t.claimOne({ lifetimeMs: 1000 });
        const answer = wait(t, ["a"]);
        await t.untilWaiting(1);
        await t.settled(first, "retry");
        await t.claimOne({ lifetimeMs: 1000 });
        await t.advance(1000);
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await answer, ["a finished"]);
      },
    },
    {
      name: "a unit may end between any two looks and is not missed",
      async run(t) {
        await t.spec("s");
        const names = Array.from({ length: 40 }, (_, i) => `u${i}`);
        await t.add("s", ...names);
        const attempts = await t.claim({ number: 40 });
        const answers: Promise<(string | null)[]>[] = [];
        for (const attempt of attempts) {
          answers.push(wait(t, [attempt.workUnit]));
          await t.settled(attempt, "finish");
        }
        for (const [i, answer] of (await Promise.all(answers)).entries())
          assert.deepEqual(answer, [`${attempts[i]?.workUnit ?? ""} finished`]);
      },
    },
    {
      name: "what is not there to be waited for is refused",
      async run(t) {
        await t.refuses("no_such_work_spec", t.c.awaitWorkUnits(t.ns, "none", ["a"], { waitMs: 1000 }));
        await t.spec("s");
        await t.refuses("bad_argument", t.c.awaitWorkUnits(t.ns, "s", ["a"], { waitMs: -1 }), /waitMs/);
        await t.refuses("too_large", t.c.awaitWorkUnits(t.ns, "s", ["a".repeat(4097)]), /work unit/);
      },
    },
  ],
};
