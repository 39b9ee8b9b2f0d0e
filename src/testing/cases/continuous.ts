import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import type { CaseGroup } from "../stack.ts";

const nameOf = (time: number): string => (time / 1000).toFixed(3);

export const continuous: CaseGroup = {
  concept: "continuous",
  cases: [
    {
      name: "a continuous spec with no units generates one, named by the Unix time with three decimals, with empty data and priority 0",
      async run(t) {
        await t.spec("s", { continuous: true });
        const attempt = await t.claimOne();
        assert.equal(attempt.workUnit, nameOf(t.now));
        assert.deepEqual(attempt.data, encodeData({}));
        const unit = await t.unit("s", attempt.workUnit);
        assert.deepEqual([unit.priority, unit.status], [0, "pending"]);
      },
    },
    {
      name: "only one is generated, however many were asked for",
      async run(t) {
        await t.spec("s", { continuous: true });
        assert.equal((await t.claim({ number: 50 })).length, 1);
      },
    },
    {
      name: "none is generated while one is pending",
      async run(t) {
        await t.spec("s", { continuous: true });
        const attempt = await t.claimOne();
        assert.deepEqual(await t.claim(), []);
        await t.settled(attempt, "finish");
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "none is generated while one is available",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.add("s", "real");
        const attempt = await t.claimOne();
        assert.equal(attempt.workUnit, "real");
        await t.settled(attempt, "finish");
        assert.equal((await t.claimOne()).workUnit, nameOf(t.now));
      },
    },
    {
      name: "should the name exist, the next free millisecond is taken",
      async run(t) {
        await t.spec("s", { continuous: true });
        const first = await t.claimOne();
        await t.settled(first, "finish");
        const second = await t.claimOne();
        assert.deepEqual([first.workUnit, second.workUnit], [nameOf(t.now), nameOf(t.now + 1)]);
      },
    },
    {
      name: "the next one is not generated before the interval has passed",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 60 });
        const start = t.now;
        await t.settled(await t.claimOne(), "finish");
        assert.equal((await t.getSpec("s")).meta.nextContinuous, start + 60_000);
        await t.advance(59_999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        assert.equal((await t.claimOne()).workUnit, nameOf(t.now));
      },
    },
    {
      name: "an interval of half a second works",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 0.5 });
        await t.settled(await t.claimOne(), "finish");
        await t.advance(499);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "an interval of 0 generates the next one at once",
      async run(t) {
        await t.spec("s", { continuous: true });
        for (let i = 0; i < 5; i++) await t.settled(await t.claimOne(), "finish");
        assert.equal((await t.counts("s")).finished, 5);
      },
    },
    {
      name: "real units are handed out before the interval has passed",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 60 });
        await t.settled(await t.claimOne(), "finish");
        await t.add("s", "real");
        assert.deepEqual(await t.claimNames(), ["real"]);
      },
    },
    {
      name: "a spec that is switched off generates nothing, and goes on when it is switched on",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.c.setWorkSpecMeta(t.ns, "s", { continuous: false });
        assert.deepEqual(await t.claim(), []);
        await t.c.setWorkSpecMeta(t.ns, "s", { continuous: true });
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "a paused spec generates nothing",
      async run(t) {
        await t.spec("s", { continuous: true, disabled: true });
        assert.deepEqual(await t.claim(), []);
      },
    },
    {
      name: "next_continuous can be set: to wait, or to run at once",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.c.setWorkSpecMeta(t.ns, "s", { nextContinuous: t.now + 1000 });
        assert.deepEqual(await t.claim(), []);
        await t.c.setWorkSpecMeta(t.ns, "s", { nextContinuous: 0 });
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "setting the spec again may generate at once even if the interval has not passed",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 60 });
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await t.claim(), []);
        await t.spec("s", { continuous: true, interval: 60 });
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "a generated unit that expires is tried again, and no other is generated",
      async run(t) {
        await t.spec("s", { continuous: true });
        const first = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        const second = await t.claimOne();
        assert.deepEqual([second.workUnit, second.number], [first.workUnit, 2]);
      },
    },
    {
      name: "a generated unit's output is chained like any other's, with priority 0",
      async run(t) {
        await t.spec("s", { continuous: true, then: "next" });
        await t.spec("next");
        await t.settled(await t.claimOne({ workSpecs: ["s"] }), "finish", {
          data: encodeData({ output: ["x"] }),
        });
        const unit = await t.unit("next", "x");
        assert.deepEqual([unit.status, unit.priority], ["available", 0]);
        assert.equal((await t.claimOne({ workSpecs: ["next"] })).workUnit, "x");
      },
    },
    {
      name: "delayed units do not keep a continuous spec from generating",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.add("s", { name: "later", delayMs: 1000 });
        assert.equal((await t.claimOne()).workUnit, nameOf(t.now));
      },
    },
  ],
};
