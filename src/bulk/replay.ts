/**
 * Backfill: runs ended units of a work spec again, in a copy of the work spec with another name and other settings. The new
 * results are compared with the old ones, and replace them only when they are accepted.
 *
 * The copy has no `then`: nothing goes on to the next work spec before the results are accepted. Its key `replay_of` names the
 * original work spec.
 */
import { isDeepStrictEqual } from "node:util";
import {
  CoordinateError,
  decodeData,
  eachPage,
  encodeData,
  readWorkSpec,
  settableFields,
  withoutBatch,
  type Coordinate,
  type Data,
  type DataObject,
  type WorkSpecRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
} from "../core/index.ts";

export interface Replay {
  readonly coordinate: Coordinate;
  readonly ns: string;
  readonly workSpec: string;
  /** The name of the copy. */
  readonly copy: string;
}

export interface Difference {
  name: string;
  /** Keys of the result that differ. A key that one side does not have is undefined there. */
  changed: readonly { key: string; before: unknown; after: unknown }[];
}

/** Counts the units of a replay by how their results compare with the original ones. */
export interface Comparison {
  /** Finished on both sides, with the same data. */
  same: number;
  /** Finished in the copy; in the original failed, finished with other data, or held by an accept that did not end. */
  different: number;
  /** Failed in the copy, finished in the original. */
  failed: number;
  /** Failed on both sides. */
  stillFailed: number;
  /** Not ended in the copy yet. */
  open: number;
  /** Deleted from the original work spec, or not ended there. */
  gone: number;
}

const pageSize = 1000;
/** The worker of the attempts that store accepted results. No other worker claims the units during the lease of 15 minutes. */
const replayWorker = "replay";

/** Whether the copy exists. Throws `bad_argument` when the name belongs to another work spec, which must not be changed. */
export async function isBegun({ coordinate, ns, workSpec, copy }: Replay): Promise<boolean> {
  const [row] = await coordinate.getWorkSpecs(ns, [copy]);
  if (row === undefined || row === null) return false;
  if (decodeData(row.data).replay_of === workSpec) return true;
  throw new CoordinateError("bad_argument", `work spec ${copy} is not a replay of ${workSpec}`);
}

/** Creates or changes the copy: it has the settings of the work spec, with `changes`. */
export async function prepareReplay(replay: Replay, changes: DataObject): Promise<void> {
  const { coordinate, ns, workSpec, copy } = replay;
  await isBegun(replay);
  const [row] = await coordinate.getWorkSpecs(ns, [workSpec]);
  if (row === undefined || row === null) throw new CoordinateError("no_such_work_spec", workSpec);
  // the copy generates no units, takes any number of them, chains to nothing, and keeps its results until they are compared
  const spec = decodeData(row.data);
  const { then: _then, schedule: _s, continuous: _c, retention: _r, max_waiting: _m, ...own } = spec;
  // workers request work specs by task, which defaults to the name
  const settings = { task: workSpec, ...own, ...setByHand(row), ...changes };
  const data = encodeData({ ...settings, name: copy, replay_of: workSpec });
  await coordinate.setWorkSpecs(ns, [{ name: copy, data }]);
}

/** Limits, weights and priorities that were set by hand, as keys of data: they hold for the copy too. */
function setByHand({ data, meta }: WorkSpecRow): DataObject {
  const derived = readWorkSpec(data, true).meta;
  return Object.fromEntries(
    settableFields
      .filter(({ field, key }) => !ownKeys.includes(key) && meta[field] !== derived[field])
      .map(({ field, key }) => [key, meta[field]]),
  );
}

/** Whether and when the original runs, and how many units may wait for it. */
const ownKeys: readonly string[] = [
  "disabled",
  "not_before",
  "continuous",
  "next_continuous",
  "interval",
  "max_waiting",
];

/** Adds the selected units to the copy, with the data that they were added with. Returns how many. */
export async function addToReplay(
  { coordinate, ns, workSpec, copy }: Replay,
  query: Omit<WorkUnitQuery, "asAdded" | "previous" | "limit">,
  onProgress: (added: number) => void = () => undefined,
): Promise<number> {
  let added = 0;
  const pages = eachPage((from) =>
    coordinate.listWorkUnits(ns, workSpec, { ...query, asAdded: true, limit: pageSize, ...from }),
  );
  for await (const rows of pages) {
    added += (await coordinate.addWorkUnits(ns, copy, rows.map(copyOf))).length;
    onProgress(added);
  }
  return added;
}

/**
 * Without the batch, which would count the copy and wait for it, and the queues, whose readers expect the original. Delays,
 * deadlines and dependencies of the original are over.
 */
const copyOf = (row: WorkUnitRow): WorkUnitInput => ({
  name: row.name,
  data: row.data,
  priority: row.priority,
  partition: row.partition,
  labels: withoutBatch(row.labels),
  ...(row.maxRetries !== undefined && { maxRetries: row.maxRetries }),
  ...(row.retry !== undefined && { retry: row.retry }),
});

/** Compares unit by unit, in name order; `onDifference` is called for units whose results differ. */
export async function compareReplay(
  replay: Replay,
  ignore: readonly string[],
  onDifference: (difference: Difference) => void = () => undefined,
): Promise<Comparison> {
  const comparison: Comparison = { same: 0, different: 0, failed: 0, stillFailed: 0, open: 0, gone: 0 };
  for await (const pairs of eachPair(replay))
    for (const { before, after } of pairs) {
      const outcome = outcomeOf(before, after, ignore);
      comparison[outcome]++;
      if (outcome === "different")
        onDifference({ name: after.name, changed: changedKeys(before?.data ?? null, after.data, ignore) });
    }
  return comparison;
}

export interface AcceptOptions {
  onProgress?: (accepted: number) => void;
  /** Ends the work in order, between two pages. */
  signal?: AbortSignal;
}

/**
 * Replaces the old results that differ. Each is stored by a new attempt, so that the history of the unit shows it, with all
 * effects of a finish. Returns how many. It can be interrupted and run again: results that were already accepted are the
 * same by then, and units whose attempt was not finished get another.
 */
export async function acceptReplay(
  replay: Replay,
  ignore: readonly string[],
  { onProgress, signal }: AcceptOptions = {},
): Promise<number> {
  const { coordinate, ns, workSpec } = replay;
  let accepted = 0;
  for await (const pairs of eachPair(replay)) {
    if (signal?.aborted === true) break;
    const ready = pairs.filter(({ before, after }) => outcomeOf(before, after, ignore) === "different");
    if (ready.length === 0) continue;
    const attempts = await coordinate.makeAttempts(
      ns,
      ready.map(({ after: { name } }) => ({ workSpec, workUnit: name, worker: replayWorker })),
    );
    const changed = await coordinate.settleAttempts(
      ns,
      attempts.map(({ id }, i) => ({ attempt: id, action: "finish", data: ready[i]!.after.data })),
    );
    for (const { error } of changed) if (error !== null) throw new CoordinateError(error);
    accepted += ready.length;
    onProgress?.(accepted);
  }
  // an attempt registers its worker as active; this one runs nothing
  if (accepted > 0) await coordinate.updateWorkers(ns, [{ name: replayWorker, active: false }]);
  return accepted;
}

interface Pair {
  before: WorkUnitRow | null;
  after: WorkUnitRow;
}

async function* eachPair({ coordinate, ns, workSpec, copy }: Replay): AsyncGenerator<Pair[]> {
  const pages = eachPage((from) => coordinate.listWorkUnits(ns, copy, { limit: pageSize, ...from }));
  for await (const rows of pages) {
    const names = rows.map(({ name }) => name);
    const before = await coordinate.getWorkUnits(ns, workSpec, names);
    yield rows.map((after, i) => ({ before: before[i] ?? null, after }));
  }
}

function outcomeOf(
  before: WorkUnitRow | null,
  after: WorkUnitRow,
  ignore: readonly string[],
): keyof Comparison {
  if (after.status !== "finished" && after.status !== "failed") return "open";
  const isHeld = before?.status === "pending" && before.activeAttempt?.worker === replayWorker;
  if (before === null || (before.status !== "finished" && before.status !== "failed" && !isHeld))
    return "gone";
  if (after.status === "failed") return before.status === "failed" ? "stillFailed" : "failed";
  if (before.status === "failed" || isHeld) return "different";
  return changedKeys(before.data, after.data, ignore).length === 0 ? "same" : "different";
}

function changedKeys(
  before: Data | null,
  after: Data | null,
  ignore: readonly string[],
): Difference["changed"] {
  // most results are identical
  if (before !== null && before === after) return [];
  const old = before === null ? {} : decodeData(before);
  const fresh = after === null ? {} : decodeData(after);
  return [...new Set([...Object.keys(old), ...Object.keys(fresh)])]
    .filter((key) => !ignore.includes(key) && !isDeepStrictEqual(old[key], fresh[key]))
    .map((key) => ({ key, before: old[key], after: fresh[key] }));
}
