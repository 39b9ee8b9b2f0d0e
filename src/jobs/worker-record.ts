/** The public record of a job worker (`jumpscale.myjobs.worker`), built from its check-in data and the attempt that it holds. */
import { decodeData, encodeData, type Data, type DataObject, type WorkerRow } from "../core/index.ts";

/**
 *   process    a child process that a pool started and will stop
 *   external   started outside of a pool, with its own child process
 *   inprocess  runs functions in the process that started it
 */
export type WorkerType = "process" | "external" | "inprocess";

/**
 *   NEW      known, but has never checked in
 *   WAITING  runs and is idle
 *   BUSY     runs a job
 *   HALTED   has stopped
 *   ERROR    missed its heartbeats, or became inactive without reporting a stop
 */
export type WorkerStateName = "NEW" | "ERROR" | "BUSY" | "WAITING" | "HALTED";

/** Times are epoch milliseconds, 0 is unset. */
export interface JobWorkerRecord {
  id: string;
  nr: number;
  type: WorkerType;
  /** The time limit, in seconds, of jobs without their own timeout; 0 is unlimited. */
  timeout: number;
  time_start: number;
  /** The time of its last check-in. */
  last_update: number;
  /** The id of the running job; "" when idle. */
  current_job: string;
  /** Whether a stop was requested. */
  halt: boolean;
  running: boolean;
  /** The id of the process that runs the functions; 0 when the worker does not run. */
  pid: number;
  state: WorkerStateName;
  /** The last error; "" when there was none. */
  error: string;
  /** The worker's pool; "" for a single worker. */
  pool: string;
}

export const defaultTimeoutMs = 3600 * 1000;

/** The data that a job worker sends with each check-in. */
export interface CheckInData {
  kind: "jobs worker";
  nr: number;
  type: WorkerType;
  timeout: number;
  time_start: number;
  pid: number;
  error: string;
  heartbeat: number;
}

export const isJobWorker = (row: WorkerRow): boolean => told(row).kind === "jobs worker";

export const poolData = (told: { min: number; max: number; workers: number }): Data =>
  encodeData({ kind: "jobs pool", ...told });

const told = ({ data }: WorkerRow): DataObject => (data === null ? {} : decodeData(data));

/** A worker counts as dead after this many missed heartbeats. */
const missedBeats = 4;

export function workerOf(row: WorkerRow, currentJob: string, now: number): JobWorkerRecord {
  const data = told(row);
  const beat = number(data.heartbeat);
  const isStale = row.active && beat > 0 && now - row.lastUpdate > missedBeats * beat;
  const running = row.active && !isStale;
  const error = isStale
    ? `no check-in for ${Math.round((now - row.lastUpdate) / 1000)} s`
    : typeof data.error === "string"
      ? data.error
      : "";
  return {
    id: row.name,
    nr: number(data.nr),
    type: data.type === "external" || data.type === "inprocess" ? data.type : "process",
    timeout: number(data.timeout),
    time_start: number(data.time_start),
    last_update: row.lastUpdate,
    current_job: running ? currentJob : "",
    halt: row.desired === "terminate",
    running,
    pid: running ? number(data.pid) : 0,
    state: stateOf(row, running, isStale, currentJob),
    error,
    pool: row.parent ?? "",
  };
}

function stateOf(row: WorkerRow, running: boolean, isStale: boolean, currentJob: string): WorkerStateName {
  if (running) return currentJob === "" ? "WAITING" : "BUSY";
  if (isStale) return "ERROR";
  if (row.mode === "stopped") return "HALTED";
  return row.lastUpdate === 0 ? "NEW" : "ERROR";
}

const number = (value: unknown): number => (typeof value === "number" ? value : 0);
