/**
 * One suite for every implementation of the Coordinate verbs. The test file of a stack builds the stack, lists what it cannot do,
 * and calls this. It takes `describe`, `test` and so on as arguments, so that any test runner works.
 */
import assert from "node:assert/strict";
import { actions } from "./cases/actions.ts";
import { attempts } from "./cases/attempts.ts";
import { cancelling } from "./cases/cancelling.ts";
import { batches } from "./cases/batches.ts";
import { breakers } from "./cases/breakers.ts";
import { chaining } from "./cases/chaining.ts";
import { conflicts } from "./cases/conflicts.ts";
import { consequences } from "./cases/consequences.ts";
import { continuous } from "./cases/continuous.ts";
import { data } from "./cases/data.ts";
import { aging, deadlines } from "./cases/deadlines.ts";
import { dependencies } from "./cases/dependencies.ts";
import { ending } from "./cases/ending.ts";
import { history } from "./cases/history.ts";
import { failureGroups } from "./cases/failures.ts";
import { housekeeping } from "./cases/housekeeping.ts";
import { input } from "./cases/input.ts";
import { labels } from "./cases/labels.ts";
import { sharedLimits } from "./cases/limits.ts";
import { locks } from "./cases/locks.ts";
import { logs } from "./cases/logs.ts";
import { names } from "./cases/names.ts";
import { namespaces } from "./cases/namespaces.ts";
import { partitions } from "./cases/partitions.ts";
import { progress } from "./cases/progress.ts";
import { queueAge } from "./cases/queue-age.ts";
import { queues } from "./cases/queues.ts";
import { races } from "./cases/races.ts";
import { requests } from "./cases/requests.ts";
import { retrying } from "./cases/retrying.ts";
import { schedules } from "./cases/schedules.ts";
import { scheduling } from "./cases/scheduling.ts";
import { settling } from "./cases/settling.ts";
import { shares } from "./cases/shares.ts";
import { waiting } from "./cases/waiting.ts";
import { workerLabels } from "./cases/worker-labels.ts";
import { workSpecs } from "./cases/work-specs.ts";
import { workUnits } from "./cases/work-units.ts";
import { workers } from "./cases/workers.ts";
import { Context, type CaseGroup, type Stack, type Subject } from "./stack.ts";

export const caseGroups: readonly CaseGroup[] = [
  names,
  data,
  namespaces,
  workSpecs,
  workUnits,
  conflicts,
  attempts,
  settling,
  retrying,
  failureGroups,
  progress,
  logs,
  cancelling,
  scheduling,
  shares,
  continuous,
  schedules,
  chaining,
  dependencies,
  consequences,
  workers,
  waiting,
  requests,
  queues,
  batches,
  actions,
  labels,
  partitions,
  deadlines,
  aging,
  breakers,
  workerLabels,
  sharedLimits,
  ending,
  queueAge,
  locks,
  history,
  housekeeping,
  input,
  races,
];

/** The parts of a test runner that the suite uses; vitest, jest and node:test have them. */
export interface Runner {
  describe: (name: string, body: () => void) => void;
  test: (name: string, body: () => Promise<void>) => void;
  beforeAll: (body: () => Promise<void>) => void;
  afterAll: (body: () => Promise<void>) => void;
}

export function conformance(stack: Stack, { describe, test, beforeAll, afterAll }: Runner): void {
  const left = new Set(stack.cannot?.flatMap(({ tests }) => tests));
  const failing = new Map(
    stack.failing?.flatMap(({ reason, tests }) => tests.map((name) => [name, reason] as const)),
  );
  describe(`${stack.name}: conformance`, () => {
    let subject: Subject | undefined;
    let serial = 0;
    beforeAll(async () => {
      subject = await stack.open();
    });
    afterAll(async () => {
      await subject?.close();
    });
    for (const { concept, cases } of caseGroups) {
      describe(concept, () => {
        for (const { name, run } of cases) {
          const title = `${concept}: ${name}`;
          if (left.delete(title)) continue;
          const reason = failing.get(title);
          failing.delete(title);
          test(reason === undefined ? name : `fails as known (${reason}): ${name}`, async () => {
            assert.ok(subject !== undefined, "the stack did not open");
            const context = new Context(subject, `case ${++serial}`);
            const running = run(context);
            await (reason === undefined ? running : mustFail(running));
            // housekeeping visits every namespace: those of a thousand earlier cases would take most of the suite's time. A
            // failed case keeps its namespace
            await context.c.deleteNamespace(context.ns);
          });
        }
      });
    }
    test("what the stack cannot do, and what fails on it, names cases that exist", async () => {
      assert.deepEqual([...left, ...failing.keys()], []);
    });
  });
}

/** A case on the list of known failures that passes is an error: the list would hide the next failure. */
async function mustFail(running: Promise<void>): Promise<void> {
  const failed = await running.then(
    () => false,
    () => true,
  );
  assert.ok(failed, "this case passes now: take it off the stack's list of known failures");
}
