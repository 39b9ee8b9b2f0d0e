/** Random operations on work specs, limits and namespaces. */
import fc from "fast-check";
import { encodeData } from "../../../src/core/index.ts";
import { type Pair, both, learnSpecs } from "../pair.ts";
import { by, seldom, spec, specNames } from "../vocabulary.ts";
import { defined, done, operation, ref } from "./operation.ts";

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

/** Resets all work specs, because otherwise all of them would after a while be paused, exhausted and without `then`. */
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
