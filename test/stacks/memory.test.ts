import { afterAll, beforeAll, describe, test } from "vitest";
import { Engine, ManualClock, type Random } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { conformance } from "../../src/testing/index.ts";

conformance(
  {
    name: "engine on the memory store",
    async open() {
      const clock = new ManualClock();
      let random: Random = () => 0;
      const coordinate = new Engine(new MemoryStore(), { clock, random: () => random() });
      return {
        coordinate,
        clock,
        setRandom: (next) => (random = next),
        sweep: () => coordinate.sweep(),
        waiting: () => coordinate.waiting,
        close: () => coordinate.close(),
      };
    },
  },
  { afterAll, beforeAll, describe, test },
);
