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

const all: readonly FailingStack[] = ["memory", "sqlite", "postgres"];

interface Failing {
  reason: string;
  stores: readonly FailingStack[];
  tests: readonly string[];
}

const expiry = (...verbs: string[]): string[] =>
  verbs.map((verb) => `consequences: expiry reaches dependents in other work specs at once: ${verb}`);

const failing: readonly Failing[] = [
  // ---- messages
  {
    reason: "messages follow each change at once, or the order of rows, and not level by level",
    stores: all,
    tests: [
      "consequences: messages: the changes of a call come in the order given, what follows from them after that",
      "consequences: messages: what follows comes level by level, each level in the order of unit ids",
      "consequences: messages: a change to a blocked unit for which nothing follows keeps its place in the order given",
      "consequences: messages: dependents of deleted units come level by level, each level in the order of unit ids",
      "consequences: messages: units that fail as they are added come in the order given, their dependents after that",
    ],
  },
  {
    reason: "messages are in the order of rows",
    stores: ["postgres"],
    tests: [
      "consequences: messages: a claim tells of an exhausted unit and its dependents before it looks for the next",
    ],
  },
  {
    reason:
      "messages follow from the difference of rows, so that an end is lost when the unit is added again",
    stores: ["postgres"],
    tests: [
      "consequences: fail and then finish of one attempt in one call: the messages of its dependents come in between",
      "consequences: fail and then finish of one attempt in one call, whose output adds the failed dependent again",
      "consequences: messages: an add of a unit that an earlier item of the same add fails tells both ends",
      "consequences: messages: a unit that names itself in its output tells of its end",
      "consequences: messages: a unit that is finished and added again by an output of the same call tells of its end",
      "consequences: messages: a unit that one add names twice and that fails both times tells of both",
    ],
  },

  // ---- adding
  {
    reason: "a unit that one add names twice has the dependencies of the later item from the first on",
    stores: all,
    tests: [
      "consequences: messages: a unit that fails and is then added again by the same add tells of its end",
      "consequences: a name given twice in one add has the dependencies of the later one, judged when it is its turn",
    ],
  },
  {
    reason: "a dependency that was met for the first of two items of one add stays met for the second",
    stores: ["memory", "postgres"],
    tests: [
      "consequences: a name given twice in one add waits for a dependency that the same add makes available in between",
    ],
  },

  {
    reason: "a deleted unit keeps its dependencies, and a cycle is found through it",
    stores: ["memory"],
    tests: ["dependencies: there is no cycle through a unit that was deleted"],
  },

  // ---- time
  {
    reason: "expiry is applied to the work spec that is read, not to those that its units depend on",
    stores: all,
    tests: expiry(
      "getWorkUnits",
      "getWorkUnits, two steps away",
      "listWorkUnits",
      "listWorkUnits by status",
      "countWorkUnits",
      "listUnitAttempts",
      "resetWorkUnits",
      "setWorkUnitDelays",
      "deleteWorkUnits",
      "addWorkUnits",
      "awaitWorkUnits",
    ),
  },
  {
    reason: "expiry is applied spec by spec, in the order of names, while they are read",
    stores: ["memory"],
    tests: expiry("tally", "requestAttempts", "explain", "waitingSince"),
  },
  {
    reason: "the status of a dependency in another work spec is shown as it was stored",
    stores: ["memory", "sqlite"],
    tests: [
      "consequences: a dependency is shown as available once its delay is over",
      "consequences: a dependency is shown as available once the lease of its attempt has ended",
    ],
  },

  // ---- deleted work specs
  {
    reason: "the units of a deleted work spec are removed one by one, and dependents are resolved in between",
    stores: ["memory"],
    tests: [
      "consequences: when a work spec is deleted, the traceback names the first of its units that the dependent lists",
      "consequences: when a work spec is deleted, its units do not fail on the way: dependents are told of the deletion",
    ],
  },

  // ---- exhausted units
  {
    reason: "what an exhausted unit releases is not looked at in the same claim",
    stores: ["postgres"],
    tests: [
      "consequences: what an exhausted unit releases is a candidate for the next place of the same claim, by priority",
      "consequences: an exhausted unit that releases another takes one place, and so does an exhausted one that it releases",
    ],
  },
  {
    reason:
      "a sweep does not look again after an exhausted unit released another, and says that there is no more",
    stores: ["sqlite", "postgres"],
    tests: ["consequences: housekeeping fails an exhausted unit that another exhausted one released"],
  },

  // ---- workers
  {
    reason: "an attempt leaves its worker's active list when another takes the unit",
    stores: all,
    tests: ["another attempt was made", "the unit was reset"].map(
      (how) =>
        `attempts: a worker's active attempts include one that it lost because ${how}, until it settles it`,
    ),
  },
  {
    reason: "a parent is looked at before its child was forgotten, and is left for the next sweep",
    stores: all,
    tests: [
      "housekeeping: a parent and its child are forgotten together, when the parent was known before the child",
    ],
  },
  {
    reason: "a parent is left for the next sweep",
    stores: ["postgres"],
    tests: [
      "housekeeping: a parent and its child are forgotten together, when the child was known before the parent",
    ],
  },
  {
    reason: "an engine takes a worker that it has seen to be known for ever",
    stores: all,
    tests: ["housekeeping: a worker that was forgotten is known again by a request for work that finds none"],
  },
  {
    reason: "a claim takes a worker to be known for a minute of real time",
    stores: ["postgres in process"],
    tests: ["housekeeping: a worker that was forgotten is known again by a claim, and holds what it claimed"],
  },
  {
    reason: "a renew does not make a worker that was forgotten known again",
    stores: all,
    tests: ["housekeeping: a worker that was forgotten and renews late holds its attempt again"],
  },
  {
    reason: "a renew does not find a worker that was forgotten and is known again",
    stores: ["sqlite"],
    tests: [
      "housekeeping: a worker that was forgotten and renews late holds its attempt again, also when it checks in first",
    ],
  },
  {
    reason: "a page begins where the row of `previous` is, and that row was removed",
    stores: ["memory"],
    tests: [
      "housekeeping: a page of a worker's attempts goes on after the page before, also when its last unit is gone since",
    ],
  },

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
    stores: ["postgres", "cbor-rpc"],
    tests: ["dependencies: the error of a cycle names its units, whatever their bytes"],
  },

  // ---- actions
  {
    reason: "conflicts within the call are found before those with what is stored",
    stores: ["postgres"],
    tests: ["actions: of several conflicts the first in the order given is named"],
  },
];

/** The known failures of a stack that is made of these parts. */
export const failingOn = (...parts: readonly FailingStack[]): Failing[] =>
  failing.filter(({ stores }) => stores.some((store) => parts.includes(store)));
