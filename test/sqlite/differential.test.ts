/** The same random operations on the memory store and on the sqlite store give the same answers. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite, type SqliteStore } from "../../src/sqlite/index.ts";
import {
  floors,
  histories,
  historiesWithReopen,
  largeHistories,
  performAll,
  type Step,
} from "../model/differential.ts";
import { Measure } from "../model/measure.ts";
import type { Pair } from "../model/pair.ts";
import { checkRandom } from "../model/random.ts";
import { regressions } from "../model/regressions.ts";
import { Fault, openWithFault } from "./fault.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-differential-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let files = 0;

interface Way {
  /** A file that can be closed and opened again; else a database in memory, which is faster. */
  file?: boolean;
  /** One transaction in three fails for want of space. */
  hindered?: boolean;
  /** Every verb goes by the rules of core, without the store's fast paths. */
  byRules?: boolean;
}

async function compare(history: readonly Step[], measure: Measure, way: Way = {}): Promise<void> {
  const file = way.file === true ? path.join(directory, `${files++}.sqlite`) : ":memory:";
  const clock = new ManualClock(1_000_000);
  const memory = new MemoryStore();
  const fault = new Fault();
  const luck = seededRandom(history.length);
  const open = async (): Promise<SqliteStore> =>
    way.hindered === true
      ? openWithFault(file, fault)
      : openSqlite(file, { durability: "off", fastPaths: way.byRules !== true });
  let store = await open();
  try {
    const draw = { value: 0 };
    const options = {
      clock,
      random: () => draw.value,
      workerRetentionMs: 5000,
    };
    const pair: Pair = {
      memory: new Engine(memory, options),
      other: new Engine(store, options),
      clock,
      ns: "n",
      draw,
      measure,
      tallyEvery: 1,
      attempts: [],
      specIds: new Map(),
      lastRequest: 0,
      async reopen() {
        await store.close();
        store = await open();
        pair.other = new Engine(store, options);
        // what had not been recorded is lost
        memory.historyCounts.take(Infinity);
        // an engine remembers which workers it has met
        pair.memory = new Engine(memory, options);
      },
      ...(way.hindered === true && { hinder: () => fault.arm(luck() < 0.3) }),
    };
    await performAll(pair, history);
    expect(await store.check()).toEqual({ ok: true, problems: [] });
  } finally {
    await store.close();
    if (way.file === true) for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
  }
}

function random(
  name: string,
  steps: fc.Arbitrary<Step[]>,
  fixed: number,
  fresh: number,
  way: Way = {},
): void {
  const run = async (): Promise<void> => {
    const measure = new Measure();
    await checkRandom({
      prefix: "DIFFERENTIAL",
      file: "test/sqlite/differential.test.ts",
      name,
      histories: steps,
      run: (history) => compare(history, measure, way),
      runs: { fixed, fresh },
    });
    if (process.env.DIFFERENTIAL_SHOW !== undefined) console.log(String(measure));
    if (process.env.DIFFERENTIAL_PATH === undefined) measure.check(floors);
  };
  test(name, run, 3_600_000);
}

describe("memory and sqlite", () => {
  random("answer the same to the same operations", histories, 50, 100);
  random("also when the file is closed and opened in between", historiesWithReopen, 10, 30, { file: true });
  random("also when one transaction in three fails for want of space", historiesWithReopen, 12, 25, {
    file: true,
    hindered: true,
  });
  random("also with more units than are looked at in one step", largeHistories, 2, 6);
  random("also without the fast paths", histories, 20, 35, { byRules: true });

  for (const { name, history } of regressions)
    test(`known case: ${name}`, () => compare(history, new Measure()));
});
