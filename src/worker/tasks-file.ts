/** A file of tasks: functions, or `bulk(function)`, that it exports by name or in an object by default. */
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CoordinateError } from "../core/index.ts";
import { isDefined } from "./define-task.ts";
import type { Tasks } from "./runtime.ts";
import { isTask, type Task } from "./task.ts";

/** Rejects with what the file throws when it is loaded, and with `bad_argument` when it exports no task. */
export async function loadTasks(file: string): Promise<Tasks> {
  const exported = (await import(pathToFileURL(path.resolve(file)).href)) as Record<string, unknown>;
  const { default: given, ...named } = exported;
  const inDefault = typeof given === "object" && given !== null ? given : {};
  const tasks: Record<string, Task> = {};
  for (const [name, value] of [...Object.entries(named), ...Object.entries(inDefault)])
    if (isTask(value)) tasks[isDefined(value) ? value.taskName : name] = value;
  if (Object.keys(tasks).length === 0)
    throw new CoordinateError(
      "bad_argument",
      `${file} exports no tasks; a task is a function or bulk(function), exported by its name`,
    );
  return tasks;
}
