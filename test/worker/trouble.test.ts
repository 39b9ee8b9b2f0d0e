import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  CoordinateError,
  dataGetText,
  encodeData,
  handles,
  seededRandom,
  type AttemptRow,
  type Coordinate,
} from "../../src/index.ts";
import { bulk, Worker, type Task } from "../../src/worker/index.ts";
import { bench, turns, until, wrapped, type Bench } from "./setup.ts";

/** A connection that fails on demand: before the request arrives ("down"), or after it was executed ("deaf"). */
function shaky(t: Bench): { over: Coordinate; state: "up" | "down" | "deaf"; calls: number } {
  const line = { over: t.coordinate, state: "up" as "up" | "down" | "deaf", calls: 0 };
  const through = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    line.calls++;
    if (line.state === "down") throw new CoordinateError("unavailable", "connection refused");
    const answer = await call();
    // read the state again: it may have changed during the call
    if ((line.state as string) === "deaf") throw new CoordinateError("unavailable", "connection reset");
    return answer;
  };
  line.over = wrapped(t.coordinate, {
    requestAttempts: (...args) => through(() => t.coordinate.requestAttempts(...args)),
    settleAttempts: (...args) => through(() => t.coordinate.settleAttempts(...args)),
    updateWorkers: (...args) => through(() => t.coordinate.updateWorkers(...args)),
    getWorkSpecs: (...args) => through(() => t.coordinate.getWorkSpecs(...args)),
  });
  return line;
}

const units = (count: number): [string][] =>
  Array.from({ length: count }, (_, i) => [String(i).padStart(4, "0")]);

async function wait(t: Bench, what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let s = 0; !(await condition()); s++) {
    assert.ok(s < 600, what);
    await t.advance(100);
  }
}

const warnings = (t: Bench): number =>
  t.lines.filter(({ level, message }) => level === "warn" && message.includes("does not answer")).length;

describe("a coordinator that does not answer for a while", () => {
  it("at the start: the worker waits for it", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const line = shaky(t);
    line.state = "down";
    t.start({ tasks: { s: () => undefined } }, line.over);
    for (let s = 0; s < 60; s++) await t.advance(1000);
    line.state = "up";
    await wait(t, "it works", async () => (await t.status("s", "u")) === "finished");
    assert.equal(warnings(t), 1);
    assert.equal(t.lines.filter(({ message }) => message.includes("answers again")).length, 1);
  });

  it("while work runs: settles are asked again until they are stored, and nothing is lost or doubled", async () => {
    for (const state of ["down", "deaf"] as const) {
      const t = bench();
      await t.ns.setWorkSpec({ name: "s", runtime: "node", max_getwork: 3 });
      await t.ns.workSpec("s").addWorkUnits(units(60));
      const line = shaky(t);
      const ran: string[] = [];
      const task: Task = bulk(async (attempts) => {
        for (const { workUnitName } of attempts) ran.push(workUnitName);
        if (ran.length === 15) line.state = state;
        await Promise.all(attempts.map((attempt) => attempt.finish({ by: attempt.workUnitName })));
      });
      const worker = t.start({ concurrency: 2, tasks: { s: task } }, line.over);
      await wait(t, "it broke", () => line.state !== "up");
      for (let s = 0; s < 20; s++) await t.advance(1000);
      line.state = "up";
      await wait(t, "all", async () => {
        const [tally] = await t.ns.tally();
        return tally?.counts.finished === 60;
      });
      assert.equal(new Set(ran).size, 60);
      assert.equal(ran.length, 60);
      assert.equal(worker.counts.refused, 0);
      assert.equal(warnings(t), 1);
    }
  });

  it("a claim whose answer was lost is answered the next time: no unit waits for its lease to end", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    const line = shaky(t);
    const rows: AttemptRow[] = [];
    t.start({ tasks: { s: () => undefined } }, line.over);
    await turns();
    line.state = "deaf";
    await t.ns.workSpec("s").addWorkUnits(units(5));
    await t.advance(1000);
    assert.equal(await t.status("s", "0000"), "pending");
    line.state = "up";
    await wait(t, "all", async () => (await t.status("s", "0004")) === "finished");
    for (const [unit] of units(5)) rows.push(...(await t.coordinate.listUnitAttempts("test", "s", unit)));
    assert.equal(rows.length, 5);
  });

  it("is asked again later and later, with chance, and never for nothing in a hurry", async () => {
    const t = bench();
    const line = shaky(t);
    t.start({ random: seededRandom(9), tasks: { s: () => undefined } }, line.over);
    await turns();
    line.state = "down";
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const times: number[] = [];
    for (let ms = 0, calls = line.calls; ms < 60_000; ms += 50) {
      await t.advance(50);
      if (line.calls > calls) times.push(ms);
      calls = line.calls;
    }
    // check-ins have their own schedule; claims are retried after 0.1, 0.2, 0.4 … 5 seconds, or at least half of that
    assert.ok(times.length > 10 && times.length < 35, `${times.length} tries in a minute`);
  });

  it("a worker that is told to stop meanwhile keeps its settles until they are stored", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const line = shaky(t);
    const task: Task = bulk(async ([attempt]) => {
      line.state = "down";
      await attempt!.finish();
    });
    const worker = t.start({ tasks: { s: task } }, line.over);
    await until("it broke", () => line.state === "down");
    const stopping = worker.stop();
    await t.advance(5000);
    assert.equal(await t.status("s", "u"), "pending");
    line.state = "up";
    await t.advance(5000);
    await stopping;
    assert.equal(await t.status("s", "u"), "finished");
  });

  it("a settle that fails with `internal` each time is given up after a while, and the others are stored", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["bad"], ["good"], ["last"]]);
    let tries = 0;
    const over = wrapped(t.coordinate, {
      settleAttempts: (ns, changes) => {
        if (!changes.some(({ data }) => dataGetText(data ?? encodeData({}), "name") === "bad"))
          return t.coordinate.settleAttempts(ns, changes);
        tries++;
        return Promise.reject(new CoordinateError("internal"));
      },
    });
    const worker = t.start({ concurrency: 3, tasks: { s: ({ name }) => ({ name }) } }, over);
    await wait(t, "the others", async () => (await t.status("s", "last")) === "finished");
    assert.equal(await t.status("s", "good"), "finished");
    await wait(t, "it is given up", () => worker.counts.unsettled === 1);
    assert.ok(tries <= 10, `${tries} tries`);
    const line = t.lines.find(({ level }) => level === "error");
    assert.equal(line?.message, "outcomes could not be stored; the attempts will expire");
    assert.deepEqual(line.details.units, ["bad"]);
    await worker.stop();
    assert.equal(await t.status("s", "bad"), "pending");
  });

  it("a token that is refused at the start is told, not waited out", async () => {
    const t = bench();
    const over = wrapped(t.coordinate, {
      updateWorkers: () => Promise.reject(Object.assign(new Error("no such token"), { status: 401 })),
    });
    const worker = new Worker(handles(over).namespace("test"), {
      clock: t.clock,
      tasks: { s: () => undefined },
    });
    await assert.rejects(worker.run(), /no such token/);
  });

  it("check-ins that fail are said again", async () => {
    const t = bench();
    const line = shaky(t);
    t.start({ tasks: { s: () => undefined } }, line.over);
    await turns();
    line.state = "down";
    for (let s = 0; s < 20; s++) await t.advance(1000);
    line.state = "up";
    for (let s = 0; s < 16; s++) await t.advance(1000);
    const { lastUpdate } = await t.ns.worker("w").state();
    assert.ok(t.clock.now() - lastUpdate < 16_000);
  });
});
