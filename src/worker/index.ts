export { linesLogger, silentLogger, stderrLogger, type Log, type Logger } from "./log.ts";
export { taskName, tasksRuntime, type Runtime, type Tasks } from "./runtime.ts";
export type { Task, TaskContext, TaskSpec } from "./task.ts";
