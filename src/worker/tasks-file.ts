/** A file of tasks: functions, or `bulk(function)`, that it exports by name or in an object by default. */
import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CoordinateError } from "../core/index.ts";
import { isDefined } from "./define-task.ts";
import type { Tasks } from "./runtime.ts";
import { isTask, type Task } from "./task.ts";

/** Whether something was given to Node that may load what it does not know itself. */
const hasLoader = (execArgv: readonly string[]): boolean =>
  /--(import|loader|experimental-loader|require|experimental-strip-types)\b|-r\b/.test(
    [...execArgv, process.env.NODE_OPTIONS ?? ""].join(" "),
  );

const runsTypeScript = (): boolean =>
  "typescript" in process.features && Boolean(process.features.typescript);

/** What can be said in one line before the file is loaded by a Node with these options. Throws `bad_argument`. */
export function checkTasksFile(file: string, execArgv: readonly string[] = process.execArgv): void {
  if (!existsSync(file)) throw new CoordinateError("bad_argument", `${file}: there is no such file`);
  if (/\.[cm]?ts$/.test(file) && !runsTypeScript() && !hasLoader(execArgv))
    throw new CoordinateError(
      "bad_argument",
      `${file}: Node ${process.versions.node} does not run TypeScript; use Node 22.18 or later, or npm install tsx and start with NODE_OPTIONS="--import tsx"`,
    );
}

/** Rejects with what the file throws when it is loaded, and with `bad_argument` when it is not there or exports no task. */
export async function loadTasks(file: string): Promise<Tasks> {
  checkTasksFile(file);
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
