/** A file of tasks. It exports functions or `bulk(function)`, by name or in an object as its default export. */
import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CoordinateError } from "../core/index.ts";
import { isDefined } from "./define-task.ts";
import type { Tasks } from "./runtime.ts";
import { isTask, type Task } from "./task.ts";

/** Whether Node was started with an option that may load TypeScript, such as a loader. */
const hasLoader = (execArgv: readonly string[]): boolean =>
  /--(import|loader|experimental-loader|require|experimental-strip-types)\b|-r\b/.test(
    [...execArgv, process.env.NODE_OPTIONS ?? ""].join(" "),
  );

const runsTypeScript = (): boolean =>
  "typescript" in process.features && Boolean(process.features.typescript);

/** Throws `bad_argument`, a one-line error, when the file does not exist or Node with these options cannot load it. */
export function checkTasksFile(file: string, execArgv: readonly string[] = process.execArgv): void {
  if (!existsSync(file)) throw new CoordinateError("bad_argument", `${file}: there is no such file`);
  if (/\.[cm]?ts$/.test(file) && !runsTypeScript() && !hasLoader(execArgv))
    throw new CoordinateError(
      "bad_argument",
      `${file}: Node ${process.versions.node} does not run TypeScript; use Node 22.18 or later, or npm install tsx and start with NODE_OPTIONS="--import tsx"`,
    );
}

/** The command line may be installed elsewhere, for example globally: Node does not find its package from the folder of the tasks. */
function explained(file: string, error: unknown): unknown {
  if (!(error instanceof Error) || !/^Cannot find (package|module) 'coordinate['/]/.test(error.message))
    return error;
  return new CoordinateError(
    "bad_argument",
    `${file} imports coordinate, which is not installed in its folder: run npm install coordinate there`,
    { cause: error },
  );
}

/** Rejects with the error that the file throws while loading, and with `bad_argument` when it does not exist or exports no task. */
export async function loadTasks(file: string): Promise<Tasks> {
  checkTasksFile(file);
  const exported = (await import(pathToFileURL(path.resolve(file)).href).catch((error: unknown) => {
    throw explained(file, error);
  })) as Record<string, unknown>;
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
