/**
 * A job is a work unit that runs an action. Its public record is built from the unit, the active attempt and the data of both.
 *
 *   unit        available, delayed, blocked   pending   finished   failed
 *   job.state   NEW                           RUNNING   OK         ERROR
 */
import {
  CoordinateError,
  decodeData,
  encodeData,
  type Data,
  type DataObject,
  type QueueMessage,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../core/index.ts";

export const jobStates = ["NEW", "RUNNING", "OK", "ERROR"] as const;
/** OK and ERROR are final. */
export type JobState = (typeof jobStates)[number];

/**
 * Why a job is in ERROR.
 *   ERROR    the function threw, could not be loaded, or returned a value that is not JSON; or a dependency failed
 *   TIMEOUT  it ran longer than its time limit
 *   CRASH    its process or its worker died
 *   HALTED   it was cancelled, or its worker was stopped while it ran
 */
export type ErrorCategory = "NA" | "TIMEOUT" | "CRASH" | "HALTED" | "ERROR";

/** The error of a job, for programs; `traceback` is the same as text for people. */
export interface JobError {
  message: string;
  /** The stack as text; after a crash, the end of the standard error of the process. */
  traceback: string;
  /** The innermost frame first; absent when there is no stack. */
  frames?: readonly JobErrorFrame[];
  /** The name of the thrown error, or the type of another thrown value. */
  type?: string;
  /** The step that failed: loading the function, running it, or converting its result to JSON. */
  phase?: "load" | "execute" | "serialise";
  /** The id of the dependency whose failure failed this job. */
  dependency_failure?: string;
}

export interface JobErrorFrame {
  file: string;
  function: string;
  line: number;
}

/** `jumpscale.myjobs.job`. Times are epoch milliseconds, 0 is unset. */
export interface Job {
  id: string;
  name: string;
  category: string;
  /** When it was begun; 0 before. */
  time_start: number;
  /** When it ended, in OK or ERROR; 0 before. */
  time_stop: number;
  state: JobState;
  /** The status of the unit: tells why a NEW job waits. */
  substate: WorkUnitStatus;
  error_cat: ErrorCategory;
  /** The time limit in seconds; 0 applies the worker's limit. */
  timeout: number;
  /** The key of its action. */
  action_id: string;
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** What the function returned; null before, and in ERROR. */
  result: unknown;
  /** Null unless the state is ERROR. */
  error: JobError | null;
  return_queues: readonly string[];
  dependencies: readonly string[];
  createdAt: number;
  /** The number of attempts: one for each run, and one for each time that a worker claimed the job and gave it back. */
  attempts: number;
  retries: number;
  /** The worker that runs or ran it; "" before. */
  worker: string;
  /** The last progress value of the function; null if there is none. */
  progress: unknown;
  /** The sha256 of the module file that the worker ran, which may differ from the action's version. "" before, and for inline functions. */
  code_version: string;
}

/** The data of a job's unit: written when the job is scheduled, and again together with the outcome when it ends. */
export interface JobData {
  job: string;
  category: string;
  action: string;
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  timeout: number;
  retries: number;
  retryDelay: number;
  dependencies: readonly string[];
  signature: string;
}

export type JobOutcome = (
  | { state: "OK"; result: unknown }
  | { state: "ERROR"; category: Exclude<ErrorCategory, "NA">; error: JobError }
) & {
  /** The version of the code that ran; absent or empty when none ran. */
  codeVersion?: string;
};

/** Leaves out default values: there are many jobs, and most of them have only an action and arguments. */
export function jobData(job: JobData): Data {
  return encodeData(slim(job));
}

function slim(job: JobData): Record<string, unknown> {
  return {
    job: job.job,
    action: job.action,
    ...(job.category !== "" && { category: job.category }),
    ...(job.args.length > 0 && { args: job.args }),
    ...(Object.keys(job.kwargs).length > 0 && { kwargs: job.kwargs }),
    ...(job.timeout > 0 && { timeout: job.timeout }),
    ...(job.retries > 0 && { retries: job.retries }),
    ...(job.retryDelay > 0 && { retryDelay: job.retryDelay }),
    ...(job.dependencies.length > 0 && { dependencies: job.dependencies }),
    ...(job.signature !== "" && { signature: job.signature }),
  };
}

/** The data of an attempt with this outcome. All tools read the error text from `traceback`. */
export function outcomeData(job: JobData, outcome: JobOutcome): Data {
  const { codeVersion = "" } = outcome;
  const ran = { ...slim(job), ...(codeVersion !== "" && { code_version: codeVersion }) };
  if (outcome.state === "OK") return encodeData({ ...ran, result: outcome.result });
  const { category, error } = outcome;
  return encodeData({ ...ran, error_cat: category, error, traceback: error.traceback });
}

export const progressData = (job: JobData, progress: unknown): object => ({ ...slim(job), progress });

/** Throws `bad_data` for a unit that is not a job: any client may add units to a work spec. */
export function readJobData(data: DataObject): JobData {
  const { job, action } = data;
  if (typeof action !== "string" || action === "")
    throw new CoordinateError("bad_data", "job: expected an action");
  const timeout = number(data.timeout);
  return {
    job: typeof job === "string" ? job : "",
    action,
    category: text(data.category),
    args: Array.isArray(data.args) ? data.args : [],
    kwargs: isObject(data.kwargs) ? data.kwargs : {},
    timeout,
    retries: number(data.retries),
    retryDelay: number(data.retryDelay),
    dependencies: texts(data.dependencies),
    signature: text(data.signature),
  };
}

const states: Readonly<Record<WorkUnitStatus, JobState>> = {
  available: "NEW",
  delayed: "NEW",
  blocked: "NEW",
  pending: "RUNNING",
  finished: "OK",
  failed: "ERROR",
};

/** The statuses of units whose jobs are in these states. */
export function statusesOf(wanted: readonly JobState[]): WorkUnitStatus[] {
  const all = Object.entries(states) as [WorkUnitStatus, JobState][];
  return all.filter(([, state]) => wanted.includes(state)).map(([status]) => status);
}

export const isFinal = (status: WorkUnitStatus): boolean => status === "finished" || status === "failed";

/** The record of a unit. Never fails: a unit that is not a job gets default values for the missing fields. */
export function jobOf(row: WorkUnitRow): Job {
  const data = row.data === null ? {} : decodeData(row.data);
  const { activeAttempt } = row;
  return {
    ...described(row.name, row.status, data),
    time_start: activeAttempt?.startTime ?? 0,
    time_stop: activeAttempt?.endTime ?? 0,
    return_queues: row.queues,
    dependencies: row.dependencies.map(({ workUnit }) => workUnit),
    createdAt: row.createdTime,
    attempts: row.attempts,
    worker: activeAttempt?.worker ?? "",
  };
}

/** The outcome of a job in a return queue. */
export interface Outcome {
  /** Ascending; unique among all outcomes of a store. */
  seq: number;
  queue: string;
  id: string;
  name: string;
  state: "OK" | "ERROR";
  error_cat: ErrorCategory;
  result: unknown;
  error: JobError | null;
  at: number;
}

export function outcomeOf(message: QueueMessage): Outcome {
  const data = message.data === null ? {} : decodeData(message.data);
  const { id, name, error_cat, result, error } = described(message.workUnit, message.status, data);
  const state = message.status === "finished" ? "OK" : "ERROR";
  return {
    seq: message.seq,
    queue: message.queue,
    id,
    name,
    state,
    error_cat,
    result,
    error,
    at: message.at,
  };
}

type Described = Omit<
  Job,
  "time_start" | "time_stop" | "return_queues" | "dependencies" | "createdAt" | "attempts" | "worker"
>;

function described(id: string, status: WorkUnitStatus, data: DataObject): Described {
  const state = states[status];
  return {
    id,
    name: typeof data.job === "string" && data.job !== "" ? data.job : id,
    category: text(data.category),
    state,
    substate: status,
    error_cat: state === "ERROR" ? categoryOf(data) : "NA",
    timeout: number(data.timeout),
    action_id: text(data.action),
    args: Array.isArray(data.args) ? data.args : [],
    kwargs: isObject(data.kwargs) ? data.kwargs : {},
    result: state === "OK" ? (data.result ?? null) : null,
    error: state === "ERROR" ? errorOf(data) : null,
    retries: number(data.retries),
    progress: data.progress ?? null,
    code_version: text(data.code_version),
  };
}

function categoryOf({ error_cat: category, tries }: DataObject): ErrorCategory {
  if (category === "TIMEOUT" || category === "CRASH" || category === "HALTED") return category;
  // the tries are used up, and the last worker did not report an outcome
  return category === undefined && tries !== undefined ? "CRASH" : "ERROR";
}

function errorOf({
  error,
  traceback,
  last_error: last,
  failed_dependency: dependency,
}: DataObject): JobError {
  if (isObject(error) && typeof error.message === "string" && typeof error.traceback === "string")
    return error as unknown as JobError;
  const why = typeof last === "string" ? last : typeof traceback === "string" ? traceback : "no reason given";
  const message = why.split("\n", 1)[0] ?? "";
  return {
    message,
    traceback: why,
    ...(typeof dependency === "string" && { dependency_failure: dependency }),
  };
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
const number = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : 0;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
