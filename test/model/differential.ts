/**
 * Random operations for two engines at once. An operation is plain data, so that a history can be printed, made shorter and
 * kept as a regression case; what it refers to (attempts, units to wait for) is looked up when it is performed.
 */
import fc from "fast-check";
import {
  conflictPolicies,
  encodeData,
  type AttemptAction,
  type FailureRow,
  type GivenReason,
  type RetryPolicy,
  type AttemptRow,
  type ConflictPolicy,
  type Engine,
  type Page,
  type Tally,
  type TallyRow,
  type Swept,
  type WorkerAttemptQuery,
  type WorkUnitInput,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "../../src/core/index.ts";
import {
  Abandoned,
  allPages,
  both,
  compare,
  isRefusal,
  learnSpecs,
  outcome,
  sides,
  told,
  withoutPosition,
  type Pair,
  type Side,
} from "./pair.ts";
import { Operations, type Accepted, type Step } from "./operations.ts";
import {
  type Value,
  actionKeys,
  busy,
  by,
  crowd,
  encoded,
  full,
  labelNames,
  lease,
  mostly,
  name,
  nameOf,
  occupied,
  partition,
  paths,
  priority,
  queueNames,
  ready,
  requestId,
  seldom,
  selected,
  selection,
  span,
  spec,
  specNames,
  usual,
  value,
  worker,
  workerNames,
  writeLongNames,
} from "./vocabulary.ts";

export type { Step } from "./operations.ts";

const operations = new Operations<Pair>(({ measure }) => measure);

/** Defines an operation whose names may be marks that stand for something that exists. */
function operation<Args extends object>(
  kind: string,
  weight: number,
  floor: number,
  args: fc.Arbitrary<Args>,
  perform: (pair: Pair, args: Args) => Promise<Accepted | boolean>,
): void {
  operations.define(kind, weight, floor, args, async (pair, given) =>
    perform(pair, (await resolved(pair, given as Record<string, unknown>)) as Args),
  );
}

const done = (answer: unknown): boolean => !isRefusal(answer);
const some = (answer: unknown): boolean =>
  done(answer) && (typeof answer === "number" ? answer > 0 : Array.isArray(answer) && answer.length > 0);

// ---- what steps refer to

/** Puts names in the place of `*2` and `+2`. */
async function resolved(pair: Pair, args: Record<string, unknown>): Promise<Record<string, unknown>> {
  const { spec, queue, worker } = args;
  const found = { ...args };
  if (isMark(spec)) {
    const rows = (await both(pair, ({ engine, ns }) => engine.tally(ns))) as TallyRow[];
    const fitting = rows.filter(({ counts }) =>
      spec.startsWith("+") ? counts.available > 0 : Object.values(counts).some((count) => count > 0),
    );
    found.spec = picked(fitting, spec)?.workSpec ?? "a";
  }
  if (isMark(queue)) {
    const { rows } = await pair.memory.listQueues(pair.ns);
    found.queue = picked(rows, queue)?.name ?? queueNames[0];
  }
  if (isMark(worker)) {
    const rows = await pair.memory.getAttempts(pair.ns, pair.attempts.slice(-10));
    const names = rows.flatMap((row) => (row === null || row.worker === crowd ? [] : [row.worker]));
    found.worker = picked(names, worker) ?? workerNames[0];
  }
  return found;
}

const isMark = (value: unknown): value is string => typeof value === "string" && /^[*+]\d$/.test(value);
const picked = <Item>(items: readonly Item[], mark: string): Item | undefined =>
  items[Number(mark.slice(1)) % Math.max(1, items.length)];

const requestName = (pair: Pair, id: string | undefined): { requestId?: string } =>
  id === undefined ? {} : { requestId: id === "new" ? `new ${++pair.lastRequest}` : id };

type By = "name" | "id" | "old id";
const ref = (side: Side, spec: string, by: By) => (by === "name" ? spec : side.byId(spec, by === "old id"));

// ---- adding

/** Dependencies are picked, by number, from the units that there are. */
const after = seldom(
  fc.array(fc.record({ pick: fc.nat(30), kind: fc.constantFrom("hard" as const, "soft" as const) }), {
    minLength: 0,
    maxLength: 2,
  }),
  3,
);
const unit = fc.record({
  name,
  data: mostly(value),
  priority,
  delayMs: span,
  after,
  queues: mostly(fc.subarray(queueNames)),
  labels: seldom(fc.subarray(labelNames)),
  partition: mostly(partition),
  deadlineMs: seldom(fc.constantFrom(1, 10, 100, 1000), 6),
  expiresMs: seldom(fc.constantFrom(10, 100, 1000), 6),
  maxRetries: seldom(fc.constantFrom(0, 1, 2)),
  retry: seldom(
    fc.constantFrom<RetryPolicy>(
      { attempts: 1 },
      { attempts: 2, backoff: { kind: "fixed", delayMs: 50 } },
      { backoff: { kind: "linear", delayMs: 10, maxMs: 25, jitter: 0.5 } },
    ),
  ),
  onConflict: seldom(fc.constantFrom(...conflictPolicies), 4),
  throttleMs: seldom(fc.constantFrom(10, 100, 1000), 8),
});
type Unit = {
  name: string;
  data?: Value | undefined;
  priority?: number;
  delayMs?: number;
  after?: { pick: number; kind: "hard" | "soft" }[] | undefined;
  queues?: readonly string[] | undefined;
  labels?: readonly string[] | undefined;
  partition?: string | undefined;
  deadlineMs?: number | undefined;
  expiresMs?: number | undefined;
  maxRetries?: number | undefined;
  retry?: RetryPolicy | undefined;
  onConflict?: ConflictPolicy | undefined;
  throttleMs?: number | undefined;
};

/** All units that there are, in the order of work specs and names. */
async function everyUnit(pair: Pair, limit = 30): Promise<{ workSpec: string; workUnit: string }[]> {
  const found: { workSpec: string; workUnit: string }[] = [];
  for (const spec of specNames) {
    const listed = await both(pair, ({ engine, ns }) => engine.listWorkUnits(ns, spec, { limit }));
    if (isRefusal(listed)) continue;
    for (const { name } of (listed as Page<WorkUnitRow>).rows) found.push({ workSpec: spec, workUnit: name });
  }
  return found;
}

operation(
  "add",
  14,
  0.7,
  fc.record({ spec, by, units: fc.array(unit, { minLength: 1, maxLength: 4 }), requestId }),
  async (pair, { spec, by, units, requestId }) => {
    const waits = units.some(({ after }) => after !== undefined);
    const there = waits ? await everyUnit(pair) : [];
    const inputs: WorkUnitInput[] = [];
    for (const one of units as Unit[]) {
      const {
        name,
        data,
        after,
        queues,
        labels,
        partition,
        deadlineMs,
        expiresMs,
        maxRetries,
        retry,
        onConflict,
        throttleMs,
        ...rest
      } = one;
      if (waits && pair.known.has("names given twice") && inputs.some((input) => input.name === nameOf(name)))
        continue;
      inputs.push({
        ...rest,
        name: nameOf(name),
        data: encoded(data),
        ...(after && {
          dependencies: after.flatMap(({ pick, kind }) => {
            const target = there[pick % Math.max(1, there.length)];
            return target === undefined ? [] : [{ ...target, kind }];
          }),
        }),
        ...(queues && { queues }),
        ...(labels && { labels }),
        ...(partition !== undefined && { partition }),
        ...(deadlineMs !== undefined && { deadlineMs }),
        ...(expiresMs !== undefined && { expiresMs }),
        ...(maxRetries !== undefined && { maxRetries }),
        ...(retry && { retry }),
        ...(onConflict && { onConflict }),
        ...(throttleMs !== undefined && { throttleMs }),
      });
    }
    const named = requestName(pair, requestId);
    return done(
      await both(pair, (side) => side.engine.addWorkUnits(side.ns, ref(side, spec, by), inputs, named)),
    );
  },
);

const many = (count: number, from: number, kind: string, delayMs: number): WorkUnitInput[] =>
  Array.from({ length: count }, (_, i) => ({
    name: `many ${from + i}`,
    data: i % 3 === 0 ? null : encodeData({ i }),
    ...(kind !== "plain" && { priority: i % 2, delayMs: i % 7 === 0 ? delayMs : 0 }),
    ...(kind === "labelled" && i % 5 === 0 && { labels: ["red"], queues: ["q"] }),
    ...(kind === "labelled" && i % 11 === 0 && { maxRetries: 1 }),
    ...(kind === "queued" && { queues: ["q"] }),
    ...(kind === "partitioned" && { partition: `p${i % 7}` }),
  }));

operation(
  "add many",
  2,
  0.9,
  fc.record({
    spec,
    count: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 40, max: 130 }) },
      { weight: 1, arbitrary: fc.integer({ min: 490, max: 700 }) },
    ),
    from: fc.integer({ min: 0, max: 60 }),
    kind: fc.constantFrom("plain", "various", "labelled", "partitioned"),
    delayMs: span,
  }),
  async (pair, { spec, count, from, kind, delayMs }) =>
    done(
      await both(pair, ({ engine, ns }) => engine.addWorkUnits(ns, spec, many(count, from, kind, delayMs))),
    ),
);

/** A chain of units, each waiting for the one before. */
operation(
  "add chain",
  3,
  0.8,
  fc.record({
    spec,
    names: fc.uniqueArray(usual, { minLength: 2, maxLength: 5 }),
    kinds: fc.array(fc.constantFrom("hard" as const, "hard" as const, "soft" as const), {
      minLength: 5,
      maxLength: 5,
    }),
    queue: fc.constantFrom(...queueNames),
  }),
  async (pair, { spec, names, kinds, queue }) =>
    done(
      await both(pair, ({ engine, ns }) =>
        engine.addWorkUnits(
          ns,
          spec,
          names.map((name, i) => ({
            name,
            queues: [queue],
            dependencies: i === 0 ? [] : [{ workUnit: names[i - 1] ?? "", kind: kinds[i] ?? "hard" }],
          })),
        ),
      ),
    ),
);

// ---- claiming

/** What was tried too often is failed first, where the stores differ in how a claim does it. */
async function sweepFirst(pair: Pair): Promise<void> {
  if (pair.known.has("exhausted units")) await sweep(pair);
}

async function sweep(pair: Pair): Promise<Swept> {
  // expired leases and elapsed delays may have been moved before, by whatever read them: a tally moves all, so that the rest is the same
  for (const { engine, ns } of sides(pair)) await engine.tally(ns);
  await lookAtAll(pair);
  return (await both(pair, async ({ engine }) => {
    const sum = await engine.sweep(100_000);
    if (!pair.known.has("exhausted units")) return sum;
    for (;;) {
      const { expired, due, exhausted, retired, workers } = await engine.sweep(100_000);
      if (expired + due + exhausted + retired + workers === 0) break;
      sum.exhausted += exhausted;
      sum.retired += retired;
      sum.workers += workers;
    }
    return { ...sum, more: false };
  })) as Swept;
}

/** A failure by expiry goes one work spec further with every look, where expiry does not reach others at once. */
async function lookAtAll(pair: Pair): Promise<void> {
  if (!pair.known.has("expiry")) return;
  for (const side of sides(pair))
    for (let i = 0; i <= specNames.length; i++) await side.engine.tally(side.ns);
}

const keep = (pair: Pair, rows: unknown): boolean => {
  if (!Array.isArray(rows)) return false;
  for (const { id } of rows as AttemptRow[]) if (!pair.attempts.includes(id)) pair.attempts.push(id);
  return rows.length > 0;
};

operation(
  "request",
  16,
  0.5,
  fc.record({
    worker,
    number: fc.constantFrom(1, 2, 3, 5, 60),
    lifetimeMs: lease,
    workSpecs: seldom(fc.array(spec, { minLength: 1, maxLength: 2 }), 2),
    runtimes: seldom(fc.subarray(["", "node", "python"], { minLength: 1 }), 8),
    availableGb: seldom(fc.constantFrom(0, 1, 4), 8),
    labels: seldom(fc.constantFrom(["gpu"], ["gpu", "version=1.10"], ["version=2.1"]), 1),
    requestId,
    draw: fc.constantFrom(0, 0.2, 0.4, 0.6, 0.8, 0.999),
  }),
  async (pair, { draw, requestId, ...ask }) => {
    await sweepFirst(pair);
    pair.draw.value = draw;
    const given = { ...defined(ask), ...requestName(pair, requestId) };
    return keep(pair, await both(pair, ({ engine, ns }) => engine.requestAttempts(ns, given)));
  },
);

/** Without what is undefined. */
const defined = <Args extends object>(args: Args): { [Key in keyof Args]: Exclude<Args[Key], undefined> } =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Args]: Exclude<Args[Key], undefined>;
  };

/** Several requests at the same moment: together they are given the best units, whoever is given which. */
operation(
  "requests at once",
  4,
  0.5,
  fc.record({
    spec: ready,
    count: fc.integer({ min: 2, max: 5 }),
    lifetimeMs: lease,
    requestId: seldom(fc.constant("new"), 3),
  }),
  async (pair, { spec, count, lifetimeMs, requestId }) => {
    await sweepFirst(pair);
    const named = requestName(pair, requestId);
    const askAll = async ({ engine, ns }: Side): Promise<AttemptRow[]> => {
      const ask = { worker: crowd, number: 1, lifetimeMs, workSpecs: [spec], ...named };
      const answers = await Promise.all(Array.from({ length: count }, () => engine.requestAttempts(ns, ask)));
      return answers.flat().sort(byUnit);
    };
    const rows = await both(pair, askAll, { hindered: false });
    return keep(pair, rows);
  },
);

const byUnit = (a: AttemptRow, b: AttemptRow): number =>
  a.workSpec < b.workSpec
    ? -1
    : a.workSpec > b.workSpec
      ? 1
      : a.workUnit < b.workUnit
        ? -1
        : a.workUnit > b.workUnit
          ? 1
          : a.number - b.number;

operation(
  "make",
  4,
  0.8,
  fc.record({
    picks: fc.array(fc.nat(60), { minLength: 1, maxLength: 3 }),
    missing: seldom(name, 12),
    worker,
    lifetimeMs: lease,
  }),
  async (pair, { picks, missing, worker, lifetimeMs }) => {
    const there = await everyUnit(pair);
    const makes = picks.flatMap((pick) => there[pick % Math.max(1, there.length)] ?? []);
    if (missing !== undefined) makes.push({ workSpec: "c", workUnit: nameOf(missing) });
    if (makes.length === 0) return [0, 0];
    const asked = makes.map((one) => ({ ...one, worker, lifetimeMs }));
    return keep(pair, await both(pair, ({ engine, ns }) => engine.makeAttempts(ns, asked)));
  },
);

// ---- settling

const actions: readonly AttemptAction[] = [
  "finish",
  "finish",
  "finish",
  "fail",
  "error",
  "error",
  "retry",
  "expire",
  "renew",
];
const action = fc.constantFrom(...actions);

/** An attempt by number: most of those that are open, or of any that were handed out. */
const which = fc.record({
  pick: fc.nat(40),
  of: fc.oneof(
    { weight: 12, arbitrary: fc.constant("pending" as const) },
    { weight: 2, arbitrary: fc.constant("expired" as const) },
    { weight: 1, arbitrary: fc.constant("any" as const) },
  ),
});
type Which = { pick: number; of: "pending" | "expired" | "any" };

interface OpenAttempts {
  pending: string[];
  expired: string[];
  any: string[];
}

async function openAttempts(pair: Pair): Promise<OpenAttempts> {
  const any = pair.attempts.slice(-60);
  if (any.length === 0) return { pending: [], expired: [], any };
  const rows = await both(pair, ({ engine, ns, attempt }) => engine.getAttempts(ns, any.map(attempt)));
  const of = (status: string): string[] =>
    (rows as (AttemptRow | null)[]).flatMap((row) => (row?.status === status ? [row.id] : []));
  return { pending: of("pending"), expired: of("expired"), any };
}

const pickAttempt = (open: OpenAttempts, { pick, of }: Which): string | undefined => {
  const from = of === "any" ? open.any : open[of].length > 0 ? open[of] : open.pending;
  return from[from.length - 1 - (pick % Math.max(1, from.length))];
};

function remove<Item>(items: Item[], item: Item): void {
  const at = items.indexOf(item);
  if (at >= 0) items.splice(at, 1);
}

type Change = {
  which: Which;
  action: AttemptAction;
  data?: Value | undefined;
  delayMs?: number;
  lifetimeMs?: number;
  untried?: boolean;
  error?: string | undefined;
  reason?: GivenReason | undefined;
  progress?: number | undefined;
};
const change: fc.Arbitrary<Change> = fc.record({
  which,
  action,
  data: seldom(value, 1),
  delayMs: span,
  lifetimeMs: fc.constantFrom(0, 100, 1000, 10_000),
  untried: fc.boolean(),
  error: mostly(fc.constantFrom("Error: boom", "TypeError: x is not a function\n    at y")),
  reason: seldom(fc.constantFrom("expired" as const, "cancelled" as const, "late" as const)),
  progress: seldom(fc.constantFrom(0, 0.5, 1), 1),
});

async function settle(pair: Pair, changes: readonly Change[], repeat = false): Promise<Accepted> {
  const open = await openAttempts(pair);
  const asked = changes.flatMap(({ which, data, untried, error, reason, progress, ...rest }) => {
    const attempt = pickAttempt(open, which);
    if (attempt === undefined) return [];
    // another change is of another attempt, unless several of one are what is wanted
    if (!repeat) for (const list of [open.pending, open.expired]) remove(list, attempt);
    return [
      {
        ...rest,
        attempt,
        data: encoded(data),
        ...(untried === true && ["expire", "retry"].includes(rest.action) && { untried }),
        ...(untried === true && rest.action !== "expire" && { recordTaken: true }),
        ...(error !== undefined && rest.action === "error" && { error }),
        ...(reason !== undefined && ["error", "fail"].includes(rest.action) && { reason }),
        ...(progress !== undefined && rest.action === "renew" && { progress: { done: progress, note: "" } }),
      },
    ];
  });
  if (asked.length === 0) return [0, 0];
  const answers = await both(pair, ({ engine, ns, attempt }) =>
    engine.settleAttempts(
      ns,
      asked.map((one) => ({ ...one, attempt: attempt(one.attempt) })),
    ),
  );
  if (!Array.isArray(answers)) return [0, asked.length];
  return [(answers as { changed: boolean }[]).filter(({ changed }) => changed).length, asked.length];
}

operation(
  "settle",
  18,
  0.4,
  fc.record({ changes: fc.array(change, { minLength: 1, maxLength: 5 }) }),
  (pair, { changes }) => settle(pair, changes),
);

/** Several changes of one attempt in one call, with others before and after. */
operation(
  "settle one twice",
  4,
  0.3,
  fc.record({
    which,
    actions: fc.oneof(
      fc.constant(["fail", "finish"] as AttemptAction[]),
      fc.array(action, { minLength: 2, maxLength: 3 }),
    ),
    data: seldom(value, 1),
    before: fc.array(change, { maxLength: 2 }),
    between: fc.array(change, { maxLength: 1 }),
  }),
  (pair, { which, actions, data, before, between }) => {
    const [first = "fail", ...others] = actions;
    const one = { which, data, lifetimeMs: 1000 };
    return settle(
      pair,
      [...before, { ...one, action: first }, ...between, ...others.map((action) => ({ ...one, action }))],
      true,
    );
  },
);

operation(
  "settle many",
  4,
  0.1,
  fc.record({ action, count: fc.integer({ min: 1, max: 60 }), withData: fc.boolean() }),
  async (pair, { action, count, withData }) => {
    const latest = pair.attempts.slice(-count);
    if (latest.length === 0) return [0, 0];
    const answers = await both(pair, ({ engine, ns, attempt }) =>
      engine.settleAttempts(
        ns,
        latest.map((name, i) => ({
          attempt: attempt(name),
          action,
          lifetimeMs: 500,
          ...(withData && i % 3 === 0 && { data: encodeData({ output: [`many ${i}`], i }) }),
        })),
      ),
    );
    if (!Array.isArray(answers)) return [0, latest.length];
    return [(answers as { changed: boolean }[]).filter(({ changed }) => changed).length, latest.length];
  },
);

operation(
  "settle unknown",
  1,
  0,
  fc.record({ attempt: fc.constantFrom("999999999999.1", "x", "1e3.1", "1"), action }),
  async (pair, change) => done(await both(pair, ({ engine, ns }) => engine.settleAttempts(ns, [change]))),
);

operation(
  "failures",
  4,
  // most of the time nothing has failed yet
  0.05,
  fc.record({ spec, pick: fc.nat(5), then: fc.constantFrom("list", "count", "reset", "delete") }),
  async (pair, { spec, pick, then }) => {
    const rows = await both(pair, ({ engine, ns }) => engine.listFailures(ns, { workSpec: spec }));
    if (!Array.isArray(rows) || rows.length === 0) return [0, 1];
    const { fingerprint: error } = rows[pick % rows.length] as FailureRow;
    const answer = await both(pair, ({ engine, ns }): Promise<unknown> => {
      if (then === "list") return engine.listWorkUnits(ns, spec, { error });
      if (then === "count") return engine.countWorkUnits(ns, spec, { error });
      if (then === "reset") return engine.resetWorkUnits(ns, spec, { error });
      return engine.deleteWorkUnits(ns, spec, { error });
    });
    return done(answer);
  },
);

operation("get attempts", 2, 1, fc.constant({}), async (pair) =>
  done(
    await both(pair, ({ engine, ns, attempt }) =>
      engine.getAttempts(ns, pair.attempts.slice(-20).map(attempt)),
    ),
  ),
);

// ---- time

const minute = 60_000;
operation(
  "advance",
  10,
  1,
  fc.record({
    ms: fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(1, 10, 100, 100, 1000, 1000, 10_000) },
      { weight: 1, arbitrary: fc.constantFrom(11 * minute, 16 * minute, 60 * minute, 9 * 24 * 60 * minute) },
    ),
  }),
  async (pair, { ms }) => {
    pair.clock.advance(ms);
    await lookAtAll(pair);
    return true;
  },
);

// ---- looking at units

operation(
  "list",
  4,
  0.3,
  fc.record({ spec: busy, by, selection, limit: fc.integer({ min: 1, max: 80 }), previous: seldom(name, 4) }),
  async (pair, { spec, by, selection, limit, previous }) => {
    const { all: _all, ...where } = selected(selection);
    const query = { ...where, limit, ...(previous !== undefined && { previous: nameOf(previous) }) };
    const page = await both(pair, (side) => side.engine.listWorkUnits(side.ns, ref(side, spec, by), query));
    return done(page) && (page as Page<unknown>).rows.length > 0;
  },
);

operation(
  "get",
  2,
  0.3,
  fc.record({ spec: busy, by, names: fc.array(name, { minLength: 1, maxLength: 5 }) }),
  async (pair, { spec, by, names }) => {
    const rows = await both(pair, (side) =>
      side.engine.getWorkUnits(side.ns, ref(side, spec, by), names.map(nameOf)),
    );
    return done(rows) && (rows as unknown[]).some((row) => row !== null);
  },
);

operation(
  "count",
  2,
  0.4,
  fc.record({ spec: busy, by, selection }),
  async (pair, { spec, by, selection }) => {
    const counts = await both(pair, (side) =>
      side.engine.countWorkUnits(side.ns, ref(side, spec, by), selected(selection)),
    );
    return done(counts) && Object.values(counts as Tally).some((count) => count > 0);
  },
);

// ---- changing units

operation(
  "prioritize",
  3,
  0.4,
  fc.record({
    spec: busy,
    by,
    selection,
    change: fc.oneof(
      priority.map((set) => ({ set })),
      fc.constantFrom(-1, 1).map((adjust) => ({ adjust })),
    ),
  }),
  async (pair, { spec, by, selection, change }) =>
    some(
      await both(pair, (side) =>
        side.engine.setWorkUnitPriorities(side.ns, ref(side, spec, by), selected(selection), change),
      ),
    ),
);

operation(
  "delay",
  3,
  0.25,
  fc.record({ spec: busy, by, selection, ms: span }),
  async (pair, { spec, by, selection, ms }) =>
    some(
      await both(pair, (side) =>
        side.engine.setWorkUnitDelays(
          side.ns,
          ref(side, spec, by),
          selected(selection),
          ms === 0 ? 0 : side.clock.now() + ms,
        ),
      ),
    ),
);

operation("cancel", 1, 0.2, fc.record({ spec: busy, by, selection }), async (pair, { spec, by, selection }) =>
  some(
    await both(pair, (side) =>
      side.engine.cancelWorkUnits(side.ns, ref(side, spec, by), selected(selection), { why: "test" }),
    ),
  ),
);

operation("reset", 2, 0.2, fc.record({ spec: busy, by, selection }), async (pair, { spec, by, selection }) =>
  some(
    await both(pair, (side) => side.engine.resetWorkUnits(side.ns, ref(side, spec, by), selected(selection))),
  ),
);

operation(
  "delete",
  1,
  0.3,
  fc.record({
    spec: busy,
    by,
    // to delete everything too often would leave nothing to do
    selection: fc.oneof(
      {
        weight: 5,
        arbitrary: fc.uniqueArray(name, { minLength: 2, maxLength: 4 }).map((names) => ({ names })),
      },
      { weight: 1, arbitrary: selection },
    ),
  }),
  async (pair, { spec, by, selection }) =>
    some(
      await both(pair, (side) =>
        side.engine.deleteWorkUnits(side.ns, ref(side, spec, by), selected(selection)),
      ),
    ),
);

// ---- queues and actions

const queue = fc.constantFrom(...queueNames);

operation(
  "take",
  4,
  0.3,
  fc.record({ queue: full, max: fc.constantFrom(1, 2, 5, 1000), requestId }),
  async (pair, { queue, max, requestId }) => {
    const all = pair.known.has("message order") || pair.known.has("messages");
    const named = pair.known.has("messages") ? {} : requestName(pair, requestId);
    const take = (side: Side): Promise<object[]> =>
      side.engine
        .takeMessages(side.ns, queue, { max: all ? 10_000 : max, ...named })
        .then((messages) => told(pair, messages));
    if (!pair.known.has("messages")) return some(await both(pair, take));
    for (const side of sides(pair)) await take(side);
    return [0, 0];
  },
);

operation("clear", 1, 0.2, fc.record({ queue }), async (pair, { queue }) => {
  if (!pair.known.has("messages"))
    return some(await both(pair, ({ engine, ns }) => engine.clearQueue(ns, queue)));
  for (const { engine, ns } of sides(pair)) await engine.clearQueue(ns, queue);
  return [0, 0];
});

operation(
  "put actions",
  2,
  0.5,
  fc.record({
    actions: fc.array(
      fc.record({ key: fc.constantFrom(...actionKeys), n: fc.constantFrom(1, 1, 1, 1, 1, 2) }),
      { minLength: 1, maxLength: 3 },
    ),
  }),
  async (pair, { actions }) =>
    done(
      await both(pair, ({ engine, ns }) =>
        engine.putActions(
          ns,
          actions.map(({ key, n }) => ({ key, data: encodeData({ n }) })),
        ),
      ),
    ),
);

operation("delete actions", 1, 1, fc.record({ keys: fc.subarray(actionKeys) }), async (pair, { keys }) =>
  done(await both(pair, ({ engine, ns }) => engine.deleteActions(ns, keys))),
);

// ---- work specs and namespaces

const limitNames = ["x", "y"];

operation(
  "set limits",
  2,
  1,
  fc.record({
    limits: fc.array(
      fc.record({
        name: fc.constantFrom(...limitNames),
        maxRunning: fc.constantFrom(0, 1, 2, 5),
        rate: fc.constantFrom({}, {}, { limit: 2, burst: 3 }, { limit: 1, periodMs: 50 }),
      }),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  async (pair, { limits }) => done(await both(pair, ({ engine, ns }) => engine.setLimits(ns, limits))),
);

operation("list limits", 1, 1, fc.record({}), async (pair) =>
  done(await both(pair, ({ engine, ns }) => engine.listLimits(ns))),
);

operation("delete limits", 1, 1, fc.record({ names: fc.subarray(limitNames) }), async (pair, { names }) =>
  done(await both(pair, ({ engine, ns }) => engine.deleteLimits(ns, names))),
);

const rate = fc.constantFrom(
  { limit: 10 },
  { limit: 2, burst: 3 },
  { limit: 1, period: 0.05 },
  { limit: 3, period: 10, burst: 5 },
);
const specData = fc.record({
  name: spec,
  then: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...specNames) },
    { weight: 2, arbitrary: fc.constantFrom("", "nowhere") },
  ),
  then_preempts: seldom(fc.boolean(), 3),
  priority: seldom(fc.constantFrom(-1, 1, 2), 6),
  weight: seldom(fc.constantFrom(0, 1, 5), 4),
  disabled: seldom(fc.boolean(), 12),
  min_gb: seldom(fc.constantFrom(0.5, 2), 4),
  runtime: seldom(fc.constantFrom("node", "python"), 4),
  requires: seldom(fc.constantFrom(["gpu"], ["version>=2"], ["gpu", "version<2"]), 4),
  max_running: seldom(fc.constantFrom(2, 5), 4),
  max_running_per_partition: seldom(fc.constantFrom(1, 2), 4),
  rate: seldom(rate, 6),
  rate_per_partition: seldom(rate, 6),
  breaker: seldom(
    fc.constantFrom(
      { failures: 0.5, min: 2, window: 1, pause: 0.1 },
      { failures: 0.2, min: 1, window: 0.1, pause: 1, probes: 2 },
      { failures: 0.4, min: 2, by: "error", pause: 0.05 },
      { failures: 0.3, min: 2, window: 10, pause: 0.1, probes: 2, action: "slow" },
    ),
    3,
  ),
  order: seldom(fc.constant("partition"), 4),
  fair: seldom(fc.constant("partition"), 4),
  aging: seldom(fc.constantFrom(1, 100), 5),
  partition_weights: seldom(fc.constantFrom({ p1: 2 }, { "": 3, p0: 2, p2: 3 }), 3),
  limits: seldom(fc.constantFrom(["x"], ["y"], ["y", "x", "y"], ["nowhere"]), 3),
  max_getwork: seldom(fc.constantFrom(1, 3), 4),
  max_retries: seldom(fc.constantFrom(1, 2, 3), 1),
  retry: seldom(
    fc.constantFrom(
      { attempts: 2 },
      { attempts: 3, backoff: { kind: "fixed", delay: 0.1 } },
      { backoff: { delay: 0.01, max: 0.02, jitter: 1 } },
    ),
    3,
  ),
  continuous: seldom(fc.boolean(), 6),
  interval: seldom(fc.constantFrom(0.05, 1), 2),
  schedule: seldom(
    fc
      .tuple(
        fc.constantFrom(
          { every: 1 },
          { every: 2.5, end: 1100 },
          { cron: "*/2 * * * * *" },
          { at: [1001, 1003, 1020] },
        ),
        fc.record({
          overlap: seldom(fc.constantFrom("allow", "skip", "wait"), 1),
          catch_up: seldom(fc.constantFrom("skip", "one", 3), 1),
          jitter: seldom(fc.constantFrom(0.5, 20), 2),
        }),
      )
      .map(([times, more]) => ({ ...times, ...defined(more) })),
    4,
  ),
  retention: seldom(
    fc.constantFrom(
      { finished: { max_count: 2 } },
      { failed: { max_age: 0.1 } },
      { finished: { max_age: 1, max_count: 5 }, failed: { max_count: 0 } },
      { finished: { max_age: 3600 } },
    ),
    2,
  ),
});

operation(
  "set spec",
  4,
  0.9,
  fc.record({ data: specData, keepMeta: fc.boolean() }),
  async (pair, { data, keepMeta }) => {
    const encodedSpec = [{ data: encodeData(defined(data)) }];
    if (data.schedule !== undefined) pair.scheduled = true;
    const answer = await both(pair, ({ engine, ns }) => engine.setWorkSpecs(ns, encodedSpec, { keepMeta }));
    await learnSpecs(pair);
    return done(answer);
  },
);

operation(
  "set meta",
  3,
  0.8,
  fc.record({
    spec,
    by,
    change: fc.record(
      {
        paused: fc.constantFrom(false, false, false, true),
        continuous: fc.boolean(),
        priority: fc.constantFrom(0, 0, 1),
        minGb: fc.constantFrom(0, 0, 2),
        intervalMs: fc.constantFrom(0, 50),
        nextContinuous: fc.constantFrom(0, 0, 2_000_000),
        maxRunning: fc.constantFrom(0, 0, 2, 5),
        maxRunningPerPartition: fc.constantFrom(0, 0, 1, 2),
        maxGetwork: fc.constantFrom(0, 0, 2),
        maxRetries: fc.constantFrom(0, 0, 1, 2),
        maxWaiting: fc.constantFrom(0, 0, 0, 6),
        weight: fc.constantFrom(1, 20, 20),
      },
      { requiredKeys: [] },
    ),
  }),
  async (pair, { spec, by, change }) =>
    done(await both(pair, (side) => side.engine.setWorkSpecMeta(side.ns, ref(side, spec, by), change))),
);

/** What most runs are to have: after a while all work specs would be paused, exhausted and without `then`. */
operation("set all specs", 2, 1, fc.constant({}), async (pair) => {
  await setSpecs(pair);
  return true;
});

operation(
  "delete spec",
  1,
  0.6,
  fc.record({ spec, by, again: fc.constantFrom(true, true, true, true, true, false) }),
  async (pair, { spec, by, again }) => {
    const answer = await both(pair, (side) => side.engine.deleteWorkSpecs(side.ns, [ref(side, spec, by)]));
    if (again) await setSpecs(pair);
    return done(answer) && (answer as boolean[]).includes(true);
  },
);

operation(
  "delete namespace",
  1,
  1,
  fc.record({ again: fc.constantFrom(true, true, true, true, true, false) }),
  async (pair, { again }) => {
    const answer = await both(pair, ({ engine, ns }) => engine.deleteNamespace(ns));
    if (again) await setSpecs(pair);
    return done(answer);
  },
);

operation(
  "set namespace",
  2,
  1,
  fc.record(
    {
      desired: fc.constantFrom("run" as const, "idle" as const),
      policy: fc.constantFrom("weighted" as const, "python" as const),
      share: fc.constantFrom("choices" as const, "time" as const),
    },
    { requiredKeys: [] },
  ),
  async (pair, settings) => done(await both(pair, ({ engine, ns }) => engine.setNamespace(ns, settings))),
);

operation(
  "explain",
  1,
  1,
  fc.record({
    runtimes: seldom(fc.subarray(["", "node"], { minLength: 1 }), 2),
    availableGb: seldom(fc.constantFrom(1, 4), 2),
  }),
  async (pair, ask) => done(await both(pair, ({ engine, ns }) => engine.explain(ns, defined(ask)))),
);

// ---- workers

operation(
  "check in",
  3,
  0.8,
  fc.record({
    name: worker,
    change: fc.record(
      {
        parent: fc.option(worker, { freq: 2 }),
        active: fc.boolean(),
        mode: fc.constantFrom("m", "\0"),
        desired: fc.constantFrom(null, "idle" as const),
      },
      { requiredKeys: [] },
    ),
    data: seldom(value),
    expiresIn: seldom(fc.constantFrom(100, 10_000), 3),
  }),
  async (pair, { name, change, data, expiresIn }) =>
    done(
      await both(pair, ({ engine, ns, clock }) =>
        engine.updateWorkers(ns, [
          {
            name,
            ...change,
            ...(data && { data: encoded(data) }),
            ...(expiresIn !== undefined && { active: true, expiration: clock.now() + expiresIn }),
          },
        ]),
      ),
    ),
);

operation(
  "list workers",
  1,
  0.2,
  fc.record({
    prefix: seldom(fc.constantFrom("", "w", "w\0", "x")),
    active: seldom(fc.boolean()),
    root: seldom(fc.boolean()),
    parent: seldom(worker),
    previous: seldom(worker),
    limit: seldom(fc.integer({ min: 1, max: 3 })),
  }),
  async (pair, query) => {
    const page = await both(pair, ({ engine, ns }) => engine.listWorkers(ns, defined(query)));
    return done(page) && (page as Page<unknown>).rows.length > 0;
  },
);

operation(
  "attempts of a worker",
  2,
  0.2,
  fc.record({
    worker: occupied,
    which: fc.constantFrom("active" as const, "all" as const, "all" as const, "children" as const),
    limit: fc.integer({ min: 1, max: 5 }),
    back: seldom(fc.nat(10), 4),
  }),
  async (pair, { worker, which, limit, back }) => {
    if (which !== "all" && pair.known.has("active attempts")) return [0, 0];
    const page = await both(pair, ({ engine, ns, attempt }) => {
      const previous = back === undefined ? undefined : pair.attempts.at(-1 - back);
      return attemptsOf(engine, ns, worker, {
        which,
        limit,
        ...(previous !== undefined && { previous: attempt(previous) }),
      });
    });
    return done(page) && (page as Page<unknown>).rows.length > 0;
  },
);

/** A cursor has the id of the last attempt, and a position that is the store's own. */
async function attemptsOf(
  engine: Engine,
  ns: string,
  worker: string,
  query: WorkerAttemptQuery,
): Promise<Page<AttemptRow>> {
  return withoutPosition(await engine.listWorkerAttempts(ns, worker, query));
}

// ---- pages

operation(
  "all pages",
  2,
  1,
  fc.record({
    of: fc.constantFrom("specs", "units", "workers", "queues", "actions", "attempts"),
    spec,
    worker,
    limit: fc.integer({ min: 1, max: 4 }),
  }),
  async (pair, { of, spec, worker, limit }) => {
    if (of === "queues" && pair.known.has("messages")) return [0, 0];
    return (
      done(
        await both(pair, ({ engine, ns }) =>
          allPages((previous) => {
            const query = { limit, ...(previous !== undefined && { previous }) };
            switch (of) {
              case "specs":
                return engine.listWorkSpecs(ns, query);
              case "units":
                return engine.listWorkUnits(ns, spec, { ...query, limit: limit * 10 });
              case "workers":
                return engine.listWorkers(ns, query);
              case "queues":
                return engine.listQueues(ns, query);
              case "actions":
                return engine.listActions(ns, query);
              default:
                return engine.listWorkerAttempts(ns, worker, { ...query, which: "all" });
            }
          }),
        ),
      ) || of === "units"
    );
  },
);

// ---- locks

operation(
  "lock",
  3,
  0.9,
  fc.record({
    verb: fc.constantFrom("lock" as const, "lockSome" as const, "renewLocks" as const, "unlock" as const),
    owner: fc.constantFrom("o1", "o2"),
    paths: fc.array(fc.constantFrom(...paths), { minLength: 1, maxLength: 3 }),
    timeoutMs: fc.constantFrom(10, 1000),
  }),
  async (pair, { verb, owner, paths, timeoutMs }) =>
    done(await both(pair, async ({ engine, ns }) => engine[verb](ns, { owner, paths, timeoutMs }))),
);

operation("clear locks", 1, 1, fc.record({ path: fc.constantFrom(...paths) }), async (pair, { path }) =>
  done(await both(pair, ({ engine, ns }) => engine.clearLocks(ns, path))),
);

// ---- housekeeping

operation("sweep", 3, 1, fc.constant({}), async (pair) => {
  await sweep(pair);
  return true;
});

operation("reopen", 0, 1, fc.constant({}), async (pair) => {
  await pair.reopen();
  return true;
});

// ---- waiting

/** Somebody waits, then something is done. Whoever had reason to wake up has woken up at once. */
operation(
  "wait",
  2,
  0.2,
  fc.record({
    for: fc.constantFrom("work", "messages", "units"),
    spec,
    queue,
    names: fc.array(usual, { minLength: 1, maxLength: 2 }),
    then: fc.oneof(
      fc.record({ add: usual }),
      fc.record({ settle: fc.array(change, { minLength: 1, maxLength: 2 }) }),
    ),
  }),
  async (pair, { for: what, spec, queue, names, then }) => {
    if (what === "messages" && (pair.known.has("messages") || pair.known.has("message order"))) return [0, 0];
    await sweepFirst(pair);
    pair.draw.value = 0;
    // a wait is ended by its signal: at a deadline it may have looked a last time or not
    const end = new AbortController();
    const options = { waitMs: 50, signal: end.signal };
    const asking = sides(pair).map(({ engine, ns }) => {
      const answer = outcome(
        what === "work"
          ? engine.requestAttempts(ns, { worker: crowd, workSpecs: [spec], ...options, lifetimeMs: 1000 })
          : what === "units"
            ? engine.awaitWorkUnits(ns, spec, names, options)
            : engine.takeMessages(ns, queue, { ...options, max: 1 }).then((messages) => told(pair, messages)),
      );
      const waiting = { engine, answer, over: false };
      const ended = (): void => {
        waiting.over = true;
      };
      answer.then(ended, ended);
      return waiting;
    });
    for (const one of asking) await until(() => one.over || one.engine.waiting > 0);
    // to be seen waiting is not yet to wait: the first look may be under way
    for (let i = 0; i < 5; i++) await turn();
    if ("add" in then)
      await both(pair, ({ engine, ns }) =>
        engine.addWorkUnits(ns, spec, [{ name: then.add, queues: [queue] }]),
      );
    else await settle(pair, then.settle);
    const [memory, other] = asking;
    if (memory === undefined || other === undefined) throw new Error("unreachable");
    for (let i = 0; i < 20 && !memory.over; i++) await turn();
    if (memory.over) await until(() => other.over);
    else end.abort();
    const [expected, got] = [await memory.answer, await other.answer];
    compare(pair, got, expected);
    if (what === "work") keep(pair, expected);
    return some(expected);
  },
);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error("waited for ten seconds in vain");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

// ---- large amounts: more than a slice of 2,000 units

const largeSpec = "a";
operation(
  "add large",
  0,
  1,
  fc.record({
    count: fc.integer({ min: 2001, max: 2600 }),
    from: fc.constantFrom(0, 0, 500),
    kind: fc.constantFrom("plain", "various", "queued"),
    delayMs: fc.constantFrom(0, 100),
  }),
  async (pair, { count, from, kind, delayMs }) =>
    done(
      await both(pair, ({ engine, ns }) =>
        engine.addWorkUnits(ns, largeSpec, many(count, from, kind, delayMs)),
      ),
    ),
);
operation(
  "large",
  0,
  0,
  fc.record({
    verb: fc.constantFrom(
      "prioritize",
      "delay",
      "reset",
      "cancel",
      "delete",
      "count",
      "claim",
      "claim",
      "settle",
      "settle",
      "clear",
      "list",
    ),
    at: fc.nat(1),
  }),
  async (pair, { verb, at }) => {
    const where: WorkUnitSelection = at === 0 ? { all: true } : { prefix: "many 1" };
    const answer = await both(pair, async ({ engine, ns, clock, attempt }): Promise<unknown> => {
      switch (verb) {
        case "prioritize":
          return engine.setWorkUnitPriorities(ns, largeSpec, where, { adjust: 1 });
        case "delay":
          return engine.setWorkUnitDelays(ns, largeSpec, where, clock.now() + 100);
        case "reset":
          return engine.resetWorkUnits(ns, largeSpec, where);
        case "cancel":
          return engine.cancelWorkUnits(ns, largeSpec, where);
        case "delete":
          return engine.deleteWorkUnits(ns, largeSpec, where);
        case "count":
          return engine.countWorkUnits(ns, largeSpec, { prefix: "many" });
        case "claim":
          return engine.requestAttempts(ns, {
            worker: "w1",
            number: 2500,
            lifetimeMs: 1000,
            workSpecs: [largeSpec],
          });
        case "settle":
          return engine.settleAttempts(
            ns,
            pair.attempts.slice(-2500).map((name, i) => ({
              attempt: attempt(name),
              action: actions[(i + at) % actions.length] ?? "finish",
              ...(i % 10 === 0 && { data: encodeData({ output: [`made ${i}`] }) }),
            })),
          );
        case "clear":
          return pair.known.has("messages") ? 0 : engine.clearQueue(ns, "q");
        default:
          return allPages((previous) =>
            engine.listWorkUnits(ns, largeSpec, { limit: 999, ...(previous !== undefined && { previous }) }),
          );
      }
    });
    if (verb === "claim") keep(pair, answer);
    return done(answer);
  },
);
// ---- histories

export const histories = operations.histories(100);
export const historiesWithReopen = operations.histories(100, { reopen: 3 });
export const largeHistories = fc
  .tuple(
    operations.steps("add large"),
    fc.array(
      fc.oneof(
        { weight: 1, arbitrary: operations.steps("add large") },
        { weight: 6, arbitrary: operations.steps("large") },
        {
          weight: 1,
          arbitrary: fc.constantFrom(
            { do: "sweep" },
            { do: "advance", ms: 100 },
            { do: "advance", ms: 1000 },
          ),
        },
      ),
      { minLength: 4, maxLength: 10 },
    ),
  )
  .map(([first, rest]): Step[] => [first, ...rest]);

export const floors = operations.floors;

/** The work specs that every run starts with. */
export async function setSpecs(pair: Pair): Promise<void> {
  await both(pair, ({ engine, ns }) =>
    engine.setWorkSpecs(ns, [
      { data: encodeData({ name: "a", then: "b" }) },
      { data: encodeData({ name: "b" }) },
      { data: encodeData({ name: "c", then: "c", max_retries: 2 }) },
      { data: encodeData({ name: "\0s\u{1f600}", then: "a" }) },
    ]),
  );
  await learnSpecs(pair);
}

/** A whole history, from nothing to nothing. */
export async function performAll(pair: Pair, steps: readonly Step[]): Promise<void> {
  try {
    await performSteps(pair, steps);
    await lookAtAll(pair);
    await compareAll(pair);
  } catch (error) {
    if (!(error instanceof Abandoned)) throw error;
  }
  await both(pair, ({ engine, ns }) => engine.deleteNamespace(ns));
}

async function performSteps(pair: Pair, steps: readonly Step[]): Promise<void> {
  writeLongNames(!pair.known.has("long names"));
  await setSpecs(pair);
  for (const [i, step] of steps.entries()) {
    try {
      await operations.perform(pair, step);
      if (pair.scheduled === true) await both(pair, ({ engine, ns }) => engine.tally(ns));
      if (i % pair.tallyEvery === 0) await both(pair, ({ engine, ns }) => engine.tally(ns));
    } catch (error) {
      if (error instanceof Error && !(error instanceof Abandoned))
        error.message = `after ${i} steps, at ${JSON.stringify(step)}: ${error.message}`;
      throw error;
    }
  }
}

/** Everything that can be seen of a namespace. */
async function compareAll(pair: Pair): Promise<void> {
  const { known } = pair;
  const ask = (verb: (side: Side) => Promise<unknown>): Promise<unknown> => both(pair, verb);
  await ask(({ engine, ns }) => engine.tally(ns));
  await ask(({ engine }) => engine.listNamespaces());
  await ask(({ engine, ns }) => engine.listWorkers(ns));
  await ask(({ engine, ns }) => engine.listWorkSpecs(ns));
  await ask(({ engine, ns }) => engine.readLocks(ns, paths));
  // of a sample each store may take its own: where units are handed out by partition there is no one order to take it from
  await ask(async ({ engine, ns }) =>
    (await engine.waitingSince(ns)).map((row) => (row.exact ? row : { ...row, since: null })),
  );
  if (!known.has("messages")) {
    await ask(({ engine, ns }) => engine.countMessages(ns, queueNames));
    if (!known.has("message order")) await ask(({ engine, ns }) => engine.listQueues(ns));
  }
  await ask(({ engine, ns }) => engine.listActions(ns));
  for (const spec of specNames) {
    const listed = await ask(({ engine, ns }) => engine.listWorkUnits(ns, spec));
    await ask(({ engine, ns }) => engine.listWorkUnits(ns, spec, { asAdded: true }));
    await ask(({ engine, ns }) => engine.listUnitAttempts(ns, spec, "nobody's"));
    await ask(({ engine, ns }) => engine.listPartitions(ns, spec));
    if (isRefusal(listed)) continue;
    const { rows } = listed as Page<WorkUnitRow>;
    for (const label of labelNames) await ask(({ engine, ns }) => engine.listWorkUnits(ns, spec, { label }));
    for (const status of new Set(rows.map((row) => row.status)))
      await ask(({ engine, ns }) => engine.listWorkUnits(ns, spec, { statuses: [status] }));
    for (const { name } of rows.filter(({ attempts }) => attempts > 0).slice(0, 20))
      await ask(({ engine, ns }) => engine.listUnitAttempts(ns, spec, name));
  }
  for (const worker of workerNames) {
    await ask(({ engine, ns }) => attemptsOf(engine, ns, worker, { which: "all" }));
    if (known.has("active attempts")) continue;
    for (const which of ["active", "children"] as const)
      await ask(({ engine, ns }) => attemptsOf(engine, ns, worker, { which }));
  }
  await ask(async ({ engine, ns }) =>
    (await engine.listWorkerAttempts(ns, crowd, { which: "all" })).rows.sort(byUnit),
  );
  await ask(({ engine, ns }) => engine.explain(ns, {}));
  if (!known.has("messages"))
    for (const queue of queueNames)
      await ask(async ({ engine, ns }) => told(pair, await engine.takeMessages(ns, queue, { max: 10_000 })));
}
