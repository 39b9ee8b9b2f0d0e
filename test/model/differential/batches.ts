/** Random operations on batches. */
import fc from "fast-check";
import { both } from "../pair.ts";
import { batchNames, seldom, spec } from "../vocabulary.ts";
import { defined, done, operation } from "./operation.ts";

const batch = fc.constantFrom(...batchNames);

operation(
  "set batches",
  4,
  0.5,
  fc.record({
    batches: fc.array(
      fc.record({
        name: batch,
        sealed: seldom(fc.boolean(), 1),
        parent: seldom(batch, 4),
        // `on` and the name of the unit are left to their defaults half of the time
        then: seldom(
          fc.record(
            {
              workSpec: spec,
              workUnit: fc.constantFrom("1", "2"),
              on: fc.constantFrom("ended" as const, "finished" as const),
            },
            { requiredKeys: ["workSpec"] },
          ),
          1,
        ),
      }),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  async (pair, { batches }) =>
    done(await both(pair, ({ engine, ns }) => engine.setBatches(ns, batches.map(defined)))),
);

operation(
  "change batch",
  2,
  0.3,
  fc.record({ batch, retry: fc.boolean() }),
  async (pair, { batch, retry }) => {
    const count = await both(pair, ({ engine, ns }) =>
      engine.changeBatch(ns, batch, retry ? "retry" : "cancel"),
    );
    return done(count);
  },
);

operation("delete batches", 1, 0.4, fc.record({ names: fc.subarray(batchNames) }), async (pair, { names }) =>
  done(await both(pair, ({ engine, ns }) => engine.deleteBatches(ns, names))),
);
