import assert from "node:assert/strict";
import { encodeData, type History, type HistoryPoint, type HistoryQuery } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const step = 10_000;
const minute = 60_000;
const hour = 60 * minute;

/** Starts a new step, with everything before it recorded. */
async function beginStep(t: Context): Promise<number> {
  await t.advance(step - (t.now % step));
  await t.sweep();
  return t.now;
}

/** Ends the step and records it. */
async function endStep(t: Context): Promise<void> {
  await t.advance(step - (t.now % step));
  await t.sweep();
  // records are assumed complete two seconds after the end of a step
  await t.advance(2000);
}

const read = (t: Context, query?: HistoryQuery): Promise<History> => t.c.history(t.ns, query);

async function pointsOf(t: Context, workSpec: string | null, from: number): Promise<HistoryPoint[]> {
  const query = workSpec === null ? { from } : { from, workSpecs: [workSpec] };
  const { series } = await read(t, { ...query, points: 3000 });
  return present(series.find((one) => one.workSpec === workSpec)).points;
}

/** The counts of a spec, or of the namespace, since a time. */
async function countsOf(t: Context, workSpec: string | null, from: number): Promise<Record<string, number>> {
  const sum: Record<string, number> = {};
  for (const point of await pointsOf(t, workSpec, from))
    for (const what of ["added", "started", "finished", "failed", "retried", "expired", "late"] as const)
      if (point[what] > 0) sum[what] = (sum[what] ?? 0) + point[what];
  return sum;
}

const near = (value: number | undefined, wanted: number): void =>
  assert.ok(
    value !== undefined && Math.abs(value - wanted) <= 0.11 * wanted,
    `${String(value)} is not about ${wanted}`,
  );

export const history: CaseGroup = {
  concept: "history",
  cases: [
    {
      name: "counts what happens to the units of a work spec, and of the namespace",
      async run(t) {
        await t.spec("s");
        await t.spec("other");
        const from = await beginStep(t);
        await t.add("s", "a", "b", "c", "d");
        await t.add("other", "x");
        const [a, b, c] = await t.claim({ number: 3, workSpecs: ["s"], lifetimeMs: 1000 });
        await t.settled(present(a), "finish");
        await t.settled(present(b), "fail");
        await t.settled(present(c), "retry");
        await t.claim({ number: 1, workSpecs: ["s"], lifetimeMs: 1000 });
        await t.advance(1000);
        // finished and failed units that are added again count as added; a waiting unit does not
        await t.add("s", "a", "b", "d");
        await endStep(t);
        const counts = { added: 6, started: 4, finished: 1, failed: 1, retried: 1, expired: 1 };
        assert.deepEqual(await countsOf(t, "s", from), counts);
        assert.deepEqual(await countsOf(t, "other", from), { added: 1 });
        assert.deepEqual(await countsOf(t, null, from), { ...counts, added: 7 });
      },
    },
    {
      name: "counts units that are late, whether they go first or fail",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", { name: "a", deadlineMs: 1000 }, { name: "b", expiresMs: 1000 }, "c");
        await t.advance(1000);
        assert.equal(await t.status("s", "b"), "failed");
        await endStep(t);
        assert.deepEqual(await countsOf(t, "s", from), { added: 3, failed: 1, late: 2 });
      },
    },
    {
      name: "counts a late unit once, also when it goes first and then fails",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", { name: "a", deadlineMs: 500, expiresMs: 1000 });
        await t.advance(500);
        assert.equal(await t.status("s", "a"), "available");
        await t.advance(500);
        assert.equal(await t.status("s", "a"), "failed");
        await endStep(t);
        assert.deepEqual(await countsOf(t, "s", from), { added: 1, failed: 1, late: 1 });
      },
    },
    {
      name: "counts many units of one call",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", ...Array.from({ length: 1200 }, (_, i) => `u${i}`));
        const attempts = await t.claim({ number: 700 });
        assert.equal(attempts.length, 700);
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }, i) => ({ attempt: id, action: i < 600 ? "finish" : "fail" })),
        );
        await endStep(t);
        const counts = { added: 1200, started: 700, finished: 600, failed: 100 };
        assert.deepEqual(await countsOf(t, "s", from), counts);
      },
    },
    {
      name: "counts what follows: outputs of a finish, and units that fail by a dependency or by too many tries",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.spec("third", { max_retries: 1 });
        const from = await beginStep(t);
        await t.add("first", "a", "b");
        await t.add("second", { name: "waits", dependencies: [{ workSpec: "first", workUnit: "b" }] });
        await t.add("third", "c");
        for (const attempt of await t.claim({ number: 2, workSpecs: ["first"] }))
          await t.settled(
            attempt,
            attempt.workUnit === "a" ? "finish" : "fail",
            attempt.workUnit === "a" ? { data: encodeData({ output: { x: {}, y: {} } }) } : {},
          );
        await t.settled(await t.claimOne({ workSpecs: ["third"] }), "retry");
        await t.sweep();
        await endStep(t);
        assert.deepEqual(await countsOf(t, "first", from), { added: 2, started: 2, finished: 1, failed: 1 });
        assert.deepEqual(await countsOf(t, "second", from), { added: 3, failed: 1 });
        assert.deepEqual(await countsOf(t, "third", from), { added: 1, started: 1, retried: 1, failed: 1 });
      },
    },
    {
      name: "knows how long attempts took and how long units had waited, to within a tenth",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", "a", "b", { name: "later", delayMs: 2000 });
        await t.advance(500);
        const [first] = await t.claim({ number: 1 });
        await t.advance(1000);
        const [second] = await t.claim({ number: 1 });
        await t.settled(present(first), "finish");
        await t.advance(2000);
        const [third] = await t.claim({ number: 1 });
        await t.settled(present(second), "fail");
        await t.settled(present(third), "finish");
        await endStep(t);
        const [point] = await pointsOf(t, "s", from);
        const { wait, duration } = present(point);
        assert.equal(wait?.count, 3);
        near(wait.p50, 1500);
        near(wait.p99, 1500);
        assert.equal(duration?.count, 3);
        near(duration.p50, 1000);
        near(duration.p90, 2000);
      },
    },
    {
      name: "shows what ran and waited at the end of each step, and how long the oldest had waited",
      async run(t) {
        await t.spec("s");
        await t.spec("idle");
        const from = await beginStep(t);
        await t.add("s", "a", "b", "c", { name: "d", delayMs: hour });
        await t.claim({ number: 1 });
        await endStep(t);
        await t.claim({ number: 1 });
        await endStep(t);
        const [first, second] = await pointsOf(t, "s", from);
        assert.deepEqual(
          [first?.running, first?.waiting, first?.delayed, first?.blocked, first?.oldestMs],
          [1, 2, 1, 0, step],
        );
        assert.deepEqual([second?.running, second?.waiting, second?.oldestMs], [2, 1, 2 * step]);
        const whole = await pointsOf(t, null, from);
        assert.deepEqual([whole[0]?.running, whole[0]?.waiting, whole[0]?.oldestMs], [1, 2, step]);
        assert.deepEqual(await pointsOf(t, "idle", from), []);
      },
    },
    {
      name: "what happens goes into the step in which it happened, however late it is recorded",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", "a");
        await t.advance(step);
        await t.add("s", "b", "c");
        await t.advance(2 * step);
        await t.add("s", "d");
        await endStep(t);
        const points = await pointsOf(t, "s", from);
        assert.deepEqual(
          points.filter(({ added }) => added > 0).map(({ time, added }) => [time - from, added]),
          [
            [0, 1],
            [step, 2],
            [3 * step, 1],
          ],
        );
        // a second sweep with nothing new counts nothing twice
        await t.sweep();
        assert.deepEqual(await countsOf(t, "s", from), { added: 4 });
      },
    },
    {
      name: "older records are coarser: a minute after two hours, a quarter of an hour after a day",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", "a");
        await t.advance(step);
        await t.add("s", "b");
        await endStep(t);
        const inSteps = async (stepMs: number): Promise<void> => {
          const answer = await read(t, { workSpecs: ["s"], from, to: from + minute, points: 3000 });
          assert.equal(answer.stepMs, stepMs);
          const added = answer.series[0]?.points.reduce((sum, point) => sum + point.added, 0);
          assert.equal(added, 2);
        };
        await inSteps(step);
        await t.advance(2 * hour);
        await t.sweep();
        await inSteps(minute);
        await t.advance(24 * hour);
        await t.sweep();
        await inSteps(15 * minute);
        // and deleted after a month; a store with many records deletes some of them with each step
        await t.advance(31 * 24 * hour);
        for (let left = 1, steps = 0; left > 0; steps++) {
          assert.ok(steps < 100, "the record of a month ago is still there");
          await t.sweep();
          await endStep(t);
          const { series } = await read(t, { workSpecs: ["s"], from, to: from + hour });
          left = series[0]?.points.length ?? 0;
        }
      },
    },
    {
      name: "a long time comes in few points, and no count is lost by it",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        for (const name of ["a", "b", "c", "d", "e", "f"]) {
          await t.add("s", name);
          await t.advance(7 * minute);
        }
        await endStep(t);
        const answer = await read(t, { workSpecs: ["s"], from, points: 10 });
        const points = present(answer.series[0]).points;
        assert.ok(points.length <= 12, `${points.length} points`);
        assert.equal(answer.stepMs % step, 0);
        assert.ok(points.every(({ time }) => time % answer.stepMs === 0));
        assert.equal(
          points.reduce((sum, { added }) => sum + added, 0),
          6,
        );
      },
    },
    {
      name: "changes of a work spec are marks, and setting the same again is none",
      async run(t) {
        const from = await beginStep(t);
        await t.spec("s", { weight: 20 });
        await t.spec("s", { weight: 20 });
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: true });
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: false });
        await t.c.setWorkSpecMeta(t.ns, "s", { weight: 40 });
        const { now } = t;
        await endStep(t);
        const changes = (await pointsOf(t, "s", from)).flatMap((point) => point.changes);
        assert.deepEqual(
          changes,
          ["set", "paused", "resumed", "weight 40"].map((what) => ({ time: now, workSpec: "s", what })),
        );
        assert.deepEqual((await pointsOf(t, null, from)).flatMap((point) => point.changes).length, 4);
      },
    },
    {
      name: "changes are marks of their own work spec, also where its name and that of the namespace, put together, are those of another",
      async run(t) {
        await t.spec("a\u0000b");
        await t.c.setWorkSpecs(`${t.ns}\u0000a`, [{ data: encodeData({ name: "b" }) }]);
        const from = await beginStep(t);
        await t.c.setWorkSpecMeta(t.ns, "a\u0000b", { paused: true });
        await endStep(t);
        const changes = (await pointsOf(t, "a\u0000b", from)).flatMap((point) => point.changes);
        assert.deepEqual(
          changes.map(({ what }) => what),
          ["paused"],
        );
      },
    },
    {
      name: "a series for every work spec, beside that of the namespace",
      async run(t) {
        await t.spec("b");
        await t.spec("a");
        const from = await beginStep(t);
        await t.add("a", "u");
        await endStep(t);
        const { series } = await read(t, { each: true, lastMs: t.now - from });
        assert.deepEqual(
          series.map(({ workSpec, points }) => [workSpec, points.reduce((sum, { added }) => sum + added, 0)]),
          [
            [null, 1],
            ["a", 1],
            ["b", 0],
          ],
        );
      },
    },
    {
      name: "a work spec that was deleted and made again has a history of its own",
      async run(t) {
        await t.spec("s");
        const from = await beginStep(t);
        await t.add("s", "a");
        await endStep(t);
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        await t.refuses("no_such_work_spec", read(t, { workSpecs: ["s"] }));
        await t.spec("s");
        assert.deepEqual(await pointsOf(t, "s", from), []);
        // the counts of the namespace stay
        assert.deepEqual(await countsOf(t, null, from), { added: 1 });
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await pointsOf(t, null, from), []);
      },
    },
    {
      name: "refuses what makes no sense, and says what",
      async run(t) {
        await t.spec("s");
        const { now } = t;
        await t.refuses("bad_argument", read(t, { from: now, to: now - 1 }), /from/);
        await t.refuses("bad_argument", read(t, { from: now + hour }), /from/);
        await t.refuses("bad_argument", read(t, { from: now - hour, lastMs: hour }), /lastMs/);
        await t.refuses("bad_argument", read(t, { lastMs: 0 }), /from/);
        await t.refuses("bad_argument", read(t, { points: 0 }), /points/);
        await t.refuses("no_such_work_spec", read(t, { workSpecs: ["missing"] }), /missing/);
      },
    },
  ],
};
