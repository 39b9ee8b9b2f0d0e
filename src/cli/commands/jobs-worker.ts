/** `coordinate worker --jobs`: runs a pool of processes that run jobs, until stopped; or one worker, once. */
import { repeated, type Command } from "../command.ts";
import { openJobs, type JobWorkerOptions, type PoolOptions } from "../../jobs/index.ts";
import { processSignals } from "../../worker/index.ts";
import type { Context } from "../context.ts";
import { show } from "../escape.ts";
import { exit } from "../failure.ts";
import { readCount, readDuration } from "../units.ts";
import { openLog } from "../worker-options.ts";

export interface JobsWorkerOptions {
  jobs?: boolean;
  queue?: string;
  root?: string[];
  workersMin?: string;
  workersMax?: string;
  timeout?: string;
  inline?: boolean;
  onetime?: boolean;
  showout?: boolean;
  lease?: string;
  heartbeat?: string;
  name?: string;
  logpath?: string;
}

export function defineJobsOptions(it: Command): void {
  it.option("--jobs", "run jobs (functions of modules) in worker processes")
    .option("--queue <name>", "with --jobs: the queue (default: jobs)")
    .option(
      "--root <folder>",
      "with --jobs: load modules from this folder; may be repeated (default: the working directory)",
      repeated,
    )
    .option("--workers-min <n>", "with --jobs: minimum number of processes (default: 1)")
    .option("--workers-max <n>", "with --jobs: maximum number of processes (default: one per core)")
    .option("--timeout <time>", "with --jobs: time limit of jobs that set none, 0 for no limit (default: 1h)")
    .option("--inline", "with --jobs: also run inline functions, if the namespace allows them")
    .option("--onetime", "with --jobs: run one job once and exit")
    .option("--showout", "with --jobs: print each job and its outcome");
}

/** Exit code as of the other workers: a second stop signal made it abandon running work. */
const forced = 2;

export async function runJobsWorker(context: Context, options: JobsWorkerOptions): Promise<number> {
  const { coordinate } = await context.opened("create");
  const log = openLog(context, options.logpath);
  const jobs = openJobs(coordinate, { namespace: await context.namespace(), queue: options.queue ?? "jobs" });
  const shared: JobWorkerOptions = {
    log,
    showout: options.showout ?? false,
    inline: options.inline ?? false,
    print: (line) => context.out.line(line),
    ...(options.root !== undefined && { roots: options.root }),
    ...(options.timeout !== undefined && { timeoutMs: readDuration(options.timeout, "--timeout") }),
    ...(options.lease !== undefined && { leaseMs: readDuration(options.lease, "--lease") }),
    ...(options.heartbeat !== undefined && { heartbeatMs: readDuration(options.heartbeat, "--heartbeat") }),
  };
  const stop = new AbortController();
  const halt = new AbortController();
  const interrupt = (): void => {
    if (stop.signal.aborted) halt.abort();
    else {
      log.info("stopping: waiting for running jobs to finish; send the signal again to stop now");
      stop.abort();
    }
  };
  processSignals.on(interrupt);
  try {
    if (options.onetime === true)
      await jobs.work({ ...shared, onetime: true, signal: stop.signal, haltSignal: halt.signal });
    else await runPool(jobs, shared, await poolSize(context, options), stop.signal, halt.signal, log.info);
  } finally {
    processSignals.off(interrupt);
  }
  return halt.signal.aborted ? forced : exit.done;
}

type PoolSize = Pick<PoolOptions, "name" | "workers_nr_min" | "workers_nr_max">;

/** Flags, else the configuration in effect, else the pool's own defaults. */
async function poolSize(
  context: Context,
  { workersMin, workersMax, name }: JobsWorkerOptions,
): Promise<PoolSize> {
  const { jobs, sources, warnings } = await context.configuration();
  for (const warning of warnings) context.out.remark(show(warning));
  const { workers_nr_min, workers_nr_max } = jobs;
  return {
    ...(name !== undefined && { name }),
    ...(sources.has("jobs.workers_nr_min") && { workers_nr_min }),
    // 0 means not configured
    ...(workers_nr_max > 0 && { workers_nr_max }),
    ...(workersMin !== undefined && { workers_nr_min: readCount(workersMin, "--workers-min") }),
    ...(workersMax !== undefined && { workers_nr_max: readCount(workersMax, "--workers-max", 1) }),
  };
}

async function runPool(
  jobs: ReturnType<typeof openJobs>,
  shared: JobWorkerOptions,
  size: PoolSize,
  stop: AbortSignal,
  halt: AbortSignal,
  say: (text: string) => void,
): Promise<void> {
  const pool = await jobs.startPool({
    ...shared,
    ...size,
  });
  say(`the pool ${pool.name} runs jobs`);
  const onStop = (): void => void pool.stop();
  const onHalt = (): void => void pool.stop({ graceful: false });
  stop.addEventListener("abort", onStop, { once: true });
  halt.addEventListener("abort", onHalt, { once: true });
  if (stop.aborted) onStop();
  await pool.stopped;
}
