import assert from "node:assert/strict";
import { encodeData, type BreakerState, type Explained } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const names = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `u${String(i).padStart(3, "0")}`);

async function start(t: Context, breaker: Record<string, unknown>, more: object = {}): Promise<void> {
  await t.spec("s", { breaker, ...more });
  await t.add("s", ...names(100));
}

/** Claims a unit for each outcome, and finishes it for "finish", or fails it with the outcome as the error. */
async function run(t: Context, ...outcomes: string[]): Promise<void> {
  for (const outcome of outcomes) {
    const attempt = await t.claimOne({ workSpecs: ["s"] });
    if (outcome === "finish") await t.settled(attempt, "finish");
    else await t.settled(attempt, "fail", { data: encodeData({ traceback: outcome }) });
  }
}

const state = async (t: Context): Promise<BreakerState> => (await t.getSpec("s")).meta.breakerState;
const isTripped = async (t: Context): Promise<boolean> => (await state(t)).since !== undefined;
const explained = async (t: Context): Promise<Explained> =>
  present((await t.c.explain(t.ns)).find(({ workSpec }) => workSpec === "s"));

export const breakers: CaseGroup = {
  concept: "breakers",
  cases: [
    {
      name: "a share of failures trips it, and nothing more is handed out",
      async run(t) {
        await start(t, { failures: 0.5, min: 4, window: 60, pause: 30 });
        await run(t, "finish", "finish", "Error: no route to 10.0.0.1");
        assert.equal(await isTripped(t), false);
        await run(t, "Error: no route to 10.0.0.2");
        assert.deepEqual(await state(t), {
          since: t.now,
          until: t.now + 30_000,
          left: 0,
          good: 0,
          failed: 2,
          ended: 4,
          error: "Error: no route to …",
        });
        assert.deepEqual(await t.claim(), []);
        const { excluded, reason } = await explained(t);
        assert.equal(excluded, "breaker");
        assert.match(
          reason,
          /paused by its breaker: 2 of 4 attempts failed \(Error: no route to …\); .* 30\.0 s/,
        );
      },
    },
    {
      name: "below its share or its minimum it does not trip",
      async run(t) {
        await start(t, { failures: 0.5, min: 5 });
        await run(t, "a", "b", "c", "d");
        assert.equal(await isTripped(t), false);
        await run(t, "finish", "finish", "finish", "finish", "finish", "e");
        // five of ten
        assert.equal(await isTripped(t), true);
      },
    },
    {
      name: "a share that is met exactly trips it, also one that is not exact as a number",
      async run(t) {
        await start(t, { failures: 0.07, min: 100 });
        const attempts = await t.claim({ number: 100 });
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }, i) => ({ attempt: id, action: i < 7 ? "fail" : "finish" })),
        );
        assert.equal(await isTripped(t), true);
      },
    },
    {
      name: "it looks when something fails, and a finish never trips it",
      async run(t) {
        await start(t, { failures: 0.9, min: 10 });
        await run(t, ...names(9), "finish");
        assert.equal(await isTripped(t), false);
        await run(t, "x");
        assert.equal(await isTripped(t), true);
      },
    },
    {
      name: "what is older than its window does not count",
      async run(t) {
        await start(t, { failures: 0.5, min: 4, window: 10 });
        await run(t, "a", "b", "c");
        await t.advance(10_000);
        await run(t, "d");
        assert.equal(await isTripped(t), false);
        await t.advance(1000);
        await run(t, "e", "f", "g");
        assert.equal(await isTripped(t), true);
        assert.equal((await state(t)).ended, 4);
      },
    },
    {
      name: "after its pause it tries as many units as it has probes, and goes on when all of them finish",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30, probes: 2 });
        await run(t, "a");
        await t.advance(29_999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        assert.equal((await explained(t)).excluded, null);
        const probes = await t.claim({ number: 10 });
        assert.equal(probes.length, 2);
        assert.deepEqual(await t.claim(), []);
        await t.settled(present(probes[0]), "finish");
        assert.equal(await isTripped(t), true);
        await t.settled(present(probes[1]), "finish");
        assert.deepEqual(await state(t), { from: t.now - 30_000 + 1 });
        assert.equal((await t.claim({ number: 10 })).length, 10);
      },
    },
    {
      name: "probes may be claimed one by one",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30, probes: 3 });
        await run(t, "a");
        await t.advance(30_000);
        await t.claimOne();
        await t.claimOne();
        await t.claimOne();
        assert.deepEqual(await t.claim(), []);
      },
    },
    {
      name: "a probe that fails starts the pause anew",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30, probes: 2 });
        await run(t, "a");
        await t.advance(31_000);
        await run(t, "finish", "b");
        await t.advance(29_999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        await run(t, "finish", "finish");
        assert.equal(await isTripped(t), false);
      },
    },
    {
      name: "a probe that never ends is followed by another after the pause",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30 });
        await run(t, "a");
        await t.advance(30_000);
        await t.claimOne();
        await t.advance(30_000);
        await run(t, "finish");
        assert.equal(await isTripped(t), false);
      },
    },
    {
      name: "attempts that began before it tripped decide nothing",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30 });
        const [one, two, three] = await t.claim({ number: 3 });
        await t.settled(present(one), "fail");
        await t.advance(10_000);
        await t.settled(present(two), "finish");
        await t.settled(present(three), "fail");
        assert.equal(await isTripped(t), true);
        await t.advance(20_000);
        await run(t, "finish");
        assert.equal(await isTripped(t), false);
      },
    },
    {
      name: "once it has closed, it counts anew",
      async run(t) {
        await start(t, { failures: 0.5, min: 4, window: 600, pause: 1 });
        await run(t, "a", "b", "c", "d");
        await t.advance(1000);
        await run(t, "finish");
        await run(t, "e", "f", "g");
        assert.equal(await isTripped(t), false);
        await run(t, "h");
        assert.equal(await isTripped(t), true);
        assert.equal((await state(t)).ended, 4);
      },
    },
    {
      name: "with slow it goes on with a few units in each pause",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 10, probes: 2, action: "slow" });
        await run(t, "a");
        await t.advance(1);
        assert.match((await explained(t)).reason, /available/);
        assert.equal((await t.claim({ number: 10 })).length, 2);
        const { excluded, reason } = await explained(t);
        assert.equal(excluded, "breaker");
        assert.match(reason, /slowed down by its breaker/);
        await t.advance(10_000);
        await run(t, "finish", "b");
        assert.deepEqual(await t.claim(), []);
        await t.advance(10_000);
        await run(t, "finish", "finish");
        assert.equal(await isTripped(t), false);
      },
    },
    {
      name: "by error, only failures with the same error count together",
      async run(t) {
        await start(t, { failures: 0.5, min: 4, by: "error" });
        await run(t, "Error: disk 1 is full", "Error: no route", "Error: gone", "Error: late", "finish");
        assert.equal(await isTripped(t), false);
        await run(t, "Error: disk 2 is full", "Error: disk 3 is full");
        assert.equal(await isTripped(t), false);
        await run(t, "Error: disk 4 is full");
        assert.deepEqual((await state(t)).error, "Error: disk … is full");
        assert.equal((await state(t)).failed, 4);
        assert.equal((await state(t)).ended, 8);
      },
    },
    {
      name: "errors that are tried again count, and leases that end, retries and cancelled units do not",
      async run(t) {
        await start(t, { failures: 1, min: 2 }, { retry: { attempts: 9, backoff: { delay: 1 } } });
        await t.settled(await t.claimOne(), "retry");
        await t.settled(await t.claimOne(), "expire");
        await t.settled(await t.claimOne(), "fail", { reason: "cancelled" });
        await t.claimOne({ lifetimeMs: 10 });
        await t.advance(20);
        await t.settled(await t.claimOne(), "error", { error: "x" });
        assert.equal(await isTripped(t), false);
        await t.settled(await t.claimOne(), "error", { error: "y" });
        assert.equal(await isTripped(t), true);
      },
    },
    {
      name: "what one call settles is looked at together",
      async run(t) {
        await start(t, { failures: 0.5, min: 4 });
        const attempts = await t.claim({ number: 10 });
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }, i) => ({ attempt: id, action: i < 4 ? "fail" : "finish" })),
        );
        assert.equal(await isTripped(t), false);
        await run(t, "a", "b");
        assert.equal((await state(t)).ended, 12);
      },
    },
    {
      name: "resuming or setting the work spec closes it, and keepMeta does not",
      async run(t) {
        await start(t, { failures: 1, min: 2 });
        await run(t, "a", "b");
        await t.c.setWorkSpecs(
          t.ns,
          [{ data: encodeData({ name: "s", breaker: { failures: 1, min: 2 } }) }],
          { keepMeta: true },
        );
        assert.equal(await isTripped(t), true);
        await t.c.setWorkSpecMeta(t.ns, "s", { weight: 30 });
        assert.equal(await isTripped(t), true);
        const meta = await t.c.setWorkSpecMeta(t.ns, "s", { paused: false });
        assert.equal(meta.breakerState.since, undefined);
        await run(t, "c");
        assert.equal(await isTripped(t), false);
        await run(t, "d");
        assert.equal(await isTripped(t), true);
        await t.spec("s", { breaker: { failures: 1, min: 2 } });
        assert.equal(await isTripped(t), false);
        await run(t, "e");
        assert.equal(await isTripped(t), false);
      },
    },
    {
      name: "without a breaker nothing is held back, also when one was tripped before",
      async run(t) {
        await start(t, { failures: 1, min: 1 });
        await run(t, "a");
        await t.spec("s");
        await run(t, "b", "c", "d", "finish");
        assert.equal((await explained(t)).excluded, null);
      },
    },
    {
      name: "with keepMeta too, a work spec without a breaker forgets that it was tripped",
      async run(t) {
        await start(t, { failures: 1, min: 1 });
        await run(t, "a");
        for (const keys of [{}, { breaker: { failures: 1, min: 1 } }])
          await t.c.setWorkSpecs(t.ns, [{ data: encodeData({ name: "s", ...keys }) }], { keepMeta: true });
        assert.equal(await isTripped(t), false);
        assert.equal((await explained(t)).excluded, null);
      },
    },
    {
      name: "other work specs go on",
      async run(t) {
        await start(t, { failures: 1, min: 1 });
        await t.spec("other");
        await t.add("other", "x", "y");
        await run(t, "a");
        const both = await t.claim({ number: 2 });
        assert.deepEqual(
          both.map(({ workSpec }) => workSpec),
          ["other", "other"],
        );
        // finished in one call with units of other work specs
        await t.c.settleAttempts(
          t.ns,
          both.map(({ id }) => ({ attempt: id, action: "finish" })),
        );
      },
    },
    {
      name: "a request that waits is answered by a probe, and again when it closes",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30 });
        await run(t, "a");
        const probe = t.claim({ waitMs: 600_000 });
        if (t.subject.waiting !== undefined) await t.untilWaiting(1);
        await t.advance(30_000);
        const [attempt] = await probe;
        const next = t.claim({ waitMs: 20_000 });
        if (t.subject.waiting !== undefined) await t.untilWaiting(1);
        await t.settled(present(attempt), "finish");
        assert.equal((await next).length, 1);
      },
    },
    {
      name: "its limits and max_running hold for probes too",
      async run(t) {
        await start(t, { failures: 1, min: 1, pause: 30, probes: 5 }, { max_running: 2 });
        await run(t, "a");
        await t.advance(30_000);
        assert.equal((await t.claim({ number: 10 })).length, 2);
      },
    },
    {
      name: "a breaker of the wrong form is refused, and nothing is stored",
      async run(t) {
        await t.refuses("bad_work_spec", t.spec("s", { breaker: { failures: 2 } }), /breaker\.failures/);
        await t.refuses("bad_work_spec", t.spec("s", { breaker: { failures: 0.5, by: "x" } }), /breaker\.by/);
        await t.refuses("bad_work_spec", t.spec("s", { breaker: true }), /breaker/);
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, ["s"]), [null]);
      },
    },
  ],
};
