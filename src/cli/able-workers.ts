/** Which active workers could take the units of a work spec, by what each says that it asks for. */
import {
  decodeData,
  isWorkerLabel,
  type Coordinate,
  type Explained,
  type ScheduleRequest,
  type WorkerRow,
} from "../core/index.ts";
import { show } from "./escape.ts";

/** A process that works, and what it asks for. */
interface Asker {
  name: string;
  /** Why it takes nothing at all; empty when it takes work. */
  away: string;
  /** Null for one that does not say. */
  asks: readonly ScheduleRequest[] | null;
}

export interface AbleWorkers {
  /** Workers that could take it; those that do not say what they ask for are among them. */
  able: string[];
  /** Why the others cannot, each reason with its workers. */
  unable: { reason: string; workers: string[] }[];
}

/** The scheduler's rules that are about who asks and not about the work spec, in its order. */
const aboutAsker: readonly string[] = [
  "other_work_spec",
  "other_runtime",
  "no_task",
  "needs_memory",
  "needs_labels",
];

/** Answers for any work spec of the namespace. The scheduler itself is asked, once for each different request. */
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
    const unable = new Map<string, string[]>();
    for (const { name, away, asks } of askers) {
      const reason = away === "" ? whyNot(asks, (ask) => answerOf(ask, workSpec)) : away;
      if (reason === "") able.push(name);
      else unable.set(reason, [...(unable.get(reason) ?? []), name]);
    }
    return { able, unable: [...unable].map(([reason, names]) => ({ reason, workers: names })) };
  };
}

/** Empty when it could take the work spec by at least one of its requests; else why the one that came furthest could not. */
function whyNot(
  asks: readonly ScheduleRequest[] | null,
  answer: (ask: ScheduleRequest) => Explained | undefined,
): string {
  if (asks === null) return "";
  const rank = (one: Explained | undefined): number => aboutAsker.indexOf(one?.excluded ?? "");
  const told = asks.map(answer);
  if (told.length === 0) return "it asks for nothing";
  if (told.some((one) => rank(one) < 0)) return "";
  const [best] = told.sort((a, b) => rank(b) - rank(a));
  const shown = best?.excluded === "other_runtime" ? answer(allRuntimes(asks)) : best;
  return `it ${show(shown?.reason ?? "")}`;
}

/** What a worker would ask for if it asked for all of its runtimes at once: for a sentence that names them all. */
const allRuntimes = (asks: readonly ScheduleRequest[]): ScheduleRequest => ({
  runtimes: [...new Set(asks.flatMap(({ runtimes = [] }) => runtimes))],
});

/** Processes, without the slots or children below them, which ask for the same. */
export function processesOf(workers: readonly WorkerRow[]): WorkerRow[] {
  const telling = new Set(workers.filter(({ data }) => data !== null).map(({ name }) => name));
  return workers.filter(({ parent }) => parent === null || !telling.has(parent));
}

const askersOf = (workers: readonly WorkerRow[]): Asker[] =>
  processesOf(workers).map((row) => ({ name: row.name, away: awayOf(row), asks: asksOf(row) }));

function awayOf({ desired, mode }: WorkerRow): string {
  if (desired !== "run") return `told to ${desired}`;
  return /^(idle|terminat|stop|drain)/i.test(mode) ? `in mode ${show(mode)}` : "";
}

/** As our workers tell it; a Python worker asks for work specs without a runtime, and states the memory that is free. */
function asksOf({ data }: WorkerRow): ScheduleRequest[] | null {
  if (data === null) return null;
  const told: Readonly<Record<string, unknown>> = decodeData(data);
  if (Array.isArray(told.asks)) return told.asks.map(readAsk);
  if (!Array.isArray(told.memory)) return null;
  const free = Number(told.memory[1]) / 1024 ** 3;
  return [{ runtimes: [""], labels: [], ...(free > 0 && { availableGb: Math.round(free * 10) / 10 }) }];
}

/** A record is what anybody wrote: what is no request is left out of it. */
function readAsk(told: unknown): ScheduleRequest {
  const ask = (typeof told === "object" && told !== null ? told : {}) as Readonly<Record<string, unknown>>;
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
