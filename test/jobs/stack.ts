/** The environment of the jobs suite: a store with an engine, real worker processes, and files for output. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Engine, systemClock, type Coordinate, type Store } from "../../src/core/index.ts";
import {
  openJobs,
  type Jobs,
  type JobsOptions,
  type JobWorkerOptions,
  type PoolOptions,
} from "../../src/jobs/index.ts";
import { HousekeptHandle } from "../../src/housekept.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { silentLogger } from "../../src/worker/index.ts";
import { builtFile } from "../daemon/built.ts";

export interface Stack {
  readonly name: string;
  open(): Promise<{ coordinate: Coordinate; close(): Promise<void> }>;
}

export const engineOn = (store: Store): Engine => new Engine(store, { clock: systemClock() });
/** Runs housekeeping, as `connect` does for a store: lost jobs end without any request. */
export const housekept = (engine: Engine): HousekeptHandle => new HousekeptHandle(engine, { everyMs: 200 });

export const sqliteStack: Stack = {
  name: "engine on the sqlite store",
  async open() {
    const directory = mkdtempSync(path.join(tmpdir(), "coordinate-jobs-"));
    const coordinate = engineOn(await openSqlite(path.join(directory, "store.sqlite")));
    const handle = housekept(coordinate);
    return {
      coordinate,
      async close() {
        await handle.close();
        rmSync(directory, { recursive: true, force: true });
      },
    };
  },
};

export const functions = path.join(import.meta.dirname, "functions");

/** An export of the test functions, with a path relative to the roots of the workers. */
export const fn = (name: string): { module: string; export: string } => ({
  module: "./sums.mjs",
  export: name,
});

/** Fast enough for tests, and slow enough for a busy machine. */
export const quickSingle: JobWorkerOptions = {
  roots: [functions],
  execArgv: [],
  heartbeatMs: 400,
  leaseMs: 5000,
  killGraceMs: 200,
  log: silentLogger,
  get program() {
    return builtFile("jobs/child/main.js");
  },
};

export const quick: PoolOptions = { ...quickSingle, tickMs: 50, idleTimeoutMs: 100 };

let namespaces = 0;

export class Bench {
  readonly coordinate: Coordinate;
  readonly #close: () => Promise<void>;
  readonly folder = mkdtempSync(path.join(tmpdir(), "coordinate-jobs-files-"));

  private constructor(coordinate: Coordinate, close: () => Promise<void>) {
    this.coordinate = coordinate;
    this.#close = close;
  }

  static async open(stack: Stack): Promise<Bench> {
    const opened = await stack.open();
    return new Bench(opened.coordinate, () => opened.close());
  }

  /** Jobs in a new namespace. */
  jobs(options: JobsOptions = {}): Jobs {
    return openJobs(this.coordinate, { namespace: `jobs-${++namespaces}`, ...options });
  }

  file(name: string): string {
    return path.join(this.folder, `${++namespaces}-${name}`);
  }

  async close(): Promise<void> {
    await this.#close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "");
  } catch {
    return []; // the file does not exist yet
  }
}
