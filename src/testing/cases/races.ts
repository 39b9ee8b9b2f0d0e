/** Concurrent calls of many clients. */
import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import type { CaseGroup } from "../stack.ts";

const times = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));

export const races: CaseGroup = {
  concept: "races",
  cases: [
    {
      name: "no unit is claimed twice by requests at the same time",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...times(200, String));
        const claimed = (
          await Promise.all(times(50, (i) => t.claimNames({ worker: `w${i}`, number: 5 })))
        ).flat();
        assert.equal(claimed.length, 200);
        assert.equal(new Set(claimed).size, 200);
      },
    },
    {
      name: "max_running holds among requests at the same time",
      async run(t) {
        await t.spec("s", { max_running: 7 });
        await t.add("s", ...times(100, String));
        const claimed = (await Promise.all(times(40, (i) => t.claim({ worker: `w${i}`, number: 3 })))).flat();
        assert.equal(claimed.length, 7);
        assert.equal((await t.counts("s")).pending, 7);
      },
    },
    {
      name: "requests at the same time generate one continuous unit",
      async run(t) {
        await t.spec("s", { continuous: true, interval: 60 });
        const claimed = (await Promise.all(times(30, (i) => t.claim({ worker: `w${i}` })))).flat();
        assert.equal(claimed.length, 1);
        assert.equal(Object.keys(await t.statuses("s")).length, 1);
      },
    },
    {
      name: "of many who finish the same attempt one changes it, and the outputs are created once",
      async run(t) {
        await t.spec("s", { then: "next" });
        await t.spec("next");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        const data = encodeData({ output: ["x"] });
        const answers = await Promise.all(times(20, () => t.settle(attempt, "finish", { data })));
        assert.equal(answers.filter(({ changed }) => changed).length, 1);
        assert.ok(answers.every(({ error }) => error === null));
        assert.equal(
          answers.reduce((sum, { outputs }) => sum + outputs, 0),
          1,
        );
        assert.deepEqual(await t.statuses("next"), { x: "available" });
      },
    },
    {
      name: "finish and fail at the same time: the unit is finished",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...times(20, String));
        const attempts = await t.claim({ number: 20 });
        await Promise.all(
          attempts.flatMap((attempt) => [t.settle(attempt, "fail"), t.settle(attempt, "finish")]),
        );
        assert.equal((await t.counts("s")).finished, 20);
      },
    },
    {
      name: "adds of the same names at the same time make each unit once",
      async run(t) {
        await t.spec("s");
        const added = (
          await Promise.all(
            times(10, () =>
              t.c.addWorkUnits(
                t.ns,
                "s",
                times(20, (i) => ({ name: String(i) })),
              ),
            ),
          )
        ).flat();
        assert.equal(added.filter(({ created }) => created).length, 20);
        assert.equal(new Set(added.map(({ id }) => id)).size, 20);
        assert.equal((await t.counts("s")).available, 20);
      },
    },
    {
      name: "adds, claims, finishes and deletes at the same time leave counts that add up",
      async run(t) {
        await t.spec("s");
        await Promise.all(
          times(8, async (i) => {
            for (let round = 0; round < 5; round++) {
              await t.add("s", ...times(10, (j) => `${i} ${round} ${j}`));
              const attempts = await t.claim({ worker: `w${i}`, number: 7 });
              await t.c.settleAttempts(
                t.ns,
                attempts.map(({ id }, j) => ({ attempt: id, action: j % 2 === 0 ? "finish" : "fail" })),
              );
              await t.c.deleteWorkUnits(t.ns, "s", { prefix: `${i} ${round} 9` });
            }
          }),
        );
        const counts = await t.counts("s");
        const seen = { available: 0, delayed: 0, blocked: 0, pending: 0, finished: 0, failed: 0 };
        for (const { status } of (await t.c.listWorkUnits(t.ns, "s")).rows) seen[status]++;
        assert.deepEqual(counts, seen);
      },
    },
    {
      name: "a claim with the same request id, sent twice at the same time, claims once",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d");
        const [first, second] = await Promise.all([
          t.claim({ number: 2, requestId: "r" }),
          t.claim({ number: 2, requestId: "r" }),
        ]);
        assert.deepEqual(
          first.map(({ id }) => id),
          second.map(({ id }) => id),
        );
        assert.equal((await t.counts("s")).pending, 2);
      },
    },
    {
      name: "of many who want the same lock one gets it",
      async run(t) {
        const answers = await Promise.all(
          times(20, (i) => t.c.lock(t.ns, { owner: `o${i}`, paths: [["a"]] })),
        );
        assert.equal(answers.filter((refusal) => refusal === null).length, 1);
      },
    },
    {
      name: "of many finishes at the same time the last lets the dependent go, once",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...times(10, (i) => `a${i}`), {
          name: "z",
          dependencies: times(10, (i) => ({ workUnit: `a${i}` })),
        });
        const attempts = await t.claim({ number: 10 });
        await Promise.all(attempts.map((attempt) => t.settled(attempt, "finish")));
        assert.equal(await t.status("s", "z"), "available");
        assert.deepEqual(await t.claimNames(), ["z"]);
      },
    },
  ],
};
