import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { bulk, fail, retry } from "../../src/worker/index.ts";
import { bench, turns, until, type Bench } from "./setup.ts";

const names = (count: number): [string][] =>
  Array.from({ length: count }, (_, i) => [String(i).padStart(4, "0")]);

const failureLines = (t: Bench): Bench["lines"] =>
  t.lines.filter(({ message }) => message.startsWith("a work unit failed"));

describe("a unit that fails", () => {
  it("is one line of the log: work spec, unit, attempt, error, and that it is not tried again", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "mail" });
    await t.ns.workSpec("mail").addWorkUnits([["anna"]]);
    const worker = t.start({
      tasks: {
        mail: () => {
          throw new Error("no address\nand more");
        },
      },
    });
    await until("it failed", () => worker.counts.failed === 1);
    assert.deepEqual(failureLines(t), [
      {
        level: "warn",
        message: "a work unit failed; it will not be tried again",
        details: { worker: "w/1", workSpec: "mail", unit: "anna", attempt: 1, error: "no address" },
      },
    ]);
  });

  it("in a child process or by hand too: the error is the traceback that is stored", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", max_retries: 3 });
    await t.ns.workSpec("s").addWorkUnits([["by hand"], ["silent"], ["again"]]);
    const worker = t.start({
      tasks: {
        s: bulk(async (attempts) => {
          for (const attempt of attempts) {
            if (attempt.workUnitName === "by hand") await attempt.fail({ traceback: "broken\nin line 3" });
            else if (attempt.workUnitName === "silent") await attempt.fail();
            else
              await attempt.retry({ delayMs: 90_000, data: { traceback: "the child process was killed" } });
          }
        }),
      },
    });
    await until("all are settled", () => worker.counts.failed === 2 && worker.counts.retried === 1);
    assert.deepEqual(
      failureLines(t)
        .map(({ message, details }) => [details.unit, details.error, message])
        .sort(),
      [
        [
          "again",
          "the child process was killed",
          "a work unit failed; it will be tried again in 90 s, 2 more times at most",
        ],
        ["by hand", "broken", "a work unit failed; it will not be tried again"],
        [
          "silent",
          "the task failed the unit without an error",
          "a work unit failed; it will not be tried again",
        ],
      ],
    );
  });

  it("that its task gives back without an error has not failed", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const worker = t.start({
      tasks: {
        s: () => {
          throw retry(60_000);
        },
      },
    });
    await until("given back", () => worker.counts.retried === 1);
    assert.deepEqual(failureLines(t), []);
    assert.deepEqual(
      t.events
        .filter(({ type }) => type === "retried")
        .map((event) => ("delayMs" in event ? event.delayMs : 0)),
      [60_000],
    );
  });

  it("many of them are ten lines a second, and a count of what was left out", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits(names(500));
    const worker = t.start({
      tasks: {
        s: () => {
          throw new Error("broken");
        },
      },
    });
    await until("all failed", () => worker.counts.failed === 500);
    assert.equal(failureLines(t).length, 10);
    const counts = (): unknown[] =>
      t.lines
        .filter(({ message }) => message.includes("were not logged"))
        .map(({ details }) => details.count);
    assert.deepEqual(counts(), []);
    await t.advance(1000);
    assert.deepEqual(counts(), [490]);
    await t.ns.workSpec("s").addWorkUnits([["one more"]]);
    await until("it failed", () => worker.counts.failed === 501);
    assert.equal(failureLines(t).length, 11);
    assert.equal(failureLines(t).at(-1)?.details.unit, "one more");
  });

  it("what was left out is said when the worker stops", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits(names(15));
    const worker = t.start({
      tasks: {
        s: () => {
          throw fail("no");
        },
      },
    });
    await until("all failed", () => worker.counts.failed === 15);
    await worker.stop();
    assert.ok(t.lines.some(({ message }) => message === "5 more work units failed and were not logged"));
  });
});

describe("events", () => {
  it("tell of each unit that it began, and how it ended", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits([["bad"], ["good"], ["later"]]);
    const thrown = new TypeError("not this one");
    const worker = t.start({
      tasks: {
        s: ({ name }) => {
          if (name === "bad") throw thrown;
          if (name === "later") throw retry(5000);
        },
      },
    });
    const told: unknown[] = [];
    worker.on("began", ({ unit, worker: by, number }) => told.push(["began", unit, by, number]));
    worker.on("finished", ({ unit, workSpec }) => told.push(["finished", unit, workSpec]));
    worker.on("failed", ({ unit, error }) => told.push(["failed", unit, error]));
    worker.on("retried", ({ unit, error, delayMs }) => told.push(["retried", unit, error, delayMs]));
    await until("all have ended", () => told.length === 6);
    assert.deepEqual(told.map(String).sort(), [
      "began,bad,w/1,1",
      "began,good,w/1,1",
      "began,later,w/1,1",
      "failed,bad,TypeError: not this one",
      "finished,good,s",
      "retried,later,,5000",
    ]);
    assert.ok(told.some((one) => Array.isArray(one) && one[2] === thrown));
  });

  it("tell when an attempt is no longer the worker's, and why", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits([["deleted"], ["reset"]]);
    t.start({
      concurrency: 2,
      tasks: {
        s: async ({ name, attempt }) => {
          if (attempt.number > 1) return;
          if (name === "deleted") await t.ns.workSpec("s").deleteWorkUnits({ names: ["deleted"] });
          else await t.ns.workSpec("s").retry({ names: ["reset"] });
        },
      },
    });
    await until("both are told", () => t.events.filter(({ type }) => type === "lost").length === 2);
    const lost = t.events.flatMap((event) =>
      event.type === "lost" ? [[event.unit, "code" in event.error ? event.error.code : ""]] : [],
    );
    assert.deepEqual(lost.sort(), [
      ["deleted", "gone"],
      ["reset", "lost_lease"],
    ]);
    await turns();
  });
});

describe("a listener", () => {
  it("for an event that a worker does not have is refused with the events that there are", () => {
    const worker = bench().start({ tasks: { s: () => undefined } });
    const listen = (event: string): unknown => (worker as NodeJS.EventEmitter).on(event, () => undefined);
    assert.throws(() => listen("completed"), {
      code: "bad_argument",
      message: /completed: unknown event; the events of a worker are began, .*finished, failed/,
    });
    assert.throws(() => listen("toString"), { code: "bad_argument" });
    listen("finished");
    // `once` of node:events also listens to this event
    listen("error");
  });
});
