/**
 * Whether the rates depend on the number of waiting units: adds, claims and finishes with 10,000 and with many waiting units, in turns,
 * in one store. It also measures the processor time of this process, which other work on the machine affects less.
 */
import { median } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { encodeData, type Coordinate } from "../../src/index.ts";
import { payload } from "../systems/driver.ts";
import { addUnits, prepare } from "./claims.ts";
import type { Figures, Probe } from "./probe.ts";

const verbs = ["add", "claim", "finish"] as const;
type Verb = (typeof verbs)[number];

/** Seconds and processor seconds of one turn, for each verb. */
type Turn = Record<Verb, { wall: number; cpu: number }>;

const batch = 100;
let added = 0;

async function measured(turn: Turn, verb: Verb, work: () => Promise<void>): Promise<void> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await work();
  turn[verb].wall += (performance.now() - start) / 1e3;
  const { user, system } = process.cpuUsage(cpu);
  turn[verb].cpu += (user + system) / 1e6;
}

/** Adds `count` units that are claimed before the waiting ones, claims and finishes them: the number of waiting units does not change. */
async function turnOf(coordinate: Coordinate, ns: string, count: number): Promise<Turn> {
  const turn: Turn = { add: { wall: 0, cpu: 0 }, claim: { wall: 0, cpu: 0 }, finish: { wall: 0, cpu: 0 } };
  await measured(turn, "add", async () => {
    for (let left = count; left > 0; left -= batch)
      await coordinate.addWorkUnits(
        ns,
        "s",
        Array.from({ length: batch }, () => ({
          name: `turn-${String(added++).padStart(9, "0")}`,
          data: encodeData(payload(added)),
          priority: 1,
        })),
      );
  });
  const claims: { attempt: string; action: "finish" }[][] = [];
  await measured(turn, "claim", async () => {
    for (let left = count; left > 0; left -= batch) {
      const attempts = await coordinate.requestAttempts(ns, { worker: "w", number: batch });
      claims.push(attempts.map(({ id }) => ({ attempt: id, action: "finish" })));
    }
  });
  await measured(turn, "finish", async () => {
    for (const changes of claims) await coordinate.settleAttempts(ns, changes);
  });
  return turn;
}

const flatness = (waiting: number): Probe => {
  return async (address, factor): Promise<Figures> => {
    const coordinate = await openCoordinate(address);
    const count = batch * Math.max(2, Math.round((address === "memory:" ? 300 : 50) * Math.min(1, factor)));
    await prepare(coordinate, "few");
    await prepare(coordinate, "many");
    await addUnits(coordinate, "few", Math.max(batch, 10_000 * factor));
    await addUnits(coordinate, "many", Math.max(batch, waiting * factor));
    const turns = { few: [] as Turn[], many: [] as Turn[] };
    const rounds = factor < 1 ? 3 : 15;
    for (let i = -1; i < rounds; i++)
      for (const ns of i % 2 === 0 ? (["few", "many"] as const) : (["many", "few"] as const)) {
        const turn = await turnOf(coordinate, ns, count);
        // the first turn is not counted: it compiles the code
        if (i >= 0) turns[ns].push(turn);
      }
    await coordinate.close();
    const ratio = (verb: Verb, of: "wall" | "cpu"): number =>
      median(turns.few.map((few, i) => few[verb][of] / (turns.many[i]?.[verb][of] ?? NaN)));
    const figures: [string, number][] = verbs.flatMap((verb) => [
      [`${verb}, units/s`, count / median(turns.many.map((turn) => turn[verb].wall))],
      [`${verb}, ratio`, ratio(verb, "wall")],
      [`${verb}, ratio of processor`, ratio(verb, "cpu")],
    ]);
    return { value: Math.min(...verbs.map((verb) => ratio(verb, "wall"))), ...Object.fromEntries(figures) };
  };
};

export const flat = flatness(1_000_000);
export const flat10 = flatness(10_000_000);
