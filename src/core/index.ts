export * from "./action.ts";
export * from "./adding.ts";
export * from "./attempt.ts";
export * as cborHead from "./cbor-head.ts";
export { describeValue } from "./check.ts";
export * from "./chaining.ts";
export * from "./changing.ts";
export * from "./claiming.ts";
export * from "./clock.ts";
export * from "./continuous.ts";
export * from "./coordinate.ts";
export * from "./data.ts";
export * from "./dependency.ts";
export * from "./engine.ts";
export * from "./errors.ts";
export * from "./life.ts";
export * from "./lock.ts";
export * from "./names.ts";
export * from "./namespace.ts";
export * from "./queue.ts";
export * from "./scheduler.ts";
export * from "./settling.ts";
export * from "./store.ts";
export * from "./sweeping.ts";
export { readUnitLine } from "./unit-line.ts";
export * from "./waiting.ts";
export * from "./watches.ts";
export {
  readKind,
  wantedKind,
  workSpecKeys,
  type WorkSpecKey,
  type WorkSpecKeyKind,
} from "./work-spec-keys.ts";
export * from "./work-spec.ts";
export * from "./work-unit.ts";
export * from "./worker.ts";
export * from "./working-set.ts";
