/** The model test for one store. The test file of a store only defines how to open it. */
import { Engine, keepsHistory, ManualClock, type Store } from "../../src/core/index.ts";
import { modelFloors, modelHistories, performModel } from "./commands.ts";
import { Measure } from "./measure.ts";
import type { Step } from "./operations.ts";
import { checkRandom } from "./random.ts";
import { storedHistories } from "./regressions.ts";

export interface ModelTest {
  file: string;
  name: string;
  /** A store and an empty namespace in it. */
  open: () => Promise<{ store: Store; ns: string; close: () => Promise<void> }>;
  runs: { fixed: number; fresh: number };
  compareEvery?: number;
}

export async function checkModel({ file, name, open, runs, compareEvery = 1 }: ModelTest): Promise<void> {
  const measure = new Measure();
  const run = async (history: readonly Step[]): Promise<void> => {
    const { store, ns, close } = await open();
    const clock = new ManualClock(1_000_000);
    const draw = { value: 0 };
    const engine = new Engine(store, { clock, random: () => draw.value, workerRetentionMs: 1e12 });
    try {
      await performModel({ engine, clock, ns, measure, draw, compareEvery }, history);
    } finally {
      // discard the records: the next history may start at the same time in the same store
      if (keepsHistory(store)) store.historyCounts.take(Infinity);
      await close();
    }
  };
  for (const stored of storedHistories("model"))
    await run(stored.history).catch((error: unknown) => {
      throw new Error(`known case ${stored.name}`, { cause: error });
    });
  await checkRandom({ prefix: "MODEL", file, name, histories: modelHistories, run, runs });
  if (process.env.MODEL_SHOW !== undefined) console.log(String(measure));
  if (process.env.MODEL_PATH === undefined) measure.check(modelFloors);
}
