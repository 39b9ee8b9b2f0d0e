/**
 * What the statistics cost: processor time per unit of an embedded daemon's store and engine with them and without, in turns, so
 * that a machine that is slower for a while is so for both. `node --import ./examples/typescript.mjs bench/history.ts [units]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { encodeData, Engine, type Store } from "../src/core/index.ts";
import { MemoryStore } from "../src/memory/index.ts";
import { openSqlite } from "../src/sqlite/index.ts";

const units = Number(process.argv[2] ?? 40_000);
const rounds = Number(process.argv[3] ?? 8);

/** Microseconds of processor time for each unit that is added, claimed and finished. */
async function run(store: Store, history: boolean, batch: number): Promise<number> {
  const engine = new Engine(store, { history });
  const specs = Array.from({ length: 10 }, (_, i) => `spec ${i}`);
  await engine.setWorkSpecs(
    "",
    specs.map((name) => ({ data: encodeData({ name }) })),
  );
  const data = encodeData({ key: "value", number: 1 });
  const before = process.cpuUsage();
  let at = 0;
  // housekeeping as a daemon does it; recording is part of it
  const timer = setInterval(() => void engine.sweep(), 1000);
  for (let done = 0; done < units; done += batch) {
    const spec = specs[(done / batch) % specs.length]!;
    await engine.addWorkUnits(
      "",
      spec,
      Array.from({ length: batch }, () => ({ name: `u${at++}`, data })),
    );
    const attempts = await engine.requestAttempts("", { worker: "w", number: batch });
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
    );
  }
  clearInterval(timer);
  await engine.close();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / units;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

const directory = mkdtempSync(path.join(tmpdir(), "bench-history-"));
let serial = 0;
for (const [name, open] of [
  ["sqlite", () => openSqlite(path.join(directory, `${++serial}.sqlite`), { durability: "off" })],
  ["memory", () => Promise.resolve(new MemoryStore())],
] as const)
  for (const batch of [1, 100]) {
    const times: Record<"with" | "without", number[]> = { with: [], without: [] };
    await run(await open(), true, batch);
    for (let round = 0; round < rounds; round++)
      for (const history of round % 2 === 0 ? [true, false] : [false, true])
        times[history ? "with" : "without"].push(await run(await open(), history, batch));
    const [on, off] = [median(times.with), median(times.without)];
    console.log(
      `${name}, batches of ${batch}: ${on.toFixed(2)} µs a unit with statistics, ${off.toFixed(2)} without: ` +
        `${((on / off - 1) * 100).toFixed(1)} %`,
    );
  }
rmSync(directory, { recursive: true, force: true });
