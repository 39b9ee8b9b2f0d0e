/**
 * Speed of the engine on the memory store, in process, on one core: adds, claim + finish, whether the rate depends on
 * how many units wait (it must not), and memory per waiting unit.
 *
 *   npm run bench:memory [units]
 *
 * Rates of two situations are compared in one run, in turns, because machines are noisy: the ratio is the result.
 */
import { encodeData, Engine } from "../src/core/index.ts";
import { MemoryStore } from "../src/memory/index.ts";

const units = Number(process.argv[2] ?? 1_000_000);
const batch = 100;

const nameOf = (i: number): string => `unit-${String(i).padStart(9, "0")}`;
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
const round = (value: number): string => Math.round(value).toLocaleString("en");

async function engineWithSpec(): Promise<Engine> {
  const engine = new Engine(new MemoryStore());
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", min_gb: 1 }) }]);
  return engine;
}

async function add(engine: Engine, from: number, count: number, more: object = {}): Promise<number> {
  const started = performance.now();
  for (let i = from; i < from + count; i += 1000) {
    const length = Math.min(1000, from + count - i);
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length }, (_, j) => ({ name: nameOf(i + j), data: encodeData({ n: i + j }), ...more })),
    );
  }
  return (count / (performance.now() - started)) * 1000;
}

/** Claims and finishes; answers the rate. */
async function work(engine: Engine, count: number): Promise<number> {
  const started = performance.now();
  for (let done = 0; done < count;) {
    const attempts = await engine.requestAttempts("", { worker: "w", number: batch });
    if (attempts.length === 0) throw new Error("ran out of units");
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" as const }));
    await engine.settleAttempts("", changes);
    done += attempts.length;
  }
  return (count / (performance.now() - started)) * 1000;
}

// the code is hot before anything is measured
const warm = await engineWithSpec();
await add(warm, 0, 200_000);
await work(warm, 200_000);

const engine = await engineWithSpec();
globalThis.gc?.();
const before = process.memoryUsage().heapUsed;
const adds = await add(engine, 0, units);
globalThis.gc?.();
const bytes = (process.memoryUsage().heapUsed - before) / units;
const drain = await work(engine, units);
console.log(`add, batches of 1,000            ${round(adds)} units/s`);
console.log(`claim + finish, batches of ${batch}   ${round(drain)} units/s (all ${round(units)} of them)`);
console.log(
  `memory per waiting unit          ${round(bytes)} bytes${globalThis.gc ? "" : " (run with --expose-gc)"}`,
);

/** Compares claim + finish with many waiting units to that with 10,000, in turns. */
async function flatness(what: string, prepare: (engine: Engine) => Promise<void>): Promise<void> {
  const small = await engineWithSpec();
  const large = await engineWithSpec();
  await prepare(large);
  let at = 2 * units;
  const rates: { small: number; large: number }[] = [];
  for (let turn = 0; turn < 21; turn++) {
    // refilled at the front of the order, so that both always claim fresh units
    await add(small, at, 10_000, { priority: 1 });
    await add(large, at, 10_000, { priority: 1 });
    at += 10_000;
    const first = turn % 2 === 0;
    const a = await work(first ? small : large, 10_000);
    const b = await work(first ? large : small, 10_000);
    rates.push(first ? { small: a, large: b } : { small: b, large: a });
  }
  const ratio = median(rates.map(({ small, large }) => large / small));
  console.log(`${what.padEnd(58)} ${ratio.toFixed(2)} of the rate with 10,000 waiting`);
}

await flatness(`claim + finish with ${round(units)} waiting`, async (large) => {
  await add(large, 0, units);
});
await flatness("claim + finish with 100,000 delayed, 100,000 pending", async (large) => {
  await add(large, 0, 100_000);
  for (let i = 0; i < 100_000; i += 1000) await large.requestAttempts("", { worker: `w${i}`, number: 1000 });
  await add(large, 100_000, 100_000, { delayMs: 3_600_000 });
});
