/** A worker with child processes on an in-memory store, and the outcomes of its units. */
import path from "node:path";
import { pathToFileURL } from "node:url";
import { decodeData, type AttemptRow, type DataObject } from "../../../src/core/index.ts";
import { openMemory } from "../../../src/index.ts";
import type { Namespace } from "../../../src/objects/index.ts";
import {
  linesLogger,
  processRuntime,
  Worker,
  type ChildRuntime,
  type Logger,
  type ProcessRuntimeOptions,
  type Runtime,
  type WorkerOptions,
} from "../../../src/worker/index.ts";
import { until } from "./processes.ts";

const root = path.join(import.meta.dirname, "..", "..", "..");

/** Node 20 cannot run TypeScript: child processes of tests load the same hook as the examples. */
export const execArgv = ["--import", pathToFileURL(path.join(root, "examples", "typescript.mjs")).href];

export const tasksFile = path.join(import.meta.dirname, "tasks.ts");

export interface Collected {
  readonly log: Logger;
  readonly lines: string[];
}

export function collect(): Collected {
  const lines: string[] = [];
  return { log: linesLogger((line) => void lines.push(line)), lines };
}

export async function nodeChildren(options: Partial<ProcessRuntimeOptions> = {}): Promise<ChildRuntime> {
  return processRuntime({
    tasks: tasksFile,
    processes: 1,
    graceMs: 300,
    execArgv,
    log: collect().log,
    ...options,
  });
}

export interface Bench {
  readonly namespace: Namespace;
  readonly lines: string[];
  /** Adds units of a work spec that has this data in addition to its name. */
  add(spec: string, units: readonly (readonly [string, object?])[], data?: object): Promise<void>;
  /** Runs a worker until no unit is waiting or running, then stops it. */
  work(runtimes: readonly Runtime[], options?: WorkerOptions): Promise<void>;
  start(runtimes: readonly Runtime[], options?: WorkerOptions): { worker: Worker; ended: Promise<void> };
  attempts(spec: string, unit: string): Promise<Told[]>;
  /** The log lines of the last attempt of a unit; empty if there is none. */
  log(spec: string, unit: string): Promise<string[]>;
  /** Waits until no unit is waiting or running. */
  settled(): Promise<void>;
}

export interface Told {
  readonly status: AttemptRow["status"];
  readonly data: DataObject;
  readonly traceback: string;
}

export function openBench(): Bench {
  const coordinate = openMemory();
  const namespace = coordinate.namespace("test");
  const { log, lines } = collect();
  const bench: Bench = {
    namespace,
    lines,
    async add(name, units, data = { runtime: "node" }) {
      const spec = await namespace.setWorkSpec({ name, ...data });
      await spec.addWorkUnits(units.map(([unit, content = {}]) => [unit, content] as const));
    },
    start(runtimes, options = {}) {
      const worker = new Worker(namespace, { runtimes, log, pollMs: 20, ...options });
      return { worker, ended: worker.run() };
    },
    async work(runtimes, options) {
      const { worker, ended } = bench.start(runtimes, options);
      try {
        await bench.settled();
      } finally {
        await worker.stop();
        await ended;
      }
    },
    async settled() {
      await until("every unit is settled", async () => {
        const rows = await coordinate.verbs.tally("test");
        return rows.every(({ counts }) => counts.available + counts.pending + counts.delayed === 0);
      });
    },
    async attempts(spec, unit) {
      const rows = await coordinate.verbs.listUnitAttempts("test", spec, unit);
      return rows.map(({ status, data }) => {
        const decoded = data === null ? {} : decodeData(data);
        const { traceback } = decoded;
        return { status, data: decoded, traceback: typeof traceback === "string" ? traceback : "" };
      });
    },
    async log(spec, unit) {
      const last = (await coordinate.verbs.listUnitAttempts("test", spec, unit)).at(-1);
      const [log] = last === undefined ? [] : await coordinate.verbs.getAttemptLogs("test", [last.id]);
      return log?.lines.map(({ text }) => text) ?? [];
    },
  };
  return bench;
}
