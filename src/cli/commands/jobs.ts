/** `coordinate jobs`: lists jobs in the order in which they were scheduled. */
import {
  jobStates,
  openJobs,
  type ErrorCategory,
  type Job,
  type JobQuery,
  type JobState,
} from "../../jobs/index.ts";
import { command, repeatedWords } from "../command.ts";
import { exit, UsageError } from "../failure.ts";
import type { Cell, Style } from "../table.ts";
import { counted, duration, readCount, readDuration, relative } from "../units.ts";

interface Options {
  state?: string[];
  category?: string;
  action?: string;
  errorCategory?: string;
  since?: string;
  limit?: string;
  count?: boolean;
  queue?: string;
}

const categories: readonly ErrorCategory[] = ["TIMEOUT", "CRASH", "HALTED", "ERROR"];

export const jobStyles: Readonly<Record<JobState, Style | undefined>> = {
  NEW: undefined,
  RUNNING: "cyan",
  OK: "green",
  ERROR: "red",
};

export default command<Options>({
  define: (it) => {
    it.option(
      "--state <list>",
      "only jobs in this state: NEW, RUNNING, OK or ERROR; may be repeated",
      repeatedWords,
    )
      .option("--category <word>", "only jobs of this category")
      .option("--action <key>", "only jobs that run this action")
      .option("--error-category <word>", "only jobs that failed with TIMEOUT, CRASH, HALTED or ERROR")
      .option("--since <time>", "only jobs scheduled within this time, such as 90s, 15m, 12h, 7d")
      .option("-n, --limit <n>", "maximum number of jobs (default: 100)")
      .option("--count", "print only the number of jobs")
      .option("--queue <name>", "the queue (default: jobs)");
  },
  run: async (context, { options }) => {
    const { coordinate, ns } = await context.work();
    const jobs = openJobs(coordinate, { namespace: ns, queue: options.queue ?? "jobs" });
    const query = readQuery(options);
    const { out } = context;
    if (options.count === true) {
      const count = await jobs.count(query);
      if (out.json) out.printJson({ count }, 0);
      else out.line(counted(count, "job"));
      return exit.done;
    }
    const limit = options.limit === undefined ? 100 : readCount(options.limit, "--limit", 1);
    const found: Job[] = [];
    for await (const job of jobs.list({ ...query, limit: limit + 1 })) found.push(job);
    const shown = found.slice(0, limit);
    if (out.json) {
      out.printJson(shown);
      return exit.done;
    }
    if (shown.length === 0) {
      out.remark("No jobs found.");
      return exit.done;
    }
    const functions = new Map<string, string>();
    for (const key of new Set(shown.map(({ action_id }) => action_id))) {
      // the action may be unknown; the job is shown without it
      const action = await jobs.action(key).catch(() => null);
      if (action !== null) functions.set(key, functionName(action));
    }
    const now = Date.now();
    out.table(
      [
        { head: "Id" },
        { head: "Name", min: 8 },
        { head: "State" },
        { head: "Function", min: 12 },
        { head: "Category", min: 8 },
        { head: "Scheduled", align: "right" },
        { head: "Took", align: "right" },
        { head: "Error", min: 12 },
      ],
      shown.map((job): (string | Cell)[] => [
        job.id,
        job.name === job.id ? "" : job.name,
        { text: job.state, style: jobStyles[job.state] },
        functions.get(job.action_id) ?? "",
        job.category,
        relative(job.createdAt, now),
        job.time_start === 0 ? "" : duration((job.time_stop === 0 ? now : job.time_stop) - job.time_start),
        job.error === null ? "" : `${job.error_cat}: ${job.error.message}`,
      ]),
    );
    if (found.length > limit) out.remark("There are more jobs; raise --limit to see them.");
    return exit.done;
  },
});

export const functionName = ({
  kind,
  module,
  methodname,
}: {
  kind: string;
  module: string;
  methodname: string;
}): string => (kind === "inline" ? methodname : `${module}#${methodname}`);

function readQuery(options: Options): JobQuery {
  const state = options.state?.map((word) => {
    const found = jobStates.find((known) => known === word.trim().toUpperCase());
    if (found === undefined) throw new UsageError(`--state ${word}: expected ${jobStates.join(", ")}`);
    return found;
  });
  const category = categories.find((known) => known === options.errorCategory?.toUpperCase());
  if (options.errorCategory !== undefined && category === undefined)
    throw new UsageError(`--error-category ${options.errorCategory}: expected ${categories.join(", ")}`);
  return {
    ...(state !== undefined && { state }),
    ...(options.category !== undefined && { category: options.category }),
    ...(options.action !== undefined && { action: options.action }),
    ...(category !== undefined && { errorCategory: category }),
    ...(options.since !== undefined && {
      scheduledAfter: Date.now() - readDuration(options.since, "--since"),
    }),
  };
}
