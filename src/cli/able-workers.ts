/** Finds the active workers that could claim units of a work spec, from the requests that each worker reports in its record. */
import {
  decodeData,
  isWorkerLabel,
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

/** The scheduler's exclusion rules that concern the requesting worker and not the work spec, in the scheduler's order. */
const workerRules: readonly string[] = [
  "other_work_spec",
  "other_runtime",
  "no_task",
  "needs_memory",
  "needs_labels",
];

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
  const rank = (one: Explained | undefined): number => workerRules.indexOf(one?.excluded ?? "");
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

/** Leaves out slots and children whose parent reports its requests: they send the same requests. */
export function processesOf(workers: readonly WorkerRow[]): WorkerRow[] {
  const telling = new Set(workers.filter(({ data }) => data !== null).map(({ name }) => name));
  return workers.filter(({ parent }) => parent === null || !telling.has(parent));
}

const askersOf = (workers: readonly WorkerRow[]): WorkerProcess[] =>
  processesOf(workers).map((row) => ({ name: row.name, away: awayOf(row), asks: asksOf(row) }));

function awayOf({ desired, mode }: WorkerRow): string {
  if (desired !== "run") return `told to ${desired}`;
  return /^(idle|terminat|stop|drain)/i.test(mode) ? `in mode ${show(mode)}` : "";
}

/** Our workers report `asks`. A Python worker reports its free memory instead, and requests work specs without a runtime. */
function asksOf({ data }: WorkerRow): ScheduleRequest[] | null {
  if (data === null) return null;
  const report: Readonly<Record<string, unknown>> = decodeData(data);
  if (Array.isArray(report.asks)) return report.asks.map(readAsk);
  if (!Array.isArray(report.memory)) return null;
  const free = Number(report.memory[1]) / 1024 ** 3;
  return [{ runtimes: [""], labels: [], ...(free > 0 && { availableGb: Math.round(free * 10) / 10 }) }];
}

/** A worker record is arbitrary client data: values of the wrong type are dropped. */
function readAsk(given: unknown): ScheduleRequest {
  const ask = (typeof given === "object" && given !== null ? given : {}) as Readonly<Record<string, unknown>>;
  const texts = (value: unknown): string[] | undefined =>
    Array.isArray(value) ? value.filter((one) => typeof one === "string") : undefined;
  const runtimes = texts(ask.runtimes);
  const workSpecs = texts(ask.workSpecs);
  const tasks = texts(ask.tasks);
  const { availableGb } = ask;
  return {
    ...(runtimes !== undefined && { runtimes }),
    ...(workSpecs !== undefined && { workSpecs }),
    ...(tasks !== undefined && { tasks }),
    labels: (texts(ask.labels) ?? []).filter(isWorkerLabel),
    ...(ask.modules === true && { modules: true }),
    ...(typeof availableGb === "number" && availableGb > 0 && { availableGb }),
  };
}
