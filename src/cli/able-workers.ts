/** Finds the active workers that could claim units of a work spec, from the requests that each worker reports in its record. */
import {
  processesOf,
  requestsOf,
  workerRules,
  type Coordinate,
  type Exclusion,
  type Explained,
  type ScheduleRequest,
  type WorkerRow,
} from "../core/index.ts";
import { show } from "./escape.ts";

/** A worker process and the requests that it sends to the scheduler. */
interface WorkerProcess {
  name: string;
  /** Why the worker takes no work at all; empty when it takes work. */
  away: string;
  /** Null for a worker that does not report its requests. */
  asks: readonly ScheduleRequest[] | null;
}

interface Inability {
  reason: string;
  /** The scheduler's rule; null for a worker that takes no work at all. */
  rule: Exclusion | null;
  workers: string[];
}

export interface AbleWorkers {
  /** Workers that could take the work spec, including workers that do not report their requests. */
  able: string[];
  /** Why the other workers cannot, grouped by reason. */
  unable: Inability[];
}

/** Returns a lookup for any work spec of the namespace. Calls `explain` of the scheduler once for each distinct request. */
export async function ableWorkers(
  coordinate: Coordinate,
  ns: string,
  workers: readonly WorkerRow[],
): Promise<(workSpec: string) => AbleWorkers> {
  const askers = askersOf(workers);
  const answers = new Map<string, Map<string, Explained>>();
  const answerOf = (ask: ScheduleRequest, workSpec: string): Explained | undefined =>
    answers.get(JSON.stringify(ask))?.get(workSpec);
  for (const { asks } of askers)
    for (const ask of [...(asks ?? []), allRuntimes(asks ?? [])]) {
      const key = JSON.stringify(ask);
      if (answers.has(key)) continue;
      answers.set(key, new Map((await coordinate.explain(ns, ask)).map((one) => [one.workSpec, one])));
    }
  return (workSpec) => {
    const able: string[] = [];
    const unable = new Map<string, Inability>();
    for (const { name, away, asks } of askers) {
      const { reason, rule } =
        away === "" ? whyNot(asks, (ask) => answerOf(ask, workSpec)) : { reason: away, rule: null };
      const known = unable.get(reason);
      if (reason === "") able.push(name);
      else if (known === undefined) unable.set(reason, { reason, rule, workers: [name] });
      else known.workers.push(name);
    }
    return { able, unable: [...unable.values()] };
  };
}

const allowed = { reason: "", rule: null };

/** An empty reason when at least one request allows the work spec; otherwise that of the request that passed the most rules. */
function whyNot(
  asks: readonly ScheduleRequest[] | null,
  answer: (ask: ScheduleRequest) => Explained | undefined,
): Pick<Inability, "reason" | "rule"> {
  if (asks === null) return allowed;
  const rank = (one: Explained | undefined): number => workerRules.indexOf(one?.excluded ?? null);
  const answers = asks.map(answer);
  if (answers.length === 0) return { reason: "it claims no work", rule: null };
  if (answers.some((one) => rank(one) < 0)) return allowed;
  const [best] = answers.sort((a, b) => rank(b) - rank(a));
  const shown = best?.excluded === "other_runtime" ? answer(allRuntimes(asks)) : best;
  return { reason: `it ${show(shown?.reason ?? "")}`, rule: best?.excluded ?? null };
}

/** One request with all runtimes of a worker, so that the reason in the message names them all. */
const allRuntimes = (asks: readonly ScheduleRequest[]): ScheduleRequest => ({
  runtimes: [...new Set(asks.flatMap(({ runtimes = [] }) => runtimes))],
});

const askersOf = (workers: readonly WorkerRow[]): WorkerProcess[] =>
  processesOf(workers).map((row) => ({ name: row.name, away: awayOf(row), asks: requestsOf(row) }));

function awayOf({ desired, mode }: WorkerRow): string {
  if (desired !== "run") return `told to ${desired}`;
  return /^(idle|terminat|stop|drain)/i.test(mode) ? `in mode ${show(mode)}` : "";
}
