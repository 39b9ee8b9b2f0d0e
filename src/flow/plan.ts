/** Compares a flow file with the stored work specs. `planFlow` only reads; `applyPlan` makes the changes. */
import {
  decodeData,
  eachRow,
  encodeData,
  isRefusal,
  readWorkSpec,
  settableFields,
  type SharedLimitInput,
  type Coordinate,
  type Data,
  type Tally,
  type WorkSpecMeta,
  type WorkSpecRow,
} from "../core/index.ts";
import { ConfigError, didYouMean, isMapping } from "../config/index.ts";
import { nextOf, withConfiguration, type Flow } from "./flow-file.ts";

export interface Difference {
  /** The dotted path inside the work spec. */
  readonly path: string;
  /** Undefined when the key is absent. */
  readonly from: unknown;
  readonly to: unknown;
}

export interface PlannedSpec {
  readonly name: string;
  readonly data: Data;
  readonly kind: "new" | "changed" | "same";
  readonly differences: readonly Difference[];
  /** Metadata that was set by hand and that setting the work spec again resets. */
  readonly resets: readonly Difference[];
}

export interface VanishedSpec {
  readonly name: string;
  readonly counts: Tally | null;
}

export interface FlowPlan {
  readonly specs: readonly PlannedSpec[];
  /** Work specs of the namespace that are not in the file. */
  readonly vanished: readonly VanishedSpec[];
  /** Limits of the file that are new or differ from the stored ones. */
  readonly limits: readonly SharedLimitInput[];
}

export interface FlowOptions {
  /** Replaces the data and keeps metadata that operators set by hand. */
  keepMeta?: boolean;
  /** Deletes the work specs that are not in the file, with their units. */
  prune?: boolean;
}

/**
 * Computes the plan. Throws a `ConfigError` when a `then` names a work spec that is neither in the file nor in the namespace, or one
 * that pruning would delete.
 */
export async function planFlow(
  coordinate: Coordinate,
  ns: string,
  flow: Flow,
  config: Readonly<Record<string, unknown>>,
  options: FlowOptions = {},
): Promise<FlowPlan> {
  const stored = await readSpecs(coordinate, ns);
  checkChains(flow, stored, options);
  const specs = flow.specs.map((spec) => {
    const data = encodeData(withConfiguration(spec, config));
    return planSpec(spec.name, data, stored.get(spec.name), options);
  });
  const names = new Set(flow.specs.map(({ name }) => name));
  const left = [...stored.keys()].filter((name) => !names.has(name));
  const tally = left.length === 0 ? [] : await coordinate.tally(ns);
  const vanished = left.map((name) => ({
    name,
    counts: tally.find(({ workSpec }) => workSpec === name)?.counts ?? null,
  }));
  return { specs, vanished, limits: await planLimits(coordinate, ns, flow) };
}

async function planLimits(coordinate: Coordinate, ns: string, flow: Flow): Promise<SharedLimitInput[]> {
  if (flow.limits.length === 0) return [];
  const text = ({ maxRunning = 0, rate = {} }: Partial<SharedLimitInput>): string =>
    JSON.stringify([maxRunning, rate.limit, rate.periodMs, rate.burst]);
  const stored = new Map((await coordinate.listLimits(ns)).map((row) => [row.name, text(row)]));
  return flow.limits.filter((limit) => stored.get(limit.name) !== text(limit));
}

/**
 * Sets the limits, then all specs in one step, then prunes. When the specs are refused, the limits are set back, so that nothing has
 * changed. Returns the names of the deleted specs.
 */
export async function applyPlan(
  coordinate: Coordinate,
  ns: string,
  plan: FlowPlan,
  { keepMeta = false, prune = false }: FlowOptions = {},
): Promise<string[]> {
  const specs = plan.specs.map(({ name, data }) => ({ name, data }));
  // limits come first: no unit of a new work spec starts before its limits are set
  const setBack = await setLimits(coordinate, ns, plan.limits);
  try {
    if (specs.length > 0) await coordinate.setWorkSpecs(ns, specs, { keepMeta });
  } catch (error) {
    // without an answer the specs may have been set, and need their limits
    if (isRefusal(error)) await setBack();
    throw error;
  }
  if (!prune || plan.vanished.length === 0) return [];
  const names = plan.vanished.map(({ name }) => name);
  const deleted = await coordinate.deleteWorkSpecs(ns, names);
  return names.filter((_, i) => deleted[i] === true);
}

/** Returns a function that restores the limits as they were before. */
async function setLimits(
  coordinate: Coordinate,
  ns: string,
  limits: readonly SharedLimitInput[],
): Promise<() => Promise<void>> {
  if (limits.length === 0) return () => Promise.resolve();
  const stored = await coordinate.listLimits(ns);
  await coordinate.setLimits(ns, limits);
  return async () => {
    const before = stored.filter(({ name }) => limits.some((one) => one.name === name));
    const added = limits.filter(({ name }) => !stored.some((one) => one.name === name));
    await coordinate.setLimits(
      ns,
      before.map(({ name, maxRunning, rate }) => ({ name, maxRunning, rate })),
    );
    await coordinate.deleteLimits(
      ns,
      added.map(({ name }) => name),
    );
  };
}

async function readSpecs(coordinate: Coordinate, ns: string): Promise<Map<string, WorkSpecRow>> {
  const specs = new Map<string, WorkSpecRow>();
  for await (const row of eachRow((from) => coordinate.listWorkSpecs(ns, from))) specs.set(row.name, row);
  return specs;
}

/** For a check without a server: lists chains to work specs outside the file, which may exist in the namespace. */
export function chainsOutOfFile(flow: Flow): string[] {
  const names = new Set(flow.specs.map(({ name }) => name));
  return flow.specs
    .filter((spec) => nextOf(spec) !== "" && !names.has(nextOf(spec)))
    .map(
      (spec) => `${spec.thenWhere}: ${nextOf(spec)} is not in this file${didYouMean(nextOf(spec), names)}`,
    );
}

function checkChains(
  flow: Flow,
  stored: ReadonlyMap<string, WorkSpecRow>,
  { prune = false }: FlowOptions,
): void {
  const names = new Set(flow.specs.map(({ name }) => name));
  const wrong: string[] = [];
  for (const spec of flow.specs) {
    const next = nextOf(spec);
    if (next === "" || names.has(next)) continue;
    if (!stored.has(next)) {
      const hint = didYouMean(next, [...names, ...stored.keys()]);
      wrong.push(`${spec.thenWhere}: no such work spec ${next}, neither in this file nor stored${hint}`);
    } else if (prune)
      wrong.push(`${spec.thenWhere}: ${next} is not in this file, so --prune would delete it`);
  }
  if (wrong.length > 0) throw new ConfigError(wrong.join("\n"));
}

function planSpec(
  name: string,
  data: Data,
  stored: WorkSpecRow | undefined,
  { keepMeta = false }: FlowOptions,
): PlannedSpec {
  if (stored === undefined) return { name, data, kind: "new", differences: [], resets: [] };
  const differences = compare(decodeData(stored.data), decodeData(data));
  const resets = keepMeta ? [] : handSet(stored, readWorkSpec(data).meta);
  return { name, data, kind: differences.length > 0 ? "changed" : "same", differences, resets };
}

/** Metadata that differs from the stored data was set by hand. Returns the part of it that the new data would change. */
function handSet(stored: WorkSpecRow, next: WorkSpecMeta): Difference[] {
  const derived = readWorkSpec(stored.data, true).meta;
  return settableFields
    .filter(({ field, metaOnly }) => {
      const is = stored.meta[field];
      return metaOnly !== true && is !== derived[field] && is !== next[field];
    })
    .map(({ field }) => ({ path: field, from: stored.meta[field], to: next[field] }));
}

/** Compares by key, to any depth; lists are compared as a whole. Keys of `to` come first, then removed keys. */
function compare(from: unknown, to: unknown, at: readonly string[] = []): Difference[] {
  if (isMapping(from) && isMapping(to)) {
    const keys = new Set([...Object.keys(to), ...Object.keys(from)]);
    return [...keys].flatMap((key) =>
      compare(
        Object.hasOwn(from, key) ? from[key] : undefined,
        Object.hasOwn(to, key) ? to[key] : undefined,
        [...at, key],
      ),
    );
  }
  return same(from, to) ? [] : [{ path: at.join("."), from, to }];
}

function same(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return a === b;
  // compare the JSON texts, so that a tuple equals a list of the same values
  return JSON.stringify([a], plainly) === JSON.stringify([b], plainly);
}

const plainly = (_key: string, value: unknown): unknown =>
  typeof value === "bigint" ? String(value) : value;
