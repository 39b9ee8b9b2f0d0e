/**
 * Runs Python jobs: work specs with `module` and `run_function`, in reusable `python3` processes.
 *
 * The children use the same messages as those of `processRuntime`. Their program is part of the Python package, which is shipped
 * with this one, so that jobs can `import coordinate`. A job whose time is up gets SIGTERM: its module's `terminate_function` is
 * called and has a few seconds.
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
  /** The lease time in seconds that `work_unit.update()` asks for; 900 when absent. */
  readonly defaultLifetime?: number;
  /**
   * Jobs are stopped this long before their lease ends. The worker itself stops them 15 seconds before, or in the last quarter of a
   * short lease, so a shorter time has no effect.
   */
  readonly stopEarlyMs?: number;
}

/** Resolves when the first child is ready. Throws `bad_argument` when Python cannot be started. */
export async function pythonRuntime(options: PythonRuntimeOptions = {}): Promise<ChildRuntime> {
  const { python = "python3", defaultLifetime = 900, stopEarlyMs = 0, ...rest } = options;
  // the path is the same from the source and from the built file
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

/** Text may also come as bytes, which Python clients send. */
function isText(data: DataObject, key: string): boolean {
  const value = Object.hasOwn(data, key) ? data[key] : undefined;
  return (typeof value === "string" || value instanceof Uint8Array) && value.length > 0;
}
