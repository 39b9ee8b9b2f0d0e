/** Random operations that add units: one by one, hundreds at once, and in chains. */
import fc from "fast-check";
import {
  type ConflictPolicy,
  type RetryPolicy,
  type WorkUnitInput,
  conflictPolicies,
  encodeData,
} from "../../../src/core/index.ts";
import { both } from "../pair.ts";
import {
  type Value,
  batchNames,
  by,
  encoded,
  labelNames,
  mostly,
  name,
  nameOf,
  partition,
  priority,
  queueNames,
  requestId,
  seldom,
  span,
  spec,
  usual,
  value,
} from "../vocabulary.ts";
import { done, everyUnit, operation, ref, requestName } from "./operation.ts";

/** Dependencies are picked by number from the existing units. */
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
  batch: seldom(fc.constantFrom(...batchNames), 4),
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
  batch?: string | undefined;
  partition?: string | undefined;
  deadlineMs?: number | undefined;
  expiresMs?: number | undefined;
  maxRetries?: number | undefined;
  retry?: RetryPolicy | undefined;
  onConflict?: ConflictPolicy | undefined;
  throttleMs?: number | undefined;
};

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
        batch,
        partition,
        deadlineMs,
        expiresMs,
        maxRetries,
        retry,
        onConflict,
        throttleMs,
        ...rest
      } = one;
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
        ...(batch !== undefined && { batch }),
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

export const many = (count: number, from: number, kind: string, delayMs: number): WorkUnitInput[] =>
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

/** A chain of units, each of which depends on the previous one. */
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
