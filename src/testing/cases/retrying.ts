/** What happens to a unit whose task ends in an error: it is retried after a backoff, or fails, and why. */
import assert from "node:assert/strict";
import {
  decodeData,
  encodeData,
  type AttemptRow,
  type DataObject,
  type WorkUnitInput,
} from "../../core/index.ts";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

const dataOf = async (t: Context, name: string): Promise<DataObject> =>
  decodeData(present((await t.unit("s", name)).data));

/** Settles with errors until the unit is not retried any more; returns the delay before each retry. */
async function waits(t: Context, max = 10): Promise<number[]> {
  const waited: number[] = [];
  while (waited.length < max) {
    const { retry } = await t.settled(await t.claimOne(), "error", { error: "Error: boom" });
    if (retry === undefined) break;
    const { notBefore } = await t.unit("s", "u");
    assert.equal(retry.delayMs, notBefore === 0 ? 0 : notBefore - t.now);
    waited.push(retry.delayMs);
    await t.advance(retry.delayMs);
  }
  return waited;
}

const policies: readonly {
  what: string;
  spec: Record<string, unknown>;
  unit?: Partial<WorkUnitInput>;
  wait: readonly number[];
}[] = [
  { what: "no policy", spec: {}, wait: [] },
  { what: "max_retries", spec: { max_retries: 4 }, wait: [1000, 2000, 4000] },
  { what: "retry with a number alone", spec: { retry: { attempts: 3 } }, wait: [1000, 2000] },
  { what: "one try", spec: { retry: { attempts: 1 } }, wait: [] },
  {
    what: "a fixed back-off",
    spec: { retry: { attempts: 3, backoff: { kind: "fixed", delay: 2.5 } } },
    wait: [2500, 2500],
  },
  {
    what: "a linear back-off",
    spec: { retry: { attempts: 4, backoff: { kind: "linear", delay: 2 } } },
    wait: [2000, 4000, 6000],
  },
  {
    what: "an exponential back-off with an upper bound",
    spec: { retry: { attempts: 5, backoff: { delay: 3, max: 10 } } },
    wait: [3000, 6000, 10_000, 10_000],
  },
  {
    what: "no wait at all",
    spec: { retry: { attempts: 3, backoff: { kind: "fixed", delay: 0 } } },
    wait: [0, 0],
  },
  { what: "both numbers", spec: { max_retries: 2, retry: { attempts: 5 } }, wait: [1000] },
  {
    what: "both numbers the other way round",
    spec: { max_retries: 5, retry: { attempts: 2 } },
    wait: [1000],
  },
  { what: "max_retries of the unit", spec: {}, unit: { maxRetries: 2 }, wait: [1000] },
  {
    what: "max_retries of both, where the unit's holds",
    spec: { max_retries: 2 },
    unit: { maxRetries: 3 },
    wait: [1000, 2000],
  },
  {
    what: "a back-off of the unit and the number of its work spec",
    spec: { max_retries: 3, retry: { backoff: { delay: 60 } } },
    unit: { retry: { backoff: { kind: "fixed", delayMs: 5 } } },
    wait: [5, 5],
  },
  {
    what: "a number of the unit and the back-off of its work spec",
    spec: { retry: { attempts: 9, backoff: { kind: "fixed", delay: 7 } } },
    unit: { retry: { attempts: 2 } },
    wait: [7000],
  },
];

export const retrying: CaseGroup = {
  concept: "retrying",
  cases: [
    ...table(
      policies,
      ({ what, wait }) => `an error with ${what}: ${wait.length + 1} tries, then the unit fails`,
      async (t, { spec, unit, wait }) => {
        await t.spec("s", spec);
        await t.add("s", { name: "u", ...unit });
        assert.deepEqual(await waits(t), wait);
        const { status, attempts } = await t.unit("s", "u");
        assert.deepEqual([status, attempts], ["failed", wait.length + 1]);
      },
    ),
    {
      name: "a try limit may be any integer, of a work spec and of a unit, alone and in a batch",
      async run(t) {
        const limit = 2 ** 40;
        await t.spec("s", { max_retries: limit });
        await t.add("s", "a", { name: "b", maxRetries: limit });
        await t.add("s", { name: "c", retry: { attempts: limit }, batch: "all" });
        for (const attempt of await t.claim({ number: 3 }))
          await t.settled(attempt, "error", { error: "Error: boom" });
        await t.subject.sweep?.();
        assert.deepEqual(await t.statuses("s"), { a: "delayed", b: "delayed", c: "delayed" });
      },
    },
    {
      name: "an error without a policy fails the unit with the error as its traceback",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: encodeData({ n: 1 }) });
        const changed = await t.settled(await t.claimOne(), "error", { error: "Error: boom" });
        assert.deepEqual([changed.status, changed.changed, changed.retry], ["failed", true, undefined]);
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.reason], ["failed", "error"]);
        assert.deepEqual(await dataOf(t, "u"), { n: 1, traceback: "Error: boom" });
      },
    },
    {
      name: "a unit that was tried too often says so, with its last error and the number of tries",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", { name: "u", data: encodeData({ n: 1 }) });
        const first = await t.claimOne();
        const changed = await t.settled(first, "error", {
          data: encodeData({ seen: 1 }),
          error: "Error: first",
        });
        assert.deepEqual([changed.status, changed.retry?.left], ["retryable", 1]);
        assert.deepEqual([await t.status("s", "u"), (await t.unit("s", "u")).reason], ["delayed", null]);
        await t.advance(1000);
        await t.settled(await t.claimOne(), "error", { error: "Error: second" });
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.reason, unit.attempts], ["failed", "exhausted", 2]);
        assert.deepEqual(await dataOf(t, "u"), {
          n: 1,
          traceback: "too many retries",
          last_error: "Error: second",
          tries: 2,
        });
        const [one, two] = await t.attempts("s", "u");
        assert.deepEqual([one?.status, two?.status], ["retryable", "failed"]);
        assert.deepEqual(decodeData(present(one?.data)), { seen: 1, traceback: "Error: first" });
      },
    },
    {
      name: "a back-off without a number is tried again for ever",
      async run(t) {
        await t.spec("s", { retry: { backoff: { kind: "fixed", delay: 1 } } });
        await t.add("s", "u");
        assert.equal((await waits(t, 10)).length, 10);
        const { retry } = await t.settled(await t.claimOne(), "error");
        assert.equal(retry?.left, null);
      },
    },
    {
      name: "a part of the wait is left to chance",
      async run(t) {
        await t.spec("s", { retry: { attempts: 9, backoff: { kind: "fixed", delay: 10, jitter: 0.5 } } });
        await t.add("s", "u");
        for (const [draw, wait] of [
          [0, 10_000],
          [0.5, 7500],
          [0.999_999, 5000],
        ] as const) {
          t.draws(0);
          const attempt = await t.claimOne();
          t.draws(draw);
          const { retry } = await t.settled(attempt, "error");
          assert.equal(retry?.delayMs, wait);
          await t.advance(wait);
        }
      },
    },
    {
      name: "an error that is told twice is one, and so is one after the unit failed",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "error", { error: "Error: boom" });
        const again = await t.settled(attempt, "error", { error: "Error: boom" });
        assert.deepEqual([again.status, again.changed], ["retryable", false]);
        await t.advance(1000);
        const last = await t.claimOne();
        await t.settled(last, "error");
        const once = await t.settled(last, "error");
        assert.deepEqual([once.status, once.changed], ["failed", false]);
        assert.equal((await t.attempts("s", "u")).length, 2);
      },
    },
    {
      name: "an error after the lease ended is told late, and counts once",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(20);
        const { retry } = await t.settled(attempt, "error", { error: "Error: boom" });
        assert.equal(retry?.left, 1);
        assert.equal((await t.attempt(attempt.id)).late, true);
        assert.equal(await t.status("s", "u"), "delayed");
      },
    },
    {
      name: "fail is final whatever the policy is",
      async run(t) {
        await t.spec("s", { max_retries: 5, retry: { attempts: 5, backoff: { delay: 1 } } });
        await t.add("s", "u");
        await t.settled(await t.claimOne(), "fail", { data: encodeData({ traceback: "no" }) });
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.reason, unit.attempts], ["failed", "error", 1]);
      },
    },
    {
      name: "attempts of retry: leases that ended count as tries",
      async run(t) {
        await t.spec("s", { retry: { attempts: 2 } });
        await t.add("s", "u");
        for (let i = 0; i < 2; i++) {
          await t.claimOne({ lifetimeMs: 10 });
          await t.advance(10);
        }
        assert.deepEqual(await t.claim(), []);
        assert.deepEqual((await t.unit("s", "u")).reason, "exhausted");
        const { tries, last_error: lastError } = await dataOf(t, "u");
        assert.deepEqual([tries, lastError], [2, "the lease of worker worker ended"]);
      },
    },
    {
      name: "attempts of retry: housekeeping fails a unit that was tried as often, though nobody asks for work",
      async run(t) {
        await t.spec("s", { retry: { attempts: 1 } });
        await t.add("s", "u");
        await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        await t.sweep();
        const { status, reason } = await t.unit("s", "u");
        assert.deepEqual([status, reason], ["failed", "exhausted"]);
      },
    },
    {
      name: "a unit with a limit of its own is failed when it is reached, and others are handed out",
      async run(t) {
        await t.spec("s", { max_retries: 3 });
        await t.add("s", { name: "a", maxRetries: 1 }, { name: "b", maxRetries: 0 }, "c");
        for (let i = 0; i < 3; i++) {
          const claimed = await t.claim({ number: 10, lifetimeMs: 10 });
          assert.deepEqual(
            claimed.map(({ workUnit }) => workUnit),
            i === 0 ? ["a", "b", "c"] : ["b", "c"],
          );
          await t.advance(10);
        }
        assert.deepEqual(await t.claimNames(), ["b"]);
        assert.deepEqual(await t.statuses("s"), { a: "failed", b: "pending", c: "failed" });
      },
    },
    {
      name: "housekeeping fails units that reached a limit of their own, whatever the limit of the work spec is",
      async run(t) {
        await t.spec("s", { max_retries: 2 ** 31 - 1 });
        await t.add("s", { name: "a", maxRetries: 1 }, "b");
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "retry");
        assert.equal((await t.sweep()).exhausted, 1);
        assert.deepEqual(await t.statuses("s"), { a: "failed", b: "available" });
      },
    },
    {
      name: "housekeeping fails units that reached a limit of their own, also where the work spec has none",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", maxRetries: 2 }, { name: "b", maxRetries: 1 }, "c");
        await t.claim({ number: 10, lifetimeMs: 10 });
        await t.advance(10);
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "failed", c: "available" });
        for (const attempt of await t.claim({ number: 10 }))
          await t.settled(attempt, "retry", { delayMs: 5 });
        await t.advance(5);
        await t.sweep();
        assert.deepEqual(await t.statuses("s"), { a: "failed", b: "failed", c: "available" });
      },
    },
    {
      name: "what a unit says of its tries is shown, and gone when it is added again without",
      async run(t) {
        await t.spec("s");
        const retry = {
          attempts: 3,
          backoff: { kind: "linear", delayMs: 5, maxMs: 50, jitter: 0.1 },
        } as const;
        await t.add("s", { name: "u", maxRetries: 2, retry }, "plain");
        const shown = await t.unit("s", "u");
        assert.deepEqual([shown.maxRetries, shown.retry], [2, retry]);
        const plain = await t.unit("s", "plain");
        assert.deepEqual([plain.maxRetries, plain.retry], [undefined, undefined]);
        await t.add("s", "u");
        const again = await t.unit("s", "u");
        assert.deepEqual([again.maxRetries, again.retry], [undefined, undefined]);
        await t.settled(await t.claimOne({ number: 1 }), "error");
        assert.equal((await t.counts("s")).failed, 1);
      },
    },
    {
      name: "a limit of its own that is added later holds for tries that were made",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        for (let i = 0; i < 2; i++) await t.settled(await t.claimOne(), "retry");
        await t.add("s", { name: "u", maxRetries: 2 });
        assert.deepEqual(await t.claim(), []);
        assert.equal((await t.unit("s", "u")).reason, "exhausted");
      },
    },
    {
      name: "a retry that does not count puts the unit off and leaves its tries as they were",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "u");
        let attempt: AttemptRow;
        for (let i = 0; i < 3; i++) {
          attempt = await t.claimOne();
          const given = await t.settled(attempt, "retry", { untried: true, delayMs: 100 });
          assert.deepEqual([given.status, given.changed], ["retryable", true]);
          const again = await t.settled(attempt, "retry", { untried: true, delayMs: 100 });
          assert.equal(again.changed, false);
          assert.deepEqual([await t.status("s", "u"), await t.claim()], ["delayed", []]);
          await t.advance(100);
        }
        const { retry } = await t.settled(await t.claimOne(), "error");
        assert.equal(retry, undefined);
        assert.deepEqual((await dataOf(t, "u")).tries, 1);
      },
    },
    {
      name: "the reason of a failure is gone when the unit is tried again, finished or added again",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", "a", "b", "c");
        const attempts = await t.claim({ number: 3 });
        for (const attempt of attempts) await t.settled(attempt, "error", { error: "Error: boom" });
        const reasons = async (): Promise<unknown[]> =>
          (await t.c.listWorkUnits(t.ns, "s")).rows.map(({ reason }) => reason);
        assert.deepEqual(await reasons(), ["exhausted", "exhausted", "exhausted"]);
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a"] });
        await t.add("s", "b");
        await t.settled(present(attempts[2]), "finish");
        assert.deepEqual(await reasons(), [null, null, null]);
        const [a] = await t.claim({ number: 1 });
        await t.settled(present(a), "fail");
        assert.deepEqual(await reasons(), ["error", null, null]);
      },
    },
    {
      name: "a worker may give the reason of a failure; those that follow from rules it may not",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d");
        const [a, b, c, d] = await t.claim({ number: 4 });
        await t.settled(present(a), "fail", { reason: "cancelled" });
        await t.settled(present(b), "error", { reason: "expired" });
        await t.settled(present(c), "fail", { reason: "late" });
        const attempt = present(d).id;
        for (const reason of ["exhausted", "dependency", "mood"])
          await t.refuses(
            "bad_argument",
            t.c.settleAttempts(t.ns, [{ attempt, action: "fail", reason: reason as "late" }]),
          );
        for (const action of ["finish", "retry", "expire", "renew"] as const) {
          await t.refuses(
            "bad_argument",
            t.c.settleAttempts(t.ns, [{ attempt, action, reason: "expired" }]),
            /reason: allowed only with fail and error/,
          );
          await t.refuses(
            "bad_argument",
            t.c.settleAttempts(t.ns, [{ attempt, action, error: "Error: boom" }]),
            /error: allowed only with the action error/,
          );
        }
        const { rows } = await t.c.listWorkUnits(t.ns, "s");
        assert.deepEqual(
          rows.map(({ reason }) => reason),
          ["cancelled", "expired", "late", null],
        );
      },
    },
    {
      name: "an error that is tried again fails nothing that depends on the unit; the last one does, and says why",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", "u");
        await t.add("s", { name: "after", dependencies: [{ workUnit: "u" }] });
        await t.settled(await t.claimOne(), "error");
        assert.equal(await t.status("s", "after"), "blocked");
        await t.advance(1000);
        await t.settled(await t.claimOne(), "error");
        const after = await t.unit("s", "after");
        assert.deepEqual([after.status, after.reason], ["failed", "dependency"]);
      },
    },
    {
      name: "a queue hears of the last error and not of those before it",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", { name: "u", queues: ["q"] });
        await t.settled(await t.claimOne(), "error", { error: "Error: boom" });
        assert.deepEqual(await t.c.takeMessages(t.ns, "q"), []);
        await t.advance(1000);
        await t.settled(await t.claimOne(), "error", { error: "Error: boom" });
        const [message] = await t.c.takeMessages(t.ns, "q");
        assert.equal(message?.status, "failed");
        assert.equal(decodeData(present(message.data)).last_error, "Error: boom");
      },
    },
    {
      name: "errors and other changes in one call are each carried out",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", "a", "b", "c", { name: "d", maxRetries: 1 });
        const attempts = await t.claim({ number: 4 });
        const actions = ["finish", "error", "fail", "error"] as const;
        const changed = await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }, i) => ({ attempt: id, action: present(actions[i]) })),
        );
        assert.deepEqual(
          changed.map(({ status, retry }) => [status, retry?.left]),
          [
            ["finished", undefined],
            ["retryable", 1],
            ["failed", undefined],
            ["failed", undefined],
          ],
        );
        assert.deepEqual(await t.counts("s"), {
          available: 0,
          delayed: 1,
          blocked: 0,
          pending: 0,
          finished: 1,
          failed: 2,
        });
      },
    },
    {
      name: "a policy that is none is refused, and names what is wrong",
      async run(t) {
        await t.spec("s");
        for (const [unit, mentions] of [
          [{ maxRetries: -1 }, /maxRetries/],
          [{ retry: { attempts: 1.5 } }, /attempts/],
          [{ retry: { backoff: { kind: "random" } } }, /kind/],
          [{ retry: { backoff: { delayMs: -1 } } }, /delayMs/],
          [{ retry: { backoff: { jitter: 2 } } }, /jitter/],
        ] as const)
          await t.refuses(
            "bad_argument",
            t.c.addWorkUnits(t.ns, "s", [{ name: "u", ...unit } as WorkUnitInput]),
            mentions,
          );
        for (const [retry, mentions] of [
          [3, /retry: expected an object/],
          [{ attempts: "three" }, /retry\.attempts/],
          [
            { backoff: { kind: "random" } },
            /retry\.backoff\.kind: expected one of exponential, fixed, linear/,
          ],
          [{ backoff: { jitter: 2 } }, /retry\.backoff\.jitter: expected a number from 0 to 1/],
        ] as const)
          await t.refuses("bad_work_spec", t.spec("bad", { retry }), mentions);
        assert.equal((await t.c.listWorkUnits(t.ns, "s")).rows.length, 0);
        // with `lenient`, for older protocols, the key is the client's own data
        const data = encodeData({ name: "old", retry: { attempts: 2, backoff: "10s" } });
        const [row] = await t.c.setWorkSpecs(t.ns, [{ data }], { lenient: true });
        assert.deepEqual(row?.meta.retry, {});
      },
    },
  ],
};
