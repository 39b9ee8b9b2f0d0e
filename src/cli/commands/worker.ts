/** `coordinate worker`: runs a worker until it is stopped. `coordinate worker NAME`: shows the record of one. */
import { rmSync, writeFileSync } from "node:fs";
import type { Namespace } from "../../objects/index.ts";
import { defaultConcurrency, runWorker, type Logger } from "../../worker/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { aboutEmptyNamespace } from "../naming.ts";
import { readCount, readDuration } from "../units.ts";
import {
  atWork,
  defineWorkerOptions,
  openChosen,
  openLog,
  readWorkerSetting,
  type WorkerOptionTexts,
} from "../worker-options.ts";
import { defineJobsOptions, runJobsWorker, type JobsWorkerOptions } from "./jobs-worker.ts";
import { showWorker } from "./worker-record.ts";

interface Options extends WorkerOptionTexts, Omit<JobsWorkerOptions, keyof WorkerOptionTexts> {
  concurrency?: string;
  maxAttempts?: string;
  name?: string;
  grace?: string;
  heartbeat?: string;
  pidfile?: string;
  foreground?: boolean;
}

/** Exit code as of the Python worker: a second stop signal made it abandon running work. */
const forced = 2;

export default command<Options>({
  define: (it) => {
    it.argument("[name]", "show this worker instead of running one");
    defineWorkerOptions(it);
    it.option("--concurrency <n>", "concurrent units (default: 10, or 10 per child process)")
      .option(
        "--max-attempts <n>",
        "maximum units per claim (default: 1000 for node, 1 for python and command)",
      )
      .option("--name <name>", "name of the worker (default: made from host and process)")
      .option(
        "--grace <time>",
        "after SIGTERM, how long tasks may run before they are asked to stop (default: 10s)",
      )
      .option("--heartbeat <time>", "time between check-ins (default: 15s)")
      .option("--pidfile <file>", "write the process id to this file, and remove the file at the end")
      .option("--foreground", "no effect: a worker always runs in the foreground");
    defineJobsOptions(it);
  },
  run: async (context, { args: [name], options }) => {
    if (name !== undefined) return showWorker(context, name);
    if (options.jobs === true) {
      if (context.session.inShell) throw new CommandError("a worker cannot run inside the shell");
      return runJobsWorker(context, options);
    }
    if (options.tasks === undefined && options.runtime === undefined)
      throw new UsageError(
        "to run a worker, use --tasks FILE, --runtime LIST or --jobs; to show one, give its name (coordinate workers lists them)",
      );
    if (context.session.inShell) throw new CommandError("a worker cannot run inside the shell");
    return runUntilStopped(context, options);
  },
});

/** Warns of an empty namespace: in a misspelt one, a worker would wait for ever and look healthy. */
async function warnOfEmptyNamespace({ verbs, name }: Namespace, log: Logger): Promise<void> {
  // an unreachable coordinator is no error here: the worker waits for it below
  const page = await verbs.listWorkSpecs(name, { limit: 1 }).catch(() => null);
  if (page?.rows.length === 0) log.warn(await aboutEmptyNamespace(verbs, name));
}

async function runUntilStopped(context: Context, options: Options): Promise<number> {
  const setting = await readWorkerSetting(context, options);
  const count = (text: string | undefined, what: string): number | undefined =>
    text === undefined ? undefined : readCount(text, what, 1);
  const span = (text: string | undefined, what: string): number | undefined =>
    text === undefined ? undefined : readDuration(text, what);
  const maxAttempts = count(options.maxAttempts, "--max-attempts") ?? setting.maxAttempts;
  const graceMs = span(options.grace, "--grace");
  const heartbeatMs = span(options.heartbeat, "--heartbeat") ?? setting.heartbeatMs;
  const given = count(options.concurrency, "--concurrency");
  const log = openLog(context, options.logpath);
  return atWork(context, log, async (namespace) => {
    const runtimes = await openChosen(setting, maxAttempts, log, given);
    await warnOfEmptyNamespace(namespace, log);
    const places = runtimes.map(({ capacity }) => capacity ?? given ?? defaultConcurrency);
    const concurrency = places.reduce((sum, count) => sum + count, 0);
    try {
      if (options.pidfile !== undefined) writeFileSync(options.pidfile, `${process.pid}\n`);
      const outcome = await runWorker(namespace, {
        runtimes,
        log,
        concurrency,
        workSpecs: setting.workSpecs,
        labels: setting.labels,
        ...(options.name !== undefined && { name: options.name }),
        ...(maxAttempts !== undefined && { maxAttempts }),
        ...(setting.lifetimeMs !== undefined && { lifetimeMs: setting.lifetimeMs }),
        ...(setting.availableGb !== undefined && { availableGb: setting.availableGb }),
        ...(setting.pollMs !== undefined && { pollMs: setting.pollMs }),
        ...(heartbeatMs !== undefined && { heartbeatMs }),
        ...(graceMs !== undefined && { graceMs }),
      });
      return outcome === "forced" ? forced : exit.done;
    } finally {
      await Promise.all(runtimes.map((runtime) => runtime.close(0)));
      if (options.pidfile !== undefined) rmSync(options.pidfile, { force: true });
    }
  });
}
