/**
 * Runs Python jobs: work specs with `module` and `run_function`, in `python3` processes that are used again and again.
 *
 * The children speak the same messages as those of `processRuntime`. Their program is part of the Python package, which is shipped
 * with this one, so that jobs can `import coordinate`. A job is told by SIGTERM that its time is up: its module's
 * `terminate_function` is called, and has a few seconds.
 */
import { fileURLToPath } from "node:url";
import type { DataObject } from "../../core/index.ts";
import { jobExpired, runInChildren } from "../process/child-run.ts";
import type { ChildProgram } from "../process/child.ts";
import { bulk } from "../task.ts";
import { childHost, firstReady, type ChildRuntime, type ChildrenOptions } from "../process/runtime.ts";

export interface PythonRuntimeOptions extends ChildrenOptions {
  /** The interpreter; `python3` when absent. */
  readonly python?: string;
  /** Seconds of the lease that `work_unit.update()` asks for; 900 when absent. */
  readonly defaultLifetime?: number;
  /**
   * Jobs are ended this long before their lease is. The worker's own rule is 15 seconds, or the last quarter of a short lease; a
   * shorter time changes nothing.
   */
  readonly stopEarlyMs?: number;
}

/** Resolves when the first child is ready. Throws `bad_argument` when there is no Python to be started. */
export async function pythonRuntime(options: PythonRuntimeOptions = {}): Promise<ChildRuntime> {
  const { python = "python3", defaultLifetime = 900, stopEarlyMs = 0, ...rest } = options;
  // at the same distance from the source as from what is built of it
  const child = fileURLToPath(new URL("../../../python/coordinate/child.py", import.meta.url));
  const program = (): ChildProgram => ({
    command: python,
    args: [child],
    start: { head: { kind: "start", defaultLifetime }, data: [] },
  });
  const host = childHost(rest, program, { tellsBegin: true, endsWithWorker: true, stopEarlyMs });
  await firstReady(host.pool, python);
  host.pool.prestart();
  return {
    names: options.names ?? ["python_3", ""],
    modules: true,
    ...(options.maxAttempts !== undefined && { maxAttempts: options.maxAttempts }),
    timedOut: jobExpired,
    pool: host.pool,
    get capacity() {
      return host.pool.size;
    },
    task: ({ data }) =>
      isText(data, "module") && isText(data, "run_function")
        ? bulk((attempts, context) => runInChildren(attempts, context, host), { atLeast: 1 })
        : null,
    close: (graceMs) => host.pool.close(Math.min(graceMs, host.graceMs)),
  };
}

/** Python sends text as bytes as well. */
function isText(data: DataObject, key: string): boolean {
  const value = Object.hasOwn(data, key) ? data[key] : undefined;
  return (typeof value === "string" || value instanceof Uint8Array) && value.length > 0;
}
