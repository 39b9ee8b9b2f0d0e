/** Reports the outcome of units: counts, events and a log line for each failure. */
import {
  CoordinateError,
  decodeData,
  type AttemptChange,
  type AttemptChanged,
  type Clock,
  type ErrorCode,
} from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Claim } from "./claim.ts";
import type { WorkerCounts } from "./counts.ts";
import type { UnitEndEvent, UnitEvent, WorkerEvents } from "./events.ts";
import { FailureLog } from "./failure-log.ts";
import type { Alarms } from "./alarms.ts";
import type { Logger } from "./log.ts";
import type { Run } from "./run.ts";
import type { KnownSpec } from "./specs.ts";

export interface ReportsSetting {
  readonly counts: WorkerCounts;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly log: Logger;
  /** Whether the event has a listener. */
  readonly hasListener: (event: keyof WorkerEvents) => boolean;
  readonly emit: <Name extends keyof WorkerEvents>(event: Name, ...args: WorkerEvents[Name]) => void;
}

export class Reports {
  readonly #setting: ReportsSetting;
  readonly #failures: FailureLog;

  constructor(setting: ReportsSetting) {
    this.#setting = setting;
    this.#failures = new FailureLog(setting.log, setting.clock, setting.alarms);
  }

  /** Flushes the failure log when the worker has stopped. */
  close(): void {
    this.#failures.flush();
  }

  began({ name }: KnownSpec, attempt: Attempt, beganAt: number): void {
    const { hasListener, emit } = this.#setting;
    if (hasListener("began")) emit("began", unitEvent(name, attempt, beganAt));
  }

  /** Called when a change of an attempt was answered. */
  settled(claim: Claim, change: AttemptChange, answer: AttemptChanged, run: Run): void {
    const { error, changed } = answer;
    if (error === null && !changed) return;
    const { counts, hasListener, emit } = this.#setting;
    const { action } = change;
    const ended = (): UnitEndEvent => this.#ended(claim, answer.attempt, run);
    const { progress } = change;
    if (error === null && progress !== undefined && hasListener("progress"))
      emit("progress", { ...ended(), ...progress });
    if (error !== null) this.#refused(action, error, ended());
    else if (action === "finish") {
      counts.finished++;
      if (hasListener("finished")) emit("finished", ended());
    } else if (answer.status === "failed" || (action === "error" && answer.retry === undefined)) {
      counts.failed++;
      const told = ended();
      const cause = errorOf(change, run);
      if (hasListener("failed")) emit("failed", { ...told, error: cause });
      this.#logFailure(told, cause, null, 0);
    } else if (action === "error" || action === "retry") {
      counts.retried++;
      const told = ended();
      const cause = errorOf(change, run);
      const { delayMs, left } = answer.retry ?? {
        delayMs: change.delayMs ?? 0,
        left: triesLeft(claim, told),
      };
      if (hasListener("retried")) emit("retried", { ...told, error: cause, delayMs, triesLeft: left });
      // a retry without an error is not a failure
      if (cause !== null) this.#logFailure(told, cause, delayMs, left);
    }
  }

  /** Called when another client has taken the unit away while its task ran. */
  lost(claim: Claim, { id }: Attempt, run: Run, error: Error): void {
    const { counts, emit, log } = this.#setting;
    const told = this.#ended(claim, id, run);
    const { worker, workSpec, unit } = told;
    counts.refused++;
    emit("lost", { ...told, error });
    log.warn({ worker, workSpec, unit, error: error.message }, "the worker lost a running unit");
  }

  #refused(action: string, code: ErrorCode, told: UnitEndEvent): void {
    const { counts, emit, log } = this.#setting;
    const { worker, workSpec, unit } = told;
    counts.refused++;
    const error = new CoordinateError(code, told.attempt);
    emit("refused", { ...told, action, error });
    if (code === "lost_lease" || code === "gone") emit("lost", { ...told, error });
    log.warn({ worker, workSpec, unit, action, error: code }, "a settle was refused");
  }

  #logFailure(
    { worker, workSpec, unit, number }: UnitEndEvent,
    error: Error | null,
    retryInMs: number | null,
    attemptsLeft: number | null,
  ): void {
    const text = error?.message.split("\n", 1)[0] ?? "the task failed the unit without an error";
    this.#failures.add({ worker, workSpec, unit, attempt: number, error: text, retryInMs, attemptsLeft });
  }

  #ended({ workSpec }: Claim, id: string, { attempts, beganAt }: Run): UnitEndEvent {
    const attempt = attempts.length === 1 ? attempts[0] : attempts.find((one) => one.id === id);
    if (attempt === undefined) throw new CoordinateError("internal");
    const ms = beganAt === 0 ? 0 : this.#setting.clock.now() - beganAt;
    return { ...unitEvent(workSpec.name, attempt, beganAt), ms };
  }

  /** Called when a task threw after all its attempts had been settled. */
  threwLate({ worker, workSpec }: Claim, error: unknown): void {
    this.#setting.log.warn(
      { worker, workSpec: workSpec.name, err: error },
      "a task failed after all its attempts had been settled",
    );
  }

  /** With an error, their outcomes could not be stored; without one, a bulk task returned and left them open. */
  unsettled(
    { worker, workSpec: { name: workSpec } }: Claim,
    attempts: readonly Attempt[],
    error?: unknown,
  ): void {
    const { counts, emit, log } = this.#setting;
    const units = namesOf(attempts);
    counts.unsettled += units.length;
    emit("unsettled", { worker, workSpec, units });
    const details = { worker, workSpec, count: units.length, units: units.slice(0, 10) };
    if (error === undefined)
      log.warn(details, "a task returned and left attempts unsettled; they will expire");
    else log.error({ ...details, err: error }, "outcomes could not be stored; the attempts will expire");
  }

  timedOut({ worker, workSpec: { name: workSpec } }: Claim, attempts: readonly Attempt[]): void {
    const { counts, emit } = this.#setting;
    counts.timedOut += attempts.length;
    emit("timedOut", { worker, workSpec, units: namesOf(attempts) });
  }

  released(worker: string, workSpec: string, units: readonly string[]): void {
    const { counts, emit, log } = this.#setting;
    counts.released += units.length;
    log.debug({ worker, workSpec, count: units.length }, "released without a try");
    emit("released", { worker, workSpec, units });
  }
}

const namesOf = (attempts: readonly Attempt[]): string[] => attempts.map(({ workUnitName }) => workUnitName);

const unitEvent = (workSpec: string, attempt: Attempt, beganAt: number): UnitEvent => ({
  worker: attempt.workerName,
  workSpec,
  unit: attempt.workUnitName,
  attempt: attempt.id,
  number: attempt.number,
  claimedAt: attempt.startTime,
  beganAt,
});

/** The tries left after a `retry` by the task, by the limit of the work spec; null is unlimited. */
function triesLeft({ workSpec: { tryLimit } }: Claim, { number }: UnitEvent): number | null {
  return tryLimit === 0 ? null : Math.max(0, tryLimit - number);
}

/** The error that the task threw, else an error made of the stored `traceback`; null when there is neither. */
function errorOf({ data, action, error }: AttemptChange, { thrown }: Run): Error | null {
  const text = error ?? (data === null || data === undefined ? undefined : decodeData(data).traceback);
  if (typeof text === "string") {
    if (thrown instanceof Error && text.includes(thrown.message)) return thrown;
    return withStack(text);
  }
  if (action === "retry") return null;
  return thrown instanceof Error ? thrown : null;
}

function withStack(text: string): Error {
  const error = new Error(text.split("\n", 1)[0]);
  error.stack = text;
  return error;
}
