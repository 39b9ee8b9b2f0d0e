/**
 * Handles: the API for applications. `handles(coordinate)` is the entry point, for any implementation of the verbs; it leads to
 * namespaces, their work specs, units and attempts.
 *
 * Handles are thin. They hold a name or the last row that was read, convert plain objects to data and back, and loop over pages
 * and batches; they contain no rules. For more, call `verbs`.
 */
import type { Coordinate, TallyRow } from "../core/index.ts";
import { Namespace } from "./namespace.ts";

export class CoordinateHandle {
  /** The complete low-level API, in batches of rows. */
  readonly verbs: Coordinate;

  constructor(verbs: Coordinate) {
    this.verbs = verbs;
  }

  /** A handle by name; the default namespace has the empty name. */
  namespace(name = ""): Namespace {
    return new Namespace(this.verbs, name);
  }

  /** The existing namespaces, in name order. */
  async namespaces(): Promise<Namespace[]> {
    return (await this.verbs.listNamespaces()).map(({ name }) => this.namespace(name));
  }

  /** Exact numbers of units by namespace, work spec and status. */
  async tally(): Promise<TallyRow[]> {
    return this.verbs.tally();
  }

  /** Releases the resources of the implementation; later calls are refused with `closed`. Idempotent. */
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
