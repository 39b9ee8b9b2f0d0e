import assert from "node:assert/strict";
import { encodeData, jsonData, type WorkSpecMeta } from "../../core/index.ts";
import { table, type Case, type CaseGroup } from "../stack.ts";

/** Each special key: the value that it sets, its default, and values of the wrong type. */
const keys: readonly {
  key: string;
  field: keyof WorkSpecMeta;
  otherwise: unknown;
  value: unknown;
  becomes: unknown;
  wrong: unknown[];
}[] = [
  { key: "min_gb", field: "minGb", otherwise: 0, value: 1.5, becomes: 1.5, wrong: ["much", true, [], -1] },
  { key: "disabled", field: "paused", otherwise: false, value: true, becomes: true, wrong: ["yes", 1] },
  {
    key: "continuous",
    field: "continuous",
    otherwise: false,
    value: true,
    becomes: true,
    wrong: [1, "true"],
  },
  { key: "continuous", field: "canBeContinuous", otherwise: false, value: true, becomes: true, wrong: [] },
  { key: "interval", field: "intervalMs", otherwise: 0, value: 0.5, becomes: 500, wrong: ["1", -1, {}] },
  { key: "priority", field: "priority", otherwise: 0, value: -3, becomes: -3, wrong: ["high", false] },
  {
    key: "weight",
    field: "weight",
    otherwise: 20,
    value: 300,
    becomes: 300,
    wrong: ["heavy", null, [1]].filter((v) => v !== null),
  },
  { key: "nice", field: "weight", otherwise: 20, value: 5, becomes: 15, wrong: ["very"] },
  { key: "max_running", field: "maxRunning", otherwise: 0, value: 7, becomes: 7, wrong: ["7", -1, 1.5] },
  { key: "max_getwork", field: "maxGetwork", otherwise: 0, value: 8, becomes: 8, wrong: [{}, -1] },
  { key: "max_retries", field: "maxRetries", otherwise: 0, value: 9, becomes: 9, wrong: ["9", -2] },
  {
    key: "then",
    field: "nextWorkSpecName",
    otherwise: "",
    value: "next",
    becomes: "next",
    wrong: [1, ["next"]],
  },
  {
    key: "then_preempts",
    field: "thenPreempts",
    otherwise: true,
    value: false,
    becomes: false,
    wrong: [0, "no"],
  },
  { key: "runtime", field: "runtime", otherwise: "", value: "go", becomes: "go", wrong: [1, {}] },
];

/** The fields that an operator may set. */
const settable = {
  priority: 5,
  weight: 3,
  paused: true,
  minGb: 2,
  intervalMs: 1500,
  nextContinuous: 99_000,
  maxRunning: 4,
  maxGetwork: 5,
  maxRetries: 6,
} as const;

const keyCases = keys.flatMap(({ key, field, otherwise, value, becomes, wrong }): Case[] => [
  {
    name: `without ${key}, ${field} is ${JSON.stringify(otherwise)}`,
    async run(t) {
      assert.deepEqual((await t.spec("s")).meta[field], otherwise);
      assert.deepEqual((await t.spec("null", { [key]: null })).meta[field], otherwise);
    },
  },
  {
    name: `${key}: ${JSON.stringify(value)} makes ${field} ${JSON.stringify(becomes)}`,
    async run(t) {
      assert.deepEqual((await t.spec("s", { [key]: value })).meta[field], becomes);
      assert.deepEqual((await t.getSpec("s")).meta[field], becomes);
    },
  },
  ...wrong.map((bad): Case => ({
    name: `${key}: ${JSON.stringify(bad)} is refused as a ${field} naming the key, and nothing is stored`,
    async run(t) {
      await t.refuses("bad_work_spec", t.spec("s", { [key]: bad }), new RegExp(key));
      assert.deepEqual((await t.c.listWorkSpecs(t.ns)).rows, []);
    },
  })),
]);

export const workSpecs: CaseGroup = {
  concept: "work specs",
  cases: [
    ...keyCases,
    {
      name: "weight wins over nice",
      async run(t) {
        assert.equal((await t.spec("s", { weight: 7, nice: 5 })).meta.weight, 7);
      },
    },
    {
      name: "a weight derived from nice is never below 1",
      async run(t) {
        assert.equal((await t.spec("s", { nice: 40 })).meta.weight, 1);
        assert.equal((await t.spec("s", { nice: -40 })).meta.weight, 60);
      },
    },
    {
      name: "a weight that is given may be anything",
      async run(t) {
        assert.equal((await t.spec("s", { weight: -2 })).meta.weight, -2);
        assert.equal((await t.spec("s", { weight: 0 })).meta.weight, 0);
      },
    },
    ...table(
      [
        ["without a name", "{}", "no_work_spec_name"],
        ["with a null name", '{"name":null}', "no_work_spec_name"],
        ["with an empty name", '{"name":""}', "no_work_spec_name"],
        ["with a number as name", '{"name":1}', "bad_work_spec_name"],
        ["with a list as name", '{"name":["s"]}', "bad_work_spec_name"],
        ["with an object as name", '{"name":{}}', "bad_work_spec_name"],
      ] as const,
      ([what]) => `a work spec ${what} is refused, and nothing is stored`,
      async (t, [, text, code]) => {
        await t.refuses(code, t.c.setWorkSpecs(t.ns, [{ data: jsonData(text) }]));
        assert.deepEqual((await t.c.listWorkSpecs(t.ns)).rows, []);
      },
    ),
    {
      name: "a changed name is refused, and nothing is altered",
      async run(t) {
        const before = await t.spec("s", { weight: 5 });
        await t.refuses(
          "changed_name",
          t.c.setWorkSpecs(t.ns, [{ name: "s", data: encodeData({ name: "other", weight: 6 }) }]),
        );
        assert.deepEqual(await t.getSpec("s"), before);
        assert.equal((await t.c.listWorkSpecs(t.ns)).rows.length, 1);
      },
    },
    {
      name: "specs of one call are set all or none",
      async run(t) {
        const bad = [{ data: encodeData({ name: "a" }) }, { data: encodeData({ name: "b", weight: "x" }) }];
        await t.refuses("bad_work_spec", t.c.setWorkSpecs(t.ns, bad));
        assert.deepEqual((await t.c.listWorkSpecs(t.ns)).rows, []);
        const rows = await t.c.setWorkSpecs(t.ns, [
          { data: encodeData({ name: "b" }) },
          { data: encodeData({ name: "a" }) },
        ]);
        assert.deepEqual(
          rows.map(({ name }) => name),
          ["b", "a"],
        );
      },
    },
    {
      name: "setting a spec again replaces its data and keeps its id and units",
      async run(t) {
        const first = await t.spec("s", { desc: "one" });
        await t.add("s", "u");
        const second = await t.spec("s", { desc: "two" });
        assert.equal(second.id, first.id);
        assert.deepEqual((await t.getSpec("s")).data, encodeData({ name: "s", desc: "two" }));
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "setting a spec again resets all metadata to what the data derives, pause and next_continuous included",
      async run(t) {
        const first = await t.spec("s", { weight: 5, continuous: true });
        await t.c.setWorkSpecMeta(t.ns, "s", { ...settable, continuous: false });
        await t.spec("s", { weight: 5, continuous: true });
        assert.deepEqual((await t.getSpec("s")).meta, first.meta);
      },
    },
    {
      name: "keepMeta replaces the data and keeps what operators set by hand",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.c.setWorkSpecMeta(t.ns, "s", settable);
        const data = encodeData({ name: "s", weight: 50, continuous: true, then: "next", runtime: "go" });
        await t.c.setWorkSpecs(t.ns, [{ data }], { keepMeta: true });
        const { meta, data: now } = await t.getSpec("s");
        for (const [field, value] of Object.entries(settable))
          assert.equal(meta[field as keyof WorkSpecMeta], value, field);
        assert.equal(meta.nextWorkSpecName, "next");
        assert.equal(meta.runtime, "go");
        assert.deepEqual(now, data);
      },
    },
    {
      name: "keepMeta does not keep a spec continuous that no longer can be",
      async run(t) {
        await t.spec("s", { continuous: true });
        await t.c.setWorkSpecs(t.ns, [{ data: encodeData({ name: "s" }) }], { keepMeta: true });
        const { meta } = await t.getSpec("s");
        assert.equal(meta.continuous, false);
        assert.equal(meta.canBeContinuous, false);
      },
    },
    ...table(
      Object.entries(settable),
      ([field]) => `metadata: ${field} can be set on its own`,
      async (t, [field, value]) => {
        const before = await t.spec("s", { weight: 9 });
        const meta = await t.c.setWorkSpecMeta(t.ns, "s", { [field]: value });
        assert.deepEqual(meta, { ...before.meta, [field]: value });
        assert.deepEqual((await t.getSpec("s")).meta, meta);
      },
    ),
    ...table(
      [
        "canBeContinuous",
        "nextWorkSpecName",
        "runtime",
        "taskName",
        "runsModule",
        "thenPreempts",
        "retention",
        "availableCount",
      ],
      (field) => `metadata: ${field} cannot be set`,
      async (t, field) => {
        const before = await t.spec("s");
        await t.refuses(
          "bad_argument",
          t.c.setWorkSpecMeta(t.ns, "s", { [field]: true, weight: 4 }),
          new RegExp(field),
        );
        assert.deepEqual((await t.getSpec("s")).meta, before.meta);
      },
    ),
    ...table(
      [
        ["weight", NaN],
        ["weight", "1"],
        ["priority", Infinity],
        ["paused", 1],
        ["continuous", "yes"],
        ["intervalMs", -1],
        ["maxRunning", -1],
        ["maxRunning", 1.5],
        ["maxGetwork", "2"],
        ["maxRetries", NaN],
        ["minGb", -0.5],
        ["nextContinuous", -5],
      ] as const,
      ([field, value]) =>
        `metadata: ${field} of ${typeof value} ${String(value)} is refused, and nothing is changed`,
      async (t, [field, value]) => {
        const before = await t.spec("s");
        await t.refuses(
          "bad_argument",
          t.c.setWorkSpecMeta(t.ns, "s", { [field]: value }),
          new RegExp(field),
        );
        assert.deepEqual((await t.getSpec("s")).meta, before.meta);
      },
    ),
    {
      name: "metadata: any weight may be set",
      async run(t) {
        await t.spec("s");
        assert.equal((await t.c.setWorkSpecMeta(t.ns, "s", { weight: -5 })).weight, -5);
      },
    },
    {
      name: "metadata: continuous can be switched off and on for a spec that can be",
      async run(t) {
        await t.spec("s", { continuous: true });
        assert.equal((await t.c.setWorkSpecMeta(t.ns, "s", { continuous: false })).continuous, false);
        assert.equal((await t.c.setWorkSpecMeta(t.ns, "s", { continuous: true })).continuous, true);
      },
    },
    {
      name: "metadata: turning continuous on for a spec that cannot be is no error and leaves it off",
      async run(t) {
        await t.spec("s");
        assert.equal((await t.c.setWorkSpecMeta(t.ns, "s", { continuous: true })).continuous, false);
        assert.equal((await t.getSpec("s")).meta.continuous, false);
      },
    },
    {
      name: "metadata of a spec that does not exist cannot be set",
      async run(t) {
        await t.refuses("no_such_work_spec", t.c.setWorkSpecMeta(t.ns, "s", { weight: 1 }), /s/);
      },
    },
    {
      name: "unknown keys are kept and ignored",
      async run(t) {
        const row = await t.spec("s", { run_function: "f", config: { a: 1 }, task: 7, whatever: [1] });
        assert.deepEqual(
          row.data,
          encodeData({ name: "s", run_function: "f", config: { a: 1 }, task: 7, whatever: [1] }),
        );
        assert.deepEqual(row.meta, { ...(await t.spec("plain")).meta, taskName: "s" });
      },
    },
    {
      name: "specs are got by name in the order asked for, null where there is none",
      async run(t) {
        await t.spec("a");
        await t.spec("b");
        const rows = await t.c.getWorkSpecs(t.ns, ["b", "none", "a"]);
        assert.deepEqual(
          rows.map((row) => row?.name ?? null),
          ["b", null, "a"],
        );
      },
    },
    {
      name: "listings are paged: limit, next and previous",
      async run(t) {
        for (const name of ["c", "a", "b"]) await t.spec(name);
        const first = await t.c.listWorkSpecs(t.ns, { limit: 2 });
        assert.deepEqual([first.rows.map(({ name }) => name), first.next], [["a", "b"], "b"]);
        const last = await t.c.listWorkSpecs(t.ns, { limit: 2, previous: "b" });
        assert.deepEqual([last.rows.map(({ name }) => name), last.next], [["c"], null]);
        const exact = await t.c.listWorkSpecs(t.ns, { limit: 3 });
        assert.equal(exact.next, null);
      },
    },
    {
      name: "deleting answers per name whether it was there",
      async run(t) {
        await t.spec("a");
        assert.deepEqual(await t.c.deleteWorkSpecs(t.ns, ["none", "a", "a"]), [false, true, false]);
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, ["a"]), [null]);
      },
    },
    {
      name: "deleting a spec deletes its units and attempts",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const attempt = await t.claimOne();
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        await t.refuses("no_such_work_spec", t.c.listWorkUnits(t.ns, "s"));
        assert.equal((await t.settle(attempt, "finish")).error, "gone");
        assert.deepEqual(await t.claim(), []);
        assert.deepEqual(await t.c.tally(t.ns), []);
        assert.deepEqual((await t.c.listWorkerAttempts(t.ns, "worker", { which: "all" })).rows, []);
      },
    },
    {
      name: "a spec that was deleted and made again is another: empty, with another id, and the old one is gone",
      async run(t) {
        const old = await t.spec("s");
        await t.add("s", "u");
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        const fresh = await t.spec("s");
        assert.notEqual(fresh.id, old.id);
        assert.deepEqual(await t.statuses("s"), {});
        const ref = { name: "s", id: old.id };
        await t.refuses("gone", t.c.addWorkUnits(t.ns, ref, [{ name: "u" }]));
        await t.refuses("gone", t.c.listWorkUnits(t.ns, ref));
        await t.refuses("gone", t.c.setWorkSpecMeta(t.ns, ref, { weight: 1 }));
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, [ref]), [null]);
        assert.deepEqual(await t.c.deleteWorkSpecs(t.ns, [ref]), [false]);
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "a spec by name and id is the same as by name",
      async run(t) {
        const { id } = await t.spec("s");
        await t.c.addWorkUnits(t.ns, { name: "s", id }, [{ name: "u" }]);
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "retention is read from the data, in seconds and counts",
      async run(t) {
        const { meta } = await t.spec("s", {
          retention: { finished: { max_age: 60 }, failed: { max_age: 1.5, max_count: 10 } },
        });
        assert.deepEqual(meta.retention, {
          finished: { maxAgeMs: 60_000 },
          failed: { maxAgeMs: 1500, maxCount: 10 },
        });
        await t.refuses(
          "bad_work_spec",
          t.spec("bad", { retention: { finished: { max_age: "long" } } }),
          /retention\.finished\.max_age/,
        );
      },
    },
    ...table(
      [
        { key: "interval", of: (seconds: number) => ({ interval: seconds }) },
        { key: "rate.period", of: (seconds: number) => ({ rate: { limit: 1, period: seconds } }) },
        {
          key: "rate_per_partition.period",
          of: (seconds: number) => ({ rate_per_partition: { limit: 1, period: seconds } }),
        },
        { key: "retry.backoff.delay", of: (seconds: number) => ({ retry: { backoff: { delay: seconds } } }) },
        { key: "retry.backoff.max", of: (seconds: number) => ({ retry: { backoff: { max: seconds } } }) },
        { key: "breaker.window", of: (seconds: number) => ({ breaker: { window: seconds } }) },
        { key: "breaker.pause", of: (seconds: number) => ({ breaker: { pause: seconds } }) },
        {
          key: "retention.finished.max_age",
          of: (seconds: number) => ({ retention: { finished: { max_age: seconds } } }),
        },
        { key: "schedule.every", of: (seconds: number) => ({ schedule: { every: seconds } }) },
        { key: "schedule.jitter", of: (seconds: number) => ({ schedule: { every: 60, jitter: seconds } }) },
      ],
      ({ key }) => `${key} is at most half the range of dates`,
      async (t, { key, of }) => {
        await t.spec("s", of(4.32e12));
        await t.refuses(
          "bad_work_spec",
          t.spec("bad", of(4.33e12)),
          new RegExp(`${key.replaceAll(".", "\\.")}: expected a number from 0 to 4,320,000,000,000, got`),
        );
      },
    ),
    {
      name: "an interval that is set by hand is at most half the range of dates",
      async run(t) {
        await t.spec("s");
        await t.c.setWorkSpecMeta(t.ns, "s", { intervalMs: 4.32e15 });
        await t.refuses(
          "bad_argument",
          t.c.setWorkSpecMeta(t.ns, "s", { intervalMs: 4.33e15 }),
          /intervalMs: expected milliseconds from 0 to 4,320,000,000,000,000, got/,
        );
      },
    },
  ],
};
