/**
 * Where jobs wait: a work spec for jobs of modules, and one beside it for inline functions. They are two, so that a worker that
 * takes no inline functions is never offered one, and so that a namespace has inline functions only when somebody
 * with the right to set work specs has said so.
 */
import {
  CoordinateError,
  encodeData,
  isCoordinateError,
  type Coordinate,
  type WorkUnitRow,
} from "../core/index.ts";

export interface Found {
  readonly spec: string;
  readonly row: WorkUnitRow;
}

export class Queue {
  readonly spec: string;
  readonly inlineSpec: string;
  readonly runtime = "jobs";
  readonly inlineRuntime = "jobs-inline";
  readonly #verbs: Coordinate;
  readonly #ns: string;

  constructor(verbs: Coordinate, ns: string, name: string) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.spec = name;
    this.inlineSpec = `${name}-inline`;
  }

  get specs(): readonly string[] {
    return [this.spec, this.inlineSpec];
  }

  /** Makes the work spec of module jobs where there is none; leaves one that is there as it is. */
  async ensure(): Promise<void> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [this.spec]);
    if (row === undefined || row === null) {
      const data = encodeData({ name: this.spec, runtime: this.runtime });
      await this.#verbs.setWorkSpecs(this.#ns, [{ name: this.spec, data }], { keepMeta: true });
    } else if (row.meta.runtime !== this.runtime)
      throw new CoordinateError(
        "bad_argument",
        `queue ${this.spec}: a work spec of this name is there for other work`,
      );
  }

  async allowInline(allow: boolean): Promise<void> {
    if (!allow) {
      await this.#verbs.deleteWorkSpecs(this.#ns, [this.inlineSpec]);
      return;
    }
    const data = encodeData({ name: this.inlineSpec, runtime: this.inlineRuntime });
    await this.#verbs.setWorkSpecs(this.#ns, [{ name: this.inlineSpec, data }], { keepMeta: true });
  }

  async allowsInline(): Promise<boolean> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [this.inlineSpec]);
    return row !== undefined && row !== null;
  }

  /** The units of these jobs, in order, from whichever work spec has them; null where there is none. */
  async find(ids: readonly string[]): Promise<(Found | null)[]> {
    const found = new Map<string, Found>();
    for (const spec of this.specs) {
      const missing = ids.filter((id) => !found.has(id));
      if (missing.length === 0) break;
      for (const row of await this.#units(spec, missing))
        if (row !== null) found.set(row.name, { spec, row });
    }
    return ids.map((id) => found.get(id) ?? null);
  }

  async #units(spec: string, names: readonly string[]): Promise<(WorkUnitRow | null)[]> {
    try {
      return await this.#verbs.getWorkUnits(this.#ns, spec, names);
    } catch (error) {
      if (isCoordinateError(error, "no_such_work_spec")) return [];
      throw error;
    }
  }
}
