/**
 * Known defects of the stores: conformance cases that a store does not pass yet, each with what it does instead. What the case
 * promises is in its name, and is right; the store is wrong. The suite runs these cases and reports one that passes, so
 * whoever mends a store takes its name out of `stores`, and removes an entry that has none left.
 */
export type FailingStack =
  | "memory"
  | "sqlite"
  | "postgres"
  /** PostgreSQL without a wire: clients of the wires send a request id with every claim, and take another path. */
  | "postgres in process"
  | "cbor-rpc";

interface Failing {
  reason: string;
  stores: readonly FailingStack[];
  tests: readonly string[];
}

const failing: readonly Failing[] = [];

/** The known failures of a stack that is made of these parts. */
export const failingOn = (...parts: readonly FailingStack[]): Failing[] =>
  failing.filter(({ stores }) => stores.some((store) => parts.includes(store)));
