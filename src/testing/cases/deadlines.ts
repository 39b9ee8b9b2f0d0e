import assert from "node:assert/strict";
import { decodeData, encodeData } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const second = 1000;
const minute = 60 * second;

/** Claims and finishes units one at a time; returns their names in order. */
async function drain(t: Context, number = 10): Promise<string[]> {
  const names: string[] = [];
  for (let i = 0; i < number; i++) {
    const [attempt] = await t.claim();
    if (attempt === undefined) break;
    names.push(attempt.workUnit);
    await t.settled(attempt, "finish");
  }
  return names;
}

async function tracebackOf(t: Context, unit: string): Promise<unknown> {
  return decodeData(present((await t.unit("s", unit)).data ?? undefined)).traceback;
}

export const deadlines: CaseGroup = {
  concept: "deadlines",
  cases: [
    {
      name: "a unit that is late goes before those of higher priority, and before its deadline it does not",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          { name: "a", priority: 9 },
          { name: "b", deadlineMs: minute },
          { name: "c", priority: 5 },
        );
        assert.equal((await t.claimOne()).workUnit, "a");
        await t.advance(minute);
        assert.deepEqual(await drain(t), ["b", "c"]);
      },
    },
    {
      name: "of several late units the one with the earliest deadline goes first",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          { name: "a", deadlineMs: 3 },
          { name: "b", deadlineMs: 1 },
          { name: "c", deadlineMs: 2 },
          { name: "d", priority: 100 },
        );
        await t.advance(minute);
        assert.deepEqual(await drain(t), ["b", "c", "a", "d"]);
      },
    },
    {
      name: "a late unit shows the priority that it was given, and its deadline",
      async run(t) {
        await t.spec("s");
        const deadline = t.now + second;
        await t.add("s", { name: "a", priority: 3, deadline });
        assert.equal((await t.unit("s", "a")).deadline, deadline);
        await t.advance(minute);
        const unit = await t.unit("s", "a");
        assert.deepEqual([unit.priority, unit.deadline, unit.status], [3, deadline, "available"]);
        await t.c.setWorkUnitPriorities(t.ns, "s", { all: true }, { adjust: 2 });
        assert.equal((await t.unit("s", "a")).priority, 5);
        await t.add("s", { name: "b", priority: 50 });
        assert.deepEqual(await drain(t), ["a", "b"]);
      },
    },
    {
      name: "a unit that was late before goes first again after a retry",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "b", deadlineMs: second }, { name: "a", priority: 9 });
        await t.advance(second);
        const attempt = await t.claimOne();
        assert.equal(attempt.workUnit, "b");
        await t.settled(attempt, "retry");
        assert.deepEqual(await drain(t), ["b", "a"]);
      },
    },
    {
      name: "a deadline that passes while the unit runs counts when it waits again",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "b", deadlineMs: minute });
        const attempt = await t.claimOne({ lifetimeMs: 10 * minute });
        await t.add("s", { name: "a", priority: 9 });
        await t.advance(2 * minute);
        await t.settled(attempt, "retry");
        assert.deepEqual(await drain(t), ["b", "a"]);
      },
    },
    {
      name: "a unit that nobody has begun by then fails as late",
      async run(t) {
        await t.spec("s");
        const expires = t.now + minute;
        await t.add("s", { name: "a", data: encodeData({ n: 1 }), expires }, "b");
        assert.equal((await t.unit("s", "a")).expires, expires);
        await t.advance(minute - 1);
        assert.equal((await t.unit("s", "a")).status, "available");
        await t.advance(1);
        const unit = await t.unit("s", "a");
        assert.deepEqual([unit.status, unit.reason, unit.attempts], ["failed", "late", 1]);
        assert.match(String(await tracebackOf(t, "a")), /^late: not begun by /);
        assert.deepEqual(await drain(t), ["b"]);
      },
    },
    {
      name: "it fails without a verb that meets it, too",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", expiresMs: second, queues: ["q"] });
        await t.advance(second);
        await t.sweep();
        assert.equal(await t.c.countMessages(t.ns, ["q"]).then(([count]) => count), 1);
      },
    },
    {
      name: "a delayed and a blocked unit can be late, and those that depend on it fail with it",
      async run(t) {
        await t.spec("s");
        await t.spec("other");
        await t.add("s", { name: "a", delayMs: 10 * minute, expiresMs: minute });
        await t.add("s", { name: "b", dependencies: [{ workUnit: "a", kind: "soft" }], expiresMs: second });
        await t.add("other", { name: "c", dependencies: [{ workSpec: "s", workUnit: "a" }] });
        await t.advance(second);
        assert.equal((await t.unit("s", "b")).reason, "late");
        await t.advance(minute);
        assert.equal((await t.unit("other", "c")).reason, "dependency");
        assert.equal((await t.unit("s", "a")).reason, "late");
      },
    },
    {
      name: "a unit that has begun is not late; given back after the time it is",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          { name: "a", expiresMs: second },
          { name: "b", expiresMs: second },
          { name: "c", expiresMs: second },
        );
        const [a, b] = await t.claim({ number: 3, lifetimeMs: minute });
        await t.advance(2 * second);
        assert.equal((await t.unit("s", "a")).status, "pending");
        await t.settled(present(a), "finish");
        assert.equal((await t.unit("s", "a")).status, "finished");
        await t.settled(present(b), "retry");
        assert.equal((await t.unit("s", "b")).reason, "late");
        // the lease of c ends
        await t.advance(minute);
        assert.equal((await t.unit("s", "c")).reason, "late");
      },
    },
    {
      name: "an error after the time it expires is final: the answer names no next try",
      async run(t) {
        await t.spec("s", { retry: { attempts: 5 } });
        await t.add("s", { name: "a", expiresMs: second });
        const attempt = await t.claimOne();
        await t.advance(2 * second);
        const { retry } = await t.settled(attempt, "error", { error: "x" });
        assert.equal(retry, undefined);
        assert.equal((await t.unit("s", "a")).reason, "late");
      },
    },
    {
      name: "whoever has a late unit done again has it done, and adding it again says anew when it is late",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", expiresMs: second }, { name: "b", expiresMs: second });
        await t.advance(second);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { names: ["a"] }), 1);
        assert.equal((await t.unit("s", "a")).status, "available");
        await t.add("s", { name: "b", expiresMs: minute });
        assert.equal((await t.unit("s", "b")).status, "available");
        await t.advance(minute);
        assert.equal((await t.unit("s", "b")).reason, "late");
        assert.equal((await t.unit("s", "a")).status, "available");
      },
    },
    {
      name: "an output says it in its metadata, in seconds",
      async run(t) {
        await t.spec("s", { then: "next" });
        await t.spec("next");
        await t.add("s", "a");
        const output = [
          ["x", {}, { deadline: 60 }],
          ["y", {}, { expires: 0.5, priority: 2 }],
        ];
        const attempt = await t.claimOne({ workSpecs: ["s"] });
        const at = t.now;
        await t.settled(attempt, "finish", { data: encodeData({ output }) });
        assert.equal((await t.unit("next", "x")).deadline, at + minute);
        assert.equal((await t.unit("next", "y")).expires, at + 500);
        await t.advance(500);
        assert.equal((await t.unit("next", "y")).reason, "late");
      },
    },
    {
      name: "partitions, too, hand out what is late first",
      async run(t) {
        await t.spec("s", { max_running_per_partition: 5 });
        await t.add(
          "s",
          { name: "a", partition: "p", priority: 9 },
          { name: "b", partition: "q", deadlineMs: second },
          { name: "c", partition: "p", deadlineMs: 2 * second },
        );
        await t.advance(minute);
        assert.deepEqual(await drain(t), ["b", "c", "a"]);
      },
    },
    {
      name: "a time and a span are not both given",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_argument", t.add("s", { name: "a", deadline: 5, deadlineMs: 5 }), /deadlineMs/);
        await t.refuses("bad_argument", t.add("s", { name: "a", expires: -1 }), /expires/);
      },
    },
  ],
};

export const aging: CaseGroup = {
  concept: "aging",
  cases: [
    {
      name: "explain tells that waiting units gain priority, and that a late one goes first",
      async run(t) {
        const reason = async (): Promise<string | undefined> => (await t.c.explain(t.ns))[0]?.reason;
        await t.spec("s");
        await t.add("s", "a", { name: "b", deadlineMs: minute });
        assert.equal(await reason(), "has available work units");
        await t.advance(minute);
        assert.equal(await reason(), "has available work units; a unit past its deadline goes first");
        await t.c.setWorkSpecMeta(t.ns, "s", { aging: 2 });
        assert.match(present(await reason()), /goes first; waiting units gain 2 priority per minute$/);
        await t.claimOne();
        assert.equal(await reason(), "has available work units; waiting units gain 2 priority per minute");
      },
    },
    {
      name: "a unit that has waited long goes before one of higher priority that came later",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "old", priority: 0 });
        await t.advance(5 * minute);
        await t.add("s", { name: "low", priority: 4 }, { name: "high", priority: 6 });
        assert.deepEqual(await drain(t), ["high", "old", "low"]);
      },
    },
    {
      name: "units of one time are in the order of their priorities, then of their names",
      async run(t) {
        await t.spec("s", { aging: 10 });
        await t.add("s", "b", "a", { name: "c", priority: 1 });
        assert.deepEqual(await drain(t), ["c", "a", "b"]);
      },
    },
    {
      name: "the priority that is shown is the one that was given, and changing it keeps what the unit has gained",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "old", priority: 1 });
        await t.advance(5 * minute);
        await t.add("s", { name: "new", priority: 5 });
        assert.equal((await t.unit("s", "old")).priority, 1);
        await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["old"] }, { set: -1 });
        assert.equal((await t.unit("s", "old")).priority, -1);
        // -1 plus the five gained by aging
        assert.deepEqual(await drain(t), ["new", "old"]);
      },
    },
    {
      name: "adding a waiting unit again keeps what it has gained, with the priority that it is given now",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "old", priority: 1 }, { name: "put off" });
        await t.advance(10 * minute);
        await t.add("s", { name: "old", priority: 2, data: encodeData({ again: true }) });
        await t.add("s", { name: "put off", delayMs: minute });
        assert.equal((await t.unit("s", "old")).priority, 2);
        await t.advance(minute);
        await t.add(
          "s",
          { name: "high", priority: 14 },
          { name: "new", priority: 12 },
          { name: "low", priority: 1 },
        );
        assert.deepEqual(await drain(t), ["high", "old", "new", "low", "put off"]);
      },
    },
    {
      name: "a unit that ended and is added again begins to gain anew",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", "old");
        await t.advance(10 * minute);
        assert.deepEqual(await drain(t), ["old"]);
        await t.add("s", "old", { name: "new", priority: 1 });
        assert.deepEqual(await drain(t), ["new", "old"]);
      },
    },
    {
      name: "a delayed unit that is added again without a delay gains from then on",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "early", delayMs: 10 * minute });
        await t.advance(minute);
        await t.add("s", "early");
        await t.advance(minute);
        await t.add("s", { name: "new", priority: 0.5 });
        assert.deepEqual(await drain(t), ["early", "new"]);
      },
    },
    {
      name: "a unit whose delay is ended by hand gains from then on, and one that is delayed by hand from the end of its delay on",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "early", delayMs: 60 * minute }, { name: "kept" }, { name: "later" });
        await t.advance(minute);
        await t.c.setWorkUnitDelays(t.ns, "s", { names: ["early", "kept"] }, 0);
        await t.c.setWorkUnitDelays(t.ns, "s", { names: ["later"] }, t.now + 10 * minute);
        await t.advance(10 * minute);
        await t.add("s", { name: "new", priority: 1 });
        assert.equal((await t.unit("s", "early")).priority, 0);
        assert.deepEqual(await drain(t), ["kept", "early", "new", "later"]);
      },
    },
    {
      name: "a unit that is retried by hand begins to gain anew, and a late one stays first",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", "again", { name: "late", deadlineMs: minute });
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "fail");
        await t.advance(10 * minute);
        await t.c.resetWorkUnits(t.ns, "s", { all: true });
        await t.add("s", { name: "new", priority: 1 });
        assert.equal((await t.unit("s", "again")).priority, 0);
        assert.deepEqual(await drain(t), ["late", "new", "again"]);
      },
    },
    {
      name: "a late unit that is added again without its deadline keeps its age",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "late", deadlineMs: minute });
        await t.advance(10 * minute);
        await t.add("s", "late", { name: "high", priority: 11 }, { name: "low", priority: 9 });
        assert.deepEqual(await drain(t), ["high", "late", "low"]);
      },
    },
    {
      name: "a late unit that has waited for another keeps its age, also by what its priority was changed",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", "first", {
          name: "late",
          deadlineMs: minute,
          dependencies: [{ workSpec: "s", workUnit: "first", kind: "hard" }],
        });
        await t.advance(10 * minute);
        await t.settled((await t.claim())[0]!, "finish");
        await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["late"] }, { set: 5 });
        await t.add(
          "s",
          { name: "late", priority: 5 },
          { name: "high", priority: 16 },
          { name: "low", priority: 14 },
        );
        assert.deepEqual(await drain(t), ["high", "late", "low"]);
      },
    },
    {
      name: "a delayed unit gains from the end of its delay on",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "later", delayMs: 4 * minute, priority: 0 });
        await t.advance(5 * minute);
        await t.add("s", { name: "new", priority: 2 });
        assert.deepEqual(await drain(t), ["new", "later"]);
      },
    },
    {
      name: "it can be turned on and off while units wait, and none is passed over for ever",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "first", priority: 1 });
        await t.c.setWorkSpecMeta(t.ns, "s", { aging: 2 });
        await t.advance(2 * minute);
        await t.add("s", { name: "second", priority: 4 });
        await t.c.setWorkSpecMeta(t.ns, "s", { aging: 0 });
        await t.advance(10 * minute);
        await t.add("s", { name: "third", priority: 4 }, { name: "fourth", priority: 6 });
        assert.equal((await t.unit("s", "third")).priority, 4);
        assert.deepEqual(await drain(t), ["fourth", "first", "second", "third"]);
      },
    },
    {
      name: "setting the work spec again keeps what units have gained",
      async run(t) {
        await t.spec("s", { aging: 1 });
        await t.add("s", { name: "old" });
        await t.advance(5 * minute);
        await t.spec("s", { aging: 1, desc: "again" });
        await t.add("s", { name: "new", priority: 4 });
        assert.deepEqual(await drain(t), ["old", "new"]);
      },
    },
    {
      name: "outputs gain, too",
      async run(t) {
        await t.spec("s", { then: "next" });
        await t.spec("next", { aging: 1 });
        await t.add("s", "a");
        await t.settled(await t.claimOne(), "finish", { data: encodeData({ output: ["x"] }) });
        await t.advance(3 * minute);
        await t.add("next", { name: "y", priority: 2 });
        assert.deepEqual(await drain(t), ["x", "y"]);
      },
    },
  ],
};
