/** Every statement is planned to cost what the work asked for costs: none looks through the units, or through anything large. */
import { expect, test } from "vitest";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { migrate } from "../../src/sqlite/schema.ts";
import { sql } from "../../src/sqlite/statements.ts";

/** What may be read from end to end, and why. */
const scans: Record<string, RegExp> = {
  // on opening, once
  counters: /^SCAN counter$/,
  setCounters: /^SCAN counter$/,
  namespaces: /^SCAN namespace$/,
  specs: /^SCAN s$/,
  leases: /^SCAN lease$/,
  // what runs is little; once for a spec with partitions
  laneLeases: /^SCAN l$/,
  // the list of partitions
  setLanes: /^SCAN served$/,
  claimableFirst: /^SCAN wanted$/,
  claimableFirstQueued: /^SCAN wanted$/,
  // what runs is little, and here it is few enough to be sorted
  pendingByName: /^SCAN l$/,
};

/** Sorting what was found, where it is little. */
const sorts = new Set([
  "countStates",
  "pendingByName",
  "workerByName",
  "anyWorker",
  "oldWorkers",
  "dependents",
  // units of one partition that were begun and given back
  "firstBegun",
  "laneLeases",
  // what waits by partition, where it is few enough
  "readyLaneByName",
  // ten stretches of a breaker's window, and the errors in them
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
    // the lists that a statement is given, and the rows it is to write
    if (/^SCAN (j VIRTUAL|json_each VIRTUAL|\d+-ROW|\d+ CONSTANT|CONSTANT|\(subquery|subquery)/i.test(step))
      continue;
    if (step.startsWith("SCAN")) expect(step).toMatch(scans[name] ?? /^no scan at all$/);
    if (step.includes("TEMP B-TREE")) expect([...sorts], step).toContain(name);
    // a search that uses less of an index than the statement says is a scan by another name
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
