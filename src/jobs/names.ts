/**
 * Job names are unique in their queue. Units are named by job ids, so a job name is stored as a label. A caller that takes a name
 * holds a lock on it while it checks that the name is free and adds the job.
 */
import { randomUUID } from "node:crypto";
import { CoordinateError, isCoordinateError, type Clock, type Coordinate } from "../core/index.ts";
import type { Queue } from "./queue.ts";

/** The lifetime of a name lock: longer than any add takes. If the owner dies, the name stays locked for this long. */
const lockMs = 10_000;
const retryMs = 50;

export async function withNames<Answer>(
  verbs: Coordinate,
  ns: string,
  clock: Clock,
  queue: Queue,
  names: readonly string[],
  work: () => Promise<Answer>,
): Promise<Answer> {
  if (names.length === 0) return work();
  const owner = `jobs-${randomUUID()}`;
  const paths = names.map((name) => ["coordinate", "jobs", queue.workSpec, name]);
  for (let tried = 0; ; tried++) {
    const refused = await verbs.lock(ns, { owner, paths, timeoutMs: lockMs });
    if (refused === null) break;
    if (tried * retryMs > 2 * lockMs)
      throw new CoordinateError(
        "unavailable",
        `the name ${refused.path.at(-1) ?? ""} is locked by ${refused.owner ?? "another caller"}`,
      );
    await clock.waitUntil(clock.now() + retryMs);
  }
  try {
    return await work();
  } finally {
    // the jobs are stored, or refused: an outage now must not hide that, and the lock ends by itself
    await verbs.unlock(ns, { owner, paths }).catch(() => undefined);
  }
}

/** The jobs that have these names, by name. */
export async function jobsNamed(
  verbs: Coordinate,
  ns: string,
  queue: Queue,
  names: readonly string[],
): Promise<Map<string, { id: string; workSpec: string }>> {
  const found = new Map<string, { id: string; workSpec: string }>();
  for (let at = 0; at < names.length; at += together)
    await Promise.all(
      names.slice(at, at + together).map(async (name) => {
        for (const workSpec of queue.workSpecs) {
          const id = await firstNamed(verbs, ns, workSpec, name);
          if (id !== null) found.set(name, { id, workSpec });
        }
      }),
    );
  return found;
}

/** Lookups that run at the same time. */
const together = 50;

async function firstNamed(
  verbs: Coordinate,
  ns: string,
  workSpec: string,
  name: string,
): Promise<string | null> {
  try {
    const { rows } = await verbs.listWorkUnits(ns, workSpec, { label: `name:${name}`, limit: 1 });
    return rows[0]?.name ?? null;
  } catch (error) {
    if (isCoordinateError(error, "no_such_work_spec")) return null;
    throw error;
  }
}
