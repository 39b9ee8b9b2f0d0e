/** Random operations on more units than one slice of 2,000 contains. */
import fc from "fast-check";
import { type WorkUnitSelection, encodeData } from "../../../src/core/index.ts";
import { allPages, both } from "../pair.ts";
import { many } from "./adding.ts";
import { keep } from "./claiming.ts";
import { done, operation } from "./operation.ts";
import { actions } from "./settling.ts";

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
          return engine.clearQueue(ns, "q");
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
