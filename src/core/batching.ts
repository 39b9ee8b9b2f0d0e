/** What becomes of batches when their units are added, end, come back or are deleted. */
import { putUnits } from "./adding.ts";
import { batchLabel, endsNow, newBatch, type BatchInput, type BatchRow } from "./batch.ts";
import { encodeData } from "./data.ts";
import { follow } from "./life.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** The last thing of every rule over units: what follows for dependents, and for batches. */
export function* conclude<Unit extends UnitState>(set: WorkingSet<Unit>): Rule<void> {
  yield* follow(set);
  for (let changes = set.takeBatchChanges(); changes !== null; changes = set.takeBatchChanges()) {
    // in one order, so that two transactions wait for each other and do not deadlock
    const inOrder = [...changes].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const { namespace, name, total, finished, failed } of inOrder) {
      yield set.loadBatch(namespace, name, total > 0);
      const batch = set.batch(namespace, name) ?? (total > 0 ? newBatch(name, set.now) : undefined);
      // units of a batch that was deleted end as others do
      if (batch === undefined) continue;
      const changed = {
        ...batch,
        total: batch.total + total,
        finished: batch.finished + finished,
        failed: batch.failed + failed,
      };
      yield* finishBatch(set, namespace, changed);
    }
    yield* follow(set);
  }
}

/** Saves the batch; and when it ends now, makes its unit and counts it in the batch that it belongs to. */
function* finishBatch<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  batch: BatchRow,
): Rule<void> {
  const ends = endsNow(batch);
  set.saveBatch(namespace, ends ? { ...batch, doneTime: set.now } : batch);
  if (!ends) return;
  const { name, parent, then, total, finished, failed } = batch;
  if (parent !== null) set.countInBatch(namespace, parent, failed > 0 ? { failed: 1 } : { finished: 1 });
  if (then === null) return;
  yield set.loadSpecs(namespace, [then.workSpec]);
  const spec = set.spec(namespace, then.workSpec);
  // as of a `then` of a work spec: one that does not exist is passed over
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

/** Makes batches, or changes what is given of them. */
export function* putBatches<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  inputs: readonly BatchInput[],
): Rule<BatchRow[]> {
  for (const { name, then, sealed, parent } of inputs) {
    yield set.loadBatch(namespace, name, true);
    const batch = set.batch(namespace, name) ?? newBatch(name, set.now);
    const fresh = batch.parent === null && parent !== undefined;
    if (fresh) set.countInBatch(namespace, parent, { total: 1 });
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
  yield* conclude(set);
  return inputs.map(({ name }) => set.batch(namespace, name) ?? newBatch(name, set.now));
}
