/** Simulated workers that run units for exact times of a manual clock, through one or several engines. */
import { encodeData, type AttemptRow, type Engine, type ManualClock } from "../../src/core/index.ts";

export interface ShareRun {
  engines: readonly Engine[];
  clock: ManualClock;
  ns: string;
  /** How long units of each work spec take; `at` is the time since the start of the run. */
  specs: Record<string, { weight: number; ms: (at: number) => number }>;
  workers: number;
  /** Units that start during this time are not counted. */
  warmUpMs: number;
  forMs: number;
  /** Units per claim. */
  number?: number;
}

export interface Spent {
  /** The number of started units. */
  choices: Record<string, number>;
  /** Worker time in milliseconds. */
  time: Record<string, number>;
}

/** The share of a work spec in the total. */
export const partOf = (amounts: Record<string, number>, spec: string): number =>
  (amounts[spec] ?? 0) / Object.values(amounts).reduce((sum, one) => sum + one, 0);

const unitsAtOnce = 500;

export async function runShares(run: ShareRun): Promise<Spent> {
  const { engines, clock, ns, specs, workers, warmUpMs, forMs, number = 1 } = run;
  const [first] = engines;
  if (first === undefined) throw new Error("no engine");
  const begun = clock.now();
  const names = Object.keys(specs);
  const added = new Map(names.map((name) => [name, 0]));
  const left = new Map(names.map((name) => [name, 0]));
  const refill = async (name: string): Promise<void> => {
    const from = added.get(name) ?? 0;
    added.set(name, from + unitsAtOnce);
    left.set(name, (left.get(name) ?? 0) + unitsAtOnce);
    const units = Array.from({ length: unitsAtOnce }, (_, i) => ({
      name: String(from + i).padStart(8, "0"),
    }));
    await first.addWorkUnits(ns, name, units);
  };
  for (const [name, { weight }] of Object.entries(specs)) {
    await first.setWorkSpecs(ns, [{ data: encodeData({ name, weight }) }]);
    await refill(name);
  }
  const spent: Spent = {
    choices: Object.fromEntries(names.map((name) => [name, 0])),
    time: Object.fromEntries(names.map((name) => [name, 0])),
  };
  /** Each worker holds the attempts it claimed, runs one after the other, and finishes the first at `until`. */
  const busy = Array.from({ length: workers }, (_, i) => ({
    worker: `w${i}`,
    engine: engines[i % engines.length] ?? first,
    until: begun,
    held: [] as AttemptRow[],
  }));
  let swept = begun;
  for (;;) {
    const next = busy.reduce((a, b) => (b.until < a.until ? b : a));
    if (next.until >= begun + warmUpMs + forMs) return spent;
    if (next.until > clock.now()) clock.advance(next.until - clock.now());
    const done = next.held.shift();
    if (done !== undefined) await next.engine.settleAttempts(ns, [{ attempt: done.id, action: "finish" }]);
    if (clock.now() - swept >= 1000) {
      swept = clock.now();
      for (const engine of engines) await engine.sweep();
    }
    if (next.held.length === 0) {
      next.held = await next.engine.requestAttempts(ns, { worker: next.worker, number });
      const name = next.held[0]?.workSpec ?? "";
      left.set(name, (left.get(name) ?? 0) - next.held.length);
      if ((left.get(name) ?? 0) <= 2 * number) await refill(name);
    }
    const name = next.held[0]?.workSpec ?? "";
    const ms = specs[name]?.ms(clock.now() - begun);
    if (ms === undefined) throw new Error("there is work, and nothing was given");
    next.until = clock.now() + ms;
    if (clock.now() - begun < warmUpMs) continue;
    spent.choices[name] = (spent.choices[name] ?? 0) + 1;
    spent.time[name] = (spent.time[name] ?? 0) + ms;
  }
}
