import assert from "node:assert/strict";
import {
  cborData,
  encodeData,
  jsonData,
  type AttemptAction,
  type AttemptRow,
  type AttemptStatus,
  type ErrorCode,
  type WorkUnitStatus,
} from "../../core/index.ts";
import { present, sameData, table, type CaseGroup, type Context } from "../stack.ts";

const data = (n: number) => encodeData({ n });
const minute = 60_000;

/** The situations of an attempt when a client settles it. */
const situations = {
  pending: async (_t: Context, attempt: AttemptRow) => attempt,
  "past its expiration": async (t: Context, attempt: AttemptRow) => {
    await t.advance(15 * minute);
    return attempt;
  },
  released: async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "renew", { lifetimeMs: 0 });
    return attempt;
  },
  finished: async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "finish");
    return attempt;
  },
  failed: async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "fail");
    return attempt;
  },
  retryable: async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "retry");
    return attempt;
  },
  "expired and replaced": async (t: Context, attempt: AttemptRow) => {
    await t.advance(15 * minute);
    await t.claimOne({ worker: "thief" });
    return attempt;
  },
  "retried and replaced": async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "retry");
    await t.claimOne({ worker: "thief" });
    return attempt;
  },
  "finished and replaced": async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "finish");
    await t.add("s", "u");
    await t.claimOne({ worker: "thief" });
    return attempt;
  },
  "failed and replaced": async (t: Context, attempt: AttemptRow) => {
    await t.settled(attempt, "fail");
    await t.add("s", "u");
    await t.claimOne({ worker: "thief" });
    return attempt;
  },
  cleared: async (t: Context, attempt: AttemptRow) => {
    await t.c.resetWorkUnits(t.ns, "s", { names: ["u"] });
    return attempt;
  },
} as const;

type Situation = keyof typeof situations;
type Outcome = "ok" | "again" | ErrorCode;

/** Situation by action: the answer, the resulting status of the attempt, and that of the unit. */
const matrix: Record<Situation, Record<AttemptAction, readonly [Outcome, AttemptStatus, WorkUnitStatus]>> = {
  pending: {
    finish: ["ok", "finished", "finished"],
    fail: ["ok", "failed", "failed"],
    error: ["ok", "failed", "failed"],
    retry: ["ok", "retryable", "available"],
    expire: ["ok", "expired", "available"],
    renew: ["ok", "pending", "pending"],
  },
  "past its expiration": {
    finish: ["ok", "finished", "finished"],
    fail: ["ok", "failed", "failed"],
    error: ["ok", "failed", "failed"],
    retry: ["ok", "retryable", "available"],
    expire: ["again", "expired", "available"],
    renew: ["ok", "pending", "pending"],
  },
  released: {
    finish: ["ok", "finished", "finished"],
    fail: ["ok", "failed", "failed"],
    error: ["ok", "failed", "failed"],
    retry: ["ok", "retryable", "available"],
    expire: ["again", "expired", "available"],
    renew: ["ok", "pending", "pending"],
  },
  finished: {
    finish: ["again", "finished", "finished"],
    fail: ["not_pending", "finished", "finished"],
    error: ["not_pending", "finished", "finished"],
    retry: ["not_pending", "finished", "finished"],
    expire: ["not_pending", "finished", "finished"],
    renew: ["not_pending", "finished", "finished"],
  },
  failed: {
    finish: ["ok", "finished", "finished"],
    fail: ["again", "failed", "failed"],
    error: ["again", "failed", "failed"],
    retry: ["not_pending", "failed", "failed"],
    expire: ["not_pending", "failed", "failed"],
    renew: ["not_pending", "failed", "failed"],
  },
  retryable: {
    finish: ["not_pending", "retryable", "available"],
    fail: ["not_pending", "retryable", "available"],
    error: ["again", "retryable", "available"],
    retry: ["again", "retryable", "available"],
    expire: ["not_pending", "retryable", "available"],
    renew: ["not_pending", "retryable", "available"],
  },
  "expired and replaced": {
    finish: ["lost_lease", "expired", "pending"],
    fail: ["lost_lease", "expired", "pending"],
    error: ["lost_lease", "expired", "pending"],
    retry: ["lost_lease", "expired", "pending"],
    expire: ["again", "expired", "pending"],
    renew: ["lost_lease", "expired", "pending"],
  },
  "retried and replaced": {
    finish: ["not_pending", "retryable", "pending"],
    fail: ["not_pending", "retryable", "pending"],
    error: ["again", "retryable", "pending"],
    retry: ["again", "retryable", "pending"],
    expire: ["not_pending", "retryable", "pending"],
    renew: ["not_pending", "retryable", "pending"],
  },
  "finished and replaced": {
    finish: ["again", "finished", "pending"],
    fail: ["not_pending", "finished", "pending"],
    error: ["not_pending", "finished", "pending"],
    retry: ["not_pending", "finished", "pending"],
    expire: ["not_pending", "finished", "pending"],
    renew: ["not_pending", "finished", "pending"],
  },
  "failed and replaced": {
    finish: ["not_pending", "failed", "pending"],
    fail: ["again", "failed", "pending"],
    error: ["again", "failed", "pending"],
    retry: ["not_pending", "failed", "pending"],
    expire: ["not_pending", "failed", "pending"],
    renew: ["not_pending", "failed", "pending"],
  },
  cleared: {
    finish: ["lost_lease", "expired", "available"],
    fail: ["lost_lease", "expired", "available"],
    error: ["lost_lease", "expired", "available"],
    retry: ["lost_lease", "expired", "available"],
    expire: ["again", "expired", "available"],
    renew: ["lost_lease", "expired", "available"],
  },
};

const rows = Object.entries(matrix).flatMap(([situation, actions]) =>
  Object.entries(actions).map(([action, expected]) => ({
    situation: situation as Situation,
    action: action as AttemptAction,
    expected,
  })),
);

const say = (outcome: Outcome): string =>
  outcome === "ok"
    ? "is allowed"
    : outcome === "again"
      ? "is a repeat that succeeds and changes nothing"
      : `is refused: ${outcome}`;

export const settling: CaseGroup = {
  concept: "settling",
  cases: [
    ...table(
      rows,
      ({ situation, action, expected }) => `${action} of an attempt that is ${situation} ${say(expected[0])}`,
      async (t, { situation, action, expected: [outcome, attemptStatus, unitStatus] }) => {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await situations[situation](t, await t.claimOne());
        const before = await t.unit("s", "u");
        const history = await t.attempts("s", "u");
        const changed = await t.settle(attempt, action);
        assert.deepEqual(
          [changed.error, changed.changed],
          [outcome === "ok" || outcome === "again" ? null : outcome, outcome === "ok"],
        );
        assert.equal(changed.status, attemptStatus);
        assert.equal((await t.attempt(attempt.id)).status, attemptStatus);
        assert.equal(await t.status("s", "u"), unitStatus);
        if (outcome !== "ok") {
          assert.deepEqual(await t.unit("s", "u"), before, "nothing changes");
          assert.deepEqual(await t.attempts("s", "u"), history, "nothing changes");
        }
        // in any case, a pending unit cannot be claimed and an available one can
        assert.equal((await t.claim()).length, unitStatus === "available" ? 1 : 0);
      },
    ),
    ...table(
      ["finish", "fail", "retry", "renew"] as const,
      (action) => `${action} after the lease has passed is marked late`,
      async (t, action) => {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        await t.settled(attempt, action);
        assert.equal((await t.attempt(attempt.id)).late, true);
      },
    ),
    {
      name: "a finish at the moment when more than a thousand leases end is marked late",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...Array.from({ length: 1100 }, (_, i) => `u${i}`));
        const attempts = await t.claim({ number: 1100, lifetimeMs: 1000 });
        await t.advance(1000);
        // the unit added last: a store that expires a thousand at a time reaches it last
        const last = attempts.find(({ workUnit }) => workUnit === "u1099")!;
        await t.settled(last, "finish");
        assert.equal((await t.attempt(last.id)).late, true);
      },
    },
    {
      name: "of two attempts that are finished together only the one that was renewed late is late",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = (await t.claim({ number: 2, lifetimeMs: 1000 })).map(({ id }) => id);
        const renew = async (attempt: string, lifetimeMs: number): Promise<unknown> =>
          t.c.settleAttempts(t.ns, [{ attempt, action: "renew", lifetimeMs }]);
        await t.advance(500);
        await renew(b!, 1500);
        await t.advance(1000);
        await renew(a!, 500);
        await t.c.settleAttempts(
          t.ns,
          [a!, b!].map((attempt) => ({ attempt, action: "finish" })),
        );
        const rows = [await t.attempt(a!), await t.attempt(b!)];
        assert.deepEqual(
          rows.map(({ status, expirationTime, late }) => [
            status,
            expirationTime - rows[0]!.expirationTime,
            late,
          ]),
          [
            ["finished", 0, true],
            ["finished", 0, false],
          ],
        );
      },
    },
    {
      name: "what is settled in time is not late, and its end is now",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.advance(1234);
        await t.settled(attempt, "finish");
        const row = await t.attempt(attempt.id);
        assert.deepEqual([row.late, row.startTime, row.endTime], [false, t.now - 1234, t.now]);
      },
    },
    ...table(
      ["finish", "fail"] as const,
      (action) => `${action} with data replaces the attempt's data, which is what the unit shows`,
      async (t, action) => {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        await t.settled(attempt, action, { data: data(2) });
        assert.deepEqual((await t.unit("s", "u")).data, data(2));
        assert.deepEqual((await t.attempt(attempt.id)).data, data(2));
      },
    ),
    ...table(
      ["finish", "fail", "retry", "renew", "expire"] as const,
      (action) => `${action} without data keeps the attempt's data`,
      async (t, action) => {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        await t.settled(attempt, "renew", { data: data(2) });
        await t.settled(attempt, action);
        assert.deepEqual((await t.attempt(attempt.id)).data, data(2));
      },
    ),
    ...table(
      [
        [
          "JSON",
          jsonData('{"a":1.0,"traceback":"job expired","b":"\\u00e9"}'),
          jsonData('{"a":1.0,"b":"\\u00e9"}'),
        ],
        [
          "CBOR",
          cborData(Buffer.from("a36161016974726163656261636b4178616202", "hex")),
          cborData(Buffer.from("a2616101616202", "hex")),
        ],
      ] as const,
      ([what]) => `failed then finished without data: the traceback of the failure goes, in ${what}`,
      async (t, [, failed, finished]) => {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail", { data: failed });
        await t.settled(attempt, "finish");
        sameData((await t.unit("s", "u")).data, finished);
      },
    ),
    {
      name: "failed then finished: finish wins, with its data",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail", { data: data(1) });
        await t.settled(attempt, "finish", { data: data(2) });
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.data], ["finished", data(2)]);
        assert.deepEqual(await t.counts("s"), {
          available: 0,
          delayed: 0,
          blocked: 0,
          pending: 0,
          finished: 1,
          failed: 0,
        });
      },
    },
    {
      name: "finished then failed is refused, and the data of the refused call is not stored",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "finish", { data: data(1) });
        assert.equal((await t.settle(attempt, "fail", { data: data(2) })).error, "not_pending");
        assert.deepEqual((await t.attempt(attempt.id)).data, data(1));
      },
    },
    {
      name: "a repeated finish does not store its data again",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "finish", { data: data(1) });
        await t.settled(attempt, "finish", { data: data(2) });
        assert.deepEqual((await t.attempt(attempt.id)).data, data(1));
      },
    },
    {
      name: "retry with a delay: the unit is delayed until then",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "retry", { delayMs: 1000 });
        assert.equal(await t.status("s", "u"), "delayed");
        assert.equal((await t.unit("s", "u")).notBefore, t.now + 1000);
        await t.advance(999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        assert.equal((await t.claimOne()).number, 2);
      },
    },
    ...table(
      [0, undefined],
      (delay) => `retry with a delay of ${delay ?? "nothing"}: the unit is available at once`,
      async (t, delay) => {
        await t.spec("s");
        await t.add("s", "u");
        await t.settled(await t.claimOne(), "retry", delay === undefined ? {} : { delayMs: delay });
        assert.equal(await t.status("s", "u"), "available");
        await t.claimOne();
      },
    ),
    {
      name: "renew sets the expiration to now plus the given time, shorter or longer",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10_000 });
        await t.advance(1000);
        const changed = await t.settled(attempt, "renew", { lifetimeMs: 60_000 });
        assert.equal(changed.expirationTime, t.now + 60_000);
        assert.equal((await t.attempt(attempt.id)).expirationTime, t.now + 60_000);
        await t.advance(30_000);
        assert.equal(await t.status("s", "u"), "pending");
        await t.settled(attempt, "renew", { lifetimeMs: 5 });
        await t.advance(5);
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "renew without a time gives 15 minutes",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 1000 });
        assert.equal((await t.settled(attempt, "renew")).expirationTime, t.now + 15 * minute);
      },
    },
    ...table(
      [0, -1],
      (lifetimeMs) => `a renew of ${lifetimeMs} releases the unit at once`,
      async (t, lifetimeMs) => {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        const changed = await t.settled(attempt, "renew", { lifetimeMs, data: data(2) });
        assert.equal(changed.status, "expired");
        const row = await t.attempt(attempt.id);
        assert.deepEqual([row.status, row.endTime, row.data], ["expired", t.now, data(2)]);
        assert.deepEqual((await t.unit("s", "u")).data, data(1));
        assert.equal((await t.claimOne({ worker: "other" })).number, 2);
      },
    ),
    {
      name: "giving back what has expired already changes nothing",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        const before = await t.attempt(attempt.id);
        assert.equal((await t.settled(attempt, "renew", { lifetimeMs: 0 })).changed, false);
        assert.deepEqual(await t.attempt(attempt.id), before);
      },
    },
    {
      name: "renewing an expired attempt that nobody replaced takes the unit back",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        await t.settled(attempt, "renew", { lifetimeMs: 1000 });
        const row = await t.attempt(attempt.id);
        assert.deepEqual([row.status, row.active, row.endTime, row.late], ["pending", true, 0, true]);
        assert.deepEqual(await t.claim(), []);
        assert.deepEqual(
          (await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" })).rows.map(({ id }) => id),
          [attempt.id],
        );
      },
    },
    {
      name: "recordTaken: what an attempt came to that the unit was taken from is recorded, and changes nothing else",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d", "e");
        const attempts = await t.claim({ worker: "w", number: 5, lifetimeMs: 1000 });
        const [a, b, c, d, e] = attempts.map(({ id }) => id) as [string, string, string, string, string];
        await t.advance(10);
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a", "b", "c"] });
        // given back and claimed by another worker: the lease has ended
        await t.c.settleAttempts(t.ns, [{ attempt: d, action: "expire" }]);
        await t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "d", worker: "v", lifetimeMs: 60_000 }]);
        const settle = async (attempt: string, action: AttemptAction): Promise<unknown> => {
          const [changed] = await t.c.settleAttempts(t.ns, [
            { attempt, action, data: data(1), recordTaken: true },
          ]);
          return [present(changed).error, present(changed).changed, present(changed).status];
        };
        const taken = t.now;
        await t.advance(2000);
        assert.deepEqual(await settle(a, "renew"), ["lost_lease", false, "expired"]);
        assert.deepEqual(await settle(a, "finish"), [null, true, "finished"]);
        assert.deepEqual(await settle(a, "finish"), [null, false, "finished"]);
        assert.deepEqual(await settle(a, "fail"), ["not_pending", false, "finished"]);
        assert.deepEqual(await settle(b, "fail"), [null, true, "failed"]);
        assert.deepEqual(await settle(b, "finish"), ["not_pending", false, "failed"]);
        assert.deepEqual(await settle(c, "retry"), [null, true, "retryable"]);
        assert.deepEqual(await settle(d, "finish"), ["lost_lease", false, "expired"]);
        // e was not taken from its worker: a late finish succeeds as usual
        assert.deepEqual(await settle(e, "finish"), [null, true, "finished"]);
        const rows = await t.c.getAttempts(t.ns, [a, b, c]);
        assert.deepEqual(
          rows.map((row) => [present(row).status, present(row).endTime, present(row).data]),
          [
            ["finished", taken, data(1)],
            ["failed", taken, data(1)],
            ["retryable", taken, data(1)],
          ],
        );
        assert.deepEqual(await t.statuses("s"), {
          a: "available",
          b: "available",
          c: "available",
          d: "pending",
          e: "finished",
        });
      },
    },
    {
      name: "renewing after losing the lease still stores the data on that attempt, and answers lost_lease",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const loser = await t.claimOne({ worker: "loser", lifetimeMs: 10 });
        await t.advance(10);
        const winner = await t.claimOne({ worker: "winner" });
        assert.equal(
          (await t.settle(loser, "renew", { lifetimeMs: 1000, data: data(2) })).error,
          "lost_lease",
        );
        const row = await t.attempt(loser.id);
        assert.deepEqual([row.data, row.status, row.active], [data(2), "expired", false]);
        assert.deepEqual((await t.unit("s", "u")).activeAttempt, winner, "the winner stays active");
        assert.deepEqual((await t.unit("s", "u")).data, data(1));
      },
    },
    {
      name: "a retry from a lost lease does not delay the unit that somebody else runs",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const loser = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        const winner = await t.claimOne({ worker: "winner" });
        assert.equal((await t.settle(loser, "retry", { delayMs: 60_000 })).error, "lost_lease");
        assert.equal((await t.unit("s", "u")).notBefore, 0);
        await t.settled(winner, "finish");
        assert.equal(await t.status("s", "u"), "finished");
      },
    },
    {
      name: "a late finish takes the unit out of what can be claimed",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        assert.equal(await t.status("s", "u"), "available");
        await t.settled(attempt, "finish");
        assert.deepEqual(await t.claim(), []);
        assert.deepEqual(await t.counts("s"), {
          available: 0,
          delayed: 0,
          blocked: 0,
          pending: 0,
          finished: 1,
          failed: 0,
        });
      },
    },
    {
      name: "each change is judged by itself, and answers come in order",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        const [a, b, c] = await t.claim({ number: 3 });
        assert.ok(a && b && c);
        await t.settled(b, "finish");
        const changed = await t.c.settleAttempts(t.ns, [
          { attempt: a.id, action: "finish" },
          { attempt: b.id, action: "fail" },
          { attempt: "nonsense", action: "finish" },
          { attempt: "999999999.1", action: "finish" },
          { attempt: c.id, action: "retry", delayMs: 1000 },
          { attempt: a.id, action: "finish" },
        ]);
        assert.deepEqual(
          changed.map(({ attempt, error, changed }) => [attempt, error, changed]),
          [
            [a.id, null, true],
            [b.id, "not_pending", false],
            ["nonsense", "no_such_attempt", false],
            ["999999999.1", "no_such_attempt", false],
            [c.id, null, true],
            [a.id, null, false],
          ],
        );
        assert.deepEqual(await t.statuses("s"), { a: "finished", b: "finished", c: "delayed" });
      },
    },
    {
      name: "a batch with a change that makes no sense is refused whole, naming the item",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2 });
        assert.ok(a && b);
        await t.refuses(
          "bad_argument",
          t.c.settleAttempts(t.ns, [
            { attempt: a.id, action: "finish" },
            { attempt: b.id, action: "retry", delayMs: NaN },
          ]),
          /item 1.*delayMs/,
        );
        await t.refuses(
          "bad_argument",
          t.c.settleAttempts(t.ns, [{ attempt: a.id, action: "retry", delayMs: -1 }]),
          /delayMs/,
        );
        await t.refuses(
          "bad_argument",
          t.c.settleAttempts(t.ns, [{ attempt: a.id, action: "explode" as "fail" }]),
          /action/,
        );
        assert.deepEqual(await t.statuses("s"), { a: "pending", b: "pending" });
      },
    },
    {
      name: "settling nothing is no error",
      async run(t) {
        assert.deepEqual(await t.c.settleAttempts(t.ns, []), []);
      },
    },
    {
      name: "a hundred attempts are settled in one call",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...Array.from({ length: 100 }, (_, i) => String(i)));
        const all = await t.claim({ number: 100 });
        const changed = await t.c.settleAttempts(
          t.ns,
          all.map(({ id }) => ({ attempt: id, action: "finish" })),
        );
        assert.ok(changed.every(({ error, changed }) => error === null && changed));
        assert.equal((await t.counts("s")).finished, 100);
      },
    },
  ],
};
