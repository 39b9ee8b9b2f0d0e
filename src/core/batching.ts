/** Updates batches when their units are added, end, are reopened or are deleted. */
import { putUnits } from "./adding.ts";
import { batchLabel, endsNow, newBatch, outcomeOf, type BatchInput, type BatchRow } from "./batch.ts";
import { encodeData } from "./data.ts";
import { CoordinateError } from "./errors.ts";
import { follow } from "./life.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** The last step of every rule over units: resolves dependents and updates batches. */
export function* resolveConsequences<Unit extends UnitState>(set: WorkingSet<Unit>): Rule<void> {
  yield* follow(set);
  for (let changes = set.takeBatchChanges(); changes !== null; changes = set.takeBatchChanges()) {
    // always in the same order, so that two transactions wait for each other and do not deadlock
    const inOrder = [...changes].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const { namespace, name, total, finished, failed, dropped } of inOrder) {
      yield set.loadBatch(namespace, name, total > 0);
      const batch = set.batch(namespace, name) ?? (total > 0 ? newBatch(name, set.now) : undefined);
      // the batch was deleted: there is nothing to update
      if (batch === undefined) continue;
      // stop counting deleted failed units: they cannot be retried, and a batch with `on: finished` would wait for ever
      const forgotten = batch.doneTime === 0 ? dropped : 0;
      const changed = {
        ...batch,
        total: batch.total + total - forgotten,
        finished: batch.finished + finished,
        failed: batch.failed + failed - forgotten,
      };
      yield* finishBatch(set, namespace, batch, changed);
    }
    yield* follow(set);
  }
}

/** Saves the batch, counts it in its parent, and creates its `then` unit if it ends now. */
function* finishBatch<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  before: BatchRow,
  batch: BatchRow,
): Rule<void> {
  const ends = endsNow(batch);
  const after = ends ? { ...batch, doneTime: set.now } : batch;
  set.saveBatch(namespace, after);
  const { name, parent, then, total, finished, failed } = batch;
  const [was, is] = [outcomeOf(before), outcomeOf(after)];
  if (parent !== null && was !== is)
    set.countInBatch(namespace, parent, {
      ...(was !== null && { [was]: -1 }),
      ...(is !== null && { [is]: 1 }),
    });
  if (!ends || then === null) return;
  yield set.loadSpecs(namespace, [then.workSpec]);
  const spec = set.spec(namespace, then.workSpec);
  // a work spec that does not exist is ignored, as in the `then` of a work spec
  if (spec === undefined) return;
  const data = encodeData({ batch: name, total, finished, failed });
  yield* putUnits(set, spec, [
    {
      name: then.workUnit,
      data,
      priority: 0,
      notBefore: 0,
      dependencies: null,
      ...(parent !== null && { labels: [batchLabel(parent)] }),
    },
  ]);
}

/**
 * Deletes batches, and returns for each name whether it existed. Their units stay, and so do their child batches, which have no
 * parent from then on. A parent counts a deleted batch as it counts a deleted unit.
 */
export function* deleteBatches<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  names: readonly string[],
): Rule<boolean[]> {
  const found: BatchRow[] = [];
  for (const name of new Set(names)) {
    yield set.loadBatch(namespace, name, false);
    const batch = set.batch(namespace, name);
    if (batch !== undefined) found.push(batch);
  }
  const gone = new Set(found.map(({ name }) => name));
  yield set.loadInnerBatches(namespace, [...gone]);
  for (const name of set.innerBatches(namespace, [...gone])) {
    const inner = set.batch(namespace, name);
    if (inner !== undefined) set.saveBatch(namespace, { ...inner, parent: null });
  }
  for (const batch of found) {
    set.removeBatch(namespace, batch.name);
    const outcome = outcomeOf(batch);
    if (batch.parent !== null && outcome !== "finished")
      set.countInBatch(namespace, batch.parent, outcome === null ? { total: -1 } : { dropped: 1 });
  }
  yield* resolveConsequences(set);
  return names.map((name) => gone.delete(name));
}

/**
 * Before anything is changed, refuses to change the parent of a batch, and to put a batch into itself or into one inside it. All
 * batches on the way up are locked, so that two calls cannot close a cycle together.
 */
function* checkParents<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  inputs: readonly BatchInput[],
): Rule<void> {
  const given = new Map<string, string>();
  function* parentOf(name: string): Rule<string | null> {
    yield set.loadBatch(namespace, name, true);
    return given.get(name) ?? set.batch(namespace, name)?.parent ?? null;
  }
  for (const { name, parent } of inputs) {
    if (parent === undefined) continue;
    const current = yield* parentOf(name);
    if (current === parent) continue;
    if (current !== null)
      throw new CoordinateError(
        "bad_argument",
        `parent: batch ${name} is in batch ${current} and cannot be moved to ${parent}`,
      );
    given.set(name, parent);
    const path = new Set([name]);
    for (let at: string | null = parent; at !== null; at = yield* parentOf(at)) {
      if (path.has(at))
        throw new CoordinateError(
          "bad_argument",
          `parent: batches form a cycle: ${[...path, at].join(" -> ")}`,
        );
      path.add(at);
    }
  }
}

/** Creates batches, or updates the given fields of existing ones. */
export function* putBatches<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  inputs: readonly BatchInput[],
): Rule<BatchRow[]> {
  yield* checkParents(set, namespace, inputs);
  for (const { name, then, sealed, parent } of inputs) {
    yield set.loadBatch(namespace, name, true);
    const batch = set.batch(namespace, name) ?? newBatch(name, set.now);
    const fresh = batch.parent === null && parent !== undefined;
    const outcome = outcomeOf(batch);
    if (fresh) set.countInBatch(namespace, parent, { total: 1, ...(outcome !== null && { [outcome]: 1 }) });
    set.saveBatch(namespace, {
      ...batch,
      sealed: sealed ?? batch.sealed,
      parent: batch.parent ?? parent ?? null,
      ...(then !== undefined && {
        then:
          then === null
            ? null
            : { workSpec: then.workSpec, workUnit: then.workUnit ?? name, on: then.on ?? "ended" },
      }),
    });
    set.countInBatch(namespace, name, {});
  }
  yield* resolveConsequences(set);
  return inputs.map(({ name }) => set.batch(namespace, name) ?? newBatch(name, set.now));
}
