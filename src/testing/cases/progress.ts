import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import { present, type CaseGroup } from "../stack.ts";

const some = { done: 0.4, note: "page 4 of 10" };

export const progress: CaseGroup = {
  concept: "progress",
  cases: [
    {
      name: "an attempt has no progress before its worker says so",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        assert.equal((await t.claimOne()).progress, null);
        assert.equal((await t.unit("s", "u")).activeAttempt?.progress, null);
      },
    },
    {
      name: "what a renew says is seen with the unit and the attempt, and stays until the next report",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: encodeData({ n: 1 }) });
        const attempt = await t.claimOne({ lifetimeMs: 1000 });
        const { expirationTime } = await t.settled(attempt, "renew", { lifetimeMs: 5000, progress: some });
        assert.equal(expirationTime, t.now + 5000);
        assert.deepEqual((await t.unit("s", "u")).activeAttempt?.progress, some);
        assert.deepEqual((await t.attempt(attempt.id)).progress, some);
        assert.deepEqual((await t.attempt(attempt.id)).data, attempt.data);
        await t.settled(attempt, "renew", { data: encodeData({ n: 2 }) });
        assert.deepEqual((await t.attempt(attempt.id)).progress, some);
        await t.settled(attempt, "renew", { progress: { done: 1, note: "" } });
        assert.deepEqual((await t.attempt(attempt.id)).progress, { done: 1, note: "" });
        const { rows } = await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" });
        assert.deepEqual(present(rows[0]).progress, { done: 1, note: "" });
      },
    },
    {
      name: "it ends with the attempt, and the next attempt begins without",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2, lifetimeMs: 1000 });
        for (const attempt of [a, b]) await t.settled(present(attempt), "renew", { progress: some });
        await t.settled(present(a), "finish");
        await t.settled(present(b), "retry");
        assert.equal((await t.unit("s", "a")).activeAttempt?.progress, null);
        assert.equal((await t.attempt(present(b).id)).progress, null);
        assert.equal((await t.claimOne()).progress, null);
        assert.equal((await t.unit("s", "b")).activeAttempt?.progress, null);
      },
    },
    {
      name: "an attempt that is renewed after its lease has ended begins without",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 1000 });
        await t.settled(attempt, "renew", { lifetimeMs: 1000, progress: some });
        await t.advance(1000);
        assert.equal((await t.attempt(attempt.id)).progress, null);
        await t.settled(attempt, "renew", { lifetimeMs: 1000 });
        assert.equal((await t.attempt(attempt.id)).progress, null);
      },
    },
    {
      name: "a change of priority leaves it as it is",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.settled(await t.claimOne(), "renew", { progress: some });
        await t.c.setWorkUnitPriorities(t.ns, "s", { all: true }, { set: 5 });
        assert.deepEqual((await t.unit("s", "u")).activeAttempt?.progress, some);
      },
    },
    {
      name: "it is from 0 to 1, with a short note, and for a renew only",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        for (const done of [-0.1, 1.1])
          await t.refuses(
            "bad_argument",
            t.settle(attempt, "renew", { progress: { done, note: "" } }),
            /done/,
          );
        const long = { done: 0, note: "x".repeat(1001) };
        await t.refuses("too_large", t.settle(attempt, "renew", { progress: long }), /note/);
        await t.refuses(
          "bad_argument",
          t.settle(attempt, "finish", { progress: some }),
          /allowed only with renew/,
        );
        assert.equal((await t.attempt(attempt.id)).status, "pending");
      },
    },
  ],
};
