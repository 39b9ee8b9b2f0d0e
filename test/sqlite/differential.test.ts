/** The same random commands on the memory store and on the sqlite store give the same answers. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite, type SqliteStore } from "../../src/sqlite/index.ts";
import { commands, commandsWithReopen, finish, start, type Pair } from "../model/differential.ts";
import { Fault, openWithFault } from "./fault.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-differential-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function compare(runs: number, name: string, steps: typeof commands, hindered = false): Promise<void> {
  const file = path.join(directory, name);
  const clock = new ManualClock(1_000_000);
  const memory = new MemoryStore();
  const fault = new Fault();
  const open = async (): Promise<SqliteStore> =>
    hindered ? openWithFault(file, fault) : openSqlite(file, { durability: "off" });
  let store = await open();
  let run = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (run100) => {
      // the same numbers are drawn by both, and in every run: one that fails can be repeated
      const [first, second] = [seededRandom(7), seededRandom(7)].map((random) =>
        hindered ? () => 0 : random,
      );
      const luck = seededRandom(run);
      const options = { workerRetentionMs: 5000, clock };
      const pair: Pair = {
        memory: new Engine(memory, { ...options, random: first! }),
        other: new Engine(store, { ...options, random: second! }),
        clock,
        ns: `run ${run++}`,
        attempts: [],
        async reopen() {
          await store.close();
          store = await open();
          pair.other = new Engine(store, { ...options, random: second! });
          // an engine remembers which workers it has met
          pair.memory = new Engine(memory, { ...options, random: first! });
        },
        ...(hindered && { hinder: () => fault.arm(luck() < 0.3) }),
      };
      await start(pair);
      await fc.asyncModelRun(async () => ({ model: {}, real: pair }), run100);
      await finish(pair);
    }),
    // the stores are the same in all runs, so that a shorter one tells nothing
    { numRuns: runs, endOnFailure: true },
  );
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  await store.close();
}

const runs = Number(process.env.SQLITE_RUNS ?? 2000);

describe("memory and sqlite", () => {
  test("answer the same to the same commands", () => compare(runs, "one.sqlite", commands), 600_000);

  test(
    "also when the file is closed and opened in between",
    () => compare(Math.ceil(runs / 10), "two.sqlite", commandsWithReopen),
    600_000,
  );

  test(
    "also when one transaction in three fails for want of space and is asked for again",
    () => compare(Math.ceil(runs / 5), "three.sqlite", commandsWithReopen, true),
    600_000,
  );
});
