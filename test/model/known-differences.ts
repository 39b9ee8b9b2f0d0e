/**
 * Where two stores are known to differ today. Each is a defect of one of them that a conformance case describes (see
 * `test/stacks/failing.ts`); until it is mended the random tests keep out of its way, so that they find what is not known yet.
 * Whoever mends a defect on both sides takes its name out of the lists here.
 */
export const differences = {
  "message order": "messages are compared as a set, and queues are always emptied",
  messages: "queues are not compared at all",
  expiry: "after every move of the clock both stores look at all of their work specs",
  "names given twice": "an add with dependencies names every unit once",
  tracebacks: "which broken dependency a traceback names is not compared",
  "forgotten workers": "workers are kept for ever",
  "exhausted units": "housekeeping runs before every claim, and only the sum of its rounds is compared",
  "active attempts": "what a worker holds is not compared",
  "long names": "names are short",
  cycles: "a history ends where only one of the stores finds a cycle of dependencies",
  "error texts": "of an error only its code is compared",
  "late units":
    "how many units were late is not compared: those of deleted namespaces count until they are purged",
} as const;

export type Difference = keyof typeof differences;

export const knownDifferences: Readonly<Record<"sqlite" | "postgres", readonly Difference[]>> = {
  sqlite: [],
  postgres: [],
};

/** Where a store is known to answer otherwise than the model. */
export const knownErrors: Readonly<Record<"memory" | "sqlite" | "postgres", readonly Difference[]>> = {
  memory: [],
  sqlite: [],
  postgres: ["late units"],
};
