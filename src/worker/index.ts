export type { WorkerCounts, WorkerEvent } from "./counts.ts";
export { each, Retry, retry, Unit, type EachOptions, type UnitFunction } from "./each.ts";
export { environment, type Environment } from "./environment.ts";
export { linesLogger, silentLogger, stderrLogger, type Log, type Logger } from "./log.ts";
export type { WorkerOptions } from "./options.ts";
export { taskName, tasksRuntime, type Runtime, type Tasks } from "./runtime.ts";
export type { Task, TaskContext, TaskSpec } from "./task.ts";
export { Worker } from "./worker.ts";
