/** The query plan of every statement is proportional to the requested work: none scans the units or another large table. */
import { expect, test } from "vitest";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { migrate } from "../../src/sqlite/schema.ts";
import { sql } from "../../src/sqlite/statements.ts";

/** The tables that a statement may scan completely, with the reason. */
const scans: Record<string, RegExp> = {
  // once, when the file is opened
  counters: /^SCAN counter$/,
  setCounters: /^SCAN counter$/,
  namespaces: /^SCAN namespace$/,
  specs: /^SCAN s$/,
  leases: /^SCAN lease$/,
  // there are few leases; read once for a work spec with partitions
  laneLeases: /^SCAN l$/,
  // the list of partitions
  setLanes: /^SCAN served$/,
  claimableFirst: /^SCAN wanted$/,
  claimableFirstQueued: /^SCAN wanted$/,
  // there are few leases, and few enough here to sort them
  pendingByName: /^SCAN l$/,
};

/** Statements that may sort their result, because it is small. */
const sorts = new Set([
  "countStates",
  "pendingByName",
  "workerByName",
  "anyWorker",
  "oldWorkers",
  "dependents",
  // units of one partition that were started and returned
  "firstBegun",
  "laneLeases",
  // units that wait by partition, if they are few
  "readyLaneByName",
  // the ten intervals of a breaker's window, and their errors
  "outcomes",
]);

const connection = loadDriver().open(":memory:");
migrate(connection, ":memory:", () => undefined);

function plan(statement: string): string[] {
  const parameters = statement.split("?").length - 1;
  const rows = connection
    .prepare(`EXPLAIN QUERY PLAN ${statement}`)
    .all(...Array.from({ length: parameters }, () => null));
  return rows.map((row) => String(row[3]));
}

test.each(Object.entries(sql))("%s", (name, statement) => {
  for (const step of plan(statement)) {
    // the lists that are parameters of the statement, and the rows that it writes
    if (/^SCAN (j VIRTUAL|json_each VIRTUAL|\d+-ROW|\d+ CONSTANT|CONSTANT|\(subquery|subquery)/i.test(step))
      continue;
    if (step.startsWith("SCAN")) expect(step).toMatch(scans[name] ?? /^no scan at all$/);
    if (step.includes("TEMP B-TREE")) expect([...sorts], step).toContain(name);
    // a search that uses fewer index columns than the statement could is effectively a scan
    if (/^SEARCH (u|unit) /.test(step))
      expect(step).toMatch(
        /INTEGER PRIMARY KEY|unit_\w+ \(spec=\?( AND name[=><]\?)?|unit_name \(spec=\? AND name/,
      );
    if (/^SEARCH (r|ready) /.test(step)) expect(step).toMatch(/spec=\?/);
  }
});

test("the range of a slice is used to its end", () => {
  for (const name of [
    "unitsByName",
    "blockedByName",
    "finishedByName",
    "failedByName",
    "delayedByName",
  ] as const)
    expect(plan(sql[name]).join(), name).toMatch(/spec=\? AND name>\? AND name<\?/);
  expect(plan(sql.dropClaimed).join()).toMatch(/spec=\? AND place=\? AND name<\?/);
  expect(plan(sql.claimable)).toEqual([
    expect.stringMatching(/^SEARCH r USING PRIMARY KEY \(spec=\?\)/),
    expect.stringMatching(/^SEARCH u USING INTEGER PRIMARY KEY/),
  ]);
});
