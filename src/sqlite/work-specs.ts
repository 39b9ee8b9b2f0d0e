/** Namespaces and work specs: in memory and in their rows, changed together. */
import {
  compareNames,
  defaultNamespaceSettings,
  breakerRules,
  hasLanes,
  laneRules,
  missingWorkSpec,
  nameToBytes,
  workSpecName,
  type WorkSpecPut,
  type WorkSpecRef,
  type WorkSpecRow,
} from "../core/index.ts";
import { syncLanes } from "./lanes.ts";
import { Space, Spec, type State } from "./state.ts";
import { setRetained } from "./sweep.ts";
import { dataValue } from "./values.ts";

export function openSpace(state: State, ns: string): Space {
  let space = state.spaces.get(ns);
  if (space === undefined) {
    space = new Space(state.nextId("namespace"), ns, { ...defaultNamespaceSettings });
    state.spaces.set(ns, space);
    state.undo(() => state.spaces.delete(ns));
    state.writes++;
    state.sql.addNamespace.run(space.id, nameToBytes(ns), JSON.stringify(space.settings));
  }
  return space;
}

export function findSpec(state: State, ns: string, ref: WorkSpecRef): Spec | undefined {
  const spec = state.spaces.get(ns)?.specs.get(workSpecName(ref));
  return typeof ref === "string" || spec?.id === ref.id ? spec : undefined;
}

export function needSpec(state: State, ns: string, ref: WorkSpecRef): Spec {
  const spec = findSpec(state, ns, ref);
  if (spec === undefined) throw missingWorkSpec(ref);
  return spec;
}

/** The specs of one namespace or of all, in order. */
export function allSpecs(state: State, ns: string | null): Spec[] {
  const names = ns === null ? [...state.spaces.keys()].sort(compareNames) : [ns];
  return names.flatMap((name) => sortedSpecs(state, name));
}

export const sortedSpecs = (state: State, ns: string): Spec[] =>
  [...(state.spaces.get(ns)?.specs.values() ?? [])].sort((a, b) => compareNames(a.name, b.name));

export function putSpec(state: State, space: Space, put: WorkSpecPut, meta: WorkSpecRow["meta"]): Spec {
  const name = workSpecName(put.ref);
  const { finished, failed } = meta.retention;
  const retains = finished !== undefined || failed !== undefined;
  state.writes++;
  // if a call has a name twice, the second put finds the work spec that the first one made
  let spec = space.specs.get(name);
  if (spec === undefined) {
    if (put.data === null) throw missingWorkSpec(put.ref);
    spec = addSpec(state, space, name, put.data, meta, retains);
  }
  const { data: oldData, meta: oldMeta } = spec;
  const changed = spec;
  state.undo(() => {
    changed.data = oldData;
    changed.meta = oldMeta;
    changed.lanes = null;
  });
  if (put.data !== null) spec.data = put.data;
  spec.meta = meta;
  if (laneRules(meta) !== laneRules(oldMeta)) syncLanes(state, spec, hasLanes(oldMeta));
  if (breakerRules(meta) !== breakerRules(oldMeta)) state.sql.dropAllOutcomes.run(spec.id);
  // 1: from now on units are added to `ended` when they end; the sweep adds those that ended before, or empties the table
  if (retains && spec.retained === 0) setRetained(state, spec, 1);
  else if (!retains && spec.retained === 2) setRetained(state, spec, 1);
  state.sql.setSpec.run(dataValue(spec.data), JSON.stringify(meta), spec.retained, spec.id);
  return spec;
}

function addSpec(
  state: State,
  space: Space,
  name: string,
  data: WorkSpecRow["data"],
  meta: WorkSpecRow["meta"],
  retains: boolean,
): Spec {
  const spec = new Spec(state.nextId("spec"), space, name, data, meta);
  spec.retained = retains ? 2 : 0;
  state.sql.addSpec.run(
    spec.id,
    space.id,
    nameToBytes(name),
    dataValue(data),
    JSON.stringify(meta),
    spec.retained,
  );
  state.sql.addTally.run(spec.id);
  space.specs.set(name, spec);
  state.specs.set(spec.id, spec);
  state.undo(() => {
    space.specs.delete(name);
    state.specs.delete(spec.id);
  });
  return spec;
}

/** Marks a spec as deleted. The purge deletes its rows later. */
export function markDeleted(state: State, spec: Spec): void {
  state.noteAllEnded();
  spec.deleted = true;
  state.deadSpecs.add(spec);
  state.undo(() => {
    spec.deleted = false;
    state.deadSpecs.delete(spec);
  });
  state.writes++;
  state.sql.burySpec.run(spec.id);
}
