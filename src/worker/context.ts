/**
 * The context argument of a task. A worker creates one for every run, and most tasks read few of its properties, so each property
 * is computed when it is read. A proxy costs 40 ns here, an object with its own getters 2 to 5 µs. `{ ...context }` copies every
 * property, which it would not do for a class with getters.
 */
import type { Run } from "./run.ts";
import type { BulkContext, TaskContext, UnitContext } from "./task.ts";

type Parts<Context> = { readonly [Key in keyof Context]: (run: Run) => Context[Key] };

const parts: Parts<TaskContext> = {
  signal: (run) => run.ending,
  expired: (run) => run.gone,
  log: ({ claim }) => claim.log,
  workSpec: ({ claim }) => claim.workSpec,
  worker: ({ claim }) => claim.worker,
  clock: ({ claim }) => claim.context.clock,
  renew: (run) => (lifetimeMs) => run.claim.renew(run, lifetimeMs),
};

export const unitContext = contextOf<UnitContext>({
  ...parts,
  log: (run) => run.log,
  progress:
    ({ claim, attempts }) =>
    (progress, note) =>
      claim.progress(attempts[0]!, progress, note),
});

export const bulkContext = contextOf<BulkContext>({
  ...parts,
  progress:
    ({ claim }) =>
    (attempt, progress, note) =>
      claim.progress(attempt, progress, note),
});

function contextOf<Context extends object>(table: Parts<Context>): (run: Run) => Context {
  const keys = Object.keys(table);
  const isPart = (key: string | symbol): key is keyof Context & string => Object.hasOwn(table, key);
  const handler: ProxyHandler<Run> = {
    get: (run, key) => (isPart(key) ? table[key](run) : undefined),
    has: (_run, key) => isPart(key),
    ownKeys: () => keys,
    getOwnPropertyDescriptor: (run, key) =>
      isPart(key) ? { value: table[key](run), enumerable: true, configurable: true } : undefined,
    // read-only: a task must not change the run behind the proxy
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
    getPrototypeOf: () => Object.prototype,
  };
  return (run) => new Proxy(run, handler) as object as Context;
}
