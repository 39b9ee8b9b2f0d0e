/** The file records how much of its rate each partition has used, also for a claim that serves many partitions. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

test("the rates of 120 partitions hold after the file was opened again", async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "buckets-"));
  const clock = new ManualClock(1_000_000);
  const open = async (): Promise<Engine> =>
    new Engine(await openSqlite(path.join(directory, "store.sqlite"), { durability: "off" }), { clock });
  const claim = (engine: Engine): Promise<number> =>
    engine.requestAttempts("", { worker: "w", number: 200 }).then(({ length }) => length);
  try {
    let engine = await open();
    await engine.setWorkSpecs("", [
      { data: encodeData({ name: "s", rate_per_partition: { limit: 1, period: 1000 } }) },
    ]);
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: 240 }, (_, i) => ({ name: `${i}`, partition: `p${i % 120}` })),
    );
    expect(await claim(engine)).toBe(120);
    await engine.close();
    engine = await open();
    expect(await claim(engine)).toBe(0);
    clock.advance(1_000_000);
    expect(await claim(engine)).toBe(120);
    await engine.close();
  } finally {
    rmSync(directory, { recursive: true });
  }
});
