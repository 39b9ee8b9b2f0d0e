import assert from "node:assert/strict";
import { encodeData, type WorkSpecMeta } from "../../core/index.ts";
import { table, type CaseGroup, type Context } from "../stack.ts";

/** The name of the unit of a run. */
const nameOf = (time: number): string => new Date(time).toISOString().replace(".000Z", "Z");

const minute = 60_000;
/** The n-th full minute after now. */
const minuteAfter = (t: Context, n = 1): number => (Math.floor(t.now / minute) + n) * minute;
/** Advances the clock to a time. */
const until = (t: Context, time: number): Promise<void> => t.advance(time - t.now);

const everyMinute = { every: 60 };
const names = async (t: Context, spec = "s"): Promise<string[]> => Object.keys(await t.statuses(spec));
const meta = async (t: Context): Promise<WorkSpecMeta> => (await t.getSpec("s")).meta;

export const schedules: CaseGroup = {
  concept: "schedules",
  cases: [
    {
      name: "a unit is made when its time has come and not before, named by that time, with empty data and priority 0",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        assert.equal((await meta(t)).nextRun, time);
        await until(t, time - 1);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        const attempt = await t.claimOne();
        assert.deepEqual([attempt.workUnit, attempt.data], [nameOf(time), encodeData({})]);
        assert.equal((await t.unit("s", attempt.workUnit)).priority, 0);
        const { nextRun, lastRun } = await meta(t);
        assert.deepEqual([nextRun, lastRun], [time + minute, time]);
      },
    },
    {
      name: "a unit is there for whoever looks, though nobody asked for work",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        await until(t, time + 5);
        assert.deepEqual(await t.statuses("s"), { [nameOf(time)]: "available" });
        assert.equal((await t.counts("s")).available, 1);
      },
    },
    {
      name: "housekeeping makes it too",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        await until(t, time);
        assert.ok((await t.sweep()).generated >= 1);
        assert.equal((await t.sweep()).generated, 0);
        assert.deepEqual(await names(t), [nameOf(time)]);
      },
    },
    {
      name: "each run is made once, also when its unit has ended or was deleted",
      async run(t) {
        await t.spec("s", { schedule: everyMinute });
        await until(t, minuteAfter(t));
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await t.claim(), []);
        await t.c.deleteWorkUnits(t.ns, "s", { all: true });
        await t.advance(minute - 1);
        assert.deepEqual(await names(t), []);
        await t.advance(1);
        assert.equal((await names(t)).length, 1);
      },
    },
    {
      name: "a unit of that name which exists is left as it is, and no other is made",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        await t.add("s", { name: nameOf(time), data: encodeData({ mine: 1 }) });
        await t.settled(await t.claimOne(), "finish");
        await until(t, time);
        assert.deepEqual(await t.statuses("s"), { [nameOf(time)]: "finished" });
        assert.equal((await meta(t)).nextRun, time + minute);
      },
    },
    {
      name: "who waits for work is given the unit at its time",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        const waiting = t.claim({ waitMs: 10 * minute });
        await t.untilWaiting(1);
        await until(t, time);
        assert.deepEqual(
          (await waiting).map(({ workUnit }) => workUnit),
          [nameOf(time)],
        );
      },
    },
    {
      name: "cron goes by the clock of its time zone",
      async run(t) {
        // Kolkata is 5:30 ahead of UTC, all year
        await t.spec("s", { schedule: { cron: "30 6 * * *", timezone: "Asia/Kolkata" } });
        const { nextRun } = await meta(t);
        assert.match(nameOf(nextRun), /T01:00:00Z$/);
        assert.ok(nextRun > t.now && nextRun <= t.now + 24 * 60 * minute);
        await until(t, nextRun);
        assert.deepEqual(await names(t), [nameOf(nextRun)]);
      },
    },
    {
      name: "dates: one unit for each, none for those that have passed, and then never again",
      async run(t) {
        const times = [t.now - 5000, t.now + 2000, t.now + 1000];
        await t.spec("s", { schedule: { at: times.map((time) => time / 1000), catch_up: 10 } });
        await t.advance(minute);
        assert.deepEqual(await names(t), [nameOf(t.now - minute + 1000), nameOf(t.now - minute + 2000)]);
        assert.equal((await meta(t)).nextRun, 0);
        const [why] = await t.c.explain(t.ns);
        assert.equal(why?.excluded, null);
      },
    },
    {
      name: "no run before start, which an interval is counted from, and none after end",
      async run(t) {
        const start = t.now + 1500;
        await t.spec("s", {
          schedule: { every: 10, start: start / 1000, end: (start + 20_000) / 1000, catch_up: 100 },
        });
        await t.advance(5 * minute);
        assert.deepEqual(
          await names(t),
          [0, 10_000, 20_000].map((after) => nameOf(start + after)),
        );
        assert.equal((await meta(t)).nextRun, 0);
      },
    },
    ...table(
      [
        { catch_up: undefined, made: [5] },
        { catch_up: "one", made: [5] },
        { catch_up: 3, made: [3, 4, 5] },
        { catch_up: 100, made: [1, 2, 3, 4, 5] },
      ],
      ({ catch_up }) => `after an outage, catch_up ${catch_up ?? "not given"} makes the latest runs`,
      async (t, { catch_up, made }) => {
        const first = minuteAfter(t);
        await t.spec("s", { schedule: { ...everyMinute, ...(catch_up !== undefined && { catch_up }) } });
        await until(t, first + 4 * minute + 1);
        assert.deepEqual(
          await names(t),
          made.map((n) => nameOf(first + (n - 1) * minute)),
        );
        assert.equal((await meta(t)).nextRun, first + 5 * minute);
      },
    ),
    {
      name: "catch_up skip makes up for no run that is more than a minute late, and makes one that is not",
      async run(t) {
        const first = minuteAfter(t);
        await t.spec("s", { schedule: { every: 120, start: first / 1000, catch_up: "skip" } });
        await until(t, first + 2 * minute + minute + 1);
        assert.deepEqual(await names(t), []);
        assert.equal((await meta(t)).nextRun, first + 4 * minute);
        await until(t, first + 4 * minute + minute);
        assert.deepEqual(await names(t), [nameOf(first + 4 * minute)]);
      },
    },
    {
      name: "a paused spec makes no runs; when it goes on, they are made up for",
      async run(t) {
        const first = minuteAfter(t);
        await t.spec("s", { schedule: { ...everyMinute, catch_up: 2 } });
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: true });
        await until(t, first + 3 * minute);
        assert.deepEqual(await names(t), []);
        assert.deepEqual(await t.claim(), []);
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: false });
        assert.deepEqual(await names(t), [nameOf(first + 2 * minute), nameOf(first + 3 * minute)]);
      },
    },
    {
      name: "overlap allow makes a unit while the one before runs",
      async run(t) {
        await t.spec("s", { schedule: everyMinute });
        await until(t, minuteAfter(t));
        await t.claimOne();
        await t.advance(minute);
        assert.equal((await t.claim()).length, 1);
      },
    },
    {
      name: "overlap skip makes none while the one before has not ended, available or running",
      async run(t) {
        const first = minuteAfter(t);
        await t.spec("s", { schedule: { ...everyMinute, overlap: "skip", catch_up: 5 } });
        await until(t, first + minute);
        assert.deepEqual(await names(t), [nameOf(first + minute)]);
        await t.advance(minute);
        assert.equal((await names(t)).length, 1);
        const attempt = await t.claimOne();
        await t.advance(minute);
        assert.equal((await names(t)).length, 1);
        await t.settled(attempt, "finish");
        assert.deepEqual(await t.claim(), []);
        await t.advance(minute);
        assert.deepEqual(await names(t), [nameOf(first + minute), nameOf(first + 4 * minute)]);
      },
    },
    {
      name: "overlap wait makes one that waits until the one before has ended, and no more meanwhile",
      async run(t) {
        const first = minuteAfter(t);
        const [a, b, c, d] = [0, 1, 2, 3].map((n) => nameOf(first + n * minute));
        await t.spec("s", { schedule: { ...everyMinute, overlap: "wait" } });
        await until(t, first);
        const attempt = await t.claimOne();
        await t.advance(minute);
        assert.deepEqual(await t.statuses("s"), { [a!]: "pending", [b!]: "blocked" });
        await t.advance(minute);
        assert.deepEqual(Object.keys(await t.statuses("s")), [a, b]);
        await t.settled(attempt, "fail");
        assert.deepEqual(await t.claimNames(), [b]);
        await t.advance(minute);
        assert.deepEqual(await t.statuses("s"), { [a!]: "failed", [b!]: "pending", [d!]: "blocked" });
        assert.ok(c! < d!);
      },
    },
    {
      name: "jitter delays the unit by less than it says, always by the same",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: { ...everyMinute, jitter: 30 } });
        await until(t, time);
        const unit = await t.unit("s", nameOf(time));
        assert.ok(unit.notBefore >= time && unit.notBefore < time + 30_000);
        assert.equal(unit.status, unit.notBefore > time ? "delayed" : "available");
        await t.advance(30_000);
        assert.deepEqual(await t.claimNames(), [nameOf(time)]);
      },
    },
    {
      name: "setting the spec again with the same times loses no run; with others it begins anew",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        await until(t, time + 10);
        await t.spec("s", { schedule: { ...everyMinute, catch_up: 5 }, weight: 3 });
        assert.deepEqual(await names(t), [nameOf(time)]);
        await t.spec("s", { schedule: { every: 120 } });
        assert.equal((await meta(t)).nextRun % (2 * minute), 0);
        await t.spec("s");
        const { nextRun, lastRun, schedule } = await meta(t);
        assert.deepEqual([nextRun, lastRun, schedule], [0, 0, {}]);
      },
    },
    {
      name: "explain says when the next run is",
      async run(t) {
        const time = minuteAfter(t);
        await t.spec("s", { schedule: everyMinute });
        const [why] = await t.c.explain(t.ns);
        assert.equal(why?.excluded, "schedule_not_due");
        assert.match(why.reason, new RegExp(new Date(time).toISOString().replaceAll(".", "\\.")));
        await until(t, time);
        assert.equal((await t.c.explain(t.ns))[0]?.excluded, null);
      },
    },
    ...table(
      [
        [{ cron: "61 * * * *" }, /schedule\.cron: "61 \* \* \* \*" is not a cron expression/],
        [{ cron: "0 3 * *" }, /schedule\.cron: /],
        [{ cron: "? * * * *" }, /schedule\.cron: \? /],
        [{ cron: 3 }, /schedule\.cron: expected a string, got 3/],
        [{ cron: "0 3 * * *", timezone: "Mars/Olympus" }, /schedule\.timezone: .*"Mars\/Olympus"/],
        [{ every: 60, timezone: "UTC" }, /schedule\.timezone: allowed only with cron/],
        [{ every: 0.5 }, /schedule\.every: /],
        [{ at: [] }, /schedule\.at: /],
        [{ at: ["tomorrow"] }, /schedule\.at\[0\]: expected a time with an offset/],
        [{ every: 60, at: [1] }, /schedule: expected only one of cron, every and at/],
        [{ crn: "0 3 * * *" }, /schedule: expected one of cron, every and at/],
        [
          { every: 60, overlap: "never" },
          /schedule\.overlap: expected one of allow, skip, wait, got "never"/,
        ],
        [{ every: 60, catch_up: "all" }, /schedule\.catch_up: expected .* or one of skip, one, got "all"/],
        [{ every: 60, catch_up: 1001 }, /schedule\.catch_up: /],
        [{ every: 60, start: 100, end: 50 }, /schedule\.end: expected a time at or after start/],
        ["daily", /schedule: expected an object, got "daily"/],
      ] as const,
      ([schedule]) => `is refused, and nothing stored: ${JSON.stringify(schedule)}`,
      async (t, [schedule, mentions]) => {
        await t.refuses("bad_work_spec", t.spec("s", { schedule }), mentions);
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, ["s"]), [null]);
      },
    ),
    {
      name: "a continuous spec has no schedule",
      async run(t) {
        await t.refuses(
          "bad_work_spec",
          t.spec("s", { continuous: true, schedule: everyMinute }),
          /continuous/,
        );
      },
    },
    {
      name: "a schedule of another shape is the data of a client that does not know schedules",
      async run(t) {
        for (const schedule of ["daily", { hour: 3 }, { cron: "later" }, { every: "day" }]) {
          const data = encodeData({ name: "s", schedule });
          const [row] = await t.c.setWorkSpecs(t.ns, [{ data }], { lenient: true });
          assert.deepEqual([row?.meta.schedule, row?.meta.nextRun, row?.data], [{}, 0, data]);
        }
      },
    },
  ],
};
