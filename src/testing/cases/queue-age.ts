import assert from "node:assert/strict";
import { present, type CaseGroup, type Context } from "../stack.ts";

async function since(t: Context, spec = "s"): Promise<number | null> {
  const rows = await t.c.waitingSince(t.ns);
  return rows.find(({ workSpec }) => workSpec === spec)?.since ?? null;
}

export const queueAge: CaseGroup = {
  concept: "queue age",
  cases: [
    {
      name: "it is when the unit became available that has waited longest",
      async run(t) {
        await t.spec("s");
        assert.equal(await since(t), null);
        const start = t.now;
        await t.add("s", "late name");
        await t.advance(1000);
        await t.add("s", { name: "a", priority: 5 });
        assert.equal(await since(t), start);
        assert.equal((await t.claimOne()).workUnit, "a");
        assert.equal(await since(t), start);
        await t.claimOne();
        assert.equal(await since(t), null);
      },
    },
    {
      name: "a unit counts from when its delay was over, its lease ended, or it was given back",
      async run(t) {
        await t.spec("s");
        const start = t.now;
        await t.add("s", { name: "u", delayMs: 1000 });
        assert.equal(await since(t), null);
        await t.advance(3000);
        assert.equal(await since(t), start + 1000);
        await t.claimOne({ lifetimeMs: 2000 });
        await t.advance(5000);
        assert.equal(await since(t), start + 5000);
        const attempt = await t.claimOne();
        await t.advance(1000);
        await t.settled(attempt, "retry", { delayMs: 500 });
        await t.advance(1000);
        assert.equal(await since(t), start + 9500);
      },
    },
    {
      name: "a unit counts from when it was added again, reset, or let go by what it waited for",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", dependencies: [{ workUnit: "a" }] });
        await t.advance(1000);
        await t.settled(await t.claimOne(), "finish");
        assert.equal(await since(t), t.now);
        await t.advance(1000);
        await t.settled(await t.claimOne(), "fail");
        await t.advance(1000);
        await t.add("s", "a");
        assert.equal(await since(t), t.now);
        await t.claimOne();
        await t.advance(1000);
        await t.c.resetWorkUnits(t.ns, "s", { names: ["b"] });
        assert.equal(await since(t), t.now);
      },
    },
    {
      name: "a unit that waits and is added again has waited all the time",
      async run(t) {
        await t.spec("s");
        const start = t.now;
        await t.add("s", "a");
        await t.advance(1000);
        await t.add("s", "a");
        assert.equal(await since(t), start);
      },
    },
    {
      name: "of a great many, those next and last in the claim order are looked at",
      async run(t) {
        await t.spec("s");
        await t.spec("few");
        await t.add("few", "u");
        const start = t.now;
        await t.add("s", "zzz");
        await t.advance(1000);
        await t.c.addWorkUnits(
          t.ns,
          "s",
          Array.from({ length: 600 }, (_, i) => ({ name: `u${i}` })),
        );
        const rows = await t.c.waitingSince(t.ns);
        assert.deepEqual(rows, [
          { namespace: t.ns, workSpec: "few", since: start, exact: true },
          { namespace: t.ns, workSpec: "s", since: start, exact: false },
        ]);
        const all = await t.c.waitingSince();
        assert.deepEqual(
          all.filter(({ namespace }) => namespace === t.ns),
          rows,
        );
        assert.equal(present(rows[1]).since, start);
      },
    },
  ],
};
