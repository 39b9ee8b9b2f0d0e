import assert from "node:assert/strict";
import { decodeData, encodeData } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const cancel = (t: Context, ...names: string[]): Promise<number> =>
  t.c.cancelWorkUnits(t.ns, "s", { names }, { by: "alice", why: "wrong input" });

const traceback = async (t: Context, name: string): Promise<unknown> => {
  const { data } = await t.unit("s", name);
  return data === null ? null : decodeData(data).traceback;
};

export const cancelling: CaseGroup = {
  concept: "cancelling",
  cases: [
    {
      name: "a cancelled unit has failed wherever it stood, and says who did it and why",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "runs", data: encodeData({ n: 1 }), priority: 1 }, "waits", {
          name: "delayed",
          delayMs: 1000,
        });
        await t.add("s", { name: "blocked", dependencies: [{ workUnit: "delayed" }] });
        await t.claimOne();
        assert.equal(await cancel(t, "runs", "waits", "delayed", "blocked"), 4);
        assert.deepEqual(Object.values(await t.statuses("s")), ["failed", "failed", "failed", "failed"]);
        assert.deepEqual(decodeData(present((await t.unit("s", "runs")).data)), {
          n: 1,
          traceback: "cancelled by alice: wrong input",
        });
        assert.equal(await traceback(t, "waits"), "cancelled by alice: wrong input");
        assert.equal((await t.counts("s")).failed, 4);
        assert.deepEqual(await t.claimNames(), []);
      },
    },
    {
      name: "who and why may be left out",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.c.cancelWorkUnits(t.ns, "s", { names: ["a"] });
        await t.c.cancelWorkUnits(t.ns, "s", { all: true }, { by: "bob" });
        assert.equal(await traceback(t, "a"), "cancelled");
        assert.equal(await traceback(t, "b"), "cancelled by bob");
      },
    },
    {
      name: "what has ended is not cancelled",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2 });
        await t.settled(present(a), "finish");
        await t.settled(present(b), "fail");
        assert.equal(await cancel(t, "a", "b", "none"), 0);
        assert.deepEqual(await t.statuses("s"), { a: "finished", b: "failed" });
        assert.equal(await traceback(t, "b"), null);
      },
    },
    {
      name: "the attempt of a cancelled unit is lost: whatever it settles is refused and changes nothing",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        assert.equal(await cancel(t, "u"), 1);
        for (const action of ["renew", "finish", "fail", "retry"] as const)
          assert.equal((await t.settle(attempt, action)).error, "lost_lease", action);
        assert.equal(await t.status("s", "u"), "failed");
        const [first, second] = await t.attempts("s", "u");
        assert.deepEqual([first?.status, first?.worker, first?.active], ["expired", "worker", false]);
        assert.deepEqual([second?.status, second?.worker, second?.active], ["failed", "", true]);
      },
    },
    {
      name: "a cancelled unit may be reset, and is then tried as if it were new",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "u");
        await t.claimOne();
        await cancel(t, "u");
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { statuses: ["failed"] }), 1);
        await t.settled(await t.claimOne(), "finish");
        assert.equal(await t.status("s", "u"), "finished");
      },
    },
    {
      name: "a delayed unit that was cancelled and is reset is available at once",
      async run(t) {
        await t.spec("s", { retry: { attempts: 3, backoff: { kind: "fixed", delay: 600 } } });
        await t.add("s", "tried");
        await t.settle(await t.claimOne(), "error", { error: "no" });
        await t.add("s", { name: "delayed", delayMs: 60_000 });
        assert.deepEqual(await t.statuses("s"), { delayed: "delayed", tried: "delayed" });
        assert.equal(await cancel(t, "delayed", "tried"), 2);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { all: true }), 2);
        assert.deepEqual(await t.statuses("s"), { delayed: "available", tried: "available" });
        assert.deepEqual(await t.claimNames({ number: 2 }), ["delayed", "tried"]);
      },
    },
    {
      name: "what depends on a cancelled unit fails with it, and its queues hear of it",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", queues: ["q"] });
        await t.add("s", { name: "hard", dependencies: [{ workUnit: "a" }] });
        await t.add("s", { name: "soft", dependencies: [{ workUnit: "a", kind: "soft" }] });
        await cancel(t, "a");
        assert.deepEqual(await t.statuses("s"), { a: "failed", hard: "failed", soft: "available" });
        const [message] = await t.c.takeMessages(t.ns, "q");
        assert.deepEqual([message?.workUnit, message?.status], ["a", "failed"]);
      },
    },
    {
      name: "a cancelled unit frees its place among max_running",
      async run(t) {
        await t.spec("s", { max_running: 1 });
        await t.add("s", "a", "b");
        await t.claimOne();
        assert.deepEqual(await t.claimNames(), []);
        await cancel(t, "a");
        assert.deepEqual(await t.claimNames(), ["b"]);
      },
    },
    {
      name: "to cancel needs a selection, and text that is not too long",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.refuses("empty_query", t.c.cancelWorkUnits(t.ns, "s", {}));
        await t.refuses("no_such_work_spec", t.c.cancelWorkUnits(t.ns, "none", { all: true }));
        const long = "x".repeat(1001);
        await t.refuses("too_large", t.c.cancelWorkUnits(t.ns, "s", { all: true }, { why: long }), /why/);
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "one who waits for a unit hears that it was cancelled",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.claimOne();
        const answer = t.c.awaitWorkUnits(t.ns, "s", ["u"], { waitMs: 60_000 });
        await t.untilWaiting(1);
        await cancel(t, "u");
        assert.equal((await answer)[0]?.status, "failed");
      },
    },
    {
      name: "one who waits for any of several units is answered when the first has ended",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        const attempts = await t.claim({ number: 3 });
        const wait = async (): Promise<unknown[]> =>
          (await t.c.awaitWorkUnits(t.ns, "s", ["a", "b", "c"], { any: true, waitMs: 60_000 })).map(
            (row) => row?.status,
          );
        const answer = wait();
        await t.untilWaiting(1);
        await t.settled(present(attempts[1]), "finish");
        assert.deepEqual(await answer, ["pending", "finished", "pending"]);
        assert.deepEqual(await wait(), ["pending", "finished", "pending"]);
      },
    },
  ],
};
