import assert from "node:assert/strict";
import { cborData, encodeData, jsonData, type Data } from "../../core/index.ts";
import { sameData, table, type CaseGroup, type Context } from "../stack.ts";

const cbor = (hex: string): Data => cborData(Buffer.from(hex, "hex"));

/** Finishes one unit of `first`, which chains into `second`. */
async function finishWith(
  t: Context,
  data: Data,
  keys: object = { then: "second" },
): Promise<{ id: string; outputs: number; chainingErrors: readonly string[] }> {
  await t.spec("first", { ...keys });
  await t.spec("second");
  await t.add("first", "u");
  const attempt = await t.claimOne({ workSpecs: ["first"] });
  const { outputs, chainingErrors } = await t.settled(attempt, "finish", { data });
  return { id: attempt.id, outputs, chainingErrors };
}

const made = async (t: Context): Promise<unknown[]> =>
  (await t.c.listWorkUnits(t.ns, "second")).rows.map(({ name, data, priority }) => [name, data, priority]);

export const chaining: CaseGroup = {
  concept: "chaining",
  cases: [
    ...table(
      [
        [
          "an object of names and data",
          '{"output":{"a":{"x":1},"b":{}}}',
          [
            ["a", '{"x":1}', 0],
            ["b", "{}", 0],
          ],
        ],
        [
          "a list of names",
          '{"output":["a","b"]}',
          [
            ["a", null, 0],
            ["b", null, 0],
          ],
        ],
        [
          "a list of pairs",
          '{"output":[["a",{"x":1}],["b",{}]]}',
          [
            ["a", '{"x":1}', 0],
            ["b", "{}", 0],
          ],
        ],
        ["a list of triples with a priority", '{"output":[["a",{},{"priority":3}]]}', [["a", "{}", 3]]],
        [
          "a list of quadruples, where the last priority wins",
          '{"output":[["a",{},{"priority":3},7]]}',
          [["a", "{}", 7]],
        ],
        [
          "a mixture",
          '{"output":["a",["b",{"x":1}],["c",null,null,2]]}',
          [
            ["a", null, 0],
            ["b", '{"x":1}', 0],
            ["c", null, 2],
          ],
        ],
        ["an empty list", '{"output":[]}', []],
        ["an empty object", '{"output":{}}', []],
        ["null", '{"output":null}', []],
        ["nothing", "{}", []],
        [
          "names that exist twice: the last wins",
          '{"output":[["a",{"x":1}],["a",{"x":2}]]}',
          [["a", '{"x":2}', 0]],
        ],
        [
          "numbers that must not change",
          '{"output":{"a":{"f":1.0,"n":12345678901234567890}}}',
          [["a", '{"f":1.0,"n":12345678901234567890}', 0]],
        ],
      ] as const,
      ([what]) => `output may be ${what}`,
      async (t, [, text, expected]) => {
        const { outputs, chainingErrors } = await finishWith(t, jsonData(text));
        assert.deepEqual(await made(t), expected);
        assert.deepEqual([outputs, chainingErrors], [expected.length, []]);
      },
    ),
    {
      name: "tuples and byte strings of Python are lists and names, and data keeps its encoding",
      async run(t) {
        // {b"output": tuple([ tuple([b"\xff", {b"k": tuple([1])}]) ])}
        await finishWith(t, cbor("a1466f7574707574d88081d8808241ffa1416bd8808101"));
        const [unit] = (await t.c.listWorkUnits(t.ns, "second")).rows;
        assert.equal(unit?.name, "\udcff");
        sameData(unit.data, cbor("a1416bd8808101"));
      },
    },
    ...table(
      [
        ["a plain string", '{"output":"abc"}', []],
        ["a number", '{"output":17}', []],
        ["true", '{"output":true}', []],
      ] as const,
      ([what]) => `${what} as output is an error entry, and no unit per character`,
      async (t, [, text]) => {
        const { id, outputs, chainingErrors } = await finishWith(t, jsonData(text));
        assert.deepEqual([outputs, chainingErrors.length], [0, 1]);
        assert.deepEqual(await made(t), []);
        assert.equal(await t.status("first", "u"), "finished");
        assert.deepEqual((await t.attempt(id)).chainingErrors, chainingErrors);
      },
    ),
    ...table(
      [
        ["a number", "5"],
        ["a list without a name", "[]"],
        ["a number as name", "[5,{}]"],
        ["data that is no object", '["x","data"]'],
        ["a priority that is no number", '["x",{},{"priority":"high"}]'],
        ["metadata that is no object", '["x",{},"meta"]'],
        ["null", "null"],
      ] as const,
      ([what]) => `an entry that is ${what} is skipped and reported, the rest is created`,
      async (t, [, entry]) => {
        const { id, outputs, chainingErrors } = await finishWith(
          t,
          jsonData(`{"output":["a",${entry},"b"]}`),
        );
        assert.deepEqual(await made(t), [
          ["a", null, 0],
          ["b", null, 0],
        ]);
        assert.deepEqual([outputs, chainingErrors.length], [2, 1]);
        assert.deepEqual((await t.attempt(id)).chainingErrors, chainingErrors);
      },
    ),
    {
      name: "a delay in an output's metadata is in seconds",
      async run(t) {
        await finishWith(t, jsonData('{"output":[["a",{},{"delay":90.5}]]}'));
        const unit = await t.unit("second", "a");
        assert.deepEqual([unit.status, unit.notBefore], ["delayed", t.now + 90_500]);
        await t.advance(90_500);
        assert.equal(await t.status("second", "a"), "available");
      },
    },
    {
      name: "a missing then spec is ignored",
      async run(t) {
        const { outputs } = await finishWith(t, jsonData('{"output":["a"]}'), { then: "nowhere" });
        assert.equal(outputs, 0);
        assert.equal(await t.status("first", "u"), "finished");
      },
    },
    {
      name: "without then, output is just data",
      async run(t) {
        const { outputs } = await finishWith(t, jsonData('{"output":["a"]}'), {});
        assert.equal(outputs, 0);
        assert.deepEqual(await made(t), []);
      },
    },
    {
      name: "then can be added by setting the spec again",
      async run(t) {
        await t.spec("first");
        await t.spec("second");
        await t.add("first", "u");
        const attempt = await t.claimOne();
        await t.spec("first", { then: "second" });
        await t.settled(attempt, "finish", { data: jsonData('{"output":["a"]}') });
        assert.deepEqual(await t.statuses("second"), { a: "available" });
      },
    },
    {
      name: "output is taken from data that was stored before, when the finish has none",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "renew", { data: jsonData('{"output":["a"]}') });
        assert.deepEqual(await t.statuses("second"), {}, "only a finish chains");
        await t.settled(attempt, "finish");
        assert.deepEqual(await t.statuses("second"), { a: "available" });
      },
    },
    {
      name: "output is taken from the unit's own data, when nothing else was written",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", { name: "u", data: jsonData('{"output":["a"]}') });
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await t.statuses("second"), { a: "available" });
      },
    },
    ...table(
      ["fail", "retry", "expire", "renew"] as const,
      (action) => `${action} does not chain`,
      async (t, action) => {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", "u");
        await t.settled(await t.claimOne(), action, { data: jsonData('{"output":["a"]}') });
        assert.deepEqual(await t.statuses("second"), {});
      },
    ),
    {
      name: "a refused finish creates nothing",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", "u");
        const loser = await t.claimOne({ lifetimeMs: 10 });
        await t.advance(10);
        await t.claimOne({ worker: "winner" });
        assert.equal(
          (await t.settle(loser, "finish", { data: jsonData('{"output":["a"]}') })).error,
          "lost_lease",
        );
        assert.deepEqual(await t.statuses("second"), {});
      },
    },
    {
      name: "a second finish is a no-op and does not create the outputs again",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", "u");
        const attempt = await t.claimOne();
        const data = jsonData('{"output":["a"]}');
        await t.settled(attempt, "finish", { data });
        await t.settled(await t.claimOne({ workSpecs: ["second"] }), "finish");
        const again = await t.settled(attempt, "finish", { data });
        assert.equal(again.outputs, 0);
        assert.deepEqual(await t.statuses("second"), { a: "finished" });
      },
    },
    {
      name: "failed then finished chains once",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail", { data: jsonData('{"output":["a"]}') });
        assert.deepEqual(await t.statuses("second"), {});
        const { outputs } = await t.settled(attempt, "finish", { data: jsonData('{"output":["b"]}') });
        assert.equal(outputs, 1);
        assert.deepEqual(await t.statuses("second"), { b: "available" });
      },
    },
    {
      name: "each created unit remembers the attempt that made it",
      async run(t) {
        const { id } = await finishWith(t, jsonData('{"output":["a"]}'));
        assert.equal((await t.unit("second", "a")).origin, id);
        const maker = await t.attempt(id);
        assert.deepEqual([maker.workSpec, maker.workUnit], ["first", "u"]);
      },
    },
    {
      name: "an output over a unit that exists is as adding it again",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("second", { name: "a", priority: 5, data: encodeData({ old: true }) });
        await t.settled(await t.claimOne({ workSpecs: ["second"] }), "finish");
        await t.add("first", "u");
        await t.settled(await t.claimOne({ workSpecs: ["first"] }), "finish", {
          data: jsonData('{"output":{"a":{"fresh":1}}}'),
        });
        const unit = await t.unit("second", "a");
        assert.deepEqual(
          [unit.status, unit.priority, unit.data, unit.attempts],
          ["available", 0, jsonData('{"fresh":1}'), 1],
        );
      },
    },
    {
      name: "outputs get priority 0, not that of the unit that made them",
      async run(t) {
        await t.spec("first", { then: "second" });
        await t.spec("second");
        await t.add("first", { name: "u", priority: 9 });
        await t.settled(await t.claimOne(), "finish", { data: jsonData('{"output":["a"]}') });
        assert.equal((await t.unit("second", "a")).priority, 0);
      },
    },
    {
      name: "a spec may chain into itself",
      async run(t) {
        await t.spec("loop", { then: "loop" });
        await t.add("loop", "1");
        await t.settled(await t.claimOne(), "finish", { data: jsonData('{"output":["2"]}') });
        assert.deepEqual(await t.statuses("loop"), { "1": "finished", "2": "available" });
      },
    },
    {
      name: "a unit that names itself in its output is available again",
      async run(t) {
        await t.spec("loop", { then: "loop" });
        await t.add("loop", "1");
        const attempt = await t.claimOne();
        await t.settled(attempt, "finish", { data: jsonData('{"output":["1"]}') });
        assert.deepEqual(await t.statuses("loop"), { "1": "available" });
        assert.equal((await t.attempt(attempt.id)).status, "finished");
      },
    },
    {
      name: "units flow through three specs",
      async run(t) {
        await t.spec("a", { then: "b" });
        await t.spec("b", { then: "c" });
        await t.spec("c");
        await t.add("a", "x");
        for (const spec of ["a", "b", "c"]) {
          const attempt = await t.claimOne({ workSpecs: [spec] });
          await t.settled(attempt, "finish", { data: encodeData({ output: [attempt.workUnit + spec] }) });
        }
        assert.deepEqual(await t.statuses("c"), { xab: "finished" });
        const last = await t.unit("c", "xab");
        const maker = await t.attempt(last.origin ?? "");
        assert.equal((await t.unit("b", maker.workUnit)).origin, (await t.attempts("a", "x"))[0]?.id);
      },
    },
    {
      name: "a thousand outputs are created by one finish",
      async run(t) {
        const output = Array.from({ length: 1000 }, (_, i) => `u${i}`);
        const { outputs } = await finishWith(t, encodeData({ output }));
        assert.equal(outputs, 1000);
        assert.equal((await t.counts("second")).available, 1000);
      },
    },
    {
      name: "an output with a name that is too long is skipped and reported",
      async run(t) {
        const { outputs, chainingErrors } = await finishWith(
          t,
          encodeData({ output: ["x".repeat(4097), "ok"] }),
        );
        assert.deepEqual([outputs, chainingErrors.length], [1, 1]);
        assert.deepEqual(await t.statuses("second"), { ok: "available" });
      },
    },
  ],
};
