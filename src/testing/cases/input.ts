/** Invalid input: a typed error names the field, and nothing is changed. */
import assert from "node:assert/strict";
import type { ErrorCode } from "../../core/index.ts";
import { table, type CaseGroup, type Context } from "../stack.ts";

type Bad = readonly [what: string, code: ErrorCode, mentions: RegExp, call: (t: Context) => Promise<unknown>];

/** The types forbid all of these, but programs without types can send them. */
const wrong = (value: unknown): never => value as never;

const bad: readonly Bad[] = [
  ["a work unit without a name", "bad_name", /work unit/, (t) => t.c.addWorkUnits(t.ns, "s", [wrong({})])],
  [
    "a number as a unit's name",
    "bad_name",
    /work unit/,
    (t) => t.c.addWorkUnits(t.ns, "s", [wrong({ name: 5 })]),
  ],
  ["null as a unit", "bad_argument", /unit/, (t) => t.c.addWorkUnits(t.ns, "s", [wrong(null)])],
  [
    "a unit's data that is an object",
    "bad_data",
    /data/,
    (t) => t.add("s", wrong({ name: "x", data: { n: 1 } })),
  ],
  ["a unit's data that is a number", "bad_data", /data/, (t) => t.add("s", wrong({ name: "x", data: 5 }))],
  ["a priority of NaN", "bad_argument", /priority/, (t) => t.add("s", { name: "x", priority: NaN })],
  ["an infinite priority", "bad_argument", /priority/, (t) => t.add("s", { name: "x", priority: -Infinity })],
  ["a text as priority", "bad_argument", /priority/, (t) => t.add("s", wrong({ name: "x", priority: "1" }))],
  ["a delay of NaN", "bad_argument", /delayMs/, (t) => t.add("s", { name: "x", delayMs: NaN })],
  ["a delay beyond time", "bad_argument", /delayMs/, (t) => t.add("s", { name: "x", delayMs: 1e17 })],
  ["a time beyond time", "bad_argument", /notBefore/, (t) => t.add("s", { name: "x", notBefore: 1e17 })],
  ["a negative time", "bad_argument", /notBefore/, (t) => t.add("s", { name: "x", notBefore: -1 })],
  [
    "a delay and a time",
    "bad_argument",
    /delayMs/,
    (t) => t.add("s", { name: "x", notBefore: t.now + 1, delayMs: 1 }),
  ],
  ["units that are no list", "bad_argument", /units/, (t) => t.c.addWorkUnits(t.ns, "s", wrong({}))],
  [
    "dependencies that are no list",
    "bad_argument",
    /dependencies/,
    (t) => t.add("s", wrong({ name: "x", dependencies: "u" })),
  ],
  ["a spec name that is a number", "bad_name", /work spec/, (t) => t.c.listWorkUnits(t.ns, wrong(5))],
  ["a namespace that is a number", "bad_name", /namespace/, (t) => t.c.listWorkSpecs(wrong(5))],
  ["a limit of 0", "bad_argument", /limit/, (t) => t.c.listWorkUnits(t.ns, "s", { limit: 0 })],
  ["a negative limit", "bad_argument", /limit/, (t) => t.c.listWorkUnits(t.ns, "s", { limit: -1 })],
  ["half a limit", "bad_argument", /limit/, (t) => t.c.listWorkUnits(t.ns, "s", { limit: 1.5 })],
  ["a negative limit of specs", "bad_argument", /limit/, (t) => t.c.listWorkSpecs(t.ns, { limit: -1 })],
  ["a negative limit of workers", "bad_argument", /limit/, (t) => t.c.listWorkers(t.ns, { limit: -1 })],
  [
    "an unknown status",
    "bad_argument",
    /statuses/,
    (t) => t.c.listWorkUnits(t.ns, "s", { statuses: [wrong("asleep")] }),
  ],
  [
    "names that are no list",
    "bad_argument",
    /names/,
    (t) => t.c.listWorkUnits(t.ns, "s", { names: wrong("u") }),
  ],
  [
    "a number among names",
    "bad_name",
    /work unit/,
    (t) => t.c.deleteWorkUnits(t.ns, "s", { names: [wrong(5)] }),
  ],
  [
    "an unknown status to delete",
    "bad_argument",
    /statuses/,
    (t) => t.c.deleteWorkUnits(t.ns, "s", { statuses: [wrong("any")] }),
  ],
  ["a negative number of attempts", "bad_argument", /number/, (t) => t.claim({ number: -1 })],
  ["half an attempt", "bad_argument", /number/, (t) => t.claim({ number: 0.5 })],
  ["a number of NaN", "bad_argument", /number/, (t) => t.claim({ number: NaN })],
  ["a negative lease", "bad_argument", /lifetimeMs/, (t) => t.claim({ lifetimeMs: -1 })],
  ["an endless lease", "bad_argument", /lifetimeMs/, (t) => t.claim({ lifetimeMs: Infinity })],
  ["a wait of NaN", "bad_argument", /waitMs/, (t) => t.claim({ waitMs: NaN })],
  ["runtimes that are a text", "bad_argument", /runtimes/, (t) => t.claim({ runtimes: wrong("go") })],
  ["tasks that are a text", "bad_argument", /tasks/, (t) => t.claim({ tasks: wrong("mail") })],
  ["work specs that are a text", "bad_argument", /workSpecs/, (t) => t.claim({ workSpecs: wrong("s") })],
  ["memory of NaN", "bad_argument", /availableGb/, (t) => t.claim({ availableGb: NaN })],
  [
    "a text that is no object as data",
    "bad_data",
    /data/,
    (t) => t.add("s", { name: "x", data: wrong("[1]") }),
  ],
  [
    "bytes that are no map as data",
    "bad_data",
    /data/,
    (t) => t.add("s", { name: "x", data: wrong(Uint8Array.of(0x80)) }),
  ],
  [
    "a priority that is not given",
    "bad_argument",
    /priority/,
    (t) => t.c.setWorkUnitPriorities(t.ns, "s", { all: true }, wrong({})),
  ],
  [
    "a prefix of workers that is a number",
    "bad_argument",
    /prefix/,
    (t) => t.c.listWorkers(t.ns, { prefix: wrong(5) }),
  ],
  ["a worker without a name", "bad_name", /worker/, (t) => t.claim({ worker: wrong(undefined) })],
  [
    "an attempt for a unit that is not there",
    "no_such_work_unit",
    /none/,
    (t) => t.c.makeAttempts(t.ns, [{ workSpec: "s", workUnit: "none", worker: "w" }]),
  ],
  [
    "an unknown list of attempts",
    "bad_argument",
    /which/,
    (t) => t.c.listWorkerAttempts(t.ns, "w", { which: wrong("some") }),
  ],
  [
    "a page after an attempt that is none",
    "no_such_attempt",
    /x/,
    (t) => t.c.listWorkerAttempts(t.ns, "w", { which: "all", previous: "x" }),
  ],
  [
    "a worker's data that is an object",
    "bad_data",
    /data/,
    (t) => t.c.updateWorkers(t.ns, [{ name: "w", active: true, data: wrong({}) }]),
  ],
  [
    "a worker's expiration beyond time",
    "bad_argument",
    /expiration/,
    (t) => t.c.updateWorkers(t.ns, [{ name: "w", active: true, expiration: 1e17 }]),
  ],
  [
    "a worker's mode that is a number",
    "bad_argument",
    /mode/,
    (t) => t.c.updateWorkers(t.ns, [{ name: "w", mode: wrong(5) }]),
  ],
  ["a work spec without data", "bad_data", /work spec/, (t) => t.c.setWorkSpecs(t.ns, [wrong({})])],
  [
    "a lock timeout of NaN",
    "bad_argument",
    /timeoutMs/,
    (t) => t.c.lock(t.ns, { owner: "o", paths: [["a"]], timeoutMs: NaN }),
  ],
  [
    "a lock path that is a text",
    "bad_argument",
    /path/,
    (t) => t.c.lock(t.ns, { owner: "o", paths: [wrong("a")] }),
  ],
  [
    "a lock owner that is a number",
    "bad_argument",
    /owner/,
    (t) => t.c.lock(t.ns, { owner: wrong(1), paths: [["a"]] }),
  ],
  ["units of a spec that is not there", "no_such_work_spec", /none/, (t) => t.c.listWorkUnits(t.ns, "none")],
  [
    "a unit's name of a spec that is not there",
    "no_such_work_spec",
    /none/,
    (t) => t.c.getWorkUnits(t.ns, "none", ["u"]),
  ],
  [
    "deleting from a spec that is not there",
    "no_such_work_spec",
    /none/,
    (t) => t.c.deleteWorkUnits(t.ns, "none", { all: true }),
  ],
  [
    "priorities in a spec that is not there",
    "no_such_work_spec",
    /none/,
    (t) => t.c.setWorkUnitPriorities(t.ns, "none", { all: true }, { set: 1 }),
  ],
  [
    "an option of units given for all of them",
    "bad_argument",
    /throttleMs/,
    (t) => t.c.addWorkUnits(t.ns, "s", [{ name: "x" }], wrong({ throttleMs: 5 })),
  ],
  [
    "a misspelt wait for messages",
    "bad_argument",
    /waitMS/,
    (t) => t.c.takeMessages(t.ns, "q", wrong({ waitMS: 5 })),
  ],
  [
    "a misspelt wait for ends",
    "bad_argument",
    /waitMS/,
    (t) => t.c.awaitWorkUnits(t.ns, "s", [], wrong({ waitMS: 5 })),
  ],
  [
    "a misspelt wait for work",
    "bad_argument",
    /waitMS/,
    (t) => t.c.requestAttempts(t.ns, wrong({ worker: "w", waitMS: 5 })),
  ],
  [
    "a misspelt condition of a list of units",
    "bad_argument",
    /status/,
    (t) => t.c.listWorkUnits(t.ns, "s", wrong({ status: ["failed"] })),
  ],
  [
    "a misspelt condition of a list of workers",
    "bad_argument",
    /parnt/,
    (t) => t.c.listWorkers(t.ns, wrong({ parnt: "p" })),
  ],
  ["a text as labels", "bad_argument", /labels/, (t) => t.add("s", wrong({ name: "x", labels: "abc" }))],
  [
    "a text as a dependency",
    "bad_argument",
    /dependencies/,
    (t) => t.add("s", wrong({ name: "x", dependencies: ["5"] })),
  ],
  [
    "a text as the unit that follows a batch",
    "bad_argument",
    /then/,
    (t) => t.c.setBatches(t.ns, [wrong({ name: "b", then: "cb" })]),
  ],
  [
    "too many items in one call",
    "too_large",
    /names/,
    (t) =>
      t.c.getWorkUnits(
        t.ns,
        "s",
        Array.from({ length: 100_001 }, () => "u"),
      ),
  ],
];

export const input: CaseGroup = {
  concept: "input",
  cases: table(
    bad,
    ([what, code]) => `${what}: ${code}`,
    async (t, [, code, mentions, call]) => {
      await t.spec("s");
      await t.add("s", "u");
      await t.refuses(code, call(t), mentions);
      assert.deepEqual(await t.statuses("s"), { u: "available" });
      assert.deepEqual(
        (await t.c.listWorkSpecs(t.ns)).rows.map(({ name }) => name),
        ["s"],
      );
      assert.deepEqual((await t.c.listWorkers(t.ns)).rows, []);
      assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), [null]);
    },
  ),
};
