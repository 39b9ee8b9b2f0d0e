/** Every sentence of the scheduling rules has a case here; cases set the random number to make the draw exact. */
import assert from "node:assert/strict";
import { decodeData, encodeData } from "../../core/index.ts";
import { table, type CaseGroup, type Context } from "../stack.ts";

/** Specs with `units` available units each, and `pending` units already running. */
async function specs(
  t: Context,
  all: Record<string, { units?: number; pending?: number; [key: string]: unknown }>,
): Promise<void> {
  for (const [name, { units = 1, pending = 0, ...keys }] of Object.entries(all)) {
    await t.spec(name, keys);
    await t.add(name, ...Array.from({ length: units + pending }, (_, i) => `${name}${i}`));
    if (pending > 0) {
      const made = Array.from({ length: pending }, (_, i) => ({
        workSpec: name,
        workUnit: `${name}${i}`,
        worker: "busy",
      }));
      await t.c.makeAttempts(t.ns, made);
    }
  }
}

const chosen = async (t: Context, request: object = {}): Promise<string | null> =>
  (await t.claim(request))[0]?.workSpec ?? null;

const excluded = async (t: Context, request: object = {}): Promise<Record<string, string | null>> =>
  Object.fromEntries((await t.c.explain(t.ns, request)).map((one) => [one.workSpec, one.excluded]));

export const scheduling: CaseGroup = {
  concept: "scheduling",
  cases: [
    // ---- filters

    {
      name: "a paused work spec is not considered",
      async run(t) {
        await specs(t, { s: {} });
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: true });
        assert.equal(await chosen(t), null);
        await t.c.setWorkSpecMeta(t.ns, "s", { paused: false });
        assert.equal(await chosen(t), "s");
      },
    },
    {
      name: "a work spec is not considered before its time, and others are",
      async run(t) {
        const start = t.now + 5000;
        await specs(t, { s: { not_before: start / 1000 }, other: {} });
        assert.deepEqual(await excluded(t), { s: "not_before", other: null });
        assert.equal(await chosen(t), "other");
        assert.equal(await chosen(t), null);
        await t.advance(4999);
        assert.equal(await chosen(t), null);
        await t.advance(1);
        assert.equal(await chosen(t), "s");
      },
    },
    {
      name: "when a work spec starts may be set, and is kept as other settings are",
      async run(t) {
        await specs(t, { s: { not_before: "2100-01-01T00:00:00Z" } });
        assert.equal(await chosen(t), null);
        const meta = await t.c.setWorkSpecMeta(t.ns, "s", { notBefore: 0 });
        assert.equal(meta.notBefore, 0);
        assert.equal(await chosen(t), "s");
        await t.c.setWorkSpecMeta(t.ns, "s", { notBefore: 7000 });
        const data = encodeData({ name: "s", not_before: 9 });
        const [kept] = await t.c.setWorkSpecs(t.ns, [{ data }], { keepMeta: true });
        assert.equal(kept?.meta.notBefore, 7000);
        const [reset] = await t.c.setWorkSpecs(t.ns, [{ data }]);
        assert.equal(reset?.meta.notBefore, 9000);
      },
    },
    {
      name: "what a newer key is in the data of an old client is its own, and elsewhere it is refused",
      async run(t) {
        const data = encodeData({ name: "s", not_before: ["mine"] });
        await t.refuses("bad_work_spec", t.c.setWorkSpecs(t.ns, [{ data }]));
        const [row] = await t.c.setWorkSpecs(t.ns, [{ data }], { lenient: true });
        assert.equal(row?.meta.notBefore, 0);
        assert.deepEqual(decodeData(row.data), { name: "s", not_before: ["mine"] });
        const wrong = encodeData({ name: "s", weight: "heavy" });
        await t.refuses("bad_work_spec", t.c.setWorkSpecs(t.ns, [{ data: wrong }], { lenient: true }));
      },
    },
    {
      name: "a disabled work spec starts paused",
      async run(t) {
        await specs(t, { s: { disabled: true } });
        assert.equal(await chosen(t), null);
      },
    },
    {
      name: "a weight or an aging so large that scores would overflow is refused; the largest is not",
      async run(t) {
        for (const key of ["weight", "priority", "aging"])
          await t.refuses("bad_work_spec", t.spec("s", { [key]: 1e101 }), new RegExp(key));
        await specs(t, { r: { weight: 1e100, aging: 1e100 }, s: { weight: 1e100 } });
        await t.refuses("bad_argument", t.c.setWorkSpecMeta(t.ns, "s", { weight: 1e101 }), /weight/);
        const chances = (await t.c.explain(t.ns)).map(({ chance }) => chance);
        assert.deepEqual(chances, [0.5, 0.5]);
      },
    },
    ...table(
      [0, -1, -0.5],
      (weight) => `a work spec with weight ${weight} is not considered`,
      async (t, weight) => {
        await specs(t, { s: { weight } });
        assert.equal(await chosen(t), null);
        await t.c.setWorkSpecMeta(t.ns, "s", { weight: 0.5 });
        assert.equal(await chosen(t), "s");
      },
    ),
    ...table(
      [
        { runtime: "go", runtimes: ["go"], offered: true },
        { runtime: "go", runtimes: ["python", "go"], offered: true },
        { runtime: "go", runtimes: ["python"], offered: false },
        { runtime: "go", runtimes: [""], offered: false },
        { runtime: "go", runtimes: ["Go"], offered: false },
        { runtime: "go", runtimes: undefined, offered: true },
        { runtime: "go", runtimes: [], offered: true },
        { runtime: "", runtimes: [""], offered: true },
        { runtime: "", runtimes: ["go"], offered: false },
      ],
      ({ runtime, runtimes, offered }) =>
        `runtime ${JSON.stringify(runtime)} is ${offered ? "" : "not "}considered for a request that lists ${runtimes === undefined ? "none" : JSON.stringify(runtimes)}`,
      async (t, { runtime, runtimes, offered }) => {
        await specs(t, { s: runtime === "" ? {} : { runtime } });
        assert.equal(await chosen(t, runtimes === undefined ? {} : { runtimes }), offered ? "s" : null);
      },
    ),
    ...table(
      [
        { spec: {}, request: { tasks: ["s"] }, offered: true },
        { spec: { runtime: "node" }, request: { tasks: ["other", "s"] }, offered: true },
        { spec: { task: "resize-large" }, request: { tasks: ["resize-large"] }, offered: true },
        { spec: { task: "resize-large" }, request: { tasks: ["s"] }, offered: false },
        { spec: { task: "resize-large" }, request: { tasks: ["resize-*"] }, offered: true },
        { spec: { task: "resize" }, request: { tasks: ["resize-*"] }, offered: false },
        { spec: { task: "" }, request: { tasks: ["s"] }, offered: true },
        { spec: {}, request: { tasks: ["*"] }, offered: true },
        { spec: {}, request: { tasks: ["S", "ss", "", "s?"] }, offered: false },
        { spec: {}, request: { tasks: [] }, offered: false },
        { spec: { runtime: "go" }, request: { tasks: ["*"] }, offered: false },
        { spec: { runtime: "go" }, request: { tasks: ["*"], runtimes: ["go"] }, offered: true },
        { spec: {}, request: { tasks: ["*"], runtimes: ["go"] }, offered: false },
        { spec: { module: "jobs" }, request: { tasks: ["*", "s"] }, offered: false },
        { spec: { module: "jobs" }, request: { runtimes: [""] }, offered: true },
        { spec: { module: "jobs" }, request: { runtimes: [""], modules: true }, offered: true },
        { spec: { task: "t" }, request: { runtimes: [""], modules: true }, offered: false },
        { spec: {}, request: { runtimes: ["", "python_3"], modules: true }, offered: false },
        { spec: {}, request: { runtimes: [""], modules: false }, offered: true },
        { spec: { runtime: "python_3" }, request: { runtimes: ["python_3"], modules: true }, offered: true },
      ],
      ({ spec, request, offered }) =>
        `a work spec with ${JSON.stringify(spec)} is ${offered ? "" : "not "}considered for a request with ${JSON.stringify(request)}`,
      async (t, { spec, request, offered }) => {
        await specs(t, { s: spec });
        assert.equal(await chosen(t, request), offered ? "s" : null);
      },
    ),
    {
      name: "the task of a work spec changes with its data",
      async run(t) {
        await specs(t, { s: { task: "old" } });
        await t.spec("s", { task: "new" });
        assert.equal(await chosen(t, { tasks: ["old"] }), null);
        assert.equal(await chosen(t, { tasks: ["new"] }), "s");
      },
    },
    {
      name: "explain says which task a work spec runs, and that a module is none",
      async run(t) {
        await specs(t, { mine: {}, other: { task: "t" }, python: { module: "jobs" }, go: { runtime: "go" } });
        const rows = await t.c.explain(t.ns, { tasks: ["mine"] });
        assert.deepEqual(
          rows.map(({ workSpec, excluded: why }) => [workSpec, why]),
          [
            ["go", "other_runtime"],
            ["mine", null],
            ["other", "no_task"],
            ["python", "no_task"],
          ],
        );
        assert.match(rows[0]?.reason ?? "", /runtime "go"; the request is for \["","node"\]/);
        assert.match(rows[2]?.reason ?? "", /runs the task "t"; the request is for \["mine"\]/);
        assert.match(rows[3]?.reason ?? "", /runs a module/);
        const modules = await t.c.explain(t.ns, { runtimes: [""], modules: true });
        assert.deepEqual(
          modules.map(({ workSpec, excluded: why }) => [workSpec, why]),
          [
            ["go", "other_runtime"],
            ["mine", "no_task"],
            ["other", "no_task"],
            ["python", null],
          ],
        );
        assert.match(
          modules[1]?.reason ?? "",
          /runs a task; the request is for work specs that run a module/,
        );
      },
    },
    {
      name: "only the work specs that the request lists are considered, unknown names are ignored",
      async run(t) {
        await specs(t, { a: {}, b: { priority: 9 } });
        assert.equal(await chosen(t, { workSpecs: ["a", "none"] }), "a");
        assert.equal(await chosen(t, { workSpecs: ["none"] }), null);
        assert.equal(await chosen(t, { workSpecs: [] }), "b");
      },
    },
    {
      name: "a work spec that has max_running pending units is not considered",
      async run(t) {
        await specs(t, { full: { max_running: 2, pending: 2, priority: 9 }, other: {} });
        assert.equal(await chosen(t), "other");
        assert.equal((await excluded(t)).full, "max_running");
      },
    },
    {
      name: "a work spec without available units is not considered",
      async run(t) {
        await specs(t, { empty: { units: 0, priority: 9 }, other: {} });
        await t.add("empty", { name: "later", delayMs: 1000 });
        assert.equal(await chosen(t), "other");
      },
    },
    {
      name: "a continuous work spec without units is considered",
      async run(t) {
        await specs(t, { c: { units: 0, continuous: true, priority: 9 }, other: {} });
        assert.equal(await chosen(t), "c");
      },
    },
    {
      name: "a continuous work spec is not considered for a generated unit while it has units pending",
      async run(t) {
        await specs(t, { c: { units: 0, pending: 1, continuous: true, priority: 9 }, other: {} });
        assert.equal(await chosen(t), "other");
        assert.equal((await excluded(t)).c, "continuous_pending");
      },
    },
    {
      name: "a continuous work spec is not considered before its interval has passed",
      async run(t) {
        await specs(t, { c: { units: 0, continuous: true, priority: 9 }, other: {} });
        await t.c.setWorkSpecMeta(t.ns, "c", { nextContinuous: t.now + 1 });
        assert.equal(await chosen(t), "other");
      },
    },
    ...table(
      [
        { minGb: 2, availableGb: 1, offered: false },
        { minGb: 2, availableGb: 2, offered: true },
        { minGb: 2, availableGb: 0, offered: true },
        { minGb: 2, availableGb: undefined, offered: true },
        { minGb: undefined, availableGb: 0.1, offered: true },
      ],
      ({ minGb, availableGb, offered }) =>
        `min_gb ${minGb ?? "absent"} is ${offered ? "" : "not "}offered to a request that states ${availableGb ?? "no"} available_gb`,
      async (t, { minGb, availableGb, offered }) => {
        await specs(t, { s: minGb === undefined ? {} : { min_gb: minGb } });
        assert.equal(await chosen(t, availableGb === undefined ? {} : { availableGb }), offered ? "s" : null);
      },
    ),
    {
      name: "if all work specs are discarded there is no work to do",
      async run(t) {
        await specs(t, { a: { disabled: true }, b: { units: 0 }, c: { weight: 0 } });
        assert.deepEqual(await t.claim({ number: 5 }), []);
      },
    },

    // ---- priority

    {
      name: "the work spec with the highest priority is always selected",
      async run(t) {
        await specs(t, {
          low: { priority: -1, weight: 1000 },
          mid: { weight: 1000 },
          high: { priority: 1, weight: 1, units: 5 },
        });
        for (let i = 0; i < 5; i++) assert.equal(await chosen(t), "high");
        assert.equal(await chosen(t), "mid");
        assert.equal(await chosen(t), "low");
      },
    },
    {
      name: "priorities are only compared among work specs that have work",
      async run(t) {
        await specs(t, { high: { priority: 9, units: 0 }, paused: { priority: 8, disabled: true }, low: {} });
        assert.equal(await chosen(t), "low");
      },
    },
    {
      name: "the priority of a unit does not matter between work specs",
      async run(t) {
        await specs(t, { a: { priority: 1 }, b: { units: 0 } });
        await t.add("b", { name: "urgent", priority: 100 });
        assert.equal(await chosen(t), "a");
      },
    },

    // ---- weights: score = weight x (total pending + 1) - total weight x pending

    ...table(
      [
        // nothing pending: in proportion to the weights, 20 : 60
        { draw: 0, weights: [20, 60], pending: [0, 0], choice: "a" },
        { draw: 0.2499, weights: [20, 60], pending: [0, 0], choice: "a" },
        { draw: 0.2501, weights: [20, 60], pending: [0, 0], choice: "b" },
        { draw: 0.9999, weights: [20, 60], pending: [0, 0], choice: "b" },
        // scores 1*(3+1)-3*1 = 1 and 2*(3+1)-3*2 = 2: both have their share, so again 1 : 2
        { draw: 0.333, weights: [1, 2], pending: [1, 2], choice: "a" },
        { draw: 0.334, weights: [1, 2], pending: [1, 2], choice: "b" },
        // scores 1*(3+1)-2*0 = 4 and 1*(3+1)-2*3 = -2: the one with more than its share is dropped
        { draw: 0.9999, weights: [1, 1], pending: [0, 3], choice: "a" },
        // scores 1*(1+1)-2*1 = 0 and 1*(1+1)-2*0 = 2
        { draw: 0, weights: [1, 1], pending: [1, 0], choice: "b" },
        // scores 3*(6+1)-4*4 = 5 and 1*(6+1)-4*2 = -1
        { draw: 0.9999, weights: [3, 1], pending: [4, 2], choice: "a" },
      ],
      ({ draw, weights, pending, choice }) =>
        `weights ${weights.join(":")} with ${pending.join(" and ")} pending and a draw of ${draw} choose ${choice}`,
      async (t, { draw, weights, pending, choice }) => {
        await specs(t, {
          a: { weight: weights[0], pending: pending[0] ?? 0 },
          b: { weight: weights[1], pending: pending[1] ?? 0 },
        });
        t.draws(draw);
        assert.equal(await chosen(t), choice);
      },
    ),
    {
      name: "pending units of work specs that are not candidates do not count",
      async run(t) {
        await specs(t, { a: { weight: 1 }, b: { weight: 1 }, idle: { units: 0, pending: 9, weight: 50 } });
        const scores = Object.fromEntries(
          (await t.c.explain(t.ns, {})).map((one) => [one.workSpec, one.score]),
        );
        assert.deepEqual(scores, { a: 1, b: 1, idle: 0 });
      },
    },
    {
      name: "over many requests the numbers of pending units match the weights",
      async run(t) {
        await specs(t, {
          a: { weight: 10, units: 60 },
          b: { weight: 20, units: 60 },
          c: { weight: 30, units: 60 },
        });
        let seed = 1;
        t.subject.setRandom?.(() => (seed = (seed * 16807) % 2147483647) / 2147483647);
        for (let i = 0; i < 60; i++) await t.claimOne();
        const counts = await Promise.all(["a", "b", "c"].map(async (spec) => (await t.counts(spec)).pending));
        assert.deepEqual(counts, [10, 20, 30]);
      },
    },

    // ---- explain

    {
      name: "explain says of every work spec why it would or would not be chosen",
      async run(t) {
        await specs(t, {
          able: { weight: 30 },
          also: { weight: 10 },
          busy: { max_running: 1, pending: 1 },
          empty: { units: 0 },
          go: { runtime: "go" },
          heavy: { min_gb: 100 },
          low: { priority: -1 },
          off: { disabled: true },
          unweighted: { weight: 0 },
        });
        const request = { runtimes: [""], availableGb: 4 };
        assert.deepEqual(await excluded(t, request), {
          able: null,
          also: null,
          busy: "max_running",
          empty: "no_work",
          go: "other_runtime",
          heavy: "needs_memory",
          low: "lower_priority",
          off: "paused",
          unweighted: "no_weight",
        });
        const rows = await t.c.explain(t.ns, request);
        const able = rows.find(({ workSpec }) => workSpec === "able");
        assert.deepEqual([able?.score, able?.chance, able?.available, able?.pending], [30, 0.75, 1, 0]);
        assert.ok(rows.every(({ reason }) => reason.length > 5));
      },
    },
    {
      name: "explain names the work specs that were not asked for, and those with more than their share",
      async run(t) {
        await specs(t, { a: { weight: 1 }, b: { weight: 1, pending: 3 }, c: {} });
        assert.deepEqual(await excluded(t, { workSpecs: ["a", "b"] }), {
          a: null,
          b: "enough_running",
          c: "other_work_spec",
        });
      },
    },
    {
      name: "explain changes nothing",
      async run(t) {
        await specs(t, { c: { units: 0, continuous: true } });
        await t.c.explain(t.ns, {});
        assert.deepEqual(await t.statuses("c"), {});
        assert.deepEqual((await t.c.listWorkers(t.ns)).rows, []);
      },
    },
    {
      name: "explain of a namespace with nothing in it is empty",
      async run(t) {
        assert.deepEqual(await t.c.explain(t.ns, {}), []);
      },
    },

    // ---- the python policy

    {
      name: "python policy: a spec whose successor has work is passed over",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b", units: 2 }, b: { then: "c", units: 2 }, c: { units: 2 } });
        const order = [];
        for (let i = 0; i < 6; i++) order.push(await chosen(t));
        assert.deepEqual(order, ["c", "c", "b", "b", "a", "a"]);
      },
    },
    {
      name: "python policy: work further down the chain counts, also past a successor without any",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b" }, b: { then: "c", units: 0 }, c: {} });
        assert.deepEqual(await excluded(t), { a: "preempted", b: "no_work", c: null });
      },
    },
    {
      name: "python policy: then_preempts false is not passed over",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b", then_preempts: false }, b: {} });
        assert.deepEqual(await excluded(t), { a: null, b: null });
      },
    },
    {
      name: "python policy: a loop is not passed over, and counts with half its weight",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b", weight: 20 }, b: { then: "a", weight: 20 }, plain: { weight: 20 } });
        const rows = await t.c.explain(t.ns, {});
        assert.deepEqual(
          rows.map(({ workSpec, excluded, weight }) => [workSpec, excluded, weight]),
          [
            ["a", null, 10],
            ["b", null, 10],
            ["plain", null, 20],
          ],
        );
      },
    },
    {
      name: "python policy: a continuous spec counts with a twentieth of its weight, beside ordinary ones with work",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { c: { units: 0, continuous: true }, plain: {} });
        const rows = await t.c.explain(t.ns, {});
        assert.deepEqual(
          rows.map(({ workSpec, weight, excluded }) => [workSpec, weight, excluded]),
          [
            ["c", 1, null],
            ["plain", 20, null],
          ],
        );
        t.draws(0);
        assert.equal(await chosen(t), "c");
      },
    },
    {
      name: "python policy: a unit of negative priority is not starved",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { units: 0 } });
        await t.add("a", { name: "u", priority: -1 });
        assert.equal(await chosen(t), "a");
      },
    },
    {
      name: "python policy: the spec with the most urgent unit goes first",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b", units: 0 }, b: {} });
        await t.add("a", { name: "u", priority: 5 });
        assert.equal(await chosen(t), "a");
      },
    },
    {
      name: "python policy: a missing successor is ignored",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: { then: "b", units: 0 }, b: { then: "nowhere" } });
        assert.equal(await chosen(t), "b");
      },
    },
    {
      name: "python policy: a successor that is paused or full does not keep its predecessor waiting",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, {
          a: { then: "b" },
          b: { disabled: true },
          x: { then: "y" },
          y: { max_running: 1, pending: 1 },
        });
        assert.deepEqual(await excluded(t), { a: null, b: "paused", x: null, y: "max_running" });
      },
    },
    {
      name: "then_preempts is ignored by the default policy",
      async run(t) {
        await specs(t, { a: { then: "b", then_preempts: true }, b: {} });
        assert.deepEqual(await excluded(t), { a: null, b: null });
      },
    },
    {
      name: "a chain that is set up while work goes on is followed at once",
      async run(t) {
        await t.c.setNamespace(t.ns, { policy: "python" });
        await specs(t, { a: {}, b: {} });
        assert.deepEqual(await excluded(t), { a: null, b: null });
        await t.c.setWorkSpecs(t.ns, [{ data: encodeData({ name: "a", then: "b" }) }]);
        assert.deepEqual(await excluded(t), { a: "preempted", b: null });
      },
    },
  ],
};
