export type { WorkerCounts } from "./counts.ts";
export { defineTask, type DefinedTask, type TypedTask, type TypedUnit } from "./define-task.ts";
export type { UnitEndEvent, UnitErrorEvent, UnitEvent, UnitsEvent, WorkerEvents } from "./events.ts";
export { fail, Fail, retry, Retry, snooze, Snooze } from "./outcome.ts";
export { environment, type Environment } from "./environment.ts";
export {
  linesLogger,
  silentLogger,
  stderrLogger,
  type Log,
  type Logger,
  type PlainLogger,
  type TaskLog,
} from "./log.ts";
export { defaultConcurrency, type WorkerOptions } from "./options.ts";
export { taskName, tasksRuntime, type Runtime, type Tasks } from "./runtime.ts";
export { Stop, type StopCause } from "./stops.ts";
export {
  bulk,
  Unit,
  type BulkContext,
  type BulkFunction,
  type BulkTask,
  type Task,
  type TaskContext,
  type TaskSpec,
  type UnitContext,
  type UnitResult,
  type UnitTask,
} from "./task.ts";
export { whyUnstorable } from "./unstorable.ts";
export { Worker } from "./worker.ts";
export { commandRuntime, type CommandRuntimeOptions } from "./command/runtime.ts";
export { pythonRuntime, type PythonRuntimeOptions } from "./python/runtime.ts";
export {
  Child,
  ChildEndedError,
  type ChildEvents,
  type ChildProgram,
  type ChildState,
} from "./process/child.ts";
export type { Head, Message } from "./process/frame.ts";
export type { Exit, ExitCause, Program } from "./process/group.ts";
export { ProcessPool, type PoolEvents, type PoolOptions } from "./process/pool.ts";
export {
  processRuntime,
  type ChildRuntime,
  type ChildrenOptions,
  type ProcessRuntimeOptions,
} from "./process/runtime.ts";
export { runOne, type RunOneLimits, type RunOneOutcome } from "./run-one.ts";
export {
  openRuntimes,
  processSignals,
  runtimeNames,
  runWorker,
  type Interrupts,
  type RunOutcome,
  type RuntimeChoice,
  type RuntimeName,
} from "./runner.ts";
export { loadTasks } from "./tasks-file.ts";
export { childEnvironment } from "./process/environment.ts";
