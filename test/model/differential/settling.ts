/** Random operations that end, renew and read attempts. */
import fc from "fast-check";
import {
  type AttemptAction,
  type AttemptRow,
  type FailureRow,
  type GivenReason,
  encodeData,
} from "../../../src/core/index.ts";
import type { Accepted } from "../operations.ts";
import { type Pair, both } from "../pair.ts";
import { type Value, encoded, mostly, seldom, span, spec, value } from "../vocabulary.ts";
import { done, operation } from "./operation.ts";

export const actions: readonly AttemptAction[] = [
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

/** An attempt by number: mostly a pending one, sometimes an expired one or any that was handed out. */
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
export const change: fc.Arbitrary<Change> = fc.record({
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

export async function settle(pair: Pair, changes: readonly Change[], repeat = false): Promise<Accepted> {
  const open = await openAttempts(pair);
  const asked = changes.flatMap(({ which, data, untried, error, reason, progress, ...rest }) => {
    const attempt = pickAttempt(open, which);
    if (attempt === undefined) return [];
    // each change picks a different attempt, unless `repeat` asks for several changes of one
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
  // in most cases nothing has failed yet
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
