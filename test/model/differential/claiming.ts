/** Random operations: workers request work. */
import fc from "fast-check";
import type { AttemptRow } from "../../../src/core/index.ts";
import { type Pair, type Side, both } from "../pair.ts";
import { crowd, lease, name, nameOf, ready, requestId, seldom, spec, worker } from "../vocabulary.ts";
import { defined, everyUnit, operation, requestName } from "./operation.ts";

export const keep = (pair: Pair, rows: unknown): boolean => {
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
    pair.draw.value = draw;
    const given = { ...defined(ask), ...requestName(pair, requestId) };
    return keep(pair, await both(pair, ({ engine, ns }) => engine.requestAttempts(ns, given)));
  },
);

/** Several concurrent requests: together they get the best units; which request gets which unit is not compared. */
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

export const byUnit = (a: AttemptRow, b: AttemptRow): number =>
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
