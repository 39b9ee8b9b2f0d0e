/** Weights as shares of worker time, and the shares that `explain` reports. */
import assert from "node:assert/strict";
import type { AttemptAction, AttemptChange, Explained } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

/** Measurements are read again after this long. */
const readingMs = 2000;
const step = 10_000;

/** Runs one unit of a work spec for this long, and settles it. */
async function work(
  t: Context,
  spec: string,
  ms: number,
  action: AttemptAction = "finish",
  more: Partial<AttemptChange> = {},
): Promise<void> {
  const attempt = await t.claimOne({ workSpecs: [spec] });
  await t.advance(ms);
  await t.settled(attempt, action, more);
}

const units = (spec: string, number = 10): string[] =>
  Array.from({ length: number }, (_, i) => `${spec}${i}`);

async function specs(t: Context, all: Record<string, object>): Promise<void> {
  for (const [name, keys] of Object.entries(all)) {
    await t.spec(name, { ...keys });
    await t.add(name, ...units(name));
  }
}

async function explained(t: Context): Promise<Record<string, Explained>> {
  return Object.fromEntries((await t.c.explain(t.ns)).map((one) => [one.workSpec, one]));
}

async function told<Key extends keyof Explained>(
  t: Context,
  key: Key,
): Promise<Record<string, Explained[Key]>> {
  return Object.fromEntries((await t.c.explain(t.ns)).map((one) => [one.workSpec, one[key]]));
}

/** Compares numbers approximately; sums that were stored and read are not exact to the last digit. */
function near(actual: Record<string, number | null>, expected: Record<string, number>): void {
  assert.deepEqual(Object.keys(actual), Object.keys(expected));
  for (const [name, value] of Object.entries(expected))
    assert.ok(Math.abs((actual[name] ?? NaN) - value) < 0.001, `${name}: ${actual[name]} is not ${value}`);
}

const second = (t: Context): Promise<void> => t.advance(readingMs);

export const shares: CaseGroup = {
  concept: "shares",
  cases: [
    {
      name: "weights are shares of choices, until the namespace says that they are shares of time",
      async run(t) {
        await specs(t, { long: {}, short: {} });
        await work(t, "long", 50);
        await work(t, "short", 5);
        assert.deepEqual(await told(t, "share"), { long: "choices", short: "choices" });
        near(await told(t, "chance"), { long: 0.5, short: 0.5 });
        await t.c.setNamespace(t.ns, { share: "time" });
        assert.equal((await t.c.getNamespace(t.ns)).settings.share, "time");
        await second(t);
        assert.deepEqual(await told(t, "share"), { long: "time", short: "time" });
        near(await told(t, "chance"), { long: 1 / 11, short: 10 / 11 });
        await t.c.setNamespace(t.ns, { share: "choices" });
        near(await told(t, "chance"), { long: 0.5, short: 0.5 });
      },
    },
    {
      name: "a share of something else is refused",
      async run(t) {
        await t.refuses("bad_argument", t.c.setNamespace(t.ns, { share: "money" as "time" }), /share/);
        assert.equal((await t.c.getNamespace(t.ns)).settings.share, "choices");
      },
    },
    {
      name: "with shares of time, the draw goes by the weight over the average duration",
      async run(t) {
        await specs(t, { a: { weight: 1 }, b: { weight: 3 } });
        await t.c.setNamespace(t.ns, { share: "time" });
        for (const ms of [40, 60]) await work(t, "a", ms);
        await work(t, "b", 5);
        await second(t);
        // weight by mean duration: 1 / 50 to 3 / 5
        const chance = 1 / 31;
        near(await told(t, "chance"), { a: chance, b: 1 - chance });
        t.draws(chance - 0.001, chance + 0.001);
        const first = await t.claimOne();
        await t.settled(first, "expire");
        assert.deepEqual([first.workSpec, (await t.claimOne()).workSpec], ["a", "b"]);
      },
    },
    {
      name: "explain tells the target and the measured share: of time, or of choices",
      async run(t) {
        await specs(t, { a: { weight: 1 }, b: { weight: 3 }, paused: {} });
        await work(t, "a", 300);
        for (let i = 0; i < 4; i++) await work(t, "b", 25);
        await t.c.setWorkSpecMeta(t.ns, "paused", { paused: true });
        await second(t);
        near(await told(t, "targetShare"), { a: 0.25, b: 0.75, paused: 0 });
        near(await told(t, "measuredShare"), { a: 0.2, b: 0.8, paused: 0 });
        await t.c.setNamespace(t.ns, { share: "time" });
        near(await told(t, "targetShare"), { a: 0.25, b: 0.75, paused: 0 });
        near(await told(t, "measuredShare"), { a: 0.75, b: 0.25, paused: 0 });
        assert.deepEqual(await told(t, "meanMs"), { a: 300, b: 25, paused: null });
      },
    },
    {
      name: "without a measurement there is no measured share, and weights alone decide",
      async run(t) {
        await specs(t, { a: { weight: 1 }, b: { weight: 3 } });
        await t.c.setNamespace(t.ns, { share: "time" });
        near(await told(t, "chance"), { a: 0.25, b: 0.75 });
        assert.deepEqual(await told(t, "measuredShare"), { a: null, b: null });
        assert.deepEqual(await told(t, "meanMs"), { a: null, b: null });
      },
    },
    {
      name: "a work spec that was not measured is taken for an average one",
      async run(t) {
        await specs(t, { a: {}, b: {}, fresh: {} });
        await t.c.setNamespace(t.ns, { share: "time" });
        await work(t, "a", 10);
        await work(t, "b", 30);
        await second(t);
        const { a, b, fresh } = await explained(t);
        near(
          { a: a?.score ?? 0, b: b?.score ?? 0, fresh: fresh?.score ?? 0 },
          { a: 2, b: 20 / 30, fresh: 1 },
        );
      },
    },
    {
      name: "what runs now counts: a work spec with a whole unit more than its share is passed over",
      async run(t) {
        await specs(t, { a: {}, b: {} });
        await t.c.setNamespace(t.ns, { share: "time" });
        await t.claim({ workSpecs: ["a"], number: 2 });
        near(await told(t, "chance"), { a: 0.5, b: 0.5 });
        await t.claim({ workSpecs: ["a"], number: 1 });
        // a has all three that run, and its share is half of the four that will
        assert.deepEqual(await told(t, "excluded"), { a: "enough_running", b: null });
        t.draws(0);
        assert.equal((await t.claimOne()).workSpec, "b");
      },
    },
    {
      name: "time of attempts that are tried again counts; that of expired ones and of untried ones does not",
      async run(t) {
        await specs(t, { error: {}, expired: {}, fail: {}, retry: {}, untried: {} });
        await work(t, "error", 100, "error");
        await work(t, "fail", 200, "fail");
        await work(t, "retry", 300, "retry");
        await work(t, "untried", 500, "retry", { untried: true });
        await t.claimOne({ workSpecs: ["expired"], lifetimeMs: 1000 });
        await t.advance(readingMs);
        assert.deepEqual(await told(t, "meanMs"), {
          error: 100,
          expired: null,
          fail: 200,
          retry: 300,
          untried: null,
        });
      },
    },
    {
      name: "what is written to the history counts as what has just happened, and the older the less",
      async run(t) {
        await specs(t, { a: {}, b: {} });
        await work(t, "a", 100);
        await work(t, "b", 100);
        await t.advance(step);
        await t.sweep();
        await second(t);
        near(await told(t, "measuredShare"), { a: 0.5, b: 0.5 });
        // records lose half their weight per minute: after eight minutes the first ones hardly count
        await t.advance(8 * 60_000);
        await work(t, "a", 1000);
        await second(t);
        const { a } = await explained(t);
        assert.ok((a?.meanMs ?? 0) > 900 && (a?.meanMs ?? 0) < 1000, `${a?.meanMs} is not nearly 1000`);
      },
    },
    {
      name: "the average duration is remembered for a day",
      async run(t) {
        await specs(t, { a: {}, b: {} });
        await work(t, "a", 100);
        await t.advance(step);
        await t.sweep();
        await t.advance(6 * 3_600_000);
        assert.deepEqual(await told(t, "meanMs"), { a: 100, b: null });
        assert.deepEqual(await told(t, "measuredShare"), { a: null, b: null });
      },
    },
    {
      name: "the python policy divides time too",
      async run(t) {
        await specs(t, { a: {}, b: { continuous: true, interval: 1 } });
        await t.c.setNamespace(t.ns, { policy: "python", share: "time" });
        await work(t, "a", 100);
        await work(t, "b", 10);
        await second(t);
        // weight by mean duration, a continuous spec with a twentieth: 20 / 100 to 20 / 20 / 10
        near(await told(t, "chance"), { a: 2 / 3, b: 1 / 3 });
      },
    },
    {
      name: "over many requests the times of workers match the weights",
      async run(t) {
        await t.spec("long", { weight: 1 });
        await t.spec("short", { weight: 1 });
        await t.add("long", ...units("l", 200));
        await t.add("short", ...units("s", 400));
        await t.c.setNamespace(t.ns, { share: "time" });
        let draw = 0;
        present(t.subject.setRandom)(() => (draw = (draw + 0.618034) % 1));
        await work(t, "long", 50);
        await work(t, "short", 5);
        await second(t);
        const spent: Record<string, number> = { long: 0, short: 0 };
        for (let i = 0; i < 110; i++) {
          const attempt = await t.claimOne();
          const ms = attempt.workSpec === "long" ? 50 : 5;
          await t.advance(ms);
          await t.settled(attempt, "finish");
          spent[attempt.workSpec] = (spent[attempt.workSpec] ?? 0) + ms;
        }
        assert.ok(Math.abs((spent.long ?? 0) - 500) <= 100, `${spent.long} ms of ${JSON.stringify(spent)}`);
      },
    },
  ],
};
