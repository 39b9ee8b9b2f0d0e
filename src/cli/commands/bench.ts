/** `coordinate bench`: adds units, claims and finishes them as fast as it can, and reports the rates. */
import { randomUUID } from "node:crypto";
import type { Coordinate, WorkUnitInput } from "../../core/index.ts";
import { jsonData } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { count, rate, readCount } from "../units.ts";

interface Options {
  units?: string;
  work?: string;
  batch?: string;
  concurrency?: string;
  bytes?: string;
  spec?: string;
  keep?: boolean;
}

interface Plan {
  spec: string;
  units: number;
  work: number;
  batch: number;
  concurrency: number;
  dataBytes: number;
}

const actions = ["add", "do", "clear"] as const;

export default command<Options>({
  define: (it) => {
    it.argument("[action]", "add, do or clear (default: all three, on a temporary work spec)")
      .option("--units <n>", "units to add (default: 10000)")
      .option("--work <n>", "units to claim and finish (default: all)")
      .option("--batch <n>", "units per request (default: 100)")
      .option("--concurrency <n>", "concurrent requests (default: 8)")
      .option("--bytes <n>", "approximate size of the data of a unit (default: 40)")
      .option("--spec <name>", "the work spec")
      .option("--keep", "keep the work spec afterwards")
      .addHelpText(
        "after",
        "\nThe last line is one JSON object: add_per_s, work_per_s and what was measured. Names and data are generated before" +
          "\nthe clock starts. Other workers of the namespace do not get these units, unless they claim from all work specs.",
      );
  },
  run: async (context, { args: [action], options }) => {
    if (action !== undefined && !(actions as readonly string[]).includes(action))
      throw new UsageError(`expected ${actions.join(", ")}, got ${action}`);
    const units = readCount(options.units ?? "10000", "--units", 1);
    const plan: Plan = {
      spec: options.spec ?? (action === undefined ? `bench_${randomUUID().slice(0, 8)}` : "bench"),
      units,
      work:
        options.work === undefined ? (action === "do" ? Infinity : units) : readCount(options.work, "--work"),
      batch: readCount(options.batch ?? "100", "--batch", 1),
      concurrency: readCount(options.concurrency ?? "8", "--concurrency", 1),
      dataBytes: readCount(options.bytes ?? "40", "--bytes"),
    };
    const { coordinate, ns } = await context.work();
    if (action === "clear") return clear(context, plan);
    const [there] = await coordinate.getWorkSpecs(ns, [plan.spec]);
    if (action === undefined && (there ?? null) !== null)
      throw new CommandError(
        `${quote(plan.spec)} exists`,
        "bench creates and deletes its work spec; choose another --spec",
      );
    if (action === "do" && (there ?? null) === null)
      throw new CommandError(`${quote(plan.spec)} does not exist`, "coordinate bench add creates it");
    const result: Record<string, unknown> = {};
    try {
      if (action !== "do") Object.assign(result, await add(context, plan, (there ?? null) === null));
      if (action !== "add") Object.assign(result, await work(context, plan));
    } finally {
      if (action === undefined && options.keep !== true) await coordinate.deleteWorkSpecs(ns, [plan.spec]);
    }
    const { batch, concurrency } = plan;
    const { where } = await context.opened();
    context.out.line(JSON.stringify({ ...result, batch, concurrency, where }));
    return exit.done;
  },
});

/** Keeps at most `concurrency` calls in flight; `next` returns null when there are no more. */
async function inFlight(concurrency: number, next: () => Promise<void> | null): Promise<void> {
  const lane = async (): Promise<void> => {
    for (let call = next(); call !== null; call = next()) await call;
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}

async function add(context: Context, plan: Plan, make: boolean): Promise<Record<string, number>> {
  const { coordinate, ns } = await context.work();
  if (make) await coordinate.setWorkSpecs(ns, [{ data: jsonData(JSON.stringify({ name: plan.spec })) }]);
  const batches = prepare(plan);
  tell(context, `adding ${count(plan.units)} units to ${quote(plan.spec)}, ${count(plan.batch)} per request`);
  let at = 0;
  const seconds = await timed(() =>
    inFlight(plan.concurrency, () => {
      const units = batches[at++];
      return units === undefined ? null : coordinate.addWorkUnits(ns, plan.spec, units).then(() => undefined);
    }),
  );
  const perSecond = plan.units / seconds;
  tell(context, `added in ${seconds.toFixed(2)} s: ${rate(perSecond)}`);
  return { units: plan.units, add_seconds: round(seconds), add_per_s: Math.round(perSecond) };
}

function prepare({ units, batch, dataBytes }: Plan): WorkUnitInput[][] {
  // every run has its own names, so that a second run adds new units
  const run = randomUUID().slice(0, 8);
  const padding = "x".repeat(Math.max(0, dataBytes - 20));
  const batches: WorkUnitInput[][] = [];
  for (let first = 0; first < units; first += batch) {
    const one: WorkUnitInput[] = [];
    for (let i = first; i < Math.min(units, first + batch); i++)
      one.push({
        name: `${run}-${String(i).padStart(9, "0")}`,
        data: jsonData(`{"n":${i},"x":"${padding}"}`),
      });
    batches.push(one);
  }
  return batches;
}

async function work(context: Context, plan: Plan): Promise<Record<string, number>> {
  const { coordinate, ns } = await context.work();
  tell(context, `claiming and finishing ${plan.work === Infinity ? "all" : count(plan.work)} units`);
  let asked = 0;
  let done = 0;
  let empty = false;
  let lane = 0;
  const seconds = await timed(() =>
    inFlight(plan.concurrency, () => {
      const number = Math.min(plan.batch, plan.work - asked);
      if (number <= 0 || empty) return null;
      asked += number;
      lane = (lane + 1) % plan.concurrency;
      return claimAndFinish(coordinate, ns, plan.spec, `bench-${lane}`, number).then((finished) => {
        done += finished;
        // ask again for units that this claim did not get, unless it got none at all
        asked -= number - finished;
        if (finished === 0) empty = true;
      });
    }),
  );
  const perSecond = done / seconds;
  tell(context, `finished ${count(done)} in ${seconds.toFixed(2)} s: ${rate(perSecond)}`);
  return { work: done, work_seconds: round(seconds), work_per_s: Math.round(perSecond) };
}

async function claimAndFinish(
  coordinate: Coordinate,
  ns: string,
  spec: string,
  worker: string,
  number: number,
): Promise<number> {
  const attempts = await coordinate.requestAttempts(ns, { worker, workSpecs: [spec], number });
  if (attempts.length === 0) return 0;
  const changed = await coordinate.settleAttempts(
    ns,
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  const failed = changed.find(({ error }) => error !== null);
  if (failed !== undefined)
    throw new CommandError(`attempt ${failed.attempt} was refused: ${failed.error ?? ""}`);
  return attempts.length;
}

async function clear(context: Context, { spec }: Plan): Promise<number> {
  const { coordinate, ns } = await context.work();
  const [was] = await coordinate.deleteWorkSpecs(ns, [spec]);
  context.out.line(JSON.stringify({ cleared: was === true }));
  return was === true ? exit.done : exit.nothing;
}

function tell({ out }: Context, text: string): void {
  if (!out.json) out.remark(text);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return Math.max(1e-6, (performance.now() - start) / 1000);
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;
