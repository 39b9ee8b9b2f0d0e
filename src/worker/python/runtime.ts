/**
 * Runs Python jobs: work specs with `module` and `run_function`, in `python3` processes that are used again and again.
 *
 * The children speak the same messages as those of `processRuntime`; `shim.py` is their program. A job is told by SIGTERM that its time is
 * up: its module's `terminate_function` is called, and has a few seconds.
 */
import { fileURLToPath } from "node:url";
import { nameFromBytes, type DataObject } from "../../core/index.ts";
import { runInChildren } from "../process/batch.ts";
import { childHost, firstReady, type ChildRuntime, type ChildrenOptions } from "../process/runtime.ts";

export interface PythonRuntimeOptions extends ChildrenOptions {
  /** The interpreter; `python3` when absent. */
  readonly python?: string;
  /** Seconds of the lease that `work_unit.update()` asks for; 900 when absent. */
  readonly defaultLifetime?: number;
}

/** Resolves when the first child is ready. Throws `bad_argument` when there is no Python to be started. */
export async function pythonRuntime(options: PythonRuntimeOptions = {}): Promise<ChildRuntime> {
  const { python = "python3", defaultLifetime = 900, ...rest } = options;
  const shim = fileURLToPath(new URL("./shim.py", import.meta.url));
  const host = childHost(rest, () => ({
    command: python,
    args: [shim],
    start: { head: { kind: "start", defaultLifetime }, data: [] },
  }));
  await firstReady(host.pool, python);
  host.pool.prestart();
  return {
    names: options.names ?? ["python_3", ""],
    timedOut: "job expired",
    pool: host.pool,
    get capacity() {
      return host.pool.size;
    },
    task: ({ data }) =>
      isText(data, "module") && isText(data, "run_function")
        ? (attempts, context) => runInChildren(attempts, context, host)
        : null,
    close: (graceMs) => host.pool.close(Math.min(graceMs, host.graceMs)),
  };
}

/** Python sends text as bytes as well. */
function isText(data: DataObject, key: string): boolean {
  const value = Object.hasOwn(data, key) ? data[key] : undefined;
  return (value instanceof Uint8Array ? nameFromBytes(value) : value) !== "" &&
    (typeof value === "string" || value instanceof Uint8Array);
}
