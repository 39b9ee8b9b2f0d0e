/**
 * Random histories for an engine and the model. A step is plain data; the attempts and units that it refers to are looked up in
 * the model when it is performed. After every step the complete visible state is compared.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  CoordinateError,
  encodeData,
  type AttemptRow,
  type Data,
  type DependencyInput,
  type Engine,
  type ManualClock,
  type QueueMessage,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "../../src/core/index.ts";
import type { Measure } from "./measure.ts";
import {
  changedAging,
  closeBreaker,
  isLaned,
  Model,
  noTrip,
  type ModelAction,
  type ModelAttempt,
  type ModelBreaker,
  type ModelMessage,
  type ModelPut,
  type ModelRate,
  type ModelSpec,
  type ModelUnit,
} from "./model.ts";
import { Operations, type Accepted, type Step } from "./operations.ts";

export interface Real {
  engine: Engine;
  clock: ManualClock;
  ns: string;
  measure: Measure;
  /** The next random number of the scheduler, 0 to 1. */
  draw: { value: number };
  /** The number of steps between comparisons: 1, or more for stores with slow reads. */
  compareEvery: number;
}

/** The model, the engine, and the mapping between their attempts and units. */
class Both {
  readonly model = new Model();
  readonly real: Real;
  readonly attempts = new Map<ModelAttempt, string>();
  readonly units = new Map<ModelUnit, number>();
  /** Attempts that were handed out, oldest first. */
  readonly given: ModelAttempt[] = [];
  /** The store's count of late units before the history started. */
  readonly lateBefore: number;

  constructor(real: Real) {
    this.real = real;
    this.model.now = real.clock.now();
    this.lateBefore = real.engine.late;
  }

  get engine(): Engine {
    return this.real.engine;
  }

  get ns(): string {
    return this.real.ns;
  }

  /** Checks that a unit keeps its id, and records it. `compare` checks that later units have higher ids. */
  learnUnit(unit: ModelUnit, id: number): void {
    const known = this.units.get(unit);
    assert.equal(id, known ?? id, `the id of ${unit.name}`);
    this.units.set(unit, id);
  }
}

const operations = new Operations<Both>(({ real }) => real.measure);

async function codeOf(answer: Promise<unknown>): Promise<string | null> {
  try {
    await answer;
    return null;
  } catch (error) {
    if (error instanceof CoordinateError) return error.code;
    throw error;
  }
}

// ---- values for the steps

const workerNames = ["w1", "w2"];
const queueNames = ["p", "q"];
const labelNames = ["red", "big"];

const spec = fc.constantFrom("a", "a", "a", "b", "b", "c");
const name = fc.constantFrom("1", "2", "3", "4", "5", "6");
const worker = fc.constantFrom(...workerNames);
const priority = fc.constantFrom(-1, 0, 0, 0, 0.5, 1);
const span = fc.constantFrom(0, 0, 0, 10, 100, 1000);
const lease = fc.constantFrom(10, 100, 1000, 1000, 10_000);
const data = fc.oneof(
  { weight: 1, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.record({ n: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ output: fc.array(name, { maxLength: 3 }) }) },
);
const encoded = (value: object | undefined): string | null =>
  value === undefined ? null : String(encodeData(value));
const queues = fc.subarray(queueNames);
const labels = fc.oneof(
  { weight: 3, arbitrary: fc.constant([] as string[]) },
  { weight: 1, arbitrary: fc.subarray(labelNames) },
);

const workerLabels = fc.constantFrom<(string[] | undefined)[]>(
  undefined,
  ["gpu"],
  ["gpu", "version=1.10"],
  ["gpu", "version=1.10", "zone=eu"],
  ["gpu", "version=2.1", "zone=us"],
  ["zone=eu", "version=2.1"],
  ["gpu", "version=1.9", "version=2.1"],
);
const requires = fc.constantFrom<string[][]>(
  [],
  [],
  [],
  [],
  ["gpu"],
  ["version>=1.9"],
  ["version<2", "gpu"],
  ["version>1.10"],
  ["zone!=eu"],
  ["zone=eu", "version<=2.1.0"],
);
/** Values that never equal a boundary between the shares of work specs. */
const draw = fc.constantFrom(0, 0.2345678, 0.5678901, 0.9123457);

const pick = <Item>(items: readonly Item[], number: number): Item | undefined =>
  items[number % Math.max(1, items.length)];

// ---- adding

const never = [undefined, undefined, undefined, undefined, undefined, undefined];
const times = {
  deadline: fc.constantFrom(...never, 0, 1, 10, 100, 1000),
  expires: fc.constantFrom(...never, ...never, 0, 10, 100, 1000),
};

const put = fc.record({
  name,
  data,
  priority,
  delay: span,
  after: fc.oneof(
    { weight: 2, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.array(fc.record({ pick: fc.nat(30), hard: fc.constantFrom(true, true, false) }), {
        maxLength: 3,
      }),
    },
  ),
  queues,
  labels,
  partition: fc.constantFrom("", "p", "p", "q", "r"),
  maxRetries: fc.constantFrom(undefined, undefined, undefined, undefined, 0, 1, 2),
  ...times,
  conflict: fc.oneof(
    { weight: 5, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.constantFrom("replace" as const, "data" as const, "ignore" as const) },
    { weight: 1, arbitrary: fc.constant("refuse" as const) },
  ),
});
type Put = {
  name: string;
  data?: object | undefined;
  priority: number;
  delay: number;
  /** Picks from the existing units, followed by those of the same add. */
  after?: { pick: number; hard: boolean }[] | undefined;
  queues: string[];
  labels: string[];
  partition?: string;
  maxRetries?: number | undefined;
  deadline?: number | undefined;
  expires?: number | undefined;
  conflict?: ModelPut["conflict"];
};

operations.define(
  "add",
  18,
  0.6,
  fc.record({ spec, units: fc.array(put, { minLength: 1, maxLength: 4 }) }),
  (both, { spec, units }) => add(both, spec, units),
);

async function add(both: Both, spec: string, units: readonly Put[]): Promise<boolean> {
  const { model, engine, ns } = both;
  const targets = [
    ...model.units.map((unit) => ({ spec: unit.spec, name: unit.name })),
    ...units.map(({ name }) => ({ spec, name })),
  ];
  const puts = units.map(({ after, data, ...rest }): ModelPut => {
    const needs = after?.flatMap(({ pick: number, hard }) => {
      const target = pick(targets, number);
      return target === undefined || (target.spec === spec && target.name === rest.name)
        ? []
        : [{ ...target, hard }];
    });
    const there = model.find(spec, rest.name);
    // the age of a late unit that had dependencies is not guaranteed: a delay makes it start again
    const delay = there?.late === true && there.needs.length > 0 ? Math.max(10, rest.delay) : rest.delay;
    return { ...rest, delay, data: encoded(data), ...(needs !== undefined && { needs }) };
  });
  const inputs = puts.map(({ needs, delay, data, conflict, maxRetries, deadline, expires, ...rest }) => ({
    ...rest,
    ...(deadline !== undefined && { deadlineMs: deadline }),
    ...(expires !== undefined && { expiresMs: expires }),
    ...(maxRetries !== undefined && { maxRetries }),
    ...(conflict !== undefined && { onConflict: conflict }),
    data: data as Data | null,
    delayMs: delay,
    ...(needs !== undefined && {
      dependencies: needs.map((need): DependencyInput => ({
        workSpec: need.spec,
        workUnit: need.name,
        kind: need.hard ? "hard" : "soft",
      })),
    }),
  }));
  const refused = model.refusal(spec, puts);
  if (refused !== null) {
    assert.equal(await codeOf(engine.addWorkUnits(ns, spec, inputs)), refused);
    return false;
  }
  const got = await engine.addWorkUnits(ns, spec, inputs);
  const expected = model.add(spec, puts);
  assert.deepEqual(
    got.map(({ name, created }) => [name, created]),
    expected.map(({ name, created }) => [name, created]),
  );
  got.forEach(({ id, name }) => {
    const unit = model.find(spec, name);
    if (unit !== undefined) both.learnUnit(unit, id);
  });
  return true;
}

/** Each unit depends on the previous one. */
operations.define(
  "add chain",
  3,
  0.7,
  fc.record({
    spec,
    names: fc.uniqueArray(name, { minLength: 2, maxLength: 5 }),
    soft: fc.nat(9),
    other: fc.option(fc.nat(30), { freq: 2 }),
  }),
  async (both, { spec, names, soft, other }) => {
    const { model, engine, ns } = both;
    const first = other === null ? undefined : pick(model.units, other);
    const puts = names.map((name, i): ModelPut => {
      const before = i === 0 ? first : { spec, name: names[i - 1] ?? "" };
      return {
        name,
        data: null,
        priority: 0,
        delay: 0,
        queues: queueNames,
        labels: [],
        partition: "",
        needs: before === undefined ? [] : [{ spec: before.spec, name: before.name, hard: i !== soft }],
      };
    });
    const inputs = puts.map(({ name, queues, needs = [] }) => ({
      name,
      queues,
      dependencies: needs.map((need) => ({
        workSpec: need.spec,
        workUnit: need.name,
        kind: need.hard ? ("hard" as const) : ("soft" as const),
      })),
    }));
    const refused = model.refusal(spec, puts);
    const code = await codeOf(engine.addWorkUnits(ns, spec, inputs));
    assert.equal(code, refused);
    if (refused !== null) return false;
    model.add(spec, puts);
    return true;
  },
);

// ---- claiming

const ready = fc.oneof(
  { weight: 1, arbitrary: spec },
  { weight: 4, arbitrary: fc.constantFrom("+0", "+1", "+2") },
);

/** `+1` stands for a work spec that has units for a worker with these labels. */
const specOf = ({ model }: Both, spec: string, labels: readonly string[] = []): string =>
  spec.startsWith("+") ? (pick(model.open(labels), Number(spec.slice(1)))?.name ?? "a") : spec;

operations.define(
  "claim",
  12,
  0.4,
  fc.record({ spec: ready, number: fc.integer({ min: 1, max: 4 }), lease, worker, labels: workerLabels }),
  (both, { spec, ...asked }) => request(both, { ...asked, only: specOf(both, spec, asked.labels), draw: 0 }),
);

/** The scheduler chooses the work spec. */
operations.define(
  "request",
  5,
  0.4,
  fc.record({ number: fc.integer({ min: 1, max: 4 }), lease, worker, labels: workerLabels, draw }),
  request,
);

async function request(
  both: Both,
  asked: {
    number: number;
    lease: number;
    worker: string;
    labels?: string[] | undefined;
    only?: string;
    draw: number;
  },
): Promise<boolean> {
  const { model, engine, ns, real } = both;
  const { number, lease, worker, labels, only, draw } = asked;
  real.draw.value = draw;
  const expected = model.request({ ...asked, labels: labels ?? [] });
  const got = await engine.requestAttempts(ns, {
    worker,
    number,
    lifetimeMs: lease,
    ...(labels !== undefined && { labels }),
    ...(only !== undefined && { workSpecs: [only] }),
  });
  given(both, got, expected);
  return expected.length > 0;
}

operations.define(
  "set share",
  2,
  1,
  fc.record({ time: fc.constantFrom(true, true, false) }),
  async (both, { time }) => {
    both.model.sharesTime = time;
    await both.engine.setNamespace(both.ns, { share: time ? "time" : "choices" });
    return true;
  },
);

/** Why each work spec may or may not be chosen, its share by weight, and its measured share. */
operations.define("explain", 3, 1, fc.record({ labels: workerLabels }), async (both, { labels }) => {
  const { model, engine, ns } = both;
  const rounded = <Value extends number | null>(value: Value, digits: number): Value =>
    (value === null ? null : Number(value.toPrecision(digits))) as Value;
  const near = (got: number | null, expected: number | null, margin: number): number | null =>
    got !== null && expected !== null && Math.abs(got - expected) <= margin ? expected : got;
  const expected = model.explain(labels);
  const rows = await engine.explain(ns, labels === undefined ? {} : { labels });
  assert.deepEqual(
    rows.map((row, i) => ({
      workSpec: row.workSpec,
      excluded: row.excluded,
      weight: row.weight,
      priority: row.priority,
      hasWork: row.available > 0,
      pending: row.pending,
      score: row.excluded === null ? rounded(row.score, 9) : null,
      chance: rounded(row.chance, 9),
      targetShare: rounded(row.targetShare, 9),
      measuredShare: near(row.measuredShare, expected[i]?.measuredShare ?? null, 2e-6),
      meanMs: near(row.meanMs, expected[i]?.meanMs ?? null, 2e-3),
    })),
    expected.map((one) => ({
      ...one,
      score: rounded(one.score, 9),
      chance: rounded(one.chance, 9),
      targetShare: rounded(one.targetShare, 9),
    })),
  );
  return true;
});

operations.define(
  "make",
  3,
  0.9,
  fc.record({ picks: fc.array(fc.nat(30), { minLength: 1, maxLength: 3 }), lease, worker }),
  async (both, { picks, lease, worker }) => {
    const { model, engine, ns } = both;
    const units = picks.flatMap((number) => pick(model.units, number) ?? []);
    if (units.length === 0) return [0, 0];
    const expected = model.make(units, lease, worker);
    const got = await engine.makeAttempts(
      ns,
      units.map((unit) => ({ workSpec: unit.spec, workUnit: unit.name, worker, lifetimeMs: lease })),
    );
    given(both, got, expected);
    return true;
  },
);

function given(both: Both, got: readonly AttemptRow[], expected: readonly ModelAttempt[]): void {
  assert.deepEqual(
    got.map((one) => [
      one.workSpec,
      one.workUnit,
      one.number,
      one.worker,
      one.data,
      one.startTime,
      one.expirationTime,
    ]),
    expected.map((one) => [
      one.unit.spec,
      one.unit.name,
      one.number,
      one.worker,
      one.data,
      one.start,
      one.expiration,
    ]),
  );
  expected.forEach((attempt, i) => {
    both.attempts.set(attempt, got[i]?.id ?? "");
    both.given.push(attempt);
  });
}

// ---- settling

const action = fc.constantFrom<ModelAction>(
  "finish",
  "finish",
  "finish",
  "fail",
  "error",
  "error",
  "retry",
  "expire",
  "renew",
);
const change = fc.record({
  pick: fc.nat(20),
  of: fc.constantFrom("pending", "pending", "pending", "pending", "expired", "any"),
  action,
  data,
  time: span,
  untried: fc.boolean(),
});
type Change = {
  pick: number;
  of: string;
  action: ModelAction;
  data?: object | undefined;
  time: number;
  untried: boolean;
};

operations.define(
  "settle",
  16,
  0.5,
  fc.record({ changes: fc.array(change, { minLength: 1, maxLength: 4 }) }),
  (both, { changes }) => settle(both, changes, false),
);

operations.define(
  "settle one twice",
  4,
  0.3,
  fc.record({ first: change, second: action, data, between: fc.array(change, { maxLength: 2 }) }),
  (both, { first, second, data, between }) =>
    settle(both, [first, ...between, { ...first, action: second, data }], true),
);

async function settle(both: Both, changes: readonly Change[], repeat: boolean): Promise<Accepted> {
  const { model, engine, ns } = both;
  const chosen = new Set<ModelAttempt>();
  const meant = changes.flatMap(({ pick: number, of, data, untried, ...rest }) => {
    const open = both.given.filter(
      (attempt) => (of === "any" || attempt.status === of) && (repeat || !chosen.has(attempt)),
    );
    const attempt = pick(open, number);
    if (attempt === undefined) return [];
    chosen.add(attempt);
    const recordTaken = untried && rest.action !== "expire";
    return [
      {
        ...rest,
        attempt,
        data: encoded(data),
        untried: untried && ["expire", "retry"].includes(rest.action),
        recordTaken,
      },
    ];
  });
  if (meant.length === 0) return [0, 0];
  const expected = model.settle(meant);
  const got = await engine.settleAttempts(
    ns,
    meant.map(({ attempt, action, data, time, untried, recordTaken }) => ({
      attempt: both.attempts.get(attempt) ?? "",
      action,
      data: data as Data | null,
      delayMs: time,
      lifetimeMs: time,
      ...(untried && { untried }),
      ...(action === "error" && { error: "Error: boom" }),
      ...(recordTaken && { recordTaken }),
    })),
  );
  assert.deepEqual(
    got.map(({ error, changed, status }) => ({ error, changed, status })),
    expected.map(({ error, changed, status }) => ({ error, changed, status })),
  );
  return [expected.filter(({ changed }) => changed).length, expected.length];
}

// ---- time

operations.define(
  "advance",
  8,
  1,
  fc.record({ ms: fc.constantFrom(1, 10, 10, 100, 100, 1000, 1000, 10_000, 86_400_000) }),
  async (both, { ms }) => {
    both.model.advance(ms);
    both.real.clock.advance(ms);
    // a read applies timers before expired leases, as the model does
    if (both.model.units.some(({ deadline, expires }) => deadline > 0 || expires > 0))
      await both.engine.tally(both.ns);
    return true;
  },
);

// ---- changing

const selection = fc.oneof(
  { weight: 3, arbitrary: fc.uniqueArray(name, { minLength: 1, maxLength: 4 }).map((names) => ({ names })) },
  {
    weight: 2,
    arbitrary: fc
      .subarray(["available", "delayed", "blocked", "pending", "finished", "failed"] as const, {
        minLength: 1,
      })
      .map((statuses) => ({ statuses })),
  },
  { weight: 1, arbitrary: fc.constantFrom(...labelNames).map((label) => ({ label })) },
);

const selected = ({ model }: Both, spec: string, where: WorkUnitSelection): ModelUnit[] =>
  model
    .list(spec)
    .filter(
      (unit) =>
        (where.names === undefined || where.names.includes(unit.name)) &&
        (where.statuses === undefined || where.statuses.includes(model.status(unit))) &&
        (where.label === undefined || unit.labels.includes(where.label)),
    );

/** A verb on selected units that returns the number of changed units. */
function changing<Args extends object>(
  kind: string,
  weight: number,
  floor: number,
  args: fc.Arbitrary<Args>,
  verb: (both: Both, spec: string, where: WorkUnitSelection, args: Args) => Promise<number>,
  expected: (both: Both, units: ModelUnit[], args: Args) => number,
): void {
  operations.define(
    kind,
    weight,
    floor,
    fc.tuple(fc.record({ spec, where: selection }), args).map(([where, args]) => ({ ...where, ...args })),
    async (both, { spec, where, ...rest }) => {
      if (both.model.spec(spec) === undefined) return [0, 0];
      const count = expected(both, selected(both, spec, where), rest as unknown as Args);
      assert.equal(await verb(both, spec, where, rest as unknown as Args), count);
      return count > 0;
    },
  );
}

changing(
  "reset",
  3,
  0.2,
  fc.constant({}),
  ({ engine, ns }, spec, where) => engine.resetWorkUnits(ns, spec, where),
  ({ model }, units) => model.reset(units),
);
changing(
  "cancel",
  2,
  0.2,
  fc.constant({}),
  ({ engine, ns }, spec, where) => engine.cancelWorkUnits(ns, spec, where, { by: "me" }),
  ({ model }, units) => model.cancel(units, "cancelled by me"),
);
changing(
  "delete",
  2,
  0.3,
  fc.constant({}),
  ({ engine, ns }, spec, where) => engine.deleteWorkUnits(ns, spec, where),
  ({ model }, units) => model.delete(units),
);
changing(
  "delay",
  2,
  0.2,
  fc.record({ ms: span }),
  ({ engine, ns, real }, spec, where, { ms }) =>
    engine.setWorkUnitDelays(ns, spec, where, ms === 0 ? 0 : real.clock.now() + ms),
  ({ model }, units, { ms }) => model.delay(units, ms === 0 ? 0 : model.now + ms),
);
changing(
  "prioritize",
  2,
  0.3,
  fc.record({ set: priority }),
  ({ engine, ns }, spec, where, { set }) => engine.setWorkUnitPriorities(ns, spec, where, { set }),
  (_both, units, { set }) => {
    for (const unit of units) unit.priority = set;
    return units.length;
  },
);

// ---- work specs

/** Points per minute, chosen so that the points for any number of milliseconds are exact. */
const aging = fc.constantFrom<(number | undefined)[]>(undefined, 0, 60_000 / 16, 60_000 / 64);

operations.define(
  "set meta",
  3,
  0.9,
  fc.record({
    spec,
    change: fc.record({
      paused: fc.constantFrom(false, false, false, true),
      maxRunning: fc.constantFrom(0, 0, 1, 3),
      maxRunningPerPartition: fc.constantFrom(0, 0, 1, 2),
      maxGetwork: fc.constantFrom(0, 0, 1, 3),
      maxRetries: fc.constantFrom(0, 0, 1, 2),
      maxWaiting: fc.constantFrom(0, 0, 0, 4),
      weight: fc.constantFrom(20, 20, 5, 60),
    }),
    aging,
  }),
  async (both, { spec, change, aging = 0 }) => {
    const found = both.model.spec(spec);
    if (found === undefined) return [0, 0];
    Object.assign(found, change);
    found.aging = changedAging(found.aging, aging, both.model.now);
    if (!change.paused) closeBreaker(found);
    forgetLanes(found);
    await both.engine.setWorkSpecMeta(both.ns, spec, { ...change, aging });
    return true;
  },
);

const limitNames = ["x", "y"];

operations.define(
  "set limit",
  2,
  1,
  fc.record({
    name: fc.constantFrom(...limitNames),
    maxRunning: fc.constantFrom(0, 1, 2, 3),
    rate: fc.constantFrom<ModelRate[]>({}, {}, { limit: 2, periodMs: 100, burst: 1 }),
  }),
  async (both, { name, maxRunning, rate }) => {
    both.model.limits.set(name, { maxRunning, rate, full: both.model.limits.get(name)?.full ?? 0 });
    await both.engine.setLimits(both.ns, [{ name, maxRunning, rate }]);
    return true;
  },
);

operations.define(
  "delete limit",
  1,
  0.1,
  fc.record({ name: fc.constantFrom(...limitNames) }),
  async (both, { name }) => {
    const [was] = await both.engine.deleteLimits(both.ns, [name]);
    assert.equal(was, both.model.limits.delete(name));
    return was;
  },
);

const limit = fc.record(
  { maxAge: fc.constantFrom(0, 100, 1000), maxCount: fc.constantFrom(0, 1, 3) },
  { requiredKeys: [] },
);

const rates: ModelRate[] = [
  { limit: 2, periodMs: 100, burst: 1 },
  { limit: 3, periodMs: 1000, burst: 2 },
];

const breakers: ModelBreaker[] = [
  { failures: 0.5, min: 2, windowMs: 1000, pauseMs: 100, probes: 1, slow: false },
  { failures: 0.3, min: 1, windowMs: 100, pauseMs: 1000, probes: 2, slow: false },
  { failures: 0.4, min: 2, windowMs: 10_000, pauseMs: 10, probes: 2, slow: true },
];

operations.define(
  "set spec",
  3,
  1,
  fc.record({
    name: spec,
    then: fc.constantFrom("a", "b", "c", "c", "", "nowhere"),
    maxRetries: fc.constantFrom(0, 0, 1, 2),
    flow: fc.record({
      maxRunningPerPartition: fc.constantFrom(0, 0, 1, 2),
      rate: fc.constantFrom({}, {}, ...rates),
      ratePerPartition: fc.constantFrom({}, {}, ...rates),
      order: fc.constantFrom(false, false, true),
      fair: fc.constantFrom(false, false, true),
      weights: fc.constantFrom<Record<string, number>[]>({}, {}, { p: 2, q: 3 }, { "": 3, p: 1 }),
      limits: fc.constantFrom([], [], ["x"], ["y", "x"]),
    }),
    breaker: fc.constantFrom(null, null, ...breakers),
    choice: fc.record({
      weight: fc.constantFrom(20, 20, 20, 1, 55, 0),
      priority: fc.constantFrom(0, 0, 0, 0, 1),
      requires,
    }),
    aging,
    backoff: fc.constantFrom(null, null, 0, 100),
    finished: fc.option(limit, { freq: 1, nil: undefined }),
    failed: fc.option(limit, { freq: 1, nil: undefined }),
  }),
  async (both, { name, then, maxRetries, backoff, breaker, flow, choice, aging = 0, finished, failed }) => {
    const old = both.model.spec(name)?.aging ?? { pace: 0, since: 0, points: 0 };
    await setSpec(both, {
      name,
      then,
      maxRetries,
      ...flow,
      ...choice,
      aging: changedAging(old, aging, both.model.now),
      // histories stored before breakers existed have no breaker
      breaker: breaker ?? null,
      backoff,
      retention: { ...(finished && { finished }), ...(failed && { failed }) },
    });
    return true;
  },
);

async function setSpec(
  { model, engine, ns }: Both,
  {
    name,
    then = "",
    maxRetries = 0,
    backoff = null,
    retention = {},
    ...flow
  }: Partial<ModelSpec> & { name: string },
): Promise<void> {
  const there = model.spec(name);
  const fresh: ModelSpec = {
    name,
    then,
    maxRetries,
    backoff,
    maxWaiting: 0,
    retention,
    paused: false,
    weight: 20,
    priority: 0,
    requires: [],
    aging: changedAging(there?.aging ?? { pace: 0, since: 0, points: 0 }, 0, model.now),
    maxRunning: 0,
    maxGetwork: 0,
    maxRunningPerPartition: 0,
    rate: {},
    ratePerPartition: {},
    order: false,
    fair: false,
    breaker: null,
    weights: {},
    limits: [],
    ...flow,
    trip: there?.trip ?? noTrip(),
    cursor: there?.cursor ?? "",
    turn: there?.turn ?? 0,
    full: there?.full ?? 0,
    fullOf: there?.fullOf ?? new Map<string, number>(),
    removed: there?.removed ?? { finished: 0, failed: 0 },
  };
  forgetLanes(fresh);
  closeBreaker(fresh);
  if (JSON.stringify(fresh.breaker) !== JSON.stringify(there?.breaker)) fresh.trip.outcomes = [];
  if (there === undefined) model.specs.push(fresh);
  else Object.assign(there, fresh);
  const limit = (given: { maxAge?: number; maxCount?: number }): object => ({
    ...(given.maxAge !== undefined && { max_age: given.maxAge / 1000 }),
    ...(given.maxCount !== undefined && { max_count: given.maxCount }),
  });
  await engine.setWorkSpecs(ns, [
    {
      data: encodeData({
        name,
        then,
        max_retries: maxRetries,
        max_running_per_partition: fresh.maxRunningPerPartition,
        rate: rateKeys(fresh.rate),
        rate_per_partition: rateKeys(fresh.ratePerPartition),
        order: fresh.order ? "partition" : "",
        fair: fresh.fair ? "partition" : "",
        breaker: breakerKeys(fresh.breaker),
        partition_weights: fresh.weights,
        weight: fresh.weight,
        priority: fresh.priority,
        requires: fresh.requires,
        aging: fresh.aging.pace,
        limits: fresh.limits,
        ...(backoff !== null && { retry: { backoff: { kind: "linear", delay: backoff / 1000 } } }),
        retention: Object.fromEntries(
          Object.entries(retention).map(([status, given]) => [status, limit(given)]),
        ),
      }),
    },
  ]);
}

const rateKeys = ({ limit, periodMs, burst }: ModelRate): object =>
  limit === undefined ? {} : { limit, period: (periodMs ?? 1000) / 1000, burst };

const breakerKeys = (breaker: ModelBreaker | null): object => {
  if (breaker === null) return {};
  const { windowMs, pauseMs, slow, ...rest } = breaker;
  return { ...rest, window: windowMs / 1000, pause: pauseMs / 1000, action: slow ? "slow" : "pause" };
};

/** The buckets of partitions are kept only while there are rules for partitions. */
function forgetLanes(spec: ModelSpec): void {
  if (!isLaned(spec)) spec.fullOf.clear();
}

/** The initial work specs: `a` chains to `b`, and `c` to itself. */
async function setSpecs(both: Both): Promise<void> {
  await setSpec(both, { name: "a", then: "b" });
  await setSpec(both, { name: "b" });
  await setSpec(both, { name: "c", then: "c" });
}

operations.define("set all specs", 2, 1, fc.constant({}), async (both) => {
  await setSpecs(both);
  return true;
});

operations.define(
  "delete spec",
  1,
  0.5,
  fc.record({ spec, again: fc.boolean() }),
  async (both, { spec, again }) => {
    const { model, engine, ns } = both;
    const expected = model.deleteSpec(spec);
    assert.deepEqual(await engine.deleteWorkSpecs(ns, [spec]), [expected]);
    if (again) await setSpecs(both);
    return expected;
  },
);

// ---- housekeeping and queues

operations.define("sweep", 3, 1, fc.constant({}), async (both) => {
  await sweep(both);
  return true;
});

async function sweep(both: Both): Promise<void> {
  both.model.sweep();
  await both.engine.sweep(100_000);
  const { expired, due, exhausted, retired } = await both.engine.sweep(100_000);
  assert.deepEqual([expired, due, exhausted, retired], [0, 0, 0, 0], "a second sweep has nothing to do");
}

operations.define(
  "take",
  5,
  0.3,
  fc.record({ queue: fc.constantFrom(...queueNames), max: fc.constantFrom(1, 2, 5, 1000) }),
  async (both, { queue, max }) => {
    const { engine, ns } = both;
    const messages = await engine.takeMessages(ns, queue, { max });
    takeOut(both, queue, messages, max);
    return messages.length > 0;
  },
);

/** Messages come in the order of calls; within a call in the order of the model, unless that order is not guaranteed. */
function takeOut({ model }: Both, queue: string, messages: readonly QueueMessage[], max: number): void {
  const waiting = model.queues.get(queue) ?? [];
  assert.equal(messages.length, Math.min(max, waiting.length), `messages of ${queue}`);
  for (const message of messages) {
    const [first] = waiting;
    assert.ok(first !== undefined);
    const candidates = first.loose ? waiting.filter((one) => one.call === first.call) : [first];
    const found = candidates.find((one) => isSame(message, one));
    if (found === undefined) assert.deepEqual(shownMessage(message), candidates.map(expectedMessage));
    else waiting.splice(waiting.indexOf(found), 1);
  }
  assert.ok(messages.every(({ seq }, i) => i === 0 || seq > (messages[i - 1]?.seq ?? 0)));
}

const shownMessage = ({ workSpec, workUnit, attempt, status, data, at }: QueueMessage): unknown => ({
  workSpec,
  workUnit,
  number: Number(attempt?.split(".")[1]),
  status,
  data,
  at,
});
const expectedMessage = ({ spec, unit, number, status, data, at }: ModelMessage): unknown => ({
  workSpec: spec,
  workUnit: unit,
  number,
  status,
  data,
  at,
});
const isSame = (message: QueueMessage, expected: ModelMessage): boolean =>
  JSON.stringify(shownMessage({ ...message, at: expected.at ?? 0 })) ===
  JSON.stringify(expectedMessage({ ...expected, at: expected.at ?? 0 }));

// ---- comparing

/** If the model does not define a time, it takes over the time that the engine returned. */
function learnTimes(attempt: ModelAttempt | undefined, row: AttemptRow): void {
  if (attempt?.start !== null) return;
  attempt.start = row.startTime;
  attempt.end = row.endTime;
  attempt.expiration = row.expirationTime;
}

function expectedAttempt(attempt: ModelAttempt): unknown {
  const isActive = !attempt.replaced && ["pending", "finished", "failed"].includes(attempt.status);
  return {
    unit: `${attempt.unit.spec} ${attempt.unit.name}`,
    number: attempt.number,
    worker: attempt.worker,
    status: attempt.status,
    active: isActive,
    start: attempt.start,
    end: attempt.end,
    expiration: attempt.expiration,
    data: attempt.data,
    late: attempt.late,
  };
}

const shownAttempt = (row: AttemptRow): unknown => ({
  unit: `${row.workSpec} ${row.workUnit}`,
  number: row.number,
  worker: row.worker,
  status: row.status,
  active: row.active,
  start: row.startTime,
  end: row.endTime,
  expiration: row.expirationTime,
  data: row.data,
  late: row.late,
});

function compareUnit(both: Both, row: WorkUnitRow, unit: ModelUnit): void {
  const { model } = both;
  both.learnUnit(unit, row.id);
  const status = model.status(unit);
  const attempt = model.current(unit);
  const active =
    attempt !== undefined && ["pending", "finished", "failed"].includes(status) ? attempt : undefined;
  if (row.activeAttempt !== null) learnTimes(active, row.activeAttempt);
  assert.deepEqual(
    {
      ...row,
      id: 0,
      activeAttempt: row.activeAttempt === null ? null : shownAttempt(row.activeAttempt),
    },
    {
      id: 0,
      workSpec: unit.spec,
      name: unit.name,
      status,
      reason: active?.reason ?? null,
      data: active?.data ?? unit.data,
      priority: unit.priority,
      notBefore: unit.notBefore,
      createdTime: unit.created,
      attempts: unit.attempts.length,
      activeAttempt: active === undefined ? null : expectedAttempt(active),
      origin: unit.origin === null ? null : (both.attempts.get(unit.origin) ?? null),
      dependencies: unit.needs.map((need) => ({
        workSpec: need.unit.spec,
        workUnit: need.unit.name,
        kind: need.hard ? "hard" : "soft",
        status: need.unit.deleted ? null : model.status(need.unit),
      })),
      queues: unit.queues,
      labels: unit.labels,
      partition: unit.partition,
      ...(unit.maxRetries !== undefined && { maxRetries: unit.maxRetries }),
      ...(unit.deadline > 0 && { deadline: unit.deadline }),
      ...(unit.expires > 0 && { expires: unit.expires }),
    },
  );
}

/** Compares the complete visible state. */
async function compare(both: Both): Promise<void> {
  const { model, engine, ns } = both;
  // the order of reads must not matter, so it varies
  const specs = model.now % 2 === 0 ? model.specs : [...model.specs].reverse();
  for (const { name } of specs) {
    const { rows } = await engine.listWorkUnits(ns, name);
    const units = model.list(name);
    assert.deepEqual(
      rows.map((row) => `${row.name} ${row.status}`),
      units.map((unit) => `${unit.name} ${model.status(unit)}`),
      `units of ${name}`,
    );
    rows.forEach((row, i) => {
      const unit = units[i];
      if (unit !== undefined) compareUnit(both, row, unit);
    });
    const label = pick(labelNames, model.now) ?? "";
    const labelled = (await engine.listWorkUnits(ns, name, { label })).rows;
    assert.deepEqual(
      labelled.map((row) => row.name),
      units.filter((unit) => unit.labels.includes(label)).map((unit) => unit.name),
    );
  }
  const byId = [...both.units].filter(([unit]) => !unit.deleted).sort(([a], [b]) => a.id - b.id);
  assert.ok(
    byId.every(([, id], i) => i === 0 || id > (byId[i - 1]?.[1] ?? 0)),
    "units that were made later have higher ids",
  );
  assert.deepEqual(
    (await engine.tally(ns)).map(({ workSpec, counts, removed }) => ({ workSpec, counts, removed })),
    [...model.specs]
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, removed }) => ({ workSpec: name, counts: model.counts(name), removed })),
  );
  assert.equal(engine.late - both.lateBefore, model.lateUnits, "late units");
  await compareHistory(both);
  assert.deepEqual(
    await engine.countMessages(ns, queueNames),
    queueNames.map((queue) => model.queues.get(queue)?.length ?? 0),
  );
  for (const worker of workerNames) {
    const { rows } = await engine.listWorkerAttempts(ns, worker, { which: "active" });
    const held = model.held(worker).sort((a, b) => a.unit.id - b.unit.id || a.number - b.number);
    assert.deepEqual(
      rows.map(({ id, active }) => [id, active]),
      held.map((attempt) => [both.attempts.get(attempt), !attempt.replaced]),
      `what ${worker} holds`,
    );
  }
}

/** The latest attempts that were handed out, and all of one unit. */
async function compareHistory(both: Both): Promise<void> {
  const { model, engine, ns } = both;
  const latest = both.given.slice(-8);
  const rows = await engine.getAttempts(
    ns,
    latest.map((attempt) => both.attempts.get(attempt) ?? ""),
  );
  assert.deepEqual(
    rows.map((row) => row && shownAttempt(row)),
    latest.map((attempt) => (attempt.unit.deleted ? null : expectedAttempt(attempt))),
  );
  const unit = pick(model.units, model.now + both.given.length);
  if (unit === undefined) return;
  const history = await engine.listUnitAttempts(ns, unit.spec, unit.name);
  history.forEach((row, i) => {
    learnTimes(unit.attempts[i], row);
  });
  assert.deepEqual(history.map(shownAttempt), unit.attempts.map(expectedAttempt));
}

// ---- histories

export const modelHistories = operations.histories(80);
export const modelFloors = operations.floors;

/** Performs a history on both. Throws if they differ. */
export async function performModel(real: Real, history: readonly Step[]): Promise<void> {
  const both = new Both(real);
  await setSpecs(both);
  for (const [i, step] of history.entries()) {
    try {
      await operations.perform(both, step);
      if (i % real.compareEvery === 0 || i === history.length - 1) await compare(both);
    } catch (error) {
      if (error instanceof Error) error.message = `at step ${i}, ${step.do}: ${error.message}`;
      throw error;
    }
  }
}
