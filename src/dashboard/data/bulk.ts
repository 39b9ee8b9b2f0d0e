/**
 * Changes of many units, as operations that can be watched and stopped. An operation reads the matching units in name order, a
 * few hundred at a time, and changes them by name. When it is stopped, finished changes stay and the remaining units are not
 * touched. An operation runs in this tab and continues while the user visits other pages.
 */
import { useSyncExternalStore } from "react";
import { eachPage, type WorkUnitQuery } from "../../core/index.ts";
import { client, isTransient, messageOf } from "./connection.ts";

export type BulkAction =
  | { kind: "retry" }
  | { kind: "delete" }
  | { kind: "prioritise"; priority: number }
  | { kind: "delay"; notBefore: number }
  | { kind: "cancel"; why: string };

export interface BulkTarget {
  readonly ns: string;
  readonly spec: string;
  /** These units, or all that match the query. */
  readonly names?: readonly string[];
  readonly query?: WorkUnitQuery;
}

export interface Operation {
  readonly id: number;
  readonly title: string;
  readonly total: number;
  /** The units processed so far, and those of them that the action changed. */
  readonly seen: number;
  readonly changed: number;
  readonly state: "running" | "done" | "stopped" | "failed";
  readonly error: string;
  readonly startedAt: number;
}

const sliceSize = 500;
let operations: readonly Operation[] = [];
const stops = new Map<number, AbortController>();
const listeners = new Set<() => void>();

function change(id: number, next: Partial<Operation>): void {
  operations = operations.map((one) => (one.id === id ? { ...one, ...next } : one));
  for (const listener of listeners) listener();
}

export const useOperations = (): readonly Operation[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => operations,
  );

export const stopOperation = (id: number): void => stops.get(id)?.abort();

export function forgetOperation(id: number): void {
  operations = operations.filter((one) => one.id !== id);
  for (const listener of listeners) listener();
}

let lastId = 0;

interface BulkOptions {
  readonly title: string;
  readonly total: number;
  /** The maximum rate, in units a second; 0 is unlimited. */
  readonly perSecond?: number;
  /** The maximum number of units. */
  readonly max?: number;
}

/** Starts an operation, which reports its own progress. */
export function startOperation(target: BulkTarget, action: BulkAction, options: BulkOptions): number {
  const id = (lastId += 1);
  const stop = new AbortController();
  stops.set(id, stop);
  operations = [
    ...operations,
    {
      id,
      title: options.title,
      total: options.total,
      seen: 0,
      changed: 0,
      state: "running",
      error: "",
      startedAt: Date.now(),
    },
  ];
  for (const listener of listeners) listener();
  // not awaited: the operation records how it ends
  void run(id, target, action, options, stop.signal);
  return id;
}

async function run(
  id: number,
  target: BulkTarget,
  action: BulkAction,
  { perSecond = 0, max = Infinity }: BulkOptions,
  signal: AbortSignal,
): Promise<void> {
  const started = Date.now();
  let seen = 0;
  let changed = 0;
  try {
    for await (const names of slices(
      target,
      Math.min(sliceSize, max, perSecond > 0 ? Math.ceil(perSecond) : sliceSize),
    )) {
      const slice = names.slice(0, max - seen);
      changed += await apply(target, slice, action);
      seen += slice.length;
      change(id, { seen, changed });
      if (signal.aborted || seen >= max) break;
      const due = perSecond > 0 ? started + (seen / perSecond) * 1000 : 0;
      if (due > Date.now()) await new Promise((resolve) => setTimeout(resolve, due - Date.now()));
      if ((signal as { aborted: boolean }).aborted) break;
    }
    change(id, { state: signal.aborted ? "stopped" : "done" });
  } catch (error) {
    const advice = isTransient(error) ? " Start it again to process the rest." : "";
    change(id, { state: "failed", error: messageOf(error) + advice });
  } finally {
    stops.delete(id);
  }
}

async function* slices({ ns, spec, names, query }: BulkTarget, size: number): AsyncGenerator<string[]> {
  if (names !== undefined) {
    for (let at = 0; at < names.length; at += size) yield names.slice(at, at + size);
    return;
  }
  const pages = eachPage((from) => client.listWorkUnits(ns, spec, { ...query, limit: size, ...from }));
  for await (const rows of pages) if (rows.length > 0) yield rows.map(({ name }) => name);
}

function apply({ ns, spec }: BulkTarget, names: readonly string[], action: BulkAction): Promise<number> {
  const selection = { names };
  switch (action.kind) {
    case "retry":
      return client.resetWorkUnits(ns, spec, selection);
    case "delete":
      return client.deleteWorkUnits(ns, spec, selection);
    case "prioritise":
      return client.setWorkUnitPriorities(ns, spec, selection, { set: action.priority });
    case "cancel":
      return client.cancelWorkUnits(ns, spec, selection, {
        by: "the dashboard",
        ...(action.why !== "" && { why: action.why }),
      });
    case "delay":
      return client.setWorkUnitDelays(ns, spec, selection, action.notBefore);
  }
}
