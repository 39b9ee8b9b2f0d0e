/** A job worker with a runner of the test instead of child processes. */
import { systemClock, type Clock, type Coordinate } from "../../src/core/index.ts";
import { Actions } from "../../src/jobs/actions.ts";
import { DataLoop } from "../../src/jobs/data-loop.ts";
import { EventLog } from "../../src/jobs/events.ts";
import type { JobOutcome } from "../../src/jobs/job.ts";
import { JobWorker } from "../../src/jobs/job-worker.ts";
import { readWorkerOptions } from "../../src/jobs/options.ts";
import { Queue } from "../../src/jobs/queue.ts";
import { endedBy, type Runner, type RunOptions } from "../../src/jobs/runner.ts";
import { handles } from "../../src/objects/index.ts";
import { silentLogger } from "../../src/worker/index.ts";

/** Any function: the runners of these tests do not call it. */
export const fn = { module: "./sums.mjs", export: "add" };

const halted = ({ signal }: RunOptions): Promise<JobOutcome> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(endedBy("HALTED", "halted")), { once: true });
  });

/** Runs the job `long`, until it is halted if the test does not say otherwise, and gives all others back at once. */
export function runnerWithLong(run: (options: RunOptions) => Promise<JobOutcome> = halted): Runner {
  return {
    pid: 0,
    isReady: true,
    maxQueued: 16,
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
    run: async ({ name }, options) => {
      if (name !== "long") return null;
      options.onBegun();
      return run(options);
    },
  };
}

/** A worker of the namespace `n`. */
export function jobWorker(
  verbs: Coordinate,
  runner: Runner,
  { clock = systemClock(), onBusy = () => undefined }: { clock?: Clock; onBusy?: () => void } = {},
): JobWorker {
  return new JobWorker({
    ...readWorkerOptions({ log: silentLogger }),
    namespace: handles(verbs).namespace("n"),
    queue: new Queue(verbs, "n", "jobs"),
    actions: new Actions(verbs, "n"),
    runner,
    name: "w",
    pool: null,
    nr: 1,
    type: "inprocess",
    onetime: false,
    dataLoop: new DataLoop(new EventLog(() => clock.now())),
    clock,
    onBusy,
  });
}
