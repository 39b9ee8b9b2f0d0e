/** Random commands for two engines at once, one on each store: every answer, and every error, must be the same. */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  CoordinateError,
  encodeData,
  nameFromBytes,
  workUnitStatuses,
  type AttemptAction,
  type Data,
  type Engine,
  type ManualClock,
  type Page,
  type QueueMessage,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "../../src/core/index.ts";
import type { Ids } from "./ids.ts";

export interface Pair {
  memory: Engine;
  other: Engine;
  clock: ManualClock;
  ns: string;
  /** Attempts that were handed out, oldest first. */
  attempts: string[];
  steps?: number;
  /** After how many steps counts are compared; 1, more where a question costs more. */
  tallyEvery?: number;
  /** Which ids of the two belong together; without it they must be the same. */
  ids?: Ids;
  /** Closes the other store and opens it again. */
  reopen: () => Promise<void>;
  /** Lets the next transaction of the other store fail for want of space, now and then; answers how to end that. */
  hinder?: () => () => void;
}

type Command = fc.AsyncCommand<object, Pair>;
type Verb = (engine: Engine, pair: Pair) => Promise<unknown>;

const outcome = async (answer: Promise<unknown>): Promise<unknown> => {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof CoordinateError) return { code: error.code, message: error.message };
    throw error;
  }
};

const isRefusal = (answer: unknown): answer is { code: string } =>
  typeof answer === "object" && answer !== null && "code" in answer;

/** Asks both the same. */
async function both(pair: Pair, verb: Verb): Promise<unknown> {
  const expected = await outcome(verb(pair.memory, pair));
  const { ids } = pair;
  const theirs =
    ids === undefined ? pair : { ...pair, attempts: pair.attempts.map((name) => ids.attempt(name)) };
  const free = pair.hinder?.();
  let got = await outcome(verb(pair.other, theirs));
  free?.();
  // what was refused for want of space has left no trace: asked again, it does what it would have done
  if (isRefusal(got) && got.code === "no_space") got = await outcome(verb(pair.other, theirs));
  assert.deepStrictEqual(ids === undefined ? got : ids.translated(got, expected), expected);
  return expected;
}

/** Everything that can be seen of a namespace. */
export async function compareAll(pair: Pair): Promise<void> {
  const { ns } = pair;
  await both(pair, (engine) => engine.tally(ns));
  await both(pair, (engine) => engine.listNamespaces());
  await both(pair, (engine) => engine.listWorkers(ns));
  await both(pair, (engine) => engine.listWorkSpecs(ns));
  await both(pair, (engine) => engine.readLocks(ns, paths));
  await both(pair, (engine) => engine.waitingSince(ns));
  await both(pair, (engine) => engine.listQueues(ns));
  await both(pair, (engine) => engine.countMessages(ns, queueNames));
  await both(pair, (engine) => engine.listActions(ns));
  for (const spec of specNames) {
    const listed = await both(pair, (engine) => engine.listWorkUnits(ns, spec));
    await both(pair, (engine) => engine.listUnitAttempts(ns, spec, "nobody's"));
    if (isRefusal(listed)) continue;
    const { rows } = listed as Page<WorkUnitRow>;
    for (const label of labelNames) await both(pair, (engine) => engine.listWorkUnits(ns, spec, { label }));
    for (const status of new Set(rows.map((row) => row.status)))
      await both(pair, (engine) => engine.listWorkUnits(ns, spec, { statuses: [status] }));
    for (const { name } of rows.filter(({ attempts }) => attempts > 0))
      await both(pair, (engine) => engine.listUnitAttempts(ns, spec, name));
  }
  for (const worker of workerNames)
    for (const which of ["all", "active", "children"] as const)
      await both(pair, (engine) => engine.listWorkerAttempts(ns, worker, { which }));
  await both(pair, (engine) => engine.explain(ns, {}));
}

class Step implements Command {
  readonly #text: string;
  readonly #run: (pair: Pair) => Promise<void>;

  constructor(text: string, run: (pair: Pair) => Promise<void>) {
    this.#text = text;
    this.#run = run;
  }

  check(): boolean {
    return true;
  }

  async run(_model: object, pair: Pair): Promise<void> {
    await this.#run(pair);
    pair.steps = (pair.steps ?? 0) + 1;
    if (pair.steps % (pair.tallyEvery ?? 1) === 0) await both(pair, (engine) => engine.tally(pair.ns));
  }

  toString(): string {
    return this.#text;
  }
}

const step = (text: string, verb: Verb): Step =>
  new Step(text, async (pair) => {
    await both(pair, verb);
  });

const shown = (value: unknown): string => JSON.stringify(value);

// ---- what the commands are about

const specNames = ["a", "b", "c", "\0s\u{1f600}"];
const workerNames = ["w1", "w2", "w3", "w\0"];
/** A name with a zero byte, one beyond the basic plane, one that is not UTF-8, and one that begins another. */
const odd = ["n\0", "n", "\u{1f600}", nameFromBytes(Uint8Array.of(0x6e, 0xff)), "\uffff", ""];
const paths = [["p"], ["p", "q"], ["p", "q", "r"], ["x"], []];

const spec = fc.constantFrom("a", "a", "b", "b", "c", "\0s\u{1f600}");
const usual = fc.constantFrom("1", "2", "3", "4", "5", "6");
const name = fc.oneof({ weight: 8, arbitrary: usual }, { weight: 2, arbitrary: fc.constantFrom(...odd) });
const worker = fc.constantFrom(...workerNames);
const priority = fc.constantFrom(0, 0, 0, 1, -1, 0.5, 1e300);
const span = fc.constantFrom(0, 0, 10, 100, 1000);
const output = fc.array(
  fc.oneof(
    name,
    fc.tuple(name, fc.record({ k: fc.nat(3) })),
    fc.tuple(name, fc.constant(null), fc.record({ priority, delay: fc.constantFrom(0, 0.1, 2) })),
    fc.constantFrom(7, []),
  ),
  { maxLength: 3 },
);
const data: fc.Arbitrary<Data | null> = fc.option(
  fc
    .oneof(
      fc.record({ n: fc.nat(9) }),
      fc.record({ output }),
      fc.record({ n: fc.nat(9), output }),
      // bytes are CBOR
      fc.record({ bytes: fc.uint8Array({ maxLength: 4 }), output }),
    )
    .map((value) => encodeData(value)),
);

const dependencies = fc.option(
  fc.array(
    fc.record({
      workUnit: usual,
      kind: fc.constantFrom("hard" as const, "soft" as const),
      workSpec: fc.constantFrom("a", "b"),
    }),
    { maxLength: 2 },
  ),
  { freq: 6, nil: undefined },
);

const queueNames = ["q", "r\0", "\udcff"];
const labelNames = ["red", "big", "n\0"];
const queues = fc.option(fc.subarray(queueNames), { nil: undefined });
const labels = fc.option(fc.subarray(labelNames), { nil: undefined });

const selection: fc.Arbitrary<WorkUnitSelection> = fc.oneof(
  fc.array(name, { maxLength: 3 }).map((names) => ({ names })),
  fc.constantFrom(...workUnitStatuses).map((status) => ({ statuses: [status] })),
  fc.subarray([...workUnitStatuses]).map((statuses) => ({ statuses })),
  fc
    .constantFrom("", "1", "n", "\udcff", "\u{1f600}")
    .map((prefix) => ({ prefix, statuses: [...workUnitStatuses] })),
  fc.constantFrom(...labelNames).map((label) => ({ label })),
  fc
    .tuple(fc.constantFrom(...labelNames), fc.subarray([...workUnitStatuses]))
    .map(([label, statuses]) => ({ label, statuses, prefix: "" })),
  fc.constant({ all: true }),
);

const requestId = fc.option(fc.constantFrom("r1", "r2"), { freq: 8, nil: undefined });

// ---- the commands

const add = fc
  .tuple(
    spec,
    fc.array(fc.record({ name, data, priority, delayMs: span, dependencies, queues, labels }), {
      minLength: 1,
      maxLength: 4,
    }),
    requestId,
  )
  .map(([spec, units, requestId]) => {
    const inputs = units.map(({ dependencies, queues, labels, ...unit }) => ({
      ...unit,
      ...(dependencies !== undefined && { dependencies }),
      ...(queues !== undefined && { queues }),
      ...(labels !== undefined && { labels }),
    }));
    return step(`add to ${spec} ${shown(inputs)} ${requestId ?? ""}`, (engine, { ns }) =>
      engine.addWorkUnits(ns, spec, inputs, requestId === undefined ? {} : { requestId }),
    );
  });

const addMany = fc
  .tuple(spec, fc.integer({ min: 40, max: 130 }), fc.integer({ min: 0, max: 60 }), fc.boolean(), span)
  .map(([spec, count, from, plain, delayMs]) => {
    const units = Array.from({ length: count }, (_, i) => ({
      name: `many ${from + i}`,
      data: i % 3 === 0 ? null : encodeData({ i }),
      ...(!plain && { priority: i % 2, delayMs: i % 7 === 0 ? delayMs : 0 }),
      ...(!plain && i % 5 === 0 && { labels: ["red"], queues: ["q"] }),
    }));
    return step(`add ${count} to ${spec} from ${from}`, (engine, { ns }) =>
      engine.addWorkUnits(ns, spec, units),
    );
  });

const request = fc
  .tuple(
    worker,
    fc.constantFrom(1, 2, 3, 60),
    fc.constantFrom(10, 100, 1000, 10_000),
    fc.option(fc.array(spec, { minLength: 1, maxLength: 2 }), { nil: undefined }),
    requestId,
  )
  .map(
    ([worker, number, lifetimeMs, workSpecs, requestId]) =>
      new Step(
        `${worker} asks for ${number} of ${shown(workSpecs)} for ${lifetimeMs} ${requestId ?? ""}`,
        async (pair) => {
          const ask = {
            worker,
            number,
            lifetimeMs,
            ...(workSpecs && { workSpecs }),
            ...(requestId !== undefined && { requestId }),
          };
          const rows = await both(pair, (engine, { ns }) => engine.requestAttempts(ns, ask));
          if (Array.isArray(rows)) pair.attempts.push(...(rows as { id: string }[]).map(({ id }) => id));
        },
      ),
  );

const make = fc
  .array(fc.record({ workSpec: spec, workUnit: name, worker, lifetimeMs: fc.constantFrom(100, 1000) }), {
    minLength: 1,
    maxLength: 3,
  })
  .map(
    (makes) =>
      new Step(`make ${shown(makes)}`, async (pair) => {
        const rows = await both(pair, (engine, { ns }) => engine.makeAttempts(ns, makes));
        if (Array.isArray(rows)) pair.attempts.push(...(rows as { id: string }[]).map(({ id }) => id));
      }),
  );

const action = fc.constantFrom<AttemptAction>(
  "finish",
  "finish",
  "finish",
  "fail",
  "retry",
  "expire",
  "renew",
);
const change = fc.record({ back: fc.nat(15), action, data, delayMs: span, lifetimeMs: span });
const settleText = (changes: unknown): string => `settle ${shown(changes)}`;

const settle = fc.array(change, { minLength: 1, maxLength: 5 }).map((changes) =>
  step(settleText(changes), (engine, { ns, attempts }) =>
    engine.settleAttempts(
      ns,
      changes.map(({ back, ...rest }) => ({ ...rest, attempt: attempts.at(-1 - back) ?? `${back}.1` })),
    ),
  ),
);

const settleMany = fc
  .tuple(action, fc.integer({ min: 1, max: 60 }), fc.boolean())
  .map(([action, count, withData]) =>
    step(`${action} the last ${count}`, (engine, { ns, attempts }) =>
      engine.settleAttempts(
        ns,
        attempts.slice(-count).map((attempt, i) => ({
          attempt,
          action,
          lifetimeMs: 500,
          ...(withData && i % 3 === 0 && { data: encodeData({ output: [`many ${i}`], i }) }),
        })),
      ),
    ),
  );

const getAttempts = fc.constant(
  step("get attempts", (engine, { ns, attempts }) => engine.getAttempts(ns, attempts.slice(-20))),
);

const advance = fc.constantFrom(1, 10, 100, 1000, 10_000).map(
  (ms) =>
    new Step(`advance ${ms}`, async ({ clock }) => {
      clock.advance(ms);
    }),
);

const list = fc
  .tuple(spec, selection, fc.integer({ min: 1, max: 80 }), fc.option(name, { nil: undefined }))
  .map(([spec, selection, limit, previous]) => {
    const { all: _all, ...where } = selection;
    const query = { ...where, limit, ...(previous !== undefined && { previous }) };
    return step(`list ${spec} ${shown(query)}`, (engine, { ns }) => engine.listWorkUnits(ns, spec, query));
  });

const get = fc
  .tuple(spec, fc.array(name, { maxLength: 5 }))
  .map(([spec, names]) =>
    step(`get ${shown(names)} of ${spec}`, (engine, { ns }) => engine.getWorkUnits(ns, spec, names)),
  );

const prioritize = fc
  .tuple(
    spec,
    selection,
    fc.oneof(
      priority.map((set) => ({ set })),
      fc.constantFrom(-1, 1).map((adjust) => ({ adjust })),
    ),
  )
  .map(([spec, selection, change]) =>
    step(`priority of ${spec} ${shown(selection)} ${shown(change)}`, (engine, { ns }) =>
      engine.setWorkUnitPriorities(ns, spec, selection, change),
    ),
  );

const delay = fc
  .tuple(spec, selection, span)
  .map(([spec, selection, ms]) =>
    step(`delay ${spec} ${shown(selection)} by ${ms}`, (engine, { ns, clock }) =>
      engine.setWorkUnitDelays(ns, spec, selection, ms === 0 ? 0 : clock.now() + ms),
    ),
  );

const reset = fc
  .tuple(spec, selection)
  .map(([spec, selection]) =>
    step(`reset ${spec} ${shown(selection)}`, (engine, { ns }) => engine.resetWorkUnits(ns, spec, selection)),
  );

const remove = fc
  .tuple(spec, selection)
  .map(([spec, selection]) =>
    step(`delete ${spec} ${shown(selection)}`, (engine, { ns }) =>
      engine.deleteWorkUnits(ns, spec, selection),
    ),
  );

const count = fc
  .tuple(spec, selection)
  .map(([spec, selection]) =>
    step(`count ${spec} ${shown(selection)}`, (engine, { ns }) => engine.countWorkUnits(ns, spec, selection)),
  );

/** Numbers are the store's own, and of units that end in one step the order is not promised. */
function told(messages: readonly QueueMessage[]): object[] {
  // ids differ from store to store: of an attempt, only its number tells the order
  const order = ({ attempt, ...rest }: Told): string => shown({ ...rest, number: attempt?.split(".")[1] });
  return messages
    .map(({ seq: _seq, data, ...rest }): Told => ({ ...rest, data: String(data) }))
    .sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

type Told = Omit<QueueMessage, "seq" | "data"> & { data: string };

const take = fc
  .tuple(fc.constantFrom(...queueNames), requestId)
  .map(([queue, requestId]) =>
    step(`take ${shown(queue)} ${requestId ?? ""}`, async (engine, { ns }) =>
      told(
        await engine.takeMessages(ns, queue, { max: 1000, ...(requestId !== undefined && { requestId }) }),
      ),
    ),
  );

const clear = fc
  .constantFrom(...queueNames)
  .map((queue) => step(`clear ${shown(queue)}`, (engine, { ns }) => engine.clearQueue(ns, queue)));

const putActions = fc
  .array(fc.record({ key: fc.constantFrom("k", "l", "m\0"), data: fc.constantFrom(1, 1, 2) }), {
    minLength: 1,
    maxLength: 3,
  })
  .map((actions) =>
    step(`put actions ${shown(actions)}`, (engine, { ns }) =>
      engine.putActions(
        ns,
        actions.map(({ key, data }) => ({ key, data: encodeData({ data }) })),
      ),
    ),
  );

const deleteActions = fc
  .subarray(["k", "l", "m\0"])
  .map((keys) => step(`delete actions ${shown(keys)}`, (engine, { ns }) => engine.deleteActions(ns, keys)));

const setSpec = fc
  .record({
    name: spec,
    then: fc.constantFrom("", "a", "b", "nowhere"),
    continuous: fc.constantFrom(false, false, true),
    interval: fc.constantFrom(0, 0.05, 1),
    max_retries: fc.constantFrom(0, 0, 1, 2),
    retention: fc.constantFrom(
      {},
      {},
      { finished: { max_count: 2 } },
      { failed: { max_age: 0.1 } },
      { finished: { max_age: 1, max_count: 5 }, failed: { max_count: 0 } },
    ),
  })
  .chain((data) => fc.boolean().map((keepMeta) => ({ data, keepMeta })))
  .map(({ data, keepMeta }) =>
    step(`set ${shown(data)} ${keepMeta}`, (engine, { ns }) =>
      engine.setWorkSpecs(ns, [{ data: encodeData(data) }], { keepMeta }),
    ),
  );

const setMeta = fc
  .tuple(
    spec,
    fc.record(
      {
        paused: fc.constantFrom(false, false, true),
        continuous: fc.boolean(),
        maxRunning: fc.constantFrom(0, 0, 1, 3),
        maxRetries: fc.constantFrom(0, 0, 1, 2),
        weight: fc.constantFrom(0, 1, 20),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([spec, change]) =>
    step(`meta of ${spec} ${shown(change)}`, (engine, { ns }) => engine.setWorkSpecMeta(ns, spec, change)),
  );

const dropSpec = spec.map((spec) =>
  step(`delete work spec ${spec}`, (engine, { ns }) => engine.deleteWorkSpecs(ns, [spec])),
);

const dropNamespace = fc.constant(
  step("delete the namespace", (engine, { ns }) => engine.deleteNamespace(ns)),
);

const setNamespace = fc
  .constantFrom("run" as const, "idle" as const)
  .map((desired) => step(`namespace ${desired}`, (engine, { ns }) => engine.setNamespace(ns, { desired })));

const checkIn = fc
  .tuple(
    worker,
    fc.record(
      {
        parent: fc.option(worker),
        active: fc.boolean(),
        mode: fc.constantFrom("m", "\0"),
        data,
        desired: fc.constantFrom(null, "idle" as const),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([name, change]) =>
    step(`worker ${name} ${shown(change)}`, (engine, { ns }) =>
      engine.updateWorkers(ns, [{ name, ...change }]),
    ),
  );

const listWorkers = fc
  .record(
    {
      prefix: fc.constantFrom("", "w", "w\0", "x"),
      active: fc.boolean(),
      root: fc.boolean(),
      parent: worker,
      previous: worker,
      limit: fc.integer({ min: 1, max: 3 }),
    },
    { requiredKeys: [] },
  )
  .map((query) => step(`list workers ${shown(query)}`, (engine, { ns }) => engine.listWorkers(ns, query)));

const workerAttempts = fc
  .tuple(
    worker,
    fc.constantFrom("active" as const, "all" as const, "children" as const),
    fc.integer({ min: 1, max: 5 }),
    fc.option(fc.nat(10)),
  )
  .map(([worker, which, limit, back]) =>
    step(`attempts of ${worker}, ${which}`, (engine, { ns, attempts }) => {
      const previous = back === null ? undefined : attempts.at(-1 - back);
      return engine.listWorkerAttempts(ns, worker, {
        which,
        limit,
        ...(previous !== undefined && { previous }),
      });
    }),
  );

const lock = fc
  .tuple(
    fc.constantFrom("lock" as const, "lockSome" as const, "renewLocks" as const, "unlock" as const),
    fc.constantFrom("o1", "o2"),
    fc.array(fc.constantFrom(...paths), { minLength: 1, maxLength: 3 }),
    fc.constantFrom(10, 1000),
  )
  .map(([verb, owner, paths, timeoutMs]) =>
    step(`${verb} ${owner} ${shown(paths)}`, async (engine, { ns }) =>
      engine[verb](ns, { owner, paths, timeoutMs }),
    ),
  );

const clearLocks = fc
  .constantFrom(...paths)
  .map((path) => step(`clear locks at ${shown(path)}`, (engine, { ns }) => engine.clearLocks(ns, path)));

// what is past its time may have been moved before, by whatever met it: a tally meets all, so that the rest is the same
const tidy = fc.constant(
  step("tidy", async (engine, { ns }) => {
    await engine.tally(ns);
    return engine.tidy(100_000);
  }),
);

const reopen = fc.constant(new Step("reopen", ({ reopen }) => reopen()));

const weighted: [number, fc.Arbitrary<Command>][] = [
  [14, add],
  [2, addMany],
  [14, request],
  [3, make],
  [16, settle],
  [4, settleMany],
  [2, getAttempts],
  [10, advance],
  [4, list],
  [2, get],
  [3, prioritize],
  [3, delay],
  [2, reset],
  [2, remove],
  [4, setSpec],
  [3, setMeta],
  [1, dropSpec],
  [1, count],
  [2, take],
  [1, clear],
  [1, putActions],
  [1, deleteActions],
  [1, setNamespace],
  [3, checkIn],
  [1, listWorkers],
  [2, workerAttempts],
  [3, lock],
  [1, clearLocks],
  [3, tidy],
];

const all = weighted.flatMap(([weight, arbitrary]) => Array.from({ length: weight }, () => arbitrary));

export const commands = fc.commands([...all, dropNamespace], { maxCommands: 100, size: "max" });
export const commandsWithReopen = fc.commands([...all, dropNamespace, reopen, reopen], {
  maxCommands: 100,
  size: "max",
});

/** The specs that every run starts with. */
export async function start(pair: Pair): Promise<void> {
  await both(pair, (engine, { ns }) =>
    engine.setWorkSpecs(ns, [
      { data: encodeData({ name: "a", then: "b" }) },
      { data: encodeData({ name: "b" }) },
      { data: encodeData({ name: "c", then: "c", max_retries: 2 }) },
      { data: encodeData({ name: "\0s\u{1f600}", then: "a" }) },
    ]),
  );
}

/** Takes a run's namespace away, so that the next finds nothing of it. */
export async function finish(pair: Pair): Promise<void> {
  await compareAll(pair);
  await both(pair, (engine, { ns }) => engine.deleteNamespace(ns));
}
