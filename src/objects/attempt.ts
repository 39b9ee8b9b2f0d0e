/** The handle of an attempt: its data, and the methods to settle it. */
import {
  CoordinateError,
  dataWith,
  decodeData,
  lengthOfChange,
  lineText,
  parseAttemptId,
  throwChanged,
  type AttemptAction,
  type AttemptChange,
  type AttemptChanged,
  type AttemptLines,
  type AttemptLog,
  type AttemptProgress,
  type AttemptRow,
  type AttemptStatus,
  type Coordinate,
  type Data,
  type DataObject,
  type GivenReason,
  type LogLevel,
} from "../core/index.ts";
import { Chunk } from "./chunk.ts";
import { LogBuffer } from "./log-buffer.ts";
import { encodeIfAny, only, orGone, type Scope } from "./scope.ts";
import type { WorkUnit } from "./work-unit.ts";

export interface RetryOptions {
  /** The unit waits this long; available at once when absent. */
  delayMs?: number;
  data?: object | Data;
}

export interface ErrorOptions {
  data?: object | Data;
  /** Why the unit failed, if it is not retried; `error` when absent. */
  reason?: GivenReason;
}

export interface SettleAllOptions {
  /** The data of each attempt; undefined keeps its current data. */
  data?: (attempt: Attempt) => object | Data | undefined;
  /** `retry`: the units wait this long. */
  delayMs?: number;
  /** `renew`: the leases end this long from now; 15 minutes when absent. */
  lifetimeMs?: number;
}

/**
 * The getters return the last known state of the attempt. A successful change updates them. A refused one throws
 * `not_pending`, `lost_lease`, `gone` or `no_such_attempt` and updates `status` if the answer has it. `endTime` and `late` are
 * updated by `refresh()` only.
 */
export class Attempt<Given extends object = DataObject, Result extends object = object> {
  readonly #scope: Scope;
  readonly #lifetimeMs: number;
  #row: AttemptRow;
  #data: Given | null = null;
  #log: LogBuffer | null = null;

  constructor(scope: Scope, row: AttemptRow) {
    this.#scope = scope;
    this.#row = row;
    this.#lifetimeMs = row.expirationTime - row.startTime;
  }

  get id(): string {
    return this.#row.id;
  }

  get workSpecName(): string {
    return this.#row.workSpec;
  }

  get workUnitName(): string {
    return this.#row.workUnit;
  }

  get workerName(): string {
    return this.#row.worker;
  }

  /** 1 for the unit's first attempt. */
  get number(): number {
    return this.#row.number;
  }

  get status(): AttemptStatus {
    return this.#row.status;
  }

  /** Whether it is its unit's active attempt: pending, finished or failed, and not replaced. */
  get active(): boolean {
    return this.#row.active;
  }

  get startTime(): number {
    return this.#row.startTime;
  }

  /** 0 while it runs. */
  get endTime(): number {
    return this.#row.endTime;
  }

  get expirationTime(): number {
    return this.#row.expirationTime;
  }

  /** Whether it was settled after its lease had expired. */
  get late(): boolean {
    return this.#row.late;
  }

  /** The last progress report of its worker; null when there is none, and when the attempt does not run. */
  get reported(): AttemptProgress | null {
    return this.#row.progress;
  }

  /** The errors in its `output`: entries that could not be read. */
  get chainingErrors(): readonly string[] {
    return this.#row.chainingErrors;
  }

  /**
   * The data that the attempt wrote, else the data that it was given; `{}` when there is none. Decoded on first access, and the
   * same object each time. Changing it has no effect on the store until it is passed to `finish` or another change.
   */
  get data(): Given {
    // the type is the one that the work spec declares for its units
    this.#data ??= (this.#row.data === null ? {} : decodeData(this.#row.data)) as Given;
    return this.#data;
  }

  /** The data as it is stored, in the encoding it came in; null when there is none. */
  get rawData(): Data | null {
    return this.#row.data;
  }

  /** Reads the unit. Throws `gone` when it was deleted, even if a new unit has its name. */
  async workUnit(): Promise<WorkUnit<Given, Result>> {
    const { verbs, ns } = this.#scope;
    const { workSpec, workUnit: name } = this.#row;
    const row = only(await orGone(name, verbs.getWorkUnits(ns, workSpec, [name])));
    if (row === null || row.id !== parseAttemptId(this.id)?.unitId) throw new CoordinateError("gone", name);
    return this.#scope.workUnit<Given, Result>(workSpec, row);
  }

  /** Reads the attempt again. Throws `gone` when its unit was deleted. */
  async refresh(): Promise<this> {
    const row = only(await this.#scope.verbs.getAttempts(this.#scope.ns, [this.id]));
    if (row === null) throw new CoordinateError("gone", this.id);
    this.#row = row;
    this.#data = null;
    return this;
  }

  /**
   * Finishes the attempt. `data` is the result, as an object or already encoded; its `output` makes units of the next work spec
   * in the same step.
   */
  finish(data?: Result | Data): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "finish" }, data);
  }

  fail(data?: object | Data): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "fail" }, data);
  }

  /** Fails the attempt with its current data, and with this text for people as its `traceback`. */
  async failWith(traceback: string): Promise<AttemptChanged> {
    const data = dataWith(this.rawData, "traceback", traceback);
    return this.#settle({ attempt: this.id, action: "fail", data });
  }

  /**
   * Ends the attempt with an error, with this text as its `traceback`. The retry policy of the unit or its work spec decides what
   * follows: the unit is retried after the backoff, and `retry` of the answer tells when; or it fails.
   */
  async error(traceback?: string, { data, reason }: ErrorOptions = {}): Promise<AttemptChanged> {
    return this.#settle({
      attempt: this.id,
      action: "error",
      data: encodeIfAny(data),
      ...(traceback !== undefined && { error: traceback }),
      ...(reason !== undefined && { reason }),
    });
  }

  /** Gives the unit back for a retry, after `delayMs` if given. */
  retry({ delayMs = 0, data }: RetryOptions = {}): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "retry", delayMs }, data);
  }

  /** Postpones the unit: as `retry`, but it does not count as a try. */
  async snooze(delayMs: number): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "retry", delayMs, untried: true });
  }

  /** Gives the lease back: the unit is available at once. */
  expire(data?: object | Data): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "expire" }, data);
  }

  /** Gives back a unit that was not begun: as `expire`, but it does not count as a try. */
  release(): Promise<AttemptChanged> {
    return this.#settle({ attempt: this.id, action: "expire", untried: true });
  }

  /**
   * Renews the lease: it ends `lifetimeMs` from now, 15 minutes when absent; zero or less gives it back at once. The data of a
   * renewal that comes too late is still stored on this attempt, and `lost_lease` is thrown.
   */
  renew(lifetimeMs?: number, data?: object | Data): Promise<AttemptChanged> {
    const lifetime = lifetimeMs === undefined ? {} : { lifetimeMs };
    return this.#settle({ attempt: this.id, action: "renew", ...lifetime }, data);
  }

  /**
   * Reports progress from 0 to 1, with a note for people. The report is sent with a renewal, so the lease starts again with
   * its original length.
   */
  progress(done: number, note = ""): Promise<AttemptChanged> {
    const lifetimeMs = this.#lifetimeMs > 0 ? { lifetimeMs: this.#lifetimeMs } : {};
    return this.#settle({ attempt: this.id, action: "renew", ...lifetimeMs, progress: { done, note } });
  }

  /**
   * Adds a line to the log of the attempt, which keeps the newest 1,000 lines and 64 KiB at most. The line is sent with the next
   * renewal or settlement, or by `flushLog`; a worker sends it within a second. This handle numbers the lines, so only the
   * process that runs the attempt should call this.
   */
  log(text: string, { level = "info", time }: { level?: LogLevel; time?: number } = {}): void {
    const line = { text: lineText(text), level, ...(time !== undefined && { time }) };
    (this.#log ??= new LogBuffer()).add(line);
    this.#scope.wrote?.(this as Attempt);
  }

  /** Sends the log lines that are not stored yet. */
  async flushLog(): Promise<void> {
    const lines = this.unstoredLog;
    if (lines === null) return;
    const { verbs, ns } = this.#scope;
    const exists = only(await verbs.writeAttemptLogs(ns, [{ attempt: this.id, ...lines }]));
    if (!exists) throw new CoordinateError("gone", this.id);
    this.storedLog(lines);
  }

  /** Reads the kept log lines with a number above `after`. */
  async readLog(after = 0): Promise<AttemptLog> {
    const log = only(await this.#scope.verbs.getAttemptLogs(this.#scope.ns, [this.id], { after }));
    if (log === null) throw new CoordinateError("gone", this.id);
    return log;
  }

  /** Lines that are not known to be stored. */
  get unstoredLog(): AttemptLines | null {
    return this.#log?.unstored ?? null;
  }

  /** Marks lines as stored. */
  storedLog(lines: AttemptLines): void {
    this.#log?.stored(lines);
  }

  /** Sends one change. The callers return this promise as it is; data that cannot be encoded rejects it, too. */
  async #settle(change: AttemptChange, data?: object | Data): Promise<AttemptChanged> {
    const { verbs, ns } = this.#scope;
    if (data !== undefined) change.data = encodeIfAny(data);
    this.carryLog(change);
    const changed = only(await verbs.settleAttempts(ns, [change]));
    this.heard(change, changed);
    return throwChanged(changed);
  }

  /** Attaches the log lines that are not stored yet to a change that is about to be sent. */
  carryLog(change: AttemptChange): void {
    const lines = this.unstoredLog;
    if (lines !== null) change.log = lines;
  }

  /**
   * Updates this handle from the answer to a change, for a change that was not made through this handle. The answer to a repeated
   * change has the status that the attempt already had.
   */
  heard(
    { action, data: given, error: text, progress, log }: AttemptChange,
    { error, changed, status, expirationTime, chainingErrors }: AttemptChanged,
  ): void {
    if (log !== undefined) this.storedLog(log);
    if (status === null) return;
    const data = text === undefined ? given : dataWith(given ?? this.#row.data, "traceback", text);
    const wrote = changed || (error === "lost_lease" && action === "renew");
    const written = wrote && data !== undefined && data !== null;
    const mayBeActive = status === "pending" || status === "finished" || status === "failed";
    // a single copy: this runs for every unit of a busy worker
    this.#row = {
      ...this.#row,
      status,
      expirationTime,
      data: written ? data : this.#row.data,
      chainingErrors: changed ? chainingErrors : this.#row.chainingErrors,
      active: mayBeActive && (changed || this.#row.active),
      progress: status === "pending" ? (progress ?? this.#row.progress) : null,
    };
    if (written) this.#data = null;
  }

  /**
   * Settles many attempts with the same action, in one request per namespace and 1,000 attempts or 8 MiB of data and logs. The attempts
   * are independent: returns one answer per attempt, in order, with `error` set for refused ones, and does not throw for them.
   */
  static async settleAll(
    attempts: Iterable<Attempt>,
    action: AttemptAction,
    { data, delayMs, lifetimeMs }: SettleAllOptions = {},
  ): Promise<AttemptChanged[]> {
    const all = [...attempts];
    const changes = all.map((attempt): AttemptChange => ({
      attempt: attempt.id,
      action,
      data: encodeIfAny(data?.(attempt)),
      ...(delayMs !== undefined && { delayMs }),
      ...(lifetimeMs !== undefined && { lifetimeMs }),
    }));
    all.forEach((attempt, i) => attempt.carryLog(changes[i]!));
    const answers: AttemptChanged[] = [];
    for (const { verbs, ns, chunk } of Attempt.#chunks(all, changes)) {
      const places = chunk.items;
      const asked = places.map((place) => changes[place]!);
      const changed = await verbs.settleAttempts(ns, asked);
      places.forEach((place, i) => {
        answers[place] = changed[i]!;
        all[place]!.heard(asked[i]!, changed[i]!);
      });
    }
    return answers;
  }

  /** Positions in the list, in chunks by coordinate and namespace. */
  static #chunks(
    attempts: readonly Attempt[],
    changes: readonly AttemptChange[],
  ): { verbs: Coordinate; ns: string; chunk: Chunk<number> }[] {
    const found: { verbs: Coordinate; ns: string; chunk: Chunk<number> }[] = [];
    const filling = new Map<Coordinate, Map<string, Chunk<number>>>();
    attempts.forEach((attempt, place) => {
      const { verbs, ns } = attempt.#scope;
      const byNamespace = filling.get(verbs) ?? new Map<string, Chunk<number>>();
      filling.set(verbs, byNamespace);
      const length = lengthOfChange(changes[place]!);
      let chunk = byNamespace.get(ns);
      if (chunk?.fits(length) !== true) {
        byNamespace.set(ns, (chunk = new Chunk()));
        found.push({ verbs, ns, chunk });
      }
      chunk.push(place, length);
    });
    return found;
  }
}
