/** Random histories on the engine and on a separate model: what can be seen is the same after every step. */
import fc from "fast-check";
import { test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { commands, specNames } from "./commands.ts";
import { Model } from "./model.ts";

test("the engine on the memory store does what the model does", async () => {
  await fc.assert(
    fc.asyncProperty(commands, async (steps) => {
      await fc.asyncModelRun(async () => {
        const clock = new ManualClock(1_000_000);
        const coordinate = new Engine(new MemoryStore(), { clock, random: () => 0 });
        const model = new Model();
        model.now = clock.now();
        model.specs = specNames.map((name) => ({
          name,
          paused: false,
          maxRunning: 0,
          maxGetwork: 0,
          maxRetries: 0,
          then: name === "a" ? "b" : "",
        }));
        await coordinate.setWorkSpecs(
          "",
          model.specs.map(({ name, then }) => ({ data: encodeData({ name, ...(then !== "" && { then }) }) })),
        );
        return { model, real: { coordinate, clock, ids: new Map<never, never>(), ns: "" } };
      }, steps);
    }),
    { numRuns: Number(process.env.MODEL_RUNS ?? 1000) },
  );
}, 300_000);
