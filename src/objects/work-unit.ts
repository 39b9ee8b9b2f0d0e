/** The handle of a work unit: its state when it was last read, and methods to change it. */
import {
  CoordinateError,
  decodeData,
  isCoordinateError,
  parseAttemptId,
  type AttemptProgress,
  type CancelOptions,
  type Data,
  type DataObject,
  type DependencyRow,
  type FailReason,
  type WaitOptions,
  type WorkSpecRef,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../core/index.ts";
import type { Attempt } from "./attempt.ts";
import { waitForEnds, type WaitForOptions } from "./waiting.ts";
import { only, orGone, type Scope } from "./scope.ts";

/** The unit failed. The message has the first line of its traceback, `traceback` all of it. */
export class WorkUnitFailedError extends Error {
  override readonly name = "WorkUnitFailedError";
  readonly workSpecName: string;
  readonly workUnitName: string;
  readonly traceback: string;
  /** The data of the last attempt. */
  readonly data: DataObject;

  constructor({ workSpec, name, data }: WorkUnitRow) {
    const decoded = data === null ? {} : decodeData(data);
    const traceback = typeof decoded.traceback === "string" ? decoded.traceback : "";
    super(`work unit ${name} of ${workSpec} failed: ${firstLine(traceback)}${lastError(decoded)}`);
    this.workSpecName = workSpec;
    this.workUnitName = name;
    this.traceback = traceback;
    this.data = decoded;
  }
}

const firstLine = (text: string): string => /\S.*/.exec(text)?.[0] ?? "no reason given";

/** For a unit that used up its tries, adds the error of the last try, which is the cause. */
const lastError = ({ last_error: error, tries }: DataObject): string =>
  typeof error === "string" && typeof tries === "number"
    ? `, after ${tries} tries; the last error was ${firstLine(error)}`
    : "";

/** One step back: the attempt whose `output` made a unit, and the unit that was attempted. */
export interface LineageStep {
  attempt: Attempt;
  unit: WorkUnit;
}

/**
 * The getters return what was last read; `refresh()` reads again, as does every method that changes the unit. After the unit was
 * deleted all methods throw `gone`, even if a new unit has its name.
 *
 * A change is two requests, a read and a write: another client may delete the unit and add it again between them.
 */
export class WorkUnit<Given extends object = DataObject, Result extends object = DataObject> {
  readonly #scope: Scope;
  readonly #ref: WorkSpecRef;
  #row: WorkUnitRow;
  #data: Given | Result | null = null;

  constructor(scope: Scope, ref: WorkSpecRef, row: WorkUnitRow) {
    this.#scope = scope;
    this.#ref = ref;
    this.#row = row;
  }

  get name(): string {
    return this.#row.name;
  }

  get id(): number {
    return this.#row.id;
  }

  get workSpecName(): string {
    return this.#row.workSpec;
  }

  get status(): WorkUnitStatus {
    return this.#row.status;
  }

  /** Why it failed; null unless it has. */
  get reason(): FailReason | null {
    return this.#row.reason;
  }

  get priority(): number {
    return this.#row.priority;
  }

  /** Epoch milliseconds; 0 is no delay. */
  get notBefore(): number {
    return this.#row.notBefore;
  }

  get createdTime(): number {
    return this.#row.createdTime;
  }

  /** How many attempts were ever made. */
  get attemptCount(): number {
    return this.#row.attempts;
  }

  /** The id of the attempt whose `output` made this unit, or null. */
  get origin(): string | null {
    return this.#row.origin;
  }

  get dependencies(): readonly DependencyRow[] {
    return this.#row.dependencies;
  }

  /** The queues that get a message when the unit ends. */
  get queues(): readonly string[] {
    return this.#row.queues;
  }

  get labels(): readonly string[] {
    return this.#row.labels;
  }

  /** From `deadline` on the unit is late and goes first; at `expires` it fails unless it has begun. Null is never. */
  get deadline(): number | null {
    return this.#row.deadline ?? null;
  }

  get expires(): number | null {
    return this.#row.expires ?? null;
  }

  /** The partition that the unit is counted under if its work spec has rules for partitions; empty for none. */
  get partition(): string {
    return this.#row.partition;
  }

  /** Pending, finished or failed; null while the unit waits. */
  get activeAttempt(): Attempt<Given | Result, Result> | null {
    const { activeAttempt } = this.#row;
    return activeAttempt === null ? null : this.#scope.attempt<Given | Result, Result>(activeAttempt);
  }

  /**
   * The active attempt's data if it has any, else the unit's own; `{}` when there is none. Decoded on first access, and the same
   * object each time. Changing it has no effect on the store.
   */
  get data(): Given | Result {
    // the type is the one that the work spec declares for its units
    this.#data ??= (this.#row.data === null ? {} : decodeData(this.#row.data)) as Given | Result;
    return this.#data;
  }

  /** The data as it is stored, in the encoding it came in; null when there is none. */
  get rawData(): Data | null {
    return this.#row.data;
  }

  /** Reads the unit again. */
  async refresh(): Promise<this> {
    const { verbs, ns } = this.#scope;
    const row = only(await this.#seen(verbs.getWorkUnits(ns, this.#ref, [this.name])));
    if (row?.id !== this.id) throw new CoordinateError("gone", this.name);
    this.#row = row;
    this.#data = null;
    return this;
  }

  /** Waits until the unit has ended, for at most `waitMs`, and updates this handle. */
  async ended(options: WaitOptions = {}): Promise<this> {
    const { verbs, ns } = this.#scope;
    const row = only(await this.#seen(verbs.awaitWorkUnits(ns, this.#ref, [this.name], options)));
    if (row?.id !== this.id) throw new CoordinateError("gone", this.name);
    this.#row = row;
    this.#data = null;
    return this;
  }

  /**
   * The result of the task. Waits until the unit has ended, at most `waitMs` if given. Throws a `WorkUnitFailedError` when it
   * failed, `gone` when it was deleted, a `NotEndedError` after the timeout, and the reason of the signal when that aborts.
   */
  async result(options: WaitForOptions = {}): Promise<Result> {
    const { verbs, ns } = this.#scope;
    const row = only(await this.#seen(waitForEnds(verbs, ns, this.#ref, [this.name], options)));
    if (row?.id !== this.id) throw new CoordinateError("gone", this.name);
    this.#row = row;
    this.#data = null;
    if (row.status === "failed") throw new WorkUnitFailedError(row);
    // the unit has finished: its data is the result
    return this.data as Result;
  }

  /** The last progress report of the running attempt; null when there is none, and when nothing runs. */
  get progress(): AttemptProgress | null {
    return this.#row.activeAttempt?.progress ?? null;
  }

  /**
   * Fails the unit, whether it waits or runs; the task of a running unit is notified. `by` and `why` are kept in its traceback. A
   * unit that has ended is not changed.
   */
  async cancel(options: CancelOptions = {}): Promise<this> {
    return this.#change((verbs, ns, ref, which) => verbs.cancelWorkUnits(ns, ref, which, options));
  }

  /** Every attempt, in the order they were made. */
  async attempts(): Promise<Attempt<Given | Result, Result>[]> {
    const { verbs, ns } = this.#scope;
    await this.refresh();
    const rows = await this.#seen(verbs.listUnitAttempts(ns, this.#ref, this.name));
    return rows.map((row) => this.#scope.attempt<Given | Result, Result>(row));
  }

  async setPriority(priority: number): Promise<this> {
    return this.#change((verbs, ns, ref, which) =>
      verbs.setWorkUnitPriorities(ns, ref, which, { set: priority }),
    );
  }

  /** Adds to the priority; below 0 lowers it. */
  async adjustPriority(by: number): Promise<this> {
    return this.#change((verbs, ns, ref, which) =>
      verbs.setWorkUnitPriorities(ns, ref, which, { adjust: by }),
    );
  }

  /** The unit may not be claimed before this time, in epoch milliseconds; 0 is at once. */
  async setDelay(notBefore: number): Promise<this> {
    return this.#change((verbs, ns, ref, which) => verbs.setWorkUnitDelays(ns, ref, which, notBefore));
  }

  /**
   * Detaches the unit from its active attempt: it is available again with its own data, keeps its history, and its retries are
   * counted from zero. A unit without an active attempt is not changed.
   */
  async clearActiveAttempt(): Promise<this> {
    return this.#change((verbs, ns, ref, which) => verbs.resetWorkUnits(ns, ref, which));
  }

  /** Deletes the unit with its attempts. */
  async delete(): Promise<void> {
    const { verbs, ns } = this.#scope;
    await this.refresh();
    const count = await this.#seen(verbs.deleteWorkUnits(ns, this.#ref, { names: [this.name] }));
    if (count === 0) throw new CoordinateError("gone", this.name);
  }

  /**
   * The origin of this unit, nearest step first: the attempt whose output made this unit, with the unit of that attempt, then the
   * origin of that unit, and so on. Ends at a unit that no output made, at a deleted one, and where a cycle closes.
   */
  async lineage(): Promise<LineageStep[]> {
    const { verbs, ns } = this.#scope;
    const steps: LineageStep[] = [];
    const seen = new Set<string>();
    await this.refresh();
    for (let origin = this.origin; origin !== null && !seen.has(origin);) {
      seen.add(origin);
      const attempt = only(await verbs.getAttempts(ns, [origin]));
      if (attempt === null) break;
      const [row = null] = await verbs
        .getWorkUnits(ns, attempt.workSpec, [attempt.workUnit])
        .catch(noUnitsIfSpecGone);
      if (row === null || row.id !== parseAttemptId(origin)?.unitId) break;
      steps.push({
        attempt: this.#scope.attempt(attempt),
        unit: this.#scope.workUnit(attempt.workSpec, row),
      });
      origin = row.origin;
    }
    return steps;
  }

  /** Reads the unit first, so that a newer unit of the same name is not changed, and again afterwards, to return the new state. */
  async #change(
    step: (
      verbs: Scope["verbs"],
      ns: string,
      ref: WorkSpecRef,
      which: { names: readonly string[] },
    ) => Promise<number>,
  ): Promise<this> {
    const { verbs, ns } = this.#scope;
    await this.refresh();
    await this.#seen(step(verbs, ns, this.#ref, { names: [this.name] }));
    return this.refresh();
  }

  #seen<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return orGone(this.name, answer);
  }
}

/** Returns no units if the work spec was deleted meanwhile. */
function noUnitsIfSpecGone(error: unknown): [] {
  if (isCoordinateError(error, "no_such_work_spec")) return [];
  throw error;
}
