/**
 * A job is a work unit that runs an action: the record that people read, made of the unit, its active attempt and what
 * both carry as data.
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
import { timeOfId } from "./job-id.ts";

export const jobStates = ["NEW", "RUNNING", "OK", "ERROR"] as const;
/** OK and ERROR are final. */
export type JobState = (typeof jobStates)[number];

/**
 * Why a job is in ERROR.
 *   ERROR    the function threw, could not be loaded, or gave what is not JSON; or a dependency failed
 *   TIMEOUT  it ran longer than it may
 *   CRASH    its process or its worker died
 *   HALTED   it was cancelled, or its worker was stopped while it ran
 */
export type ErrorCategory = "NA" | "TIMEOUT" | "CRASH" | "HALTED" | "ERROR";

/** What went wrong, for programs; `traceback` is the same for people. */
export interface JobError {
  message: string;
  /** The stack as text. */
  traceback: string;
  /** The innermost frames first; empty when nothing was thrown. */
  frames?: readonly JobErrorFrame[];
  /** The class of what was thrown. */
  type?: string;
  /** What was going on: to load the function, to run it, or to store its result. */
  phase?: "load" | "execute" | "serialise";
  /** The id of the job whose failure failed this one. */
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
  /** Where a NEW job stands. */
  substate: WorkUnitStatus;
  error_cat: ErrorCategory;
  /** Seconds that it may run; 0: its worker's limit holds. */
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
  /** How many attempts were made: one each time it was begun, and each time that a worker claimed it and gave it back. */
  attempts: number;
  retries: number;
  /** The worker that runs or ran it; "" before. */
  worker: string;
  /** What the function last told of its progress, if anything. */
  progress: unknown;
  /** The sha256 of the module's file that ran: that of the worker, which may differ from the action's. "" before, and for inline functions. */
  code_version: string;
}

/** What a unit carries: written once when the job is scheduled, and with the outcome again by who ends it. */
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
  /** The version of the code that ran, where it did. */
  codeVersion?: string;
};

/** Only what is not the default: most jobs have an action and arguments, and there are many. */
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

/** The data of an attempt that ended so. `traceback` is where all tools look for what went wrong. */
export function outcomeData(job: JobData, outcome: JobOutcome): Data {
  const { codeVersion = "" } = outcome;
  const ran = { ...slim(job), ...(codeVersion !== "" && { code_version: codeVersion }) };
  if (outcome.state === "OK") return encodeData({ ...ran, result: outcome.result });
  const { category, error } = outcome;
  return encodeData({ ...ran, error_cat: category, error, traceback: error.traceback });
}

export const progressData = (job: JobData, progress: unknown): object => ({ ...slim(job), progress });

/** Throws `bad_data` for a unit that is not a job: anybody may add units to a work spec. */
export function readJobData(data: DataObject): JobData {
  const { job, action } = data;
  if (typeof action !== "string" || action === "")
    throw new CoordinateError("bad_data", "of a job: it names no action");
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

/** The record of a unit. Never fails: what is no job is shown as far as it can be. */
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

/** What a return queue was told of the end of a job. */
export interface Outcome {
  /** Rises; unique among all outcomes of a store. */
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
  // tried as often as it may be, and its last worker did not say how it ended
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

/** When a job was scheduled, by its id alone; where the id is not one of ours, 0. */
export const scheduledTime = (id: string): number => timeOfId(id) || 0;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
const number = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : 0;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
