/** Random operations on workers, and pages of all lists. */
import fc from "fast-check";
import type { AttemptRow, Engine, Page, WorkerAttemptQuery } from "../../../src/core/index.ts";
import { allPages, both, withoutPosition } from "../pair.ts";
import { encoded, occupied, seldom, spec, value, worker } from "../vocabulary.ts";
import { defined, done, operation } from "./operation.ts";

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

/** Removes from the cursor the position, which differs between stores; the id of the last attempt stays. */
export async function attemptsOf(
  engine: Engine,
  ns: string,
  worker: string,
  query: WorkerAttemptQuery,
): Promise<Page<AttemptRow>> {
  return withoutPosition(await engine.listWorkerAttempts(ns, worker, query));
}

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
