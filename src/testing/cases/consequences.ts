/**
 * What follows from the end of a unit: dependents that are released or fail, messages, and the order of all this.
 *
 * Units end in the order of the changes of a call. Their consequences follow, level by level, each level in the order of unit
 * ids. Before a change to a unit, the pending consequences of earlier changes for that unit are applied.
 */
import assert from "node:assert/strict";
import {
  decodeData,
  encodeData,
  type AttemptRow,
  type DependencyInput,
  type WorkUnitInput,
} from "../../core/index.ts";
import { present, table, type Case, type CaseGroup, type Context } from "../stack.ts";

/** A unit that depends on others and sends a message to the queue `q` when it ends. */
const after = (name: string, ...dependencies: (string | DependencyInput)[]): WorkUnitInput => ({
  name,
  queues: ["q"],
  dependencies: dependencies.map((one) => (typeof one === "string" ? { workUnit: one } : one)),
});
const soft = (workUnit: string): DependencyInput => ({ workUnit, kind: "soft" });
const plain = (name: string): WorkUnitInput => ({ name, queues: ["q"] });

async function make(t: Context, unit: string, spec = "s", lifetimeMs = 60_000): Promise<AttemptRow> {
  const [made] = await t.c.makeAttempts(t.ns, [{ workSpec: spec, workUnit: unit, worker: "w", lifetimeMs }]);
  return present(made);
}

/** The messages of the queue `q`, as "unit status", in order. */
const told = async (t: Context): Promise<string[]> =>
  (await t.c.takeMessages(t.ns, "q")).map(({ workUnit, status }) => `${workUnit} ${status}`);

const traceback = async (t: Context, spec: string, unit: string): Promise<unknown> =>
  (decodeData(present((await t.unit(spec, unit)).data)) as { traceback?: unknown }).traceback;

// ---- several changes in one call

const batches: Case[] = [
  {
    name: "fail and then finish of one attempt in one call: hard dependents fail in between",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("x"), after("y", "x"), after("z", "y"));
      const { id } = await make(t, "x");
      const answers = await t.c.settleAttempts(t.ns, [
        { attempt: id, action: "fail" },
        { attempt: id, action: "finish", data: encodeData({ done: true }) },
      ]);
      assert.deepEqual(
        answers.map(({ error, changed, status }) => [error, changed, status]),
        [
          [null, true, "failed"],
          [null, true, "finished"],
        ],
      );
      assert.deepEqual(await t.statuses("s"), { x: "finished", y: "failed", z: "failed" });
      assert.equal(await traceback(t, "s", "y"), "dependency x of work spec s failed");
    },
  },
  {
    name: "fail and then finish of one attempt in one call: the messages of its dependents come in between",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("x"), after("y", "x"));
      const { id } = await make(t, "x");
      await t.c.settleAttempts(t.ns, [
        { attempt: id, action: "fail" },
        { attempt: id, action: "finish" },
      ]);
      assert.deepEqual(await told(t), ["x failed", "y failed", "x finished"]);
    },
  },
  {
    name: "fail and then finish of one attempt in one call releases a soft dependent once",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("x"), after("y", soft("x")));
      const { id } = await make(t, "x");
      await t.c.settleAttempts(t.ns, [
        { attempt: id, action: "fail" },
        { attempt: id, action: "finish" },
      ]);
      assert.deepEqual(await t.statuses("s"), { x: "finished", y: "available" });
      assert.deepEqual(await t.claimNames(), ["y"]);
      assert.deepEqual(await told(t), ["x failed", "x finished"]);
    },
  },
  {
    name: "fail and then finish of one attempt in one call, whose output adds the failed dependent again",
    async run(t) {
      await t.spec("s", { then: "s" });
      await t.add("s", plain("x"), after("y", "x"));
      const { id } = await make(t, "x");
      await t.c.settleAttempts(t.ns, [
        { attempt: id, action: "fail" },
        { attempt: id, action: "finish", data: encodeData({ output: ["y"] }) },
      ]);
      assert.deepEqual(await t.statuses("s"), { x: "finished", y: "available" });
      assert.deepEqual((await t.attempts("s", "y")).length, 1);
      assert.deepEqual(await told(t), ["x failed", "y failed", "x finished"]);
    },
  },
  {
    name: "a dependent fails although the same call adds its failed dependency again by an output",
    async run(t) {
      await t.spec("a", { then: "b" });
      await t.spec("b");
      await t.add("a", "y");
      await t.add("b", plain("x"), after("z", "x"));
      const [x, y] = [await make(t, "x", "b"), await make(t, "y", "a")];
      await t.c.settleAttempts(t.ns, [
        { attempt: x.id, action: "fail" },
        { attempt: y.id, action: "finish", data: encodeData({ output: ["x"] }) },
      ]);
      assert.deepEqual(await t.statuses("b"), { x: "available", z: "failed" });
    },
  },
  {
    name: "a dependent is released although the same call adds its finished dependency again by an output",
    async run(t) {
      await t.spec("a", { then: "b" });
      await t.spec("b");
      await t.add("a", "y");
      await t.add("b", plain("x"), after("z", "x"));
      const [x, y] = [await make(t, "x", "b"), await make(t, "y", "a")];
      await t.c.settleAttempts(t.ns, [
        { attempt: x.id, action: "finish" },
        { attempt: y.id, action: "finish", data: encodeData({ output: ["x"] }) },
      ]);
      assert.deepEqual(await t.statuses("b"), { x: "available", z: "available" });
    },
  },
  {
    name: "a late finish of a blocked unit is refused when the same call has just failed what the unit waits for",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("x"), plain("y"));
      const y = await make(t, "y", "s", 100);
      await t.advance(100);
      await t.add("s", after("y", "x"));
      const x = await make(t, "x");
      const answers = await t.c.settleAttempts(t.ns, [
        { attempt: x.id, action: "fail" },
        { attempt: y.id, action: "finish" },
      ]);
      assert.deepEqual(
        answers.map(({ error }) => error),
        [null, "lost_lease"],
      );
      assert.deepEqual(await t.statuses("s"), { x: "failed", y: "failed" });
      assert.deepEqual(await told(t), ["x failed", "y failed"]);
    },
  },
  {
    name: "an output of the same call finds a unit that has just failed with its dependency, and adds it again",
    async run(t) {
      await t.spec("a", { then: "b" });
      await t.spec("b");
      await t.add("a", plain("y"));
      await t.add("b", plain("x"), after("z", "x"));
      const [x, y] = [await make(t, "x", "b"), await make(t, "y", "a")];
      await t.c.settleAttempts(t.ns, [
        { attempt: x.id, action: "fail" },
        { attempt: y.id, action: "finish", data: encodeData({ output: ["z"] }) },
      ]);
      // added again, z still depends on x, which has failed: z fails a second time
      assert.equal((await t.attempts("b", "z")).length, 2);
      assert.equal(await t.status("b", "z"), "failed");
    },
  },
];

// ---- order of messages

const order: Case[] = [
  {
    name: "messages: the changes of a call come in the order given, what follows from them after that",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("a"), after("b", "a"), plain("c"));
      const [a, c] = [await make(t, "a"), await make(t, "c")];
      await t.c.settleAttempts(t.ns, [
        { attempt: a.id, action: "fail" },
        { attempt: c.id, action: "finish" },
      ]);
      assert.deepEqual(await told(t), ["a failed", "c finished", "b failed"]);
    },
  },
  {
    name: "messages: a change to a blocked unit for which nothing follows keeps its place in the order given",
    async run(t) {
      await t.spec("s");
      await t.add("s", plain("a"), after("b", "a"), "other", plain("x"));
      const x = await make(t, "x", "s", 100);
      await t.advance(100);
      await t.add("s", after("x", "other"));
      const a = await make(t, "a");
      await t.c.settleAttempts(t.ns, [
        { attempt: a.id, action: "fail" },
        { attempt: x.id, action: "finish" },
      ]);
      assert.deepEqual(await told(t), ["a failed", "x finished", "b failed"]);
    },
  },
  {
    name: "messages: what follows comes level by level, each level in the order of unit ids",
    async run(t) {
      await t.spec("s");
      await t.add(
        "s",
        plain("a"),
        after("b", "a"),
        plain("c"),
        after("d", "b"),
        after("e", "c"),
        after("f", "a"),
        after("g", "e"),
      );
      const [a, c] = [await make(t, "a"), await make(t, "c")];
      await t.c.settleAttempts(t.ns, [
        { attempt: c.id, action: "fail" },
        { attempt: a.id, action: "fail" },
      ]);
      assert.deepEqual(
        await told(t),
        ["c", "a", "b", "e", "f", "d", "g"].map((name) => `${name} failed`),
      );
    },
  },
  {
    name: "messages: dependents of deleted units come level by level, each level in the order of unit ids",
    async run(t) {
      await t.spec("s");
      await t.add("s", "a", after("b", "a"), "c", after("d", "b"), after("e", "c"));
      await t.c.deleteWorkUnits(t.ns, "s", { names: ["c", "a"] });
      assert.deepEqual(await told(t), ["b failed", "e failed", "d failed"]);
    },
  },
  {
    name: "messages: units that fail as they are added come in the order given, their dependents after that",
    async run(t) {
      await t.spec("s");
      await t.add("s", "z", "u", after("d", "u"), "v");
      await t.settled(await make(t, "z"), "fail");
      await t.add("s", after("u", "z"), after("v", "z"));
      assert.deepEqual(await told(t), ["u failed", "v failed", "d failed"]);
    },
  },
  {
    name: "messages: an add of a unit that an earlier item of the same add fails tells both ends",
    async run(t) {
      await t.spec("s");
      await t.add("s", "z", "u", after("d", "u"));
      await t.settled(await make(t, "z"), "fail");
      await t.add("s", after("u", "z"), plain("d"));
      assert.deepEqual(await told(t), ["u failed", "d failed", "d failed"]);
      assert.equal((await t.attempts("s", "d")).length, 2);
    },
  },
  {
    name: "messages: a claim tells of an exhausted unit and its dependents before it looks for the next",
    async run(t) {
      await t.spec("s", { max_retries: 1 });
      await t.add("s", plain("a"), plain("b"), after("c", "a"));
      for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "retry");
      assert.deepEqual(await t.claim({ number: 2 }), []);
      assert.deepEqual(await told(t), ["a failed", "c failed", "b failed"]);
    },
  },
];

// ---- one message for every end

const messages: Case[] = [
  {
    name: "messages: a unit that names itself in its output tells of its end",
    async run(t) {
      await t.spec("c", { then: "c" });
      await t.add("c", { name: "1", data: encodeData({ n: 1 }), queues: ["q"] });
      const attempt = await t.claimOne();
      await t.settled(attempt, "finish", { data: encodeData({ output: ["1"], n: 2 }) });
      assert.equal(await t.status("c", "1"), "available");
      const [message, ...others] = await t.c.takeMessages(t.ns, "q");
      assert.deepEqual(others, []);
      const { data, status, attempt: by, at } = present(message);
      assert.deepEqual([status, by, at], ["finished", attempt.id, t.now]);
      assert.deepEqual(decodeData(present(data)), { output: ["1"], n: 2 });
    },
  },
  {
    name: "messages: a unit that is finished and added again by an output of the same call tells of its end",
    async run(t) {
      await t.spec("a", { then: "b" });
      await t.spec("b");
      await t.add("a", "y");
      await t.add("b", plain("x"));
      const [x, y] = [await make(t, "x", "b"), await make(t, "y", "a")];
      await t.c.settleAttempts(t.ns, [
        { attempt: x.id, action: "finish" },
        { attempt: y.id, action: "finish", data: encodeData({ output: ["x"] }) },
      ]);
      assert.deepEqual(await t.statuses("b"), { x: "available" });
      assert.deepEqual(await told(t), ["x finished"]);
    },
  },
  {
    name: "messages: a unit that one add names twice and that fails both times tells of both",
    async run(t) {
      await t.spec("s");
      await t.add("s", "a");
      await t.settled(await t.claimOne(), "fail");
      await t.add("s", after("b", "a"), after("b", "a"));
      assert.equal((await t.attempts("s", "b")).length, 2);
      assert.deepEqual(await told(t), ["b failed", "b failed"]);
    },
  },
  {
    name: "messages: a unit that fails and is then added again by the same add tells of its end",
    async run(t) {
      await t.spec("s");
      await t.add("s", "a");
      await t.settled(await t.claimOne(), "fail");
      await t.add("s", after("b", "a"), { name: "b", dependencies: [] });
      assert.deepEqual(await t.statuses("s"), { a: "failed", b: "available" });
      assert.deepEqual(await told(t), ["b failed"]);
    },
  },
];

// ---- expiry reaches dependents in other work specs

/**
 * `b/x` runs while its hard dependency `b/d` fails. Then the lease of `b/x` ends, so that it has failed by rule. `a/hard` and
 * `a/soft` wait for it, and so does `c/next`, two steps away. No query reads `b` after the lease has ended.
 */
async function expired(t: Context): Promise<void> {
  for (const name of ["a", "b", "c"]) await t.spec(name);
  await t.add("b", "d", "x");
  await make(t, "x", "b", 1000);
  await t.add("b", after("x", "d"));
  const d = await make(t, "d", "b");
  const x = { workSpec: "b", workUnit: "x" };
  await t.add("a", after("hard", x), after("soft", { ...x, kind: "soft" }));
  await t.add("c", after("next", { workSpec: "a", workUnit: "hard" }));
  await t.settled(d, "fail");
  assert.deepEqual(await t.statuses("a"), { hard: "blocked", soft: "blocked" });
  await t.advance(1000);
}

const nothing = { available: 0, delayed: 0, blocked: 0, pending: 0, finished: 0, failed: 0 };

const expiry: Case[] = table<{ verb: string; see: (t: Context) => Promise<unknown>; expected: unknown }>(
  [
    {
      verb: "getWorkUnits",
      see: async (t) => [await t.status("a", "hard"), await t.status("a", "soft")],
      expected: ["failed", "available"],
    },
    {
      verb: "getWorkUnits, two steps away",
      see: (t) => t.status("c", "next"),
      expected: "failed",
    },
    {
      verb: "listWorkUnits",
      see: (t) => t.statuses("a"),
      expected: { hard: "failed", soft: "available" },
    },
    {
      verb: "listWorkUnits by status",
      see: async (t) =>
        (await t.c.listWorkUnits(t.ns, "a", { statuses: ["failed"] })).rows.map(({ name }) => name),
      expected: ["hard"],
    },
    {
      verb: "countWorkUnits",
      see: (t) => t.c.countWorkUnits(t.ns, "a", { names: ["hard", "soft"] }),
      expected: { ...nothing, available: 1, failed: 1 },
    },
    {
      verb: "tally",
      see: async (t) =>
        Object.fromEntries((await t.c.tally(t.ns)).map(({ workSpec, counts }) => [workSpec, counts])),
      expected: {
        a: { ...nothing, available: 1, failed: 1 },
        b: { ...nothing, failed: 2 },
        c: { ...nothing, failed: 1 },
      },
    },
    {
      verb: "listUnitAttempts",
      see: async (t) => (await t.attempts("a", "hard")).map(({ status }) => status),
      expected: ["failed"],
    },
    {
      verb: "requestAttempts",
      see: (t) => t.claimNames({ workSpecs: ["a"] }),
      expected: ["soft"],
    },
    {
      verb: "explain",
      see: async (t) =>
        (await t.c.explain(t.ns, {})).map(({ workSpec, available }) => [workSpec, available > 0]),
      expected: [
        ["a", true],
        ["b", false],
        ["c", false],
      ],
    },
    {
      verb: "waitingSince",
      see: async (t) => (await t.c.waitingSince(t.ns)).map(({ workSpec }) => workSpec),
      expected: ["a"],
    },
    {
      verb: "resetWorkUnits",
      see: (t) => t.c.resetWorkUnits(t.ns, "c", { statuses: ["failed"] }),
      expected: 1,
    },
    {
      verb: "setWorkUnitDelays",
      see: (t) => t.c.setWorkUnitDelays(t.ns, "a", { names: ["hard", "soft"] }, t.now + 1000),
      expected: 1,
    },
    {
      verb: "deleteWorkUnits",
      see: (t) => t.c.deleteWorkUnits(t.ns, "c", { statuses: ["failed"] }),
      expected: 1,
    },
    {
      verb: "addWorkUnits",
      see: async (t) => (await t.c.addWorkUnits(t.ns, "a", [plain("soft")]))[0]?.status,
      expected: "available",
    },
    {
      verb: "awaitWorkUnits",
      see: async (t) =>
        (await t.c.awaitWorkUnits(t.ns, "a", ["hard"], { waitMs: 0 })).map((unit) => unit?.status),
      expected: ["failed"],
    },
    {
      verb: "deleteWorkSpecs of its own",
      see: async (t) => {
        await t.c.deleteWorkSpecs(t.ns, ["b"]);
        return told(t);
      },
      expected: ["x failed", "hard failed", "next failed"],
    },
  ],
  ({ verb }) => `expiry reaches dependents in other work specs at once: ${verb}`,
  async (t, { see, expected }) => {
    await expired(t);
    assert.deepEqual(await see(t), expected);
  },
);

const shown: Case[] = [
  {
    name: "a dependency is shown as available once its delay is over",
    async run(t) {
      await t.spec("a");
      await t.spec("b");
      await t.add("b", { name: "d", delayMs: 100 });
      await t.add("a", after("x", { workSpec: "b", workUnit: "d" }));
      await t.advance(100);
      assert.equal((await t.unit("a", "x")).dependencies[0]?.status, "available");
    },
  },
  {
    name: "a dependency is shown as available once the lease of its attempt has ended",
    async run(t) {
      await t.spec("a");
      await t.spec("b");
      await t.add("b", "d");
      await t.add("a", after("x", { workSpec: "b", workUnit: "d" }));
      await make(t, "d", "b", 100);
      assert.equal((await t.unit("a", "x")).dependencies[0]?.status, "pending");
      await t.advance(100);
      assert.equal((await t.unit("a", "x")).dependencies[0]?.status, "available");
    },
  },
];

// ---- deleted work specs, exhausted units, repeated names

const others: Case[] = [
  {
    name: "when a work spec is deleted, the traceback names the first of its units that the dependent lists",
    async run(t) {
      await t.spec("s");
      await t.spec("other");
      await t.add("s", "a", "b");
      await t.add("other", after("x", { workSpec: "s", workUnit: "b" }, { workSpec: "s", workUnit: "a" }));
      await t.c.deleteWorkSpecs(t.ns, ["s"]);
      assert.equal(await traceback(t, "other", "x"), "dependency b of work spec s was deleted");
    },
  },
  {
    name: "when a work spec is deleted, its units do not fail on the way: dependents are told of the deletion",
    async run(t) {
      await t.spec("s");
      await t.spec("other");
      await t.add("s", "a", after("b", "a"));
      await t.add("other", after("x", { workSpec: "s", workUnit: "b" }));
      await t.c.deleteWorkSpecs(t.ns, ["s"]);
      assert.equal(await traceback(t, "other", "x"), "dependency b of work spec s was deleted");
      assert.deepEqual(await told(t), ["x failed"]);
    },
  },
  {
    name: "what an exhausted unit releases is a candidate for the next place of the same claim, by priority",
    async run(t) {
      await t.spec("s", { max_retries: 1 });
      await t.add("s", plain("a"));
      await t.settled(await t.claimOne(), "retry");
      await t.add("s", { ...after("high", soft("a")), priority: 5 }, { name: "low", priority: -1 });
      assert.deepEqual(await t.claimNames({ number: 2 }), ["high"]);
      assert.deepEqual(await t.statuses("s"), { a: "failed", high: "pending", low: "available" });
    },
  },
  {
    name: "an exhausted unit that releases another takes one place, and so does an exhausted one that it releases",
    async run(t) {
      await t.spec("s", { max_retries: 1 });
      await t.add("s", "a", "b", "z");
      for (const attempt of await t.claim({ number: 3 })) await t.settled(attempt, "retry");
      await t.add("s", { ...after("b", soft("a")), priority: 5 }, { ...after("c", soft("b")), priority: 9 });
      assert.deepEqual(await t.claimNames({ number: 3 }), ["c"]);
      assert.deepEqual(await t.statuses("s"), { a: "failed", b: "failed", c: "pending", z: "available" });
    },
  },
  {
    name: "housekeeping fails an exhausted unit that another exhausted one released",
    async run(t) {
      await t.spec("s", { max_retries: 1 });
      await t.add("s", "b", "a");
      for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "retry");
      await t.add("s", after("b", soft("a")));
      await t.sweep();
      assert.deepEqual(await t.statuses("s"), { a: "failed", b: "failed" });
    },
  },
  {
    name: "one sweep fails an exhausted unit that one of a later work spec released",
    async run(t) {
      for (const spec of ["a", "b"]) {
        await t.spec(spec, { max_retries: 1 });
        await t.add(spec, "u");
        await t.settled(await t.claimOne({ workSpecs: [spec] }), "retry");
      }
      await t.add("a", { name: "u", dependencies: [{ workSpec: "b", workUnit: "u", kind: "soft" }] });
      await t.sweep();
      assert.deepEqual([await t.status("b", "u"), await t.status("a", "u")], ["failed", "failed"]);
    },
  },
  {
    name: "a name given twice in one add waits for a dependency that the same add makes available in between",
    async run(t) {
      await t.spec("s");
      await t.add("s", "a");
      await t.settled(await t.claimOne(), "finish");
      await t.add("s", after("b", "a"), "a", after("b", "a"));
      assert.deepEqual(await t.statuses("s"), { a: "available", b: "blocked" });
    },
  },
  {
    name: "a name given twice in one add has the dependencies of the later one, judged when it is its turn",
    async run(t) {
      await t.spec("s");
      await t.add("s", "a", "c");
      await t.settled(await t.claimOne(), "fail");
      await t.add("s", after("b", "c"), after("b", "a"));
      assert.deepEqual(await t.statuses("s"), { a: "failed", b: "failed", c: "available" });
      await t.add("s", after("d", "a"), after("d", "c"));
      assert.equal(await t.status("s", "d"), "blocked");
      assert.deepEqual(await told(t), ["b failed", "d failed"]);
    },
  },
];

export const consequences: CaseGroup = {
  concept: "consequences",
  cases: [...batches, ...order, ...messages, ...expiry, ...shown, ...others],
};
