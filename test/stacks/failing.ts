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

const failing: readonly Failing[] = [
  // ---- names
  {
    reason: "names over 2,600 bytes are ordered by a hash",
    stores: ["postgres"],
    tests: [
      ...[2599, 2600, 2601, 2700, 4000].map(
        (length) =>
          `names: names of more than ${length} bytes are listed, paged, found and claimed in the order of their bytes`,
      ),
      "names: a name that looks like a long one shortened to 2,600 bytes by a hash is another name",
    ],
  },
  {
    reason: "bytes of a name that are not UTF-8 are lost in the text of an error",
    stores: ["cbor-rpc"],
    tests: ["dependencies: the error of a cycle names its units, whatever their bytes"],
  },
];

/** The known failures of a stack that is made of these parts. */
export const failingOn = (...parts: readonly FailingStack[]): Failing[] =>
  failing.filter(({ stores }) => stores.some((store) => parts.includes(store)));
