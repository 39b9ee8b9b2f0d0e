/** Progress reports of tasks, and units that are cancelled while their task runs. */
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { isCoordinateError, override } from "../../src/core/index.ts";
import { Stop, type UnitContext } from "../../src/worker/index.ts";
import { bench, gate, turns, until, type Bench } from "./setup.ts";

/** A task that runs until its signal aborts, with its context and the reason of the abort. */
function endless(): {
  task: (unit: { name: string }, context: UnitContext) => Promise<void>;
  context: Promise<UnitContext>;
  stopped: Promise<Stop>;
} {
  let give: (context: UnitContext) => void = () => undefined;
  let stop: (reason: Stop) => void = () => undefined;
  const context = new Promise<UnitContext>((resolve) => (give = resolve));
  const stopped = new Promise<Stop>((resolve) => (stop = resolve));
  const task = async (_unit: { name: string }, given: UnitContext): Promise<void> => {
    give(given);
    await new Promise<void>((resolve) => given.signal.addEventListener("abort", () => resolve()));
    assert.ok(given.signal.reason instanceof Stop);
    stop(given.signal.reason);
    throw new Error("ended as told");
  };
  return { task, context, stopped };
}

async function add(t: Bench, ...names: string[]): Promise<void> {
  const spec = await t.ns.setWorkSpec({ name: "s" });
  await spec.addWorkUnits(names.map((name) => [name] as const));
}

describe("a unit that is cancelled while its task runs", () => {
  it("is told to the task at once where the coordinator can wait, with who did it", async () => {
    const t = bench();
    await add(t, "u", "next");
    const { task, context, stopped } = endless();
    t.start({ tasks: { s: (unit, given) => (unit.name === "u" ? task(unit, given) : undefined) } });
    await context;
    await t.advance(2000);
    await t.ns.workSpec("s").cancel({ names: ["u"] }, { by: "alice", why: "wrong file" });
    const reason = await stopped;
    assert.equal(reason.reason, "cancelled");
    assert.equal(reason.message, "cancelled by alice: wrong file");
    assert.equal((await context).expired.aborted, true);
    await until("the slot is free again", async () => (await t.status("s", "next")) === "finished");
    assert.equal(await t.status("s", "u"), "failed");
    const lost = t.events.find(({ type }) => type === "lost");
    assert.ok(lost?.type === "lost" && lost.unit === "u");
    assert.match(lost.error.message, /^cancelled by alice/);
    // an error that the task throws after its abort is not logged
    assert.equal(t.lines.filter(({ message }) => message.includes("all its attempts")).length, 0);
  });

  it("is told when the lease is next renewed where the coordinator cannot wait for any", async () => {
    const t = bench();
    await add(t, "u");
    const { task, context, stopped } = endless();
    const over = override(t.coordinate, {
      awaitWorkUnits: () => Promise.reject(new Error("unreachable")),
    });
    t.start({ tasks: { s: task }, lifetimeMs: 60_000, renewForMs: 3_600_000 }, over);
    await context;
    await t.ns.workSpec("s").cancel({ all: true }, { by: "bob" });
    await t.advance(10_000);
    assert.equal((await context).signal.aborted, false);
    await t.advance(10_000);
    const reason = await stopped;
    assert.deepEqual([reason.reason, reason.message], ["cancelled", "cancelled by bob"]);
  });

  it("does not stay on the list of what the worker has", async () => {
    const t = bench();
    await add(t, "u");
    const { task, context, stopped } = endless();
    t.start({ tasks: { s: task } });
    await context;
    await t.advance(2000);
    await t.ns.workSpec("s").cancel({ all: true });
    await stopped;
    const held = async (): Promise<number> =>
      (await t.coordinate.listWorkerAttempts("test", "w/1", { which: "active" })).rows.length;
    await until("it is given up", async () => (await held()) === 0);
  });
});

it("a task is told that its unit was deleted", async () => {
  const t = bench();
  await add(t, "u");
  const { task, context, stopped } = endless();
  t.start({ tasks: { s: task } });
  await context;
  await t.advance(2000);
  await t.ns.workSpec("s").deleteWorkUnits({ all: true });
  const reason = await stopped;
  assert.deepEqual([reason.reason, reason.message], ["lost", "the unit was deleted"]);
});

for (const [how, take] of [
  ["reset", async (t: Bench) => (await t.ns.workSpec("s").workUnit("u")).clearActiveAttempt()],
  ["replaced", (t: Bench) => t.ns.workSpec("s").addWorkUnit("u", { new: true }, { onConflict: "replace" })],
] as const)
  it(`a task is told that its unit was ${how}, so that two do not run for long`, async () => {
    const t = bench();
    await add(t, "u");
    const { task, context, stopped } = endless();
    const next = gate();
    let runs = 0;
    const worker = t.start({
      concurrency: 2,
      tasks: { s: (unit, given) => (++runs === 1 ? task(unit, given) : next.promise) },
    });
    await context;
    await t.advance(2000);
    await take(t);
    for (let s = 0; s < 6; s++) await t.advance(1000);
    assert.equal((await stopped).reason, "lost");
    assert.equal(runs, 2);
    assert.equal(await t.status("s", "u"), "pending");
    next.open();
    await until("the next has ended", async () => (await t.status("s", "u")) === "finished");
    assert.equal(t.events.filter(({ type }) => type === "lost").length, 1);
    assert.equal(worker.counts.failed, 0);
  });

it("a task that has run for two seconds is watched, whenever it began", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s" });
  const { task, context, stopped } = endless();
  t.start({ tasks: { s: task } });
  await t.advance(500);
  await t.ns.workSpec("s").addWorkUnits([["u"]]);
  await context;
  for (let i = 0; i < 4; i++) await t.advance(500);
  await t.ns.workSpec("s").cancel({ all: true }, { by: "bob" });
  assert.equal((await stopped).reason, "cancelled");
});

it("tasks that return within a second are not watched, and others cost one request that waits", async () => {
  const t = bench();
  await add(t, "a", "b", "c");
  let waits = 0;
  const over = override(t.coordinate, {
    awaitWorkUnits: (...args: Parameters<typeof t.coordinate.awaitWorkUnits>) => {
      waits++;
      return t.coordinate.awaitWorkUnits(...args);
    },
  });
  let done = (): void => undefined;
  const held = new Promise<void>((resolve) => (done = resolve));
  t.start({ tasks: { s: ({ name }) => (name === "a" ? undefined : held) }, concurrency: 3 }, over);
  await until("the first has ended", async () => (await t.status("s", "a")) === "finished");
  await t.advance(999);
  assert.equal(waits, 0);
  for (let i = 0; i < 5; i++) await t.advance(1000);
  assert.equal(waits, 1);
  done();
  await until("all have ended", async () => (await t.status("s", "c")) === "finished");
});

describe("progress", () => {
  it("is seen by others, and renews the lease", async () => {
    const t = bench();
    await add(t, "u");
    const { task, context } = endless();
    t.start({ tasks: { s: task }, lifetimeMs: 60_000 });
    const { progress } = await context;
    await t.advance(5000);
    await progress(0.4, "page 4 of 10");
    const unit = await t.ns.workSpec("s").workUnit("u");
    assert.deepEqual(unit.progress, { done: 0.4, note: "page 4 of 10" });
    assert.equal(unit.activeAttempt?.expirationTime, t.clock.now() + 60_000);
  });

  it("of several reports within a second the last is stored, with one call", async () => {
    const t = bench();
    await add(t, "u");
    const { task, context } = endless();
    let renews = 0;
    const over = override(t.coordinate, {
      settleAttempts: (...args: Parameters<typeof t.coordinate.settleAttempts>) => {
        renews += args[1].filter(({ action }) => action === "renew").length;
        return t.coordinate.settleAttempts(...args);
      },
    });
    const worker = t.start({ tasks: { s: task } }, over);
    const told: number[] = [];
    worker.on("progress", ({ done }) => told.push(done));
    const { progress } = await context;
    await progress(0);
    for (let i = 1; i <= 50; i++) await progress(i / 100);
    assert.equal(renews, 1);
    await t.advance(1000);
    await turns();
    assert.equal(renews, 2);
    assert.deepEqual((await t.ns.workSpec("s").workUnit("u")).progress, { done: 0.5, note: "" });
    assert.deepEqual(told, [0, 0.5]);
  });

  it("of a unit that was taken away is refused, and nobody has to catch that", async () => {
    const t = bench();
    await add(t, "u");
    const { task, context, stopped } = endless();
    t.start({ tasks: { s: task } });
    const { progress } = await context;
    await t.ns.workSpec("s").cancel({ all: true }, { by: "eve" });
    void progress(0.5);
    assert.equal((await stopped).message, "cancelled by eve");
    await assert.rejects(progress(0.6), (error) => isCoordinateError(error, "not_pending"));
  });
});
