/**
 * Handles: the API that people write against. `handles(coordinate)` is the way in, over whatever implements the
 * verbs; from there a namespace, its work specs, their units, the attempts.
 *
 * Handles are thin. They hold a name or the row that was read last, turn plain objects into data and data into plain
 * objects, and loop over pages and batches; no rule stands here. Whoever needs more calls `verbs`.
 */
import type { Coordinate, TallyRow } from "../core/index.ts";
import { Namespace } from "./namespace.ts";

export class CoordinateHandle {
  /** Everything that may be asked, as batches of rows. */
  readonly verbs: Coordinate;

  constructor(verbs: Coordinate) {
    this.verbs = verbs;
  }

  /** A handle by name; the default namespace has the empty name. */
  namespace(name = ""): Namespace {
    return new Namespace(this.verbs, name);
  }

  /** Those that exist, in name order. */
  async namespaces(): Promise<Namespace[]> {
    return (await this.verbs.listNamespaces()).map(({ name }) => this.namespace(name));
  }

  /** Exact numbers of units by namespace, work spec and status. */
  async tally(): Promise<TallyRow[]> {
    return this.verbs.tally();
  }

  /** Gives back what the implementation holds; later calls are refused with `closed`. Idempotent. */
  async close(): Promise<void> {
    await this.verbs.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function handles(coordinate: Coordinate): CoordinateHandle {
  return new CoordinateHandle(coordinate);
}
