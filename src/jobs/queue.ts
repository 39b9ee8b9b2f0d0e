/**
 * The queue of jobs: a work spec for functions of modules, and a second one for inline functions. They are separate so that a
 * worker that accepts no inline functions is never offered one, and so that a namespace has inline functions only after a caller
 * with the right to set work specs has allowed them.
 */
import {
  CoordinateError,
  decodeData,
  encodeData,
  isCoordinateError,
  type Coordinate,
  type WorkUnitRow,
} from "../core/index.ts";

export interface Found {
  readonly workSpec: string;
  readonly row: WorkUnitRow;
}

/** How long ended jobs are kept, in milliseconds; an absent limit keeps them for ever. */
export interface JobRetention {
  readonly finishedMs?: number;
  readonly failedMs?: number;
}

export class Queue {
  readonly workSpec: string;
  readonly inlineWorkSpec: string;
  readonly runtime = "jobs";
  readonly inlineRuntime = "jobs-inline";
  readonly #verbs: Coordinate;
  readonly #ns: string;

  readonly #retention: JobRetention | null;

  constructor(verbs: Coordinate, ns: string, name: string, retention: JobRetention | null = null) {
    this.#retention = retention;
    this.#verbs = verbs;
    this.#ns = ns;
    this.workSpec = name;
    this.inlineWorkSpec = `${name}-inline`;
  }

  get workSpecs(): readonly string[] {
    return [this.workSpec, this.inlineWorkSpec];
  }

  /**
   * Creates the work spec of module jobs if it is missing. An existing one is changed only if a different retention was given, or
   * if it was created by an older version, which counted tries itself.
   */
  async ensure(): Promise<void> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [this.workSpec]);
    if (row === undefined || row === null) {
      await this.#set(this.workSpec, this.runtime);
      return;
    }
    if (row.meta.runtime !== this.runtime)
      throw new CoordinateError(
        "bad_argument",
        `queue ${this.workSpec}: a work spec of this name is used for other work`,
      );
    const { finished, failed } = row.meta.retention;
    const { finishedMs, failedMs } = this.#retention ?? {};
    if (
      row.meta.retry.attempts === undefined ||
      (this.#retention !== null && (finished?.maxAgeMs !== finishedMs || failed?.maxAgeMs !== failedMs))
    )
      for (const [workSpec, runtime] of [
        [this.workSpec, this.runtime],
        [this.inlineWorkSpec, this.inlineRuntime],
      ] as const)
        if (workSpec === this.workSpec || (await this.allowsInline())) await this.#set(workSpec, runtime);
  }

  async #set(name: string, runtime: string): Promise<void> {
    const { finishedMs, failedMs } = this.#retention ?? {};
    const retention = {
      ...(finishedMs !== undefined && { finished: { max_age: finishedMs / 1000 } }),
      ...(failedMs !== undefined && { failed: { max_age: failedMs / 1000 } }),
    };
    const [old] = await this.#verbs.getWorkSpecs(this.#ns, [name]);
    const data = encodeData({
      ...(old !== undefined && old !== null && decodeData(old.data)),
      name,
      runtime,
      // a job without retries gets one attempt; losing its worker counts as an attempt, too
      retry: { attempts: 1 },
      ...(this.#retention !== null && { retention }),
    });
    await this.#verbs.setWorkSpecs(this.#ns, [{ name, data }], { keepMeta: true });
  }

  async allowInline(allow: boolean): Promise<void> {
    if (!allow) {
      await this.#verbs.deleteWorkSpecs(this.#ns, [this.inlineWorkSpec]);
      return;
    }
    await this.#set(this.inlineWorkSpec, this.inlineRuntime);
  }

  async allowsInline(): Promise<boolean> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [this.inlineWorkSpec]);
    return row !== undefined && row !== null;
  }

  /** The units of these jobs, in order, from either work spec; null for a missing job. */
  async find(ids: readonly string[]): Promise<(Found | null)[]> {
    const found = new Map<string, Found>();
    for (const workSpec of this.workSpecs) {
      const missing = ids.filter((id) => !found.has(id));
      if (missing.length === 0) break;
      for (const row of await this.#units(workSpec, missing))
        if (row !== null) found.set(row.name, { workSpec, row });
    }
    return ids.map((id) => found.get(id) ?? null);
  }

  async #units(workSpec: string, names: readonly string[]): Promise<(WorkUnitRow | null)[]> {
    try {
      return await this.#verbs.getWorkUnits(this.#ns, workSpec, names);
    } catch (error) {
      if (isCoordinateError(error, "no_such_work_spec")) return [];
      throw error;
    }
  }
}
