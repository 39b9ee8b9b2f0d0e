import { afterAll, beforeAll, describe, test } from "vitest";
import { connectCbor, listenCborRpc } from "../../src/cbor/index.ts";
import { Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { conformance } from "../../src/testing/index.ts";

conformance(
  {
    name: "cbor-rpc on memory",
    async open() {
      const clock = new ManualClock();
      let random = seededRandom(1);
      const engine = new Engine(new MemoryStore(), { clock, random: () => random() });
      const listener = await listenCborRpc(engine, { at: { port: 0 }, clock });
      const client = await connectCbor(listener.address);
      return {
        coordinate: client,
        clock,
        setRandom: (next) => (random = next),
        sweep: () => engine.sweep(),
        waiting: () => engine.waiting,
        close: async () => {
          await client.close();
          await listener.close();
          await engine.close();
        },
      };
    },
  },
  { afterAll, beforeAll, describe, test },
);
