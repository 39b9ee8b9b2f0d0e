/** `jumpscale.myjobs.worker`: one worker of jobs as others see it, made of what it says when it checks in and of what it holds. */
import { decodeData, encodeData, type Data, type DataObject, type WorkerRow } from "../core/index.ts";

/**
 *   process    a child process that a pool started, and will take away again
 *   external   started by somebody else, with a child process of its own
 *   inprocess  runs functions in the process that started it
 */
export type WorkerType = "process" | "external" | "inprocess";

/**
 *   NEW      known, and has not said that it runs
 *   WAITING  runs, and has nothing to do
 *   BUSY     runs a job
 *   HALTED   has stopped
 *   ERROR    was not heard of for too long, or its process cannot be started
 */
export type WorkerStateName = "NEW" | "ERROR" | "BUSY" | "WAITING" | "HALTED";

/** Times are epoch milliseconds, 0 is unset. */
export interface JobWorkerRecord {
  id: string;
  nr: number;
  type: WorkerType;
  /** Seconds that a job may run that has no time-out of its own; 0 is unlimited. */
  timeout: number;
  time_start: number;
  /** When it was last heard of. */
  last_update: number;
  /** The id of the job that it runs; "" when it has nothing to do. */
  current_job: string;
  /** Somebody asked it to stop. */
  halt: boolean;
  running: boolean;
  /** Of the process that runs the functions; 0 when it has stopped. */
  pid: number;
  state: WorkerStateName;
  /** What last went wrong with it; "" when nothing did. */
  error: string;
  /** The pool that it belongs to; "" when it was started by itself. */
  pool: string;
}

export const defaultTimeoutMs = 3600 * 1000;

/** What a worker of jobs tells when it checks in. */
export interface WorkerTold {
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

/** Heartbeats that may be missing before a worker is taken for dead. */
const missedBeats = 4;

export function workerOf(row: WorkerRow, currentJob: string, now: number): JobWorkerRecord {
  const data = told(row);
  const beat = number(data.heartbeat);
  const isStale = row.active && beat > 0 && now - row.lastUpdate > missedBeats * beat;
  const running = row.active && !isStale;
  const error = isStale
    ? `not heard of for ${Math.round((now - row.lastUpdate) / 1000)} s`
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
