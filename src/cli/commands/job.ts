/**
 * `coordinate job ID`: shows everything about a job. `coordinate job run MODULE#EXPORT`: schedules a job, and waits for it with
 * `--wait`. `coordinate job wait|cancel ID`.
 */
import { isCoordinateError } from "../../core/index.ts";
import { openJobs, WaitTimeoutError, type Job, type Jobs } from "../../jobs/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, showText } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { duration, readCount, readDuration, relative } from "../units.ts";
import { functionName, jobStyles } from "./jobs.ts";

interface Options {
  args?: string;
  kwargs?: string;
  name?: string;
  category?: string;
  timeout?: string;
  retries?: string;
  after?: string[];
  returnQueue?: string[];
  wait?: string | true;
  queue?: string;
}

export default command<Options>({
  define: (it) => {
    it.argument("<id>", "id or name of a job; or run, wait or cancel")
      .argument("[what]", "run: MODULE#EXPORT, relative to the worker's --root; wait and cancel: the job")
      .option("--args <json>", "run: JSON array of arguments")
      .option("--kwargs <json>", "run: JSON object, passed as the last argument")
      .option("--name <name>", "run: unique name of the job")
      .option("--category <word>", "run: category of the job, for coordinate jobs --category")
      .option("--timeout <time>", "run: how long it may run, such as 30s")
      .option("--retries <n>", "run: number of retries")
      .option("--after <id>", "run: start after this job has ended; may be repeated", repeated)
      .option("--return-queue <name>", "run: queue that receives the outcome; may be repeated", repeated)
      .option("--wait [time]", "run and wait: wait until the job has ended, at most this long")
      .option("--queue <name>", "the queue (default: jobs)");
  },
  run: async (context, { args: [word = "", what], options }) => {
    const coordinate = (await context.opened(what === undefined ? "read" : "write")).coordinate;
    const jobs = openJobs(coordinate, {
      namespace: await context.namespace(),
      queue: options.queue ?? "jobs",
    });
    if (what === undefined) {
      const missing = missingArgument[word];
      if (missing !== undefined) throw new UsageError(`job ${word}: expected ${missing}`);
      return show(context, jobs, await found(word, jobs.load(word)));
    }
    if (word === "run") return run(context, jobs, what, options);
    const job = await found(what, jobs.get(what));
    if (word === "wait") return wait(context, jobs, job.id, options.wait);
    if (word !== "cancel")
      throw new UsageError(`job ${word}: expected run, wait or cancel with one argument, or one job id`);
    const cancelled = await job.cancel("cancelled on the command line");
    context.out.remark(cancelled ? "The job was cancelled." : "The job has already ended.");
    return cancelled ? exit.done : exit.nothing;
  },
});

const missingArgument: Readonly<Record<string, string>> = {
  run: "MODULE#EXPORT",
  wait: "the id or name of a job",
  cancel: "the id or name of a job",
};

async function run(context: Context, jobs: Jobs, what: string, options: Options): Promise<number> {
  const at = what.lastIndexOf("#");
  const args = readJson(options.args ?? "[]", "--args");
  const kwargs = readJson(options.kwargs ?? "{}", "--kwargs");
  if (!Array.isArray(args)) throw new UsageError(`--args: expected a JSON array such as [1,"two"]`);
  if (typeof kwargs !== "object" || kwargs === null || Array.isArray(kwargs))
    throw new UsageError(`--kwargs: expected a JSON object such as {"width":100}`);
  const { name, category, timeout, retries, after = [], returnQueue = [] } = options;
  const job = await jobs.schedule(
    at < 0 ? { module: what } : { module: what.slice(0, at), export: what.slice(at + 1) },
    {
      args,
      kwargs: kwargs as Record<string, unknown>,
      dependencies: after,
      returnQueues: returnQueue,
      ...(name !== undefined && { name }),
      ...(category !== undefined && { category }),
      ...(timeout !== undefined && { timeoutMs: readDuration(timeout, "--timeout") }),
      ...(retries !== undefined && { retries: readCount(retries, "--retries") }),
    },
  );
  if (options.wait !== undefined) return wait(context, jobs, job.id, options.wait);
  if (context.out.json) context.out.printJson(await job.load());
  else context.out.line(job.id);
  return exit.done;
}

/** Prints the result as JSON. For a failed job, prints its stack, and the command fails too. */
async function wait(
  context: Context,
  jobs: Jobs,
  id: string,
  time: string | true | undefined,
): Promise<number> {
  const { out } = context;
  const limit = typeof time === "string" ? { timeoutMs: readDuration(time, "--wait") } : {};
  let job: Job | undefined;
  try {
    [job] = await jobs.settled([id], { ...limit, signal: context.signal });
  } catch (error) {
    if (context.signal.aborted) return exit.failed;
    if (error instanceof WaitTimeoutError)
      throw new CommandError(error.message, `coordinate job wait ${quote(id)}`);
    throw error;
  }
  if (job === undefined) throw noSuchJob(id);
  if (out.json) out.printJson(job);
  else if (job.state === "OK") out.printJson(job.result);
  else out.remark(`${job.error_cat}: ${showText(job.error?.traceback ?? "")}`);
  return job.state === "OK" ? exit.done : exit.failed;
}

const noSuchJob = (id: string): CommandError =>
  new CommandError(`no such job ${quote(id)}`, "coordinate jobs lists them");

/** The verbs call a missing job a missing work unit: this says it in the words of the command. */
async function found<Found>(id: string, job: Promise<Found>): Promise<Found> {
  try {
    return await job;
  } catch (error) {
    throw isCoordinateError(error, "no_such_work_unit") ? noSuchJob(id) : error;
  }
}

async function show(context: Context, jobs: Jobs, job: Job): Promise<number> {
  const { out } = context;
  // the action may be unknown; the job is shown without it
  const action = await jobs.action(job.action_id).catch(() => null);
  if (out.json) {
    out.printJson({ ...job, action });
    return exit.done;
  }
  const now = Date.now();
  const line = (head: string, text: string): void => {
    if (text !== "") out.line(`${head.padEnd(14)}${text}`);
  };
  line("Job", job.name === job.id ? quote(job.id) : `${showText(job.name)} (${quote(job.id)})`);
  const where = job.state === "NEW" && job.substate !== "available" ? `, ${job.substate}` : "";
  line(
    "State",
    out.paint(jobStyles[job.state], `${job.state}${job.error === null ? where : ` ${job.error_cat}`}`),
  );
  line("Function", showText(action === null ? job.action_id : functionName(action)));
  line("Category", showText(job.category));
  line("Args", showText(JSON.stringify(job.args)));
  line("Kwargs", Object.keys(job.kwargs).length === 0 ? "" : showText(JSON.stringify(job.kwargs)));
  line("Scheduled", relative(job.createdAt, now));
  if (job.time_start > 0)
    line("Started", `${relative(job.time_start, now)}, attempt ${job.attempts}, by ${showText(job.worker)}`);
  if (job.time_stop > 0) line("Took", duration(job.time_stop - job.time_start));
  line("Timeout", job.timeout > 0 ? duration(job.timeout * 1000) : "");
  line("Waits for", job.dependencies.map(quote).join(", "));
  line("Return queues", showText(job.return_queues.join(", ")));
  if (job.progress !== null) line("Progress", showText(JSON.stringify(job.progress)));
  if (job.state === "OK") line("Result", showText(JSON.stringify(job.result)));
  if (job.error !== null) {
    line("Error", "");
    out.line();
    out.line(showText(job.error.traceback));
  }
  return exit.done;
}

function readJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${what}: not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
