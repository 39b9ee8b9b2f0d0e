/** Workers: check-ins and changes, listings, and when they are removed. */
import {
  changeWorker,
  compareNames,
  nameHasPrefix,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
} from "../core/index.ts";
import type { Space, Worker } from "./state.ts";
import { registerWorker } from "./working-set.ts";

export function putWorker(space: Space, change: WorkerChange, now: number): WorkerRow {
  const worker = registerWorker(space, change.name, now);
  if (change.parent !== undefined && change.parent !== worker.parent) {
    if (worker.parent !== null) space.workers.get(worker.parent)?.children.delete(worker.name);
    worker.parent = change.parent;
    if (change.parent !== null) registerWorker(space, change.parent, now).children.add(worker.name);
  }
  changeWorker(worker, change, now);
  return worker.row(space.settings, now);
}

export function findWorkers(space: Space, query: WorkerQuery, limit: number, now: number): WorkerRow[] {
  const { names, prefix = "", active, root, parent, previous } = query;
  return [...space.workers.values()]
    .filter(
      (worker) =>
        (names === undefined || names.includes(worker.name)) &&
        nameHasPrefix(worker.name, prefix) &&
        (active === undefined || worker.isActive(now) === active) &&
        (root !== true || worker.parent === null) &&
        (parent === undefined || worker.parent === parent) &&
        (previous === undefined || compareNames(worker.name, previous) > 0),
    )
    .sort((a, b) => compareNames(a.name, b.name))
    .slice(0, limit)
    .map((worker) => worker.row(space.settings, now));
}

/** Removes a worker that expired before `before`, holds nothing and has no children; then its parent, on the same conditions. */
export function forgetWorker(space: Space, worker: Worker | undefined, before: number): number {
  if (worker === undefined || worker.expiration >= before) return 0;
  if (worker.holds.size > 0 || worker.children.size > 0) return 0;
  space.workers.delete(worker.name);
  if (worker.parent === null) return 1;
  const parent = space.workers.get(worker.parent);
  parent?.children.delete(worker.name);
  return 1 + forgetWorker(space, parent, before);
}
