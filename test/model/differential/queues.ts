/** Random operations on queues, actions and locks. */
import fc from "fast-check";
import { encodeData } from "../../../src/core/index.ts";
import { both, told } from "../pair.ts";
import { actionKeys, full, paths, queueNames, requestId } from "../vocabulary.ts";
import { done, operation, requestName, some } from "./operation.ts";

export const queue = fc.constantFrom(...queueNames);

operation(
  "take",
  4,
  0.3,
  fc.record({ queue: full, max: fc.constantFrom(1, 2, 5, 1000), requestId }),
  async (pair, { queue, max, requestId }) => {
    const options = { max, ...requestName(pair, requestId) };
    return some(await both(pair, ({ engine, ns }) => engine.takeMessages(ns, queue, options).then(told)));
  },
);

operation("clear", 1, 0.2, fc.record({ queue }), async (pair, { queue }) =>
  some(await both(pair, ({ engine, ns }) => engine.clearQueue(ns, queue))),
);

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
