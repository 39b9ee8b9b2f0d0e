/** Failure groups: failed units grouped by error, and selecting units by group. */
import assert from "node:assert/strict";
import { encodeData, maxFailureGroups, type FailureRow } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

/** Adds units and fails each with the error given for its name. */
async function failing(t: Context, errors: Readonly<Record<string, string>>, spec = "s"): Promise<void> {
  await t.add(spec, ...Object.keys(errors));
  for (const attempt of await t.claim({ number: 1000, workSpecs: [spec] }))
    await t.settled(attempt, "fail", { data: encodeData({ traceback: errors[attempt.workUnit] }) });
}

const failures = (t: Context, workSpec = "s"): Promise<FailureRow[]> => t.c.listFailures(t.ns, { workSpec });

const summary = async (t: Context): Promise<[string, number][]> =>
  (await failures(t)).map(({ error, count }) => [error, count]);

const noisy = {
  a1: "Error: timed out after 1023 ms\n    at x (/srv/app/a.js:1:2)",
  a2: "Error: timed out after 7 ms\n    at y (/srv/app/b.js:3:4)",
  b1: 'TypeError: cannot read "name" of user 9f86d081884c7d65',
  b2: "TypeError: cannot read 'size' of user 00ff3a12bc",
  c: "Traceback (most recent call last):\n  File x, line 1\nKeyError: 'k17'",
};

export const failureGroups: CaseGroup = {
  concept: "failure groups",
  cases: [
    {
      name: "the example of a group is the last to fail; of several at one time, the last by name",
      async run(t) {
        await t.spec("s");
        const example = async (): Promise<string | undefined> => (await failures(t))[0]?.example;
        await failing(t, { b: "Error: 1" });
        assert.equal(await example(), "b");
        await failing(t, { a: "Error: 2" });
        assert.equal(await example(), "b");
        await failing(t, { c: "Error: 3", a2: "Error: 4" });
        assert.equal(await example(), "c");
        await t.advance(1000);
        await failing(t, { a3: "Error: 5" });
        assert.equal(await example(), "a3");
      },
    },
    {
      name: "failed units are grouped by what went wrong, without what differs from unit to unit",
      async run(t) {
        await t.spec("s");
        await t.add("s", "fine");
        await t.settled(await t.claimOne(), "finish");
        const start = t.now;
        await failing(t, { a1: noisy.a1, b1: noisy.b1 });
        await t.advance(1000);
        await failing(t, { a2: noisy.a2, b2: noisy.b2, c: noisy.c });
        const rows = await failures(t);
        assert.deepEqual(
          rows
            .map(({ fingerprint: _, trend: _trend, ...row }) => row)
            .sort((x, y) => (x.error < y.error ? -1 : 1)),
          [
            {
              workSpec: "s",
              error: "Error: timed out after … ms",
              count: 2,
              firstTime: start,
              lastTime: start + 1000,
              example: "a2",
              tries: 1,
            },
            {
              workSpec: "s",
              error: "KeyError: …",
              count: 1,
              firstTime: start + 1000,
              lastTime: start + 1000,
              example: "c",
              tries: 1,
            },
            {
              workSpec: "s",
              error: "TypeError: cannot read … of user …",
              count: 2,
              firstTime: start,
              lastTime: start + 1000,
              example: "b2",
              tries: 1,
            },
          ],
        );
        assert.equal(new Set(rows.map(({ fingerprint }) => fingerprint)).size, 3);
        assert.equal(rows[2]?.error, "KeyError: …", "the largest groups come first");
      },
    },
    {
      name: "a group says how many failed in each hour, also of units that are no longer failed, for 48 hours",
      async run(t) {
        const hour = 3_600_000;
        await t.spec("s");
        await t.advance(hour - (t.now % hour));
        const start = t.now;
        await failing(t, { a1: noisy.a1, a2: noisy.a2 });
        await t.advance(hour);
        await failing(t, { a3: noisy.a1 });
        assert.deepEqual((await failures(t))[0]?.trend, [
          { time: start, count: 2 },
          { time: start + hour, count: 1 },
        ]);
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a2"] });
        assert.deepEqual((await failures(t))[0]?.trend[0], { time: start, count: 2 });
        for (let i = 0; i < 50; i++) {
          await t.advance(hour);
          await failing(t, { [`b${i}`]: noisy.a1 });
        }
        const { trend = [] } = (await failures(t))[0] ?? {};
        assert.equal(trend.length, 48);
        assert.deepEqual(trend.at(-1), { time: t.now, count: 1 });
      },
    },
    {
      name: "retrying a group runs exactly its units again, and the group is gone",
      async run(t) {
        await t.spec("s");
        await failing(t, noisy);
        const [group] = (await failures(t)).filter(({ error }) => error.startsWith("TypeError"));
        const error = present(group).fingerprint;
        assert.equal((await t.c.countWorkUnits(t.ns, "s", { error })).failed, 2);
        const { rows } = await t.c.listWorkUnits(t.ns, "s", { error });
        assert.deepEqual(
          rows.map(({ name }) => name),
          ["b1", "b2"],
        );
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { error }), 2);
        assert.deepEqual(await t.claimNames(), ["b1", "b2"]);
        assert.deepEqual(await summary(t), [
          ["Error: timed out after … ms", 2],
          ["KeyError: …", 1],
        ]);
        assert.equal((await t.c.countWorkUnits(t.ns, "s", { error })).failed, 0);
      },
    },
    {
      name: "a group that was empty starts anew",
      async run(t) {
        await t.spec("s");
        await failing(t, { a: "Error: one" });
        const [old] = await failures(t);
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        await t.advance(5000);
        const start = t.now;
        await failing(t, { b: "Error: one" });
        assert.deepEqual(await failures(t), [
          { ...present(old), firstTime: start, lastTime: start, example: "b" },
        ]);
      },
    },
    {
      name: "groups follow what becomes of their units",
      async run(t) {
        await t.spec("s");
        await failing(t, { a: "Error: one", b: "Error: one", c: "Error: one", d: "Error: one" });
        assert.deepEqual(await summary(t), [["Error: one", 4]]);
        await t.add("s", "a");
        assert.deepEqual(await summary(t), [["Error: one", 3]]);
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["b"] });
        assert.deepEqual(await summary(t), [["Error: one", 2]]);
        const failed = present((await t.unit("s", "c")).activeAttempt);
        await t.settled(failed, "finish");
        assert.deepEqual(await summary(t), [["Error: one", 1]]);
        await t.c.setWorkUnitPriorities(t.ns, "s", { all: true }, { set: 5 });
        assert.deepEqual(await summary(t), [["Error: one", 1]]);
        await t.settled(await t.claimOne(), "fail", { data: encodeData({ traceback: "Error: two" }) });
        assert.deepEqual(
          new Set(await summary(t)),
          new Set([
            ["Error: one", 1],
            ["Error: two", 1],
          ]),
        );
        await t.c.deleteWorkUnits(t.ns, "s", { all: true });
        assert.deepEqual(await summary(t), []);
      },
    },
    {
      name: "units that failed in other ways have groups too",
      async run(t) {
        await t.spec("s", { max_retries: 2 });
        await t.add("s", "u");
        await t.add("s", { name: "after", dependencies: [{ workUnit: "u" }] });
        for (let i = 0; i < 2; i++) {
          await t.settled(await t.claimOne(), "error", { error: "Error: boom 17" });
          await t.advance(1000);
        }
        await t.add("s", "silent");
        await t.settled(await t.claimOne(), "fail");
        const rows = await failures(t);
        assert.deepEqual(
          new Set(rows.map(({ error, tries, example }) => `${error} ${tries} ${example}`)),
          new Set([
            "Error: boom … 2 u",
            "dependency … of work spec s failed 0 after",
            "no error was given 1 silent",
          ]),
        );
      },
    },
    {
      name: "the number of groups is bounded, and the rest goes under one heading",
      async run(t) {
        await t.spec("s");
        const word = (i: number): string =>
          `x${"abcdefghijklmnopqrstuvwxyz"[i % 26]}${"q".repeat(Math.floor(i / 26))}`;
        const kinds = Array.from({ length: maxFailureGroups + 5 }, (_, i) => [`u${i}`, `Error: ${word(i)}`]);
        await failing(t, Object.fromEntries(kinds) as Record<string, string>);
        const rows = await failures(t);
        assert.equal(rows.length, maxFailureGroups + 1);
        const [other] = rows;
        assert.deepEqual([other?.fingerprint, other?.error, other?.count], ["other", "other errors", 5]);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { error: "other" }), 5);
      },
    },
    {
      name: "a group is combined with other conditions",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a1", labels: ["red"] }, "a2", { name: "b1", labels: ["red"] }, "c1");
        for (const attempt of await t.claim({ number: 4 })) {
          const text = attempt.workUnit === "c1" ? "Error: other" : "Error: one";
          await t.settled(attempt, "fail", { data: encodeData({ traceback: text }) });
          await t.advance(10);
        }
        const [group] = await failures(t);
        const error = present(group).fingerprint;
        const since = present((await t.unit("s", "a2")).activeAttempt).endTime;
        const found = async (query: object): Promise<string[]> =>
          (await t.c.listWorkUnits(t.ns, "s", query)).rows.map(({ name }) => name);
        assert.deepEqual(await found({ error }), ["a1", "a2", "b1"]);
        assert.deepEqual(await found({ error, prefix: "a" }), ["a1", "a2"]);
        assert.deepEqual(await found({ error, label: "red" }), ["a1", "b1"]);
        assert.deepEqual(await found({ error, endedSince: since }), ["a2", "b1"]);
        assert.deepEqual(await found({ endedSince: since }), ["a2", "b1", "c1"]);
        assert.deepEqual(await found({ endedSince: since, label: "red" }), ["b1"]);
        assert.deepEqual(await found({ error, names: ["a1", "c1"] }), ["a1"]);
        assert.deepEqual(await found({ error, statuses: ["finished"] }), []);
        assert.deepEqual(await found({ error: "nothing" }), []);
        const page = await t.c.listWorkUnits(t.ns, "s", { error, limit: 2 });
        assert.equal(page.next, "a2");
        assert.deepEqual(await found({ error, previous: "a2" }), ["b1"]);
        const counts = await t.c.countWorkUnits(t.ns, "s", { endedSince: since });
        assert.equal(counts.failed, 3);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { error, label: "red" }), 2);
        assert.deepEqual(await found({}), ["a2", "c1"]);
      },
    },
    {
      name: "of one work spec, or of all in name order",
      async run(t) {
        await t.spec("b");
        await t.spec("a");
        await failing(t, { u: "Error: one" }, "a");
        await failing(t, { u: "Error: one", v: "Error: two" }, "b");
        const all = await t.c.listFailures(t.ns);
        assert.deepEqual(all.map(({ workSpec, error }) => `${workSpec} ${error}`).sort(), [
          "a Error: one",
          "b Error: one",
          "b Error: two",
        ]);
        assert.equal((await failures(t, "a")).length, 1);
        assert.equal(
          all[0]?.fingerprint,
          all.find(({ workSpec, error }) => workSpec === "b" && error === "Error: one")?.fingerprint,
        );
        await t.refuses("no_such_work_spec", failures(t, "nowhere"));
        assert.deepEqual(await t.c.listFailures(`${t.ns} that is not there`), []);
        await t.c.deleteWorkSpecs(t.ns, ["a"]);
        assert.deepEqual((await t.c.listFailures(t.ns)).length, 2);
      },
    },
    {
      name: "housekeeping groups what has failed, and nobody sees a difference",
      async run(t) {
        await t.spec("s", { retention: { failed: { max_count: 2 } } });
        await failing(t, { a: "Error: one", b: "Error: one", c: "Error: two" });
        await t.sweep();
        assert.deepEqual(
          (await summary(t)).map(([, count]) => count).reduce((x, y) => x + y, 0),
          2,
        );
        assert.equal((await t.counts("s")).failed, 2);
      },
    },
  ],
};
