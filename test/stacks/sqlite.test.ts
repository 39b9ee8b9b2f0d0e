import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, test } from "vitest";
import { Engine, ManualClock, type Random } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { conformance } from "../../src/testing/index.ts";

conformance(
  {
    name: "engine on the sqlite store",
    async open() {
      const directory = mkdtempSync(path.join(tmpdir(), "coordinate-sqlite-"));
      const clock = new ManualClock();
      let random: Random = () => 0;
      const store = await openSqlite(path.join(directory, "store.sqlite"), { durability: "off" });
      const coordinate = new Engine(store, { clock, random: () => random() });
      return {
        coordinate,
        clock,
        setRandom: (next) => (random = next),
        sweep: () => coordinate.sweep(),
        waiting: () => coordinate.waiting,
        async close() {
          await coordinate.close();
          rmSync(directory, { recursive: true, force: true });
        },
      };
    },
  },
  { afterAll, beforeAll, describe, test },
);
