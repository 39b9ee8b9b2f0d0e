/**
 * A single worker outside of any pool, started in a terminal, by systemd or in a container. It runs functions in a child process,
 * or in this process for tests and debugging. No pool counts or stops it.
 */
import { hostname } from "node:os";
import { CoordinateError, type Clock } from "../core/index.ts";
import type { Namespace } from "../objects/index.ts";
import { Actions } from "./actions.ts";
import { DataLoop } from "./data-loop.ts";
import { EventLog } from "./events.ts";
import { InProcessRunner } from "./in-process.ts";
import { JobWorker } from "./job-worker.ts";
import { checkKnown, readWorkerOptions, workerOptionNames, type JobWorkerOptions } from "./options.ts";
import { ProcessRunner } from "./process-runner.ts";
import type { Queue } from "./queue.ts";

export interface SingleOptions extends JobWorkerOptions {
  /** The worker's number; 999999 by default. The worker is named `HOST/wNUMBER`. */
  id?: number;
  /** Takes one job, runs it once regardless of its retries, and stops. */
  onetime?: boolean;
  /** `external` (the default) runs functions in a child process, `inprocess` in this one. */
  type?: "external" | "inprocess";
  /** Stops the worker after the running job has ended. */
  signal?: AbortSignal;
  /** Stops the worker and ends the running job. */
  haltSignal?: AbortSignal;
}

export const singleName = (id = 999_999): string => `${hostname()}/w${id}`;

export async function runSingle(
  namespace: Namespace,
  queue: Queue,
  clock: Clock,
  options: SingleOptions,
): Promise<void> {
  checkKnown(options, ["id", "onetime", "type", "signal", "haltSignal", ...workerOptionNames]);
  const { id = 999_999, onetime = false, type = "external", signal, haltSignal } = options;
  if (!Number.isSafeInteger(id) || id < 1)
    throw new CoordinateError("bad_argument", `id: expected a number of 1 or more, got ${String(id)}`);
  if (signal?.aborted === true) return;
  const settings = readWorkerOptions(options);
  const { show, killGraceMs: graceMs } = settings;
  const name = singleName(id);
  const runner =
    type === "inprocess"
      ? new InProcessRunner(settings)
      : new ProcessRunner({
          ...settings,
          graceMs,
          onLine: (stream, line) => show(`${name}: ${stream}: ${line}`),
          onCrash: (text) => worker.crashed(text),
          onStarted: () => worker.checkIn(),
        });
  const worker: JobWorker = new JobWorker({
    ...settings,
    namespace,
    queue,
    actions: new Actions(namespace.verbs, namespace.name),
    runner,
    name,
    pool: null,
    nr: id,
    type,
    onetime,
    dataLoop: new DataLoop(new EventLog(() => clock.now())),
    clock,
    onBusy: () => undefined,
  });
  const stop = (): void => void worker.stop();
  const halt = (): void => void worker.halt("the worker was stopped");
  signal?.addEventListener("abort", stop, { once: true });
  haltSignal?.addEventListener("abort", halt, { once: true });
  try {
    await worker.run();
  } finally {
    signal?.removeEventListener("abort", stop);
    haltSignal?.removeEventListener("abort", halt);
  }
}
