/** The handle of a work spec: by name, or pinned to one spec by its id. */
import {
  eachRow,
  type PageStart,
  checkOptions,
  CoordinateError,
  decodeData,
  describeValue,
  missingWorkSpec,
  workSpecName,
  workUnitInput,
  type AddedWorkUnit,
  type AddWorkUnitsOptions,
  type AwaitOptions,
  type CancelOptions,
  type DataObject,
  type PartitionRow,
  type SetWorkSpecOptions,
  type Tally,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecRef,
  type WorkSpecRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitSelection,
} from "../core/index.ts";
import { Chunk } from "./chunk.ts";
import { checkSlips, type NoData } from "./define-spec.ts";
import { encode, encodeIfAny, only, pageLimit, type PageOptions, type Scope } from "./scope.ts";
import { checkedBy, type StandardSchema } from "./standard-schema.ts";
import { waitForEnds, type WaitForOptions } from "./waiting.ts";
import type { WorkUnit } from "./work-unit.ts";

export type { WaitForOptions } from "./waiting.ts";

/** The type of unit data when it is read: `DataObject` where the data may be any object. */
export type ReadData<Data extends object> = object extends Data
  ? keyof Data extends never
    ? DataObject
    : Data
  : Data;

export type AddOptions = Omit<WorkUnitInput, "name" | "data">;

// a parameter of type `void` may be omitted
/* eslint-disable @typescript-eslint/no-invalid-void-type */
/** The data of a unit to add. It may be omitted if it has no required keys. */
export type AddData<Data extends object> = Data | (NoData extends Data ? null | undefined | void : never);
/* eslint-enable @typescript-eslint/no-invalid-void-type */

/** A unit to add: an object, or a pair of name and data. The data may be omitted if it has no required keys. */
export type NewWorkUnit<Data extends object = object> =
  | (Omit<WorkUnitInput, "data"> & { data: Data })
  | readonly [name: string, data: Data]
  | (NoData extends Data
      ? (Omit<WorkUnitInput, "data"> & { data?: Data | null }) | readonly [name: string, data?: Data | null]
      : never);

export interface AddProgress {
  /** Units written so far. */
  count: number;
  /** How many of them did not exist before. */
  created: number;
}

export interface AddManyOptions extends Pick<AddWorkUnitsOptions, "onConflict" | "waitMs" | "signal"> {
  /** Called after every chunk, with the totals so far and the answer to the chunk. */
  onProgress?: (progress: AddProgress, chunk: readonly AddedWorkUnit[]) => void;
}

export type WorkUnitListing = Omit<WorkUnitQuery, "limit"> & PageOptions;

const unitOptions = Object.keys(workUnitInput.properties ?? {});

/**
 * A handle by name refers to the spec that has the name when a method is called; methods throw `no_such_work_spec` when there is
 * none. A pinned handle, with an `id`, refers to one spec: after that spec was deleted every method throws `gone`, even if a new
 * spec has its name. For a spec made by `defineSpec`, `Data` is the type of the units' data and `Result` the type of their
 * results; the schema of the definition, if any, checks the data.
 */
export class WorkSpec<Data extends object = object, Result extends object = DataObject> {
  readonly #scope: Scope;
  readonly #ref: WorkSpecRef;
  readonly #schema: StandardSchema | undefined;

  constructor(scope: Scope, ref: WorkSpecRef, schema?: StandardSchema) {
    this.#scope = scope;
    this.#ref = ref;
    this.#schema = schema;
  }

  get name(): string {
    return workSpecName(this.#ref);
  }

  /** Null for a handle by name. */
  get id(): number | null {
    return typeof this.#ref === "string" ? null : this.#ref.id;
  }

  // ---- the spec itself

  async data(): Promise<DataObject> {
    return decodeData((await this.#read()).data);
  }

  /**
   * Replaces the data of an existing spec and, unless `keepMeta`, resets its metadata to the values that the data gives. The name
   * cannot be changed (`changed_name`).
   */
  async setData(data: object, options: SetWorkSpecOptions = {}): Promise<void> {
    checkSlips(data);
    const { verbs, ns } = this.#scope;
    // the verb would create a missing spec; a handle changes only an existing one
    await this.#read();
    const row = only(await verbs.setWorkSpecs(ns, [{ data: encode(data), name: this.name }], options));
    if (this.id !== null && row.id !== this.id) throw missingWorkSpec(this.#ref);
  }

  async meta(): Promise<WorkSpecMeta> {
    return (await this.#read()).meta;
  }

  /** Returns the resulting metadata: `continuous` stays off for a spec that cannot be continuous. */
  async setMeta(change: WorkSpecMetaChange): Promise<WorkSpecMeta> {
    const { verbs, ns } = this.#scope;
    return verbs.setWorkSpecMeta(ns, this.#ref, change);
  }

  /** Stops new attempts; running ones go on. */
  async pause(): Promise<WorkSpecMeta> {
    return this.setMeta({ paused: true });
  }

  async resume(): Promise<WorkSpecMeta> {
    return this.setMeta({ paused: false });
  }

  /** Exact numbers of units by status. */
  async counts(): Promise<Tally> {
    const { verbs, ns } = this.#scope;
    // the tally is by name: for a pinned handle, check that the name still belongs to the same spec
    if (this.id !== null) await this.#read();
    const row = (await verbs.tally(ns)).find(({ workSpec }) => workSpec === this.name);
    if (row === undefined) throw missingWorkSpec(this.#ref);
    return row.counts;
  }

  /**
   * The partitions with units that wait, run or are to be retried, in name order, and what holds each back. None if the work spec
   * has no rules for partitions.
   */
  async *partitions({ pageSize }: PageOptions = {}): AsyncGenerator<PartitionRow, void, undefined> {
    const { verbs, ns } = this.#scope;
    const read = (from: PageStart) =>
      verbs.listPartitions(ns, this.#ref, { ...pageLimit(pageSize), ...from });
    yield* eachRow(read);
  }

  /** Deletes the spec with its units and their attempts. */
  async delete(): Promise<void> {
    const { verbs, ns } = this.#scope;
    if (!only(await verbs.deleteWorkSpecs(ns, [this.#ref]))) throw missingWorkSpec(this.#ref);
  }

  async #read(): Promise<WorkSpecRow> {
    const { verbs, ns } = this.#scope;
    const row = only(await verbs.getWorkSpecs(ns, [this.#ref]));
    if (row === null) throw missingWorkSpec(this.#ref);
    return row;
  }

  // ---- its units

  /** Adds one unit, or overwrites the unit of this name, and reads it back. */
  async addWorkUnit(
    name: string,
    data: AddData<Data>,
    options: AddOptions = {},
  ): Promise<WorkUnit<ReadData<Data>, Result>> {
    const { verbs, ns } = this.#scope;
    checkOptions("a work unit", options, unitOptions);
    await this.#check(name, data);
    const unit = { ...options, name, data: encodeIfAny(data as Data | null | undefined) };
    const added = only(await verbs.addWorkUnits(ns, this.#ref, [unit]));
    const row = only(await verbs.getWorkUnits(ns, this.#ref, [added.name]));
    if (row?.id !== added.id) throw new CoordinateError("gone", added.name);
    return this.#scope.workUnit(this.#ref, row);
  }

  /** Throws `bad_data` for data that the schema of the definition refuses. */
  async #check(name: string, data: unknown): Promise<void> {
    if (this.#schema === undefined) return;
    await checkedBy(this.#schema, data ?? {}, `work unit ${JSON.stringify(name)}`);
  }

  /**
   * Adds any number of units, in chunks of 1,000 units or 8 MiB of data, reading no further ahead than one chunk. Each chunk is
   * added whole or not at all; when one is refused, or the input throws, the chunks before it stay. Several chunks take several
   * requests, and workers may claim the first units before the last are added.
   */
  async addWorkUnits(
    units: Iterable<NewWorkUnit<Data>> | AsyncIterable<NewWorkUnit<Data>>,
    { onProgress, ...options }: AddManyOptions = {},
  ): Promise<AddProgress> {
    const { verbs, ns } = this.#scope;
    const given: unknown = units;
    if (
      typeof given !== "object" ||
      given === null ||
      !(Symbol.iterator in given || Symbol.asyncIterator in given)
    )
      throw new CoordinateError(
        "bad_argument",
        `units: expected a list of [name, data] or { name, data }, got ${describeValue(given)}`,
      );
    const progress: AddProgress = { count: 0, created: 0 };
    for await (const chunk of this.#inChunks(units)) {
      const added = await verbs.addWorkUnits(ns, this.#ref, chunk, options);
      progress.count += added.length;
      for (const { created } of added) if (created) progress.created++;
      onProgress?.({ ...progress }, added);
    }
    return progress;
  }

  async *#inChunks(
    units: Iterable<NewWorkUnit<Data>> | AsyncIterable<NewWorkUnit<Data>>,
  ): AsyncGenerator<WorkUnitInput[], void, undefined> {
    let chunk = new Chunk<WorkUnitInput>();
    for await (const unit of units) {
      if (this.#schema !== undefined)
        await (isPair(unit) ? this.#check(unit[0], unit[1]) : this.#check(unit.name, unit.data));
      const input = readNew(unit);
      const length = input.data?.length ?? 0;
      if (!chunk.fits(length)) {
        yield chunk.items;
        chunk = new Chunk();
      }
      chunk.push(input, length);
      if (!chunk.isFull) continue;
      // before the next unit is read: a slow input must not delay those that it has given
      yield chunk.items;
      chunk = new Chunk();
    }
    if (chunk.items.length > 0) yield chunk.items;
  }

  /** Throws `no_such_work_unit`. */
  async workUnit(name: string): Promise<WorkUnit<ReadData<Data>, Result>> {
    const { verbs, ns } = this.#scope;
    const row = only(await verbs.getWorkUnits(ns, this.#ref, [name]));
    if (row === null) throw new CoordinateError("no_such_work_unit", name);
    return this.#scope.workUnit(this.#ref, row);
  }

  /**
   * Yields the matching units in name order; all units for an empty query. Reads one page at a time: each unit has the state it
   * had when its page was read.
   */
  async *workUnits({ pageSize, ...query }: WorkUnitListing = {}): AsyncGenerator<
    WorkUnit<ReadData<Data>, Result>,
    void,
    undefined
  > {
    const { verbs, ns } = this.#scope;
    const read = (from: PageStart) =>
      verbs.listWorkUnits(ns, this.#ref, { ...query, ...pageLimit(pageSize), ...from });
    for await (const row of eachRow(read)) yield this.#scope.workUnit<ReadData<Data>, Result>(this.#ref, row);
  }

  /**
   * Waits until all of these units have ended, for at most `waitMs`, and returns their current state, in order; null for
   * a missing unit.
   */
  async awaitWorkUnits(
    names: readonly string[],
    options: AwaitOptions = {},
  ): Promise<(WorkUnit<ReadData<Data>, Result> | null)[]> {
    const { verbs, ns } = this.#scope;
    const rows = await verbs.awaitWorkUnits(ns, this.#ref, names, options);
    return rows.map((row) => (row === null ? null : this.#scope.workUnit(this.#ref, row)));
  }

  /**
   * Waits until all of these units have ended, at most `waitMs` if given, and returns them in order; `status` tells whether each
   * finished or failed. Throws `no_such_work_unit` for a missing unit, and a `NotEndedError` when not all have ended in time.
   */
  async wait(
    names: readonly string[],
    options: WaitForOptions = {},
  ): Promise<WorkUnit<ReadData<Data>, Result>[]> {
    const { verbs, ns } = this.#scope;
    const rows = await waitForEnds(verbs, ns, this.#ref, names, options);
    return rows.map((row, i) => {
      if (row === null) throw new CoordinateError("no_such_work_unit", names[i]);
      return this.#scope.workUnit(this.#ref, row);
    });
  }

  /** Counts the selected units by status. */
  async countWorkUnits(selection: WorkUnitSelection): Promise<Tally> {
    const { verbs, ns } = this.#scope;
    return verbs.countWorkUnits(ns, this.#ref, selection);
  }

  // Bulk changes. Each returns how many units it touched, and refuses a selection without conditions (`empty_query`); `{ all:
  // true }` selects every unit.

  async setPriorities(selection: WorkUnitSelection, priority: number): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.setWorkUnitPriorities(ns, this.#ref, selection, { set: priority });
  }

  async adjustPriorities(selection: WorkUnitSelection, by: number): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.setWorkUnitPriorities(ns, this.#ref, selection, { adjust: by });
  }

  /** The units may not be claimed before this time, in epoch milliseconds; 0 is at once. */
  async setDelays(selection: WorkUnitSelection, notBefore: number): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.setWorkUnitDelays(ns, this.#ref, selection, notBefore);
  }

  /** Makes units available again, the failed ones by default, and resets their count of retries. */
  async retry(selection: WorkUnitSelection = { statuses: ["failed"] }): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.resetWorkUnits(ns, this.#ref, selection);
  }

  /** Fails the selected units that have not ended, including running ones, whose tasks are notified. */
  async cancel(selection: WorkUnitSelection, options: CancelOptions = {}): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.cancelWorkUnits(ns, this.#ref, selection, options);
  }

  /** Deletes units with their attempts. */
  async deleteWorkUnits(selection: WorkUnitSelection): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.deleteWorkUnits(ns, this.#ref, selection);
  }
}

function readNew(unit: NewWorkUnit): WorkUnitInput {
  if (isPair(unit)) return { name: unit[0], data: encodeIfAny(unit[1]) };
  if (typeof unit !== "object")
    throw new CoordinateError(
      "bad_argument",
      `units: expected [name, data] or { name, data }, got ${describeValue(unit)}`,
    );
  checkOptions("a work unit", unit, unitOptions);
  return { ...unit, data: encodeIfAny(unit.data) };
}

// Array.isArray alone does not narrow a readonly tuple
const isPair = (unit: NewWorkUnit): unit is readonly [name: string, data?: object | null] =>
  Array.isArray(unit);
