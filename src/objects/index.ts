export { Attempt, type ErrorOptions, type RetryOptions, type SettleAllOptions } from "./attempt.ts";
export { Batch, type BatchOptions } from "./batch.ts";
export { CoordinateHandle, handles } from "./coordinate.ts";
export {
  defineSpec,
  SpecDefinition,
  type DefineOptions,
  type OutputData,
  type SpecAccepting,
  type WorkSpecKeys,
} from "./define-spec.ts";
export { checkedBy, type StandardSchema } from "./standard-schema.ts";
export { Namespace, type WorkerListing } from "./namespace.ts";
export { Queue, type Message, type MessagesOptions } from "./queue.ts";
export type { PageOptions, Scope } from "./scope.ts";
export {
  WorkSpec,
  type AddData,
  type AddManyOptions,
  type AddOptions,
  type AddProgress,
  type NewWorkUnit,
  type ReadData,
  type WaitForOptions,
  type WorkUnitListing,
} from "./work-spec.ts";
export { NotEndedError } from "./waiting.ts";
export { WorkUnit, WorkUnitFailedError, type LineageStep } from "./work-unit.ts";
export { WorkerHandle, type CheckIn, type WorkerState, type WorkerUpdate } from "./worker.ts";
