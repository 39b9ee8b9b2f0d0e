/**
 * Random operations for two engines at once. An operation is plain data, so that a history can be printed, shortened and
 * kept as a regression case. The attempts and units that it refers to are looked up when it is performed.
 */
import fc from "fast-check";
import type { Page, WorkUnitRow } from "../../src/core/index.ts";
import { byUnit } from "./differential/claiming.ts";
import { operation, operations } from "./differential/operation.ts";
import { setSpecs } from "./differential/work-specs.ts";
import { attemptsOf } from "./differential/workers.ts";
import type { Step } from "./operations.ts";
import { type Pair, type Side, both, isRefusal, sides, told } from "./pair.ts";
import { crowd, labelNames, paths, queueNames, specNames, workerNames } from "./vocabulary.ts";
import "./differential/adding.ts";
import "./differential/batches.ts";
import "./differential/large.ts";
import "./differential/queues.ts";
import "./differential/settling.ts";
import "./differential/units.ts";
import "./differential/waiting.ts";

export type { Step } from "./operations.ts";

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
    return true;
  },
);

async function sweep(pair: Pair): Promise<void> {
  // one store may already have applied expired leases and elapsed delays in a read: a tally applies all of them, in both stores
  for (const { engine, ns } of sides(pair)) await engine.tally(ns);
  // stores may need different numbers of calls
  await both(pair, async ({ engine }) => {
    const total: Record<string, number> = {};
    for (let calls = 0; calls < 100; calls++) {
      const { more, ...counts } = await engine.sweep(100_000);
      for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
      if (!more) return total;
    }
    throw new Error("a sweep without end");
  });
}

operation("sweep", 3, 1, fc.constant({}), async (pair) => {
  await sweep(pair);
  return true;
});

operation("reopen", 0, 1, fc.constant({}), async (pair) => {
  await pair.reopen();
  return true;
});

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

/** Performs a whole history, from an empty namespace to its deletion. */
export async function performAll(pair: Pair, steps: readonly Step[]): Promise<void> {
  await performSteps(pair, steps);
  await compareAll(pair);
  await both(pair, ({ engine, ns }) => engine.deleteNamespace(ns));
}

async function performSteps(pair: Pair, steps: readonly Step[]): Promise<void> {
  await setSpecs(pair);
  for (const [i, step] of steps.entries()) {
    try {
      await operations.perform(pair, step);
      if (pair.scheduled === true) await both(pair, ({ engine, ns }) => engine.tally(ns));
      if (i % pair.tallyEvery === 0) await both(pair, ({ engine, ns }) => engine.tally(ns));
    } catch (error) {
      if (error instanceof Error)
        error.message = `after ${i} steps, at ${JSON.stringify(step)}: ${error.message}`;
      throw error;
    }
  }
}

/** Compares the complete visible state of a namespace. */
async function compareAll(pair: Pair): Promise<void> {
  const ask = (verb: (side: Side) => Promise<unknown>): Promise<unknown> => both(pair, verb);
  await ask(({ engine, ns }) => engine.tally(ns));
  await ask(({ engine }) => engine.listNamespaces());
  await ask(({ engine, ns }) => engine.listWorkers(ns));
  await ask(({ engine, ns }) => engine.listWorkSpecs(ns));
  await ask(({ engine, ns }) => engine.readLocks(ns, paths));
  // estimates come from a sample, which differs between stores: with claims by partition there is no single order of units
  await ask(async ({ engine, ns }) =>
    (await engine.waitingSince(ns)).map((row) => (row.exact ? row : { ...row, since: null })),
  );
  await ask(({ engine, ns }) => engine.countMessages(ns, queueNames));
  await ask(({ engine, ns }) => engine.listQueues(ns));
  await ask(({ engine, ns }) => engine.listActions(ns));
  await ask(({ engine, ns }) => engine.listBatches(ns));
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
    for (const which of ["active", "children"] as const)
      await ask(({ engine, ns }) => attemptsOf(engine, ns, worker, { which }));
  }
  await ask(async ({ engine, ns }) =>
    (await engine.listWorkerAttempts(ns, crowd, { which: "all" })).rows.sort(byUnit),
  );
  await ask(({ engine, ns }) => engine.explain(ns, {}));
  for (const queue of queueNames)
    await ask(async ({ engine, ns }) => told(await engine.takeMessages(ns, queue, { max: 10_000 })));
}
