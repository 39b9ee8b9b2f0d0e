import assert from "node:assert/strict";
import type { CaseGroup, Context } from "../stack.ts";

/** Starts requests that wait, one after the other, so that they queue in this order. */
async function wait(t: Context, ...requests: object[]): Promise<Promise<string[]>[]> {
  const started: Promise<string[]>[] = [];
  for (const [i, request] of requests.entries()) {
    started.push(t.claimNames({ worker: `waiter ${i}`, number: 1, waitMs: 60_000, ...request }));
    // an asynchronous store may process requests in another order: wait until this one is queued
    await t.untilWaiting(i + 1);
  }
  return started;
}

export const waiting: CaseGroup = {
  concept: "waiting",
  cases: [
    {
      name: "a request that waits is answered when a unit is added",
      async run(t) {
        await t.spec("s");
        const [answer] = await wait(t, {});
        await t.add("s", "u");
        assert.deepEqual(await answer, ["u"]);
      },
    },
    {
      name: "a request that finds work does not wait",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        assert.deepEqual(await t.claimNames({ waitMs: 60_000 }), ["u"]);
      },
    },
    {
      name: "a request that waits is answered with nothing when its time is over",
      async run(t) {
        await t.spec("s");
        const [answer] = await wait(t, { waitMs: 5000 });
        await t.advance(4999);
        await t.untilWaiting(1);
        await t.advance(1);
        assert.deepEqual(await answer, []);
      },
    },
    {
      name: "a request that waits is answered when a delayed unit is due",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", delayMs: 3000 });
        const [answer] = await wait(t, {});
        await t.advance(3000);
        assert.deepEqual(await answer, ["u"]);
      },
    },
    {
      name: "a request that waits is answered when somebody's lease ends",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.claimOne({ lifetimeMs: 2000 });
        const [answer] = await wait(t, {});
        await t.advance(2000);
        assert.deepEqual(await answer, ["u"]);
      },
    },
    {
      name: "a request that waits is answered when a work spec starts",
      async run(t) {
        await t.spec("s", { not_before: (t.now + 3000) / 1000 });
        await t.add("s", "u");
        const [answer] = await wait(t, {});
        await t.advance(2999);
        await t.untilWaiting(1);
        await t.advance(1);
        assert.deepEqual(await answer, ["u"]);
      },
    },
    {
      name: "a request that waits is answered when a continuous spec may generate",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 10 });
        await t.settled(await t.claimOne(), "finish");
        const [answer] = await wait(t, {});
        await t.advance(10_000);
        assert.equal((await answer)?.length, 1);
      },
    },
    {
      name: "a request that waits is answered when a spec is resumed",
      async run(t) {
        await t.spec("s", { disabled: true });
        await t.add("s", "u");
        const [answer] = await wait(t, {});
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: false });
        assert.deepEqual(await answer, ["u"]);
      },
    },
    {
      name: "a request that waits is answered when a claim of others fails a unit that its unit waits for",
      async run(t) {
        await t.spec("a", { max_retries: 1 });
        await t.spec("b");
        await t.add("a", "x");
        await t.add("b", { name: "y", dependencies: [{ workSpec: "a", workUnit: "x", kind: "soft" }] });
        await t.settled(await t.claimOne({ workSpecs: ["a"] }), "retry");
        const [answer] = await wait(t, { workSpecs: ["b"] });
        assert.deepEqual(await t.claimNames({ workSpecs: ["a"] }), []);
        assert.deepEqual(await answer, ["y"]);
      },
    },
    {
      name: "a request that waits is answered when a work spec that its unit waits for is deleted",
      async run(t) {
        await t.spec("a");
        await t.spec("b");
        await t.add("a", "x");
        await t.add("b", { name: "y", dependencies: [{ workSpec: "a", workUnit: "x", kind: "soft" }] });
        const [answer] = await wait(t, { workSpecs: ["b"] });
        await t.c.deleteWorkSpecs(t.ns, ["a"]);
        assert.deepEqual(await answer, ["y"]);
      },
    },
    {
      name: "a request that waits is answered when a place among max_running is free",
      async run(t) {
        await t.spec("s", { max_running: 1 });
        await t.add("s", "a", "b");
        const attempt = await t.claimOne();
        const [answer] = await wait(t, {});
        await t.settled(attempt, "finish");
        assert.deepEqual(await answer, ["b"]);
      },
    },
    {
      name: "a request that waits is answered when outputs arrive",
      async run(t) {
        await t.spec("a", { then: "b" });
        await t.spec("b");
        await t.add("a", "u");
        const attempt = await t.claimOne();
        const [answer] = await wait(t, { workSpecs: ["b"] });
        await t.c.settleAttempts(t.ns, [
          { attempt: attempt.id, action: "finish", data: '{"output":["x"]}' as never },
        ]);
        assert.deepEqual(await answer, ["x"]);
      },
    },
    {
      name: "a request that waits is answered when a unit is given back, or reset",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        const [first] = await wait(t, {});
        await t.settled(attempt, "expire");
        assert.deepEqual(await first, ["u"]);
        const [second] = await wait(t, {});
        await t.c.resetWorkUnits(t.ns, "s", { names: ["u"] });
        assert.deepEqual(await second, ["u"]);
      },
    },
    {
      name: "several requests that wait are each answered with a unit of their own, in the order they came",
      async run(t) {
        await t.spec("s");
        const answers = await wait(t, {}, {}, {});
        await t.add("s", "a", "b", "c");
        assert.deepEqual(await Promise.all(answers), [["a"], ["b"], ["c"]]);
      },
    },
    {
      name: "one unit answers one of those who wait, and the others wait on",
      async run(t) {
        await t.spec("s");
        const answers = await wait(t, {}, {});
        await t.add("s", "a");
        assert.deepEqual(await answers[0], ["a"]);
        await t.untilWaiting(1);
        await t.add("s", "b");
        assert.deepEqual(await answers[1], ["b"]);
      },
    },
    {
      name: "requests that wait for different things do not stand in each other's way",
      async run(t) {
        await t.spec("a", { runtime: "go" });
        await t.spec("b", { runtime: "python" });
        const [go, python] = await wait(t, { runtimes: ["go"] }, { runtimes: ["python"] });
        await t.add("b", "snake");
        assert.deepEqual(await python, ["snake"]);
        await t.add("a", "gopher");
        assert.deepEqual(await go, ["gopher"]);
      },
    },
    {
      name: "a request that waits can be given up",
      async run(t) {
        await t.spec("s");
        const stop = new AbortController();
        const [given, kept] = await wait(t, { signal: stop.signal }, {});
        stop.abort();
        assert.deepEqual(await given, []);
        await t.untilWaiting(1);
        await t.add("s", "u");
        assert.deepEqual(await kept, ["u"]);
      },
    },
    {
      name: "work in another namespace does not answer a request that waits",
      async run(t) {
        await t.spec("s");
        const [answer] = await wait(t, { waitMs: 1000 });
        await t.c.setNamespace(`${t.ns} other`, {});
        await t.untilWaiting(1);
        await t.advance(1000);
        assert.deepEqual(await answer, []);
      },
    },
  ],
};
