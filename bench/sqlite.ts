/**
 * What the sqlite store does in a second: one process, the engine on a store in a real file.
 *
 *   npm run bench:sqlite -- [--units 10000,1000000,5000000] [--durability full,normal] [--seconds 4] [--directory DIR]
 *
 * Every figure is a rate of calls through the engine, checks included. `stall` is the longest time that the event
 * loop could not do anything else.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { encodeData, Engine } from "../src/core/index.ts";
import { openSqlite, type Durability, type SqliteStore } from "../src/sqlite/index.ts";

const { values } = parseArgs({
  options: {
    units: { type: "string", default: "10000,1000000,5000000" },
    durability: { type: "string", default: "full,normal" },
    seconds: { type: "string", default: "4" },
    directory: { type: "string", default: tmpdir() },
  },
});
const sizes = values.units.split(",").map(Number);
const seconds = Number(values.seconds);

const unitName = (i: number): string => `unit-${String(i).padStart(9, "0")}`;
const unit = (i: number) => ({ name: unitName(i), data: encodeData({ n: i, path: "/some/where" }) });

/** Runs `call` again and again for a while; answers how many units a second it did. */
async function rate(call: () => Promise<number>, most = Infinity): Promise<number> {
  const start = performance.now();
  let done = 0;
  while (performance.now() - start < seconds * 1000 && done < most) {
    const count = await call();
    if (count === 0) break;
    done += count;
  }
  return done / ((performance.now() - start) / 1000);
}

const round = (value: number): string => Math.round(value).toLocaleString("en-US").padStart(9);

interface Bench {
  engine: Engine;
  store: SqliteStore;
  next: number;
}

async function addUnits(bench: Bench, count: number, batch: number): Promise<void> {
  for (const until = bench.next + count; bench.next < until;) {
    const size = Math.min(batch, until - bench.next);
    await bench.engine.addWorkUnits(
      "",
      "work",
      Array.from({ length: size }, () => unit(bench.next++)),
    );
  }
}

const claimAndFinish = (bench: Bench, number: number) => async (): Promise<number> => {
  const attempts = await bench.engine.requestAttempts("", { worker: "worker-1", number });
  await bench.engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  return attempts.length;
};

async function concurrent(bench: Bench, callers: number): Promise<void> {
  const add = await rate(async () => {
    await Promise.all(
      Array.from({ length: callers }, () => bench.engine.addWorkUnits("", "work", [unit(bench.next++)])),
    );
    return callers;
  });
  console.log(`  single adds, ${callers} callers at once        ${round(add)} /s`);
  let claims = 0;
  let claimMs = 0;
  let finishMs = 0;
  await rate(async () => {
    const start = performance.now();
    const claimed = await Promise.all(
      Array.from({ length: callers }, (_, i) => bench.engine.requestAttempts("", { worker: `worker-${i}` })),
    );
    const middle = performance.now();
    await Promise.all(
      claimed.flat().map(({ id }) => bench.engine.settleAttempts("", [{ attempt: id, action: "finish" }])),
    );
    claims += claimed.flat().length;
    claimMs += middle - start;
    finishMs += performance.now() - middle;
    return callers;
  });
  console.log(`  single claims, ${callers} callers at once      ${round((claims * 1000) / claimMs)} /s`);
  console.log(`  single finishes, ${callers} callers at once    ${round((claims * 1000) / finishMs)} /s`);
}

async function run(durability: Durability): Promise<void> {
  const directory = mkdtempSync(path.join(values.directory, "coordinate-bench-"));
  const file = path.join(directory, "bench.sqlite");
  const store = await openSqlite(file, { durability });
  const bench: Bench = { engine: new Engine(store), store, next: 0 };
  const { engine } = bench;
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "work" }) }]);
  const { driver, sqliteVersion } = await store.statistics();
  console.log(`\n${durability}: ${driver}, SQLite ${sqliteVersion}, Node ${process.versions.node}`);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  try {
    for (const batch of [1, 100, 1000]) {
      const before = bench.next;
      const start = performance.now();
      while (performance.now() - start < seconds * 1000 && bench.next - before < 500_000)
        await addUnits(bench, batch, batch);
      console.log(
        `  adds in batches of ${String(batch).padEnd(5)}             ${round((bench.next - before) / ((performance.now() - start) / 1000))} /s`,
      );
    }
    await concurrent(bench, 50);
    for (const size of sizes) {
      const [tally] = await engine.tally("");
      const missing = size - (tally?.counts.available ?? 0);
      if (missing > 0) {
        const start = performance.now();
        await addUnits(bench, missing, 1000);
        if (missing >= 500_000)
          console.log(
            `  ${round(missing)} adds in batches of 1000     ${round(missing / ((performance.now() - start) / 1000))} /s`,
          );
      } else if (missing < 0)
        await engine
          .deleteWorkUnits("", "work", { prefix: "unit-", statuses: ["available"] })
          .then(() => addUnits(bench, size, 1000));
      delay.reset();
      for (const number of [1, 10, 100]) {
        // as many as are taken are added again: the number that waits stays what it is said to be
        const most = Math.min(size / 2, 300_000);
        const before = (await engine.tally(""))[0]?.counts.available ?? 0;
        const figure = await rate(claimAndFinish(bench, number), most);
        console.log(
          `  claim+finish by ${String(number).padEnd(3)} of ${round(size)}       ${round(figure)} /s`,
        );
        await addUnits(bench, before - ((await engine.tally(""))[0]?.counts.available ?? 0), 1000);
      }
      console.log(`  longest stall of the event loop         ${(delay.max / 1e6).toFixed(1).padStart(9)} ms`);
    }
    await looks(bench);
    const { units, fileBytes } = await store.statistics();
    await store.close();
    console.log(
      `  bytes on disk per unit                  ${round(statSync(file).size / units)}   (${units} units, ${round(fileBytes / 1e6).trim()} MB)`,
    );
  } finally {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Looking in, with everything there is. */
async function looks({ engine }: Bench): Promise<void> {
  const attempts = await engine.requestAttempts("", { worker: "worker-1", number: 1000 });
  await engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "fail" })),
  );
  const time = async (what: string, call: () => Promise<unknown>): Promise<void> => {
    await call();
    const start = performance.now();
    for (let i = 0; i < 20; i++) await call();
    console.log(`  ${what.padEnd(38)}  ${((performance.now() - start) / 20).toFixed(2).padStart(9)} ms`);
  };
  await time("tally", () => engine.tally(""));
  for (const status of ["failed", "finished", "available", "pending", "delayed"] as const)
    await time(`list 50 ${status}`, () =>
      engine.listWorkUnits("", "work", { statuses: [status], limit: 50 }),
    );
  await time("list 50 of any status", () => engine.listWorkUnits("", "work", { limit: 50 }));
}

for (const durability of values.durability.split(",")) await run(durability as Durability);
