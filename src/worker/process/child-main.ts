/**
 * The program of the child processes that `processRuntime` starts to run tasks.
 *
 * It communicates over file descriptor 3 only, so that output of a task goes to the log and cannot be mistaken for a message. When
 * this channel closes, the supervisor is gone and the child exits.
 *
 * A task gets attempts and a context, as in the worker's own process. Settlements, progress and renewals are sent to the supervisor;
 * a child has no store, and all other verbs are refused.
 */
import { Socket } from "node:net";
import {
  CoordinateError,
  decodeData,
  encodeData,
  isCoordinateError,
  systemClock,
  type AttemptChange,
  type AttemptChanged,
  type AttemptRow,
  type Coordinate,
  type Data,
} from "../../core/index.ts";
import { handles, type Attempt } from "../../objects/index.ts";
import { loggerTo, type Logger, type TaskLog } from "../log.ts";
import { isDecision } from "../outcome.ts";
import { findTaskName, type Tasks } from "../runtime.ts";
import { endedByStop } from "../stops.ts";
import { isBulk, type BulkContext } from "../task.ts";
import { loadTasks } from "../tasks-file.ts";
import { readable, traceback } from "../traceback.ts";
import { whyUnstorable } from "../unstorable.ts";
import { encodeMessage, FrameReader, type Head, type Message } from "./frame.ts";
import {
  answeredError,
  readStop,
  readText,
  type AnswerHead,
  type DoneHead,
  type LinesHead,
  type LogHead,
  type ReadyHead,
  type RunHead,
  type TaskFailure,
} from "./messages.ts";
import { runUnits } from "./units.ts";

/** The supervisor's coordinator checks the size. */
const unlimited = { maxBytes: Infinity };
const channel = new Socket({ fd: 3 });
const reader = new FrameReader();
const waiting = new Map<number, { resolve(answer: AnswerHead): void; reject(error: Error): void }>();
let tasks: Tasks = {};
let concurrency = 1;
let lastRef = 0;
let running: { signal: AbortController; expired: AbortController } | null = null;

channel.on("data", (chunk) => {
  for (const message of reader.push(chunk)) receive(message);
});
// as in the worker's own process: an unhandled rejection must not end the other units
process.on("unhandledRejection", (error) => {
  childLogger().error({ err: error }, "unhandled promise rejection");
});
channel.on("error", () => process.exit(0));
channel.on("close", () => process.exit(0));

function receive({ head, data }: Message): void {
  switch (head.kind) {
    case "start":
      concurrency = Number(head.concurrency ?? 1);
      void start(readText(head, "tasks"));
      break;
    case "run":
      void run(head as unknown as RunHead, data);
      break;
    case "signal":
      running?.signal.abort(readStop(head));
      break;
    case "expired":
      running?.signal.abort(readStop(head));
      running?.expired.abort(readStop(head));
      break;
    case "answer":
      receiveAnswer(head as unknown as AnswerHead);
      break;
  }
}

function receiveAnswer(answer: AnswerHead): void {
  const waiter = waiting.get(answer.ref);
  waiting.delete(answer.ref);
  if (answer.error === null) waiter?.resolve(answer);
  else waiter?.reject(answeredError(answer.error));
}

function send(head: Head, data: readonly (Data | null)[] = []): void {
  channel.write(encodeMessage({ head, data }));
}

async function ask(head: Head, data: Data | null = null): Promise<AnswerHead> {
  const ref = ++lastRef;
  const answered = new Promise<AnswerHead>((resolve, reject) => waiting.set(ref, { resolve, reject }));
  send({ ...head, ref }, [data]);
  return answered;
}

async function start(file: string): Promise<void> {
  try {
    tasks = await loadTasks(file);
    const bulkNames = Object.entries(tasks).flatMap(([name, task]) => (isBulk(task) ? [name] : []));
    send({ kind: "ready", taskNames: Object.keys(tasks), bulkNames } satisfies ReadyHead);
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    channel.end(encodeMessage({ head: { kind: "failed", text }, data: [] }));
  }
}

async function run(head: RunHead, [specData, ...unitData]: readonly (Data | null)[]): Promise<void> {
  const signal = new AbortController();
  const expired = new AbortController();
  running = { signal, expired };
  let error: TaskFailure | null = null;
  let left: Data | null = null;
  let logging: NodeJS.Timeout | undefined;
  try {
    const task = tasks[findTaskName(Object.keys(tasks), head.task) ?? ""];
    if (task === undefined) throw new Error(`no such task: ${head.task}`);
    const rows = head.units.map((unit, i): AttemptRow => ({
      ...unit,
      workSpec: head.workSpec,
      data: unitData[i] ?? null,
    }));
    const attempts = await handles(verbsOf(rows)).namespace().worker(head.worker).requestAttempts();
    const workSpec = { name: head.workSpec, data: specData ? decodeData(specData) : {} };
    const context = contextOf(head.worker, workSpec, signal.signal, expired.signal);
    logging = setInterval(() => attempts.forEach(sendLines), sendLinesMs);
    if (isBulk(task)) await task.bulk(attempts, context);
    else await runUnits(task, attempts, context, concurrency, logOf);
  } catch (thrown) {
    try {
      [error, left] = failureOf(readable(thrown), signal.signal);
    } catch (unencoded) {
      error = { text: whyUnstorable(unencoded) ?? traceback(unencoded), decision: "fail", delayMs: 0 };
    }
  }
  clearInterval(logging);
  running = null;
  send({ kind: "done", error } satisfies DoneHead, [left]);
}

/** Describes what a task threw, with the data of `retry(ms, data)`. Throws when that data cannot be encoded. */
function failureOf(thrown: unknown, signal: AbortSignal): [TaskFailure, Data | null] {
  if (isDecision(thrown, "Fail")) return [{ text: thrown.message, decision: "fail", delayMs: 0 }, null];
  const text = traceback(thrown);
  // the unit is available at once, and this does not count as a try
  if (endedByStop(thrown, signal.reason)) return [{ text, decision: "snooze", delayMs: 0 }, null];
  if (isDecision(thrown, "Retry")) {
    const left = thrown.data === undefined ? null : encodeData(thrown.data, unlimited);
    return [{ text, decision: "retry", delayMs: thrown.delayMs }, left];
  }
  if (isDecision(thrown, "Snooze")) return [{ text, decision: "snooze", delayMs: thrown.delayMs }, null];
  return [{ text, decision: null, delayMs: 0 }, null];
}

/** The verbs that attempt handles need: one returns the rows of the run, the other settles. All others are refused. */
function verbsOf(rows: AttemptRow[]): Coordinate {
  const known: Partial<Coordinate> = {
    requestAttempts: () => Promise.resolve(rows),
    settleAttempts: (_ns, changes) => Promise.all(changes.map(settle)),
  };
  return new Proxy(known, {
    get: (target, verb): unknown =>
      Reflect.get(target, verb) ??
      (() =>
        Promise.reject(
          new CoordinateError("not_supported", `${String(verb)} cannot be called in a child process`),
        )),
  }) as Coordinate;
}

/** Set while `context.progress` calls `renew`: the expiration time of the lease, which the progress does not change. */
let leaseOfProgress: number | null = null;

/** How often lines of `attempt.log` are sent while a task runs. */
const sendLinesMs = 500;

/** Sends the log lines to the supervisor, which numbers and stores them. */
function sendLines(attempt: Attempt): void {
  const unsent = attempt.unstoredLog;
  if (unsent === null) return;
  send({ kind: "lines", attempt: attempt.id, lines: unsent.lines } satisfies LinesHead);
  attempt.storedLog(unsent);
}

async function settle({ data = null, log, ...change }: AttemptChange): Promise<AttemptChanged> {
  const { attempt } = change;
  if (log !== undefined) send({ kind: "lines", attempt, lines: log.lines } satisfies LinesHead);
  const lease = leaseOfProgress;
  const nothing = { attempt, outputs: 0, chainingErrors: [] };
  try {
    if (lease !== null) {
      await ask({ kind: "progress", attempt }, data);
      return { ...nothing, error: null, changed: true, status: "pending", expirationTime: lease };
    }
    const { changed } = await ask({ kind: "settle", ...change }, data);
    if (changed === null) throw new Error("a settle was answered without its outcome");
    return changed;
  } catch (error) {
    if (!isCoordinateError(error)) throw error;
    return { ...nothing, error: error.code, changed: false, status: null, expirationTime: 0 };
  }
}

function contextOf(
  worker: string,
  workSpec: BulkContext["workSpec"],
  signal: AbortSignal,
  expired: AbortSignal,
): BulkContext {
  return {
    signal,
    expired,
    log: childLogger(),
    workSpec,
    worker,
    clock: systemClock(),
    progress: async (attempt: Attempt, progress: number | object, note = "") => {
      if (typeof progress === "number") {
        await ask({ kind: "progress", attempt: attempt.id, done: progress, note });
        return;
      }
      const data = progress;
      // call `renew` so that the handle keeps the data as well; `settle` sends it as a progress message
      leaseOfProgress = attempt.expirationTime;
      const written = attempt.renew(undefined, data);
      leaseOfProgress = null;
      await written;
    },
    renew: async (lifetimeMs?: number) => {
      await ask({ kind: "renew", ...(lifetimeMs !== undefined && { lifetimeMs }) });
    },
  };
}

/** The log of one unit's task. Its lines are stored with the attempt. */
function logOf({ id }: Attempt): TaskLog {
  const logger = childLogger(id);
  return Object.assign(logger.info.bind(logger), logger);
}

function childLogger(attempt?: string): Logger {
  return loggerTo((level, text, details) =>
    send({
      kind: "log",
      level,
      text,
      details: plain(details),
      ...(attempt !== undefined && { attempt }),
    } satisfies LogHead),
  );
}

/** Makes the details of a log line plain JSON: errors become their message, details that JSON cannot encode a placeholder text. */
function plain(details: object): object {
  try {
    const text = JSON.stringify(details, (_key, value: unknown) => {
      if (value instanceof Error) return value.message;
      return typeof value === "bigint" ? String(value) : value;
    });
    return JSON.parse(text) as object;
  } catch {
    return { details: "could not be written" };
  }
}
