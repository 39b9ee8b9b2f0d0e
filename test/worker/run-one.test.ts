/** A worker that fetches work once, or until a limit, for several runtimes. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { CoordinateError, handles, openMemory } from "../../src/index.ts";
import { runOne, silentLogger, tasksRuntime, type RunOneLimits, type Task } from "../../src/worker/index.ts";
import { wrapped } from "./setup.ts";

/**
 * Adds units to a work spec for each runtime, and runs a worker for both. `onRequest` is called before each request. No
 * task may be asked to stop.
 */
async function run(
  units: { first: number; second: number },
  limits: RunOneLimits = {},
  { taskMs = 0, onRequest = (): void => undefined } = {},
) {
  const { verbs } = openMemory();
  onTestFinished(() => verbs.close());
  const slow = wrapped(verbs, {
    // an empty answer arrives before one with work
    requestAttempts: async (ns, asked) => {
      onRequest();
      const rows = await verbs.requestAttempts(ns, asked);
      if (rows.length > 0) await sleep(20);
      return rows;
    },
  });
  const ns = handles(slow).namespace("test");
  for (const [name, count] of Object.entries(units)) {
    const spec = await ns.setWorkSpec({ name, runtime: name });
    await spec.addWorkUnits(Array.from({ length: count }, (_, i) => [`${name}-${i}`, {}] as const));
  }
  const ran: string[] = [];
  const interrupted: string[] = [];
  const task: Task = async ({ name }, { signal }) => {
    ran.push(name);
    await sleep(taskMs);
    if (signal.aborted) interrupted.push(name);
  };
  const runtimes = Object.keys(units).map((name) => tasksRuntime({ "*": task }, [name]));
  const outcome = await runOne(ns, { runtimes, maxAttempts: 1, graceMs: 0, log: silentLogger }, limits);
  let attempts = 0;
  for (const name of Object.keys(units))
    for (const row of (await verbs.listWorkUnits("test", name)).rows) attempts += row.attempts;
  expect(interrupted).toEqual([]);
  return { ...outcome, ran: ran.sort(), attempts };
}

test.each([
  [{ first: 2, second: 0 }, ["first-0"]],
  [{ first: 0, second: 2 }, ["second-0"]],
])("%j: work for one of two runtimes is done", async (units, ran) => {
  expect(await run(units)).toEqual({ hadWork: true, fetches: 1, ran, attempts: 1 });
});

test("one fetch takes work for one runtime only, and gives none back", async () => {
  const { ran, attempts, ...outcome } = await run({ first: 2, second: 2 });
  expect(outcome).toEqual({ hadWork: true, fetches: 1 });
  expect([ran.length, attempts]).toEqual([1, 1]);
});

test("fetches for all runtimes until there is no work or a limit is reached", async () => {
  const units = { first: 1, second: 3 };
  const all = ["first-0", "second-0", "second-1", "second-2"];
  expect(await run(units, { count: 9 })).toEqual({ hadWork: false, fetches: 4, ran: all, attempts: 4 });
  expect(await run(units, { count: 4 })).toEqual({ hadWork: true, fetches: 4, ran: all, attempts: 4 });
  expect(await run(units, { count: 2 })).toMatchObject({ hadWork: true, fetches: 2, attempts: 2 });
  expect(await run({ first: 0, second: 0 })).toEqual({ hadWork: false, fetches: 0, ran: [], attempts: 0 });
});

test("a failed request for one runtime, which is repeated, does not end the run of another's unit", async () => {
  let requests = 0;
  const onRequest = (): void => {
    if (requests++ === 0) throw new CoordinateError("unavailable");
  };
  const outcome = await run({ first: 0, second: 1 }, {}, { taskMs: 300, onRequest });
  expect(outcome).toEqual({ hadWork: true, fetches: 1, ran: ["second-0"], attempts: 1 });
});
