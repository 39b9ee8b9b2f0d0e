import assert from "node:assert/strict";
import pino from "pino";
import { describe, it } from "vitest";
import { encodeData, isCoordinateError, type AttemptRow } from "../../src/index.ts";
import {
  bulk,
  fail,
  linesLogger,
  retry,
  snooze,
  tasksRuntime,
  Worker,
  type Logger,
  type Runtime,
  type Task,
  type Unit,
  type UnitTask,
} from "../../src/worker/index.ts";
import { traceback } from "../../src/worker/traceback.ts";
import { bench, gate, turns, until, wrapped, type Bench } from "./setup.ts";

async function add(
  t: Bench,
  spec: { name: string; [key: string]: unknown },
  ...units: string[]
): Promise<void> {
  await t.ns.setWorkSpec({ runtime: "node", ...spec });
  await t.ns.workSpec(spec.name).addWorkUnits(units.map((name) => [name, { own: name }] as const));
}

const codeOf = (error: unknown): string => (isCoordinateError(error) ? error.code : String(error));

const ended = (t: Bench, spec: string, unit: string): Promise<void> =>
  until(`${unit} has ended`, async () => ["finished", "failed"].includes(await t.status(spec, unit)));

describe("what a task gets", () => {
  it("a copy of the context has every part, and the context itself cannot be changed", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a");
    const seen: string[][] = [];
    const inner: UnitTask = async ({ data }, { signal, renew, progress, ...rest }) => {
      seen.push(Object.keys(rest).sort());
      await renew(60_000);
      await progress(0.5);
      return { ...data, aborted: signal.aborted };
    };
    t.start({
      tasks: {
        s: (unit, context) => {
          assert.throws(() => Object.assign(context, { database: "pg" }), TypeError);
          assert.equal("database" in context, false);
          const copy = { ...context, database: "pg" };
          assert.equal(copy.signal, context.signal);
          return inner(unit, copy);
        },
      },
    });
    await ended(t, "s", "a");
    assert.deepEqual(seen, [["clock", "database", "expired", "log", "workSpec", "worker"]]);
    const unit = await t.ns.workSpec("s").workUnit("a");
    assert.deepEqual(unit.data, { own: "a", aborted: false });
  });
});

describe("which task runs", () => {
  it("the one that the work spec's `task` key names, else the one of its name", async () => {
    const t = bench();
    await add(t, { name: "hello" }, "a");
    await add(t, { name: "greeting", task: "hello" }, "b");
    const ran: string[] = [];
    t.start({
      tasks: { hello: ({ name }, { workSpec }) => void ran.push(`${workSpec.name} ${name}`) },
    });
    await ended(t, "hello", "a");
    await ended(t, "greeting", "b");
    assert.deepEqual(ran.sort(), ["greeting b", "hello a"]);
  });

  it("work specs of the runtimes node and none are taken; others, and those with a module, are left alone", async () => {
    const t = bench();
    await add(t, { name: "go", runtime: "go" }, "a");
    await add(t, { name: "python", runtime: "", module: "jobs", run_function: "run" }, "a");
    await add(t, { name: "none", runtime: "" }, "b");
    await add(t, { name: "mine" }, "c");
    const task = () => undefined;
    t.start({ tasks: { "*": task, go: task, python: task } });
    await ended(t, "mine", "c");
    await ended(t, "none", "b");
    await t.advance(5000);
    assert.equal(await t.status("go", "a"), "available");
    assert.equal(await t.status("python", "a"), "available");
  });

  it("the list of runtimes can be another, and the empty name is for work specs without one", async () => {
    const t = bench();
    await add(t, { name: "go", runtime: "go" }, "a");
    await t.ns.setWorkSpec({ name: "none" });
    await t.ns.workSpec("none").addWorkUnits([["b"]]);
    await add(t, { name: "node" }, "c");
    const task = () => undefined;
    t.start({ taskRuntimes: ["go", ""], tasks: { go: task, none: task, node: task } });
    await ended(t, "go", "a");
    await ended(t, "none", "b");
    assert.equal(await t.status("node", "c"), "available");
  });

  it("a work spec without a task here is left to others: no unit is claimed or fails", async () => {
    const t = bench();
    await add(t, { name: "s", task: "constructor" }, "u");
    await add(t, { name: "one" }, "u");
    const worker = t.start({ tasks: { one: () => undefined, two: () => undefined } });
    await ended(t, "one", "u");
    await t.advance(60_000);
    assert.equal(await t.status("s", "u"), "available");
    assert.equal(worker.counts.claimed, 1);
    t.start({ name: "other", tasks: { constructor: () => ({ by: "other" }) } });
    await ended(t, "s", "u");
    assert.deepEqual(await t.data("s", "u"), { by: "other" });
  });

  it("a pattern matches the names that begin like it, and the most exact one wins", async () => {
    const t = bench();
    for (const name of ["resize", "resize-large", "resize-small", "mail"]) await add(t, { name }, "u");
    const by = (task: string) => () => ({ task });
    t.start({
      tasks: {
        "*": by("*"),
        "resize-*": by("resize-*"),
        "resize-small": by("resize-small"),
      },
    });
    for (const [name, task] of [
      ["resize", "*"],
      ["resize-large", "resize-*"],
      ["resize-small", "resize-small"],
      ["mail", "*"],
    ] as const) {
      await ended(t, name, "u");
      assert.deepEqual(await t.data(name, "u"), { task });
    }
  });

  it("of a runtime that asks for all of its work: without the task, the attempts fail and say which there are", async () => {
    const t = bench();
    await add(t, { name: "s", runtime: "own" }, "u");
    const runtime: Runtime = { names: ["own"], task: () => null, close: () => Promise.resolve() };
    t.start({ runtimes: [runtime] });
    await ended(t, "s", "u");
    assert.deepEqual(await t.data("s", "u"), {
      own: "u",
      traceback: 'no task "s" for runtime "own"; this worker has no tasks',
    });
  });

  it("of two runtimes of one name, the first that has the task runs it", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const ran: string[] = [];
    const other: Runtime = {
      names: ["node"],
      task: async () => Promise.resolve(() => void ran.push("second")),
      close: () => Promise.resolve(),
    };
    t.start({ runtimes: [tasksRuntime({ another: () => void ran.push("first") }), other] });
    await ended(t, "s", "u");
    assert.deepEqual(ran, ["second"]);
  });

  it("a runtime that cannot make the task fails the attempts with its error", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const broken: Runtime = {
      names: ["node"],
      task: () => Promise.reject(new Error("no interpreter")),
      close: () => Promise.resolve(),
    };
    t.start({ runtimes: [broken] });
    await ended(t, "s", "u");
    assert.match(String((await t.data("s", "u")).traceback), /no interpreter/);
  });
});

describe("what a task is given", () => {
  it("attempts of distinct units of one work spec and one worker, and its surroundings", async () => {
    const t = bench();
    await add(t, { name: "s", config: { level: 7 } }, "a", "b", "c");
    const seen = gate();
    t.start({
      tasks: {
        s: bulk(async (attempts, context) => {
          assert.deepEqual(
            attempts.map((attempt) => [attempt.workUnitName, attempt.workSpecName, attempt.workerName]),
            ["a", "b", "c"].map((name) => [name, "s", "w/1"]),
          );
          assert.deepEqual(attempts[1]?.data, { own: "b" });
          assert.equal(context.workSpec.name, "s");
          assert.deepEqual(context.workSpec.data.config, { level: 7 });
          assert.equal(context.worker, "w/1");
          assert.equal(context.clock.now(), t.clock.now());
          context.log.info({ n: 1 }, "hello");
          await Promise.all(attempts.map((attempt) => attempt.finish()));
          seen.open();
        }),
      },
    });
    await ended(t, "s", "c");
    await seen.promise;
    const line = t.lines.find(({ message }) => message === "hello");
    assert.deepEqual(line?.details, { worker: "w/1", workSpec: "s", n: 1 });
  });

  it("sees the data of its work spec as it is now, a second later at most", async () => {
    const t = bench();
    await add(t, { name: "s", version: 1 }, "a");
    const seen: unknown[] = [];
    t.start({ tasks: { s: (_, { workSpec }) => void seen.push(workSpec.data.version) } });
    await ended(t, "s", "a");
    await add(t, { name: "s", version: 2 });
    await t.advance(1000);
    await t.ns.workSpec("s").addWorkUnits([["b"]]);
    await ended(t, "s", "b");
    assert.deepEqual(seen, [1, 2]);
  });

  it("a pino logger is a logger", () => {
    const logger: Logger = pino({ enabled: false });
    logger.child({ a: 1 }).warn({ b: 2 }, "said");
  });

  it("the console is a logger, although it has no `child`", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const lines: string[] = [];
    const write = (line: string): void => void lines.push(line);
    const log: Pick<Console, "debug" | "info" | "warn" | "error"> = {
      ...console,
      debug: () => undefined,
      info: () => undefined,
      warn: write,
      error: write,
    };
    t.start({
      log,
      tasks: {
        s: (_unit, context) => {
          context.log.warn({ page: 4 }, "slow");
        },
      },
    });
    await ended(t, "s", "u");
    assert.match(lines[0] ?? "", /^slow \{"worker":"w\/1","workSpec":"s","page":4\}$/);
  });

  it("the logger of lines writes a line, whatever it is given", () => {
    const lines: string[] = [];
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const log = linesLogger((line) => lines.push(line), ["warn"]).child({ worker: "w" });
    log.info("not shown");
    log.warn({ err: new Error("broken"), n: 1n }, "said");
    log.warn(circle, "round");
    assert.equal(lines[0], 'warn: said {"worker":"w","err":"broken","n":"1"}\n');
    assert.match(lines[1] ?? "", /^warn: round .*Circular/);
    assert.equal(lines.length, 2);
  });

  it("no text can change the terminal, or look like another line", () => {
    const lines: string[] = [];
    const log = linesLogger((line) => lines.push(line));
    log.warn({ unit: "a\u009b2J\u202e", error: "b\u001bc" }, "\u001b[2Jsaid\tthis\nerror: that");
    assert.deepEqual(lines, [
      String.raw`warn: \u{1b}[2Jsaid` +
        "\t" +
        String.raw`this\u{a}error: that {"unit":"a\u{9b}2J\u{202e}","error":"b\u001bc"}` +
        "\n",
    ]);
  });
});

describe("attempts that a task leaves open", () => {
  it("are failed with the stack when it throws; those that it settled stay", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b", "c");
    t.start({
      tasks: {
        s: bulk(async (attempts) => {
          await attempts[0]!.finish({ done: true });
          throw new Error("broken", { cause: new Error("the disk") });
        }),
      },
    });
    await ended(t, "s", "c");
    assert.equal(await t.status("s", "a"), "finished");
    const { traceback, own } = await t.data("s", "b");
    assert.equal(own, "b");
    assert.match(
      String(traceback),
      /^Error: broken\n\s+at .*tasks\.test\.ts.*\n(.*\n)*caused by: Error: the disk/,
    );
  });

  it("are failed when it throws at once, and whatever it throws", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const task = (): never => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      throw "a text";
    };
    t.start({ tasks: { s: task } });
    await ended(t, "s", "u");
    assert.equal((await t.data("s", "u")).traceback, "a text");
    for (const [thrown, said] of [
      [undefined, "the task threw undefined"],
      [{ code: 5 }, "the task threw { code: 5 }"],
    ] as const)
      assert.equal(traceback(thrown), said);
  });

  it("are given back when it throws retry", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    let runs = 0;
    t.start({
      tasks: {
        s: bulk(async (attempts) => {
          if (++runs === 1) throw retry(5000);
          await Promise.all(attempts.map((attempt) => attempt.finish()));
        }),
      },
    });
    await until("given back", async () => (await t.status("s", "b")) === "delayed");
    await t.advance(4999);
    assert.equal(runs, 1);
    await t.advance(1);
    await ended(t, "s", "b");
    assert.equal(runs, 2);
  });

  it("are reported when it returns, and expire", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    const worker = t.start({
      lifetimeMs: 10_000,
      tasks: { s: bulk((attempts) => void attempts[0]!.finish()) },
    });
    await until("reported", () => worker.counts.unsettled > 0);
    assert.equal(worker.counts.unsettled, 1);
    assert.equal(await t.status("s", "a"), "finished");
    assert.equal(await t.status("s", "b"), "pending");
    const reported = t.events.filter(({ type }) => type === "unsettled");
    assert.deepEqual(reported, [{ type: "unsettled", worker: "w/1", workSpec: "s", units: ["b"] }]);
    assert.equal(
      t.lines.filter(({ level, message }) => level === "warn" && message.includes("unsettled")).length,
      1,
    );
    await t.advance(9999);
    assert.equal(await t.status("s", "b"), "pending");
    const [attempt] = await t.coordinate.listUnitAttempts("test", "s", "b");
    await t.advance(1);
    const [expired] = await t.coordinate.listUnitAttempts("test", "s", "b");
    assert.equal(expired?.id, attempt?.id);
    assert.equal(expired?.status, "expired");
  });

  it("cannot keep an attempt from failing when their data has no room for a traceback", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    const full = { fill: "x".repeat(16 * 1024 * 1024 - 20) };
    await t.ns.workSpec("s").addWorkUnits([["u", full]]);
    t.start({
      tasks: {
        s: () => {
          throw new Error("broken");
        },
      },
    });
    await ended(t, "s", "u");
    assert.equal(await t.status("s", "u"), "failed");
  });
});

describe("a plain function", () => {
  it("finishes with what is returned; nothing keeps the data", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b", "c");
    t.start({
      tasks: { s: async ({ name, data }) => (name === "b" ? { ...data, ok: 1 } : undefined) },
    });
    await ended(t, "s", "c");
    assert.deepEqual(await t.data("s", "a"), { own: "a" });
    assert.deepEqual(await t.data("s", "b"), { own: "b", ok: 1 });
  });

  it("fails with the stack when it throws, and goes on with the others", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b", "c");
    t.start({
      tasks: {
        s: ({ name }) => {
          if (name === "b") throw new TypeError("not this one");
        },
      },
    });
    await ended(t, "s", "c");
    assert.deepEqual(await Promise.all(["a", "b", "c"].map((unit) => t.status("s", unit))), [
      "finished",
      "failed",
      "finished",
    ]);
    assert.match(String((await t.data("s", "b")).traceback), /^TypeError: not this one\n\s+at /);
  });

  it("throw retry gives the unit back for later", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    t.start({
      tasks: {
        s: async ({ attempt }) => {
          if (attempt.number < 3) throw retry(1000, { tried: attempt.number });
          return { tried: attempt.number };
        },
      },
    });
    for (let tries = 0; tries < 2; tries++) {
      await until("given back", async () => (await t.status("s", "u")) === "delayed");
      await t.advance(1000);
    }
    await ended(t, "s", "u");
    assert.deepEqual(await t.data("s", "u"), { tried: 3 });
    const all = await t.coordinate.listUnitAttempts("test", "s", "u");
    assert.deepEqual(
      all.map(({ status }: AttemptRow) => status),
      ["retryable", "retryable", "finished"],
    );
    assert.deepEqual(all[0]?.data, encodeData({ tried: 1 }));
  });

  it("a result that cannot be stored fails the unit and says so", async () => {
    const t = bench();
    await add(t, { name: "s" }, "function", "promise", "generator", "list", "text");
    const results: Record<string, unknown> = {
      function: { f: () => 1 },
      promise: { p: Promise.resolve(1) },
      generator: (function* () {
        yield 1;
      })(),
      list: [1],
      text: "done",
    };
    t.start({ tasks: { s: ({ name }) => results[name] as object } });
    await ended(t, "s", "text");
    for (const [name, traceback] of [
      ["function", 'the result cannot be stored: Bad data: a function in "f" cannot be stored'],
      [
        "promise",
        'the result cannot be stored: Bad data: a promise (a missing await?) in "p" cannot be stored',
      ],
      ["generator", "the result cannot be stored: Bad data: an iterator or a generator cannot be stored"],
      ["list", "the task returned an array; expected an object or nothing"],
      ["text", "the task returned a string; expected an object or nothing"],
    ] as const) {
      assert.equal(await t.status("s", name), "failed");
      assert.equal((await t.data("s", name)).traceback, traceback);
    }
  });

  it("a result, a decision or an error that throws when it is read fails the unit and says so", async () => {
    const t = bench();
    const unreadable = new Error("never read");
    Object.defineProperty(unreadable, "message", { get: broken });
    const outcomes: Record<string, () => unknown> = {
      toJSON: () => ({ when: { toJSON: broken } }),
      getter: () => Object.defineProperty({}, "lazy", { enumerable: true, get: broken }),
      then: () => Object.defineProperty({}, "then", { get: broken }),
      proxy: () => Promise.resolve(new Proxy({}, { getPrototypeOf: broken })),
      retried: () => retry(1000, { f: () => 1 }),
      message: () => Promise.reject(unreadable),
      // a JavaScript caller may set anything as a message
      number: () => Promise.reject(Object.assign(new Error("x"), { message: 5 })),
    };
    const specs = await t.ns.setWorkSpecs(
      Object.keys(outcomes).map((name) => ({ name, ...(name !== "message" && { max_retries: 2 }) })),
    );
    for (const spec of specs) await spec.addWorkUnits([["u"]]);
    t.start({
      tasks: { ...outcomes, last: () => undefined },
    });
    for (const [name, traceback] of [
      ["toJSON", /^the result cannot be stored: broken$/],
      ["getter", /^the result cannot be stored: broken$/],
      ["retried", /^the result cannot be stored: Bad data: a function in "f" cannot be stored$/],
      ["message", /^the task threw an error that cannot be read$/],
    ] as const) {
      await ended(t, name, "u");
      assert.equal(await t.status(name, "u"), "failed", name);
      assert.match(String((await t.data(name, "u")).traceback), traceback);
    }
    // thrown while the result is looked at: the retry policy decides
    for (const name of ["then", "proxy", "number"])
      await until(name, async () => (await t.status(name, "u")) === "delayed");
    // the slot goes on
    await add(t, { name: "last" }, "u");
    await ended(t, "last", "u");
  });

  it("a delay that is not finite is refused where it is made", () => {
    for (const make of [retry, snooze])
      assert.throws(
        () => make(Infinity),
        /expected a finite number of milliseconds, 0 or more, got Infinity/,
      );
  });

  it("an error that is returned counts as thrown, and a decision as well", async () => {
    const t = bench();
    await add(t, { name: "s", max_retries: 3 }, "decides");
    await add(t, { name: "e" }, "fails", "errs");
    const results: Record<string, Error> = { fails: fail("no such customer"), errs: new Error("broken") };
    t.start({
      tasks: {
        s: ({ attempt }) => (attempt.number === 1 ? retry(1000) : { tried: 2 }),
        e: ({ name }) => results[name],
      },
    });
    await until("given back", async () => (await t.status("s", "decides")) === "delayed");
    await t.advance(1000);
    await ended(t, "s", "decides");
    assert.deepEqual(await t.data("s", "decides"), { tried: 2 });
    await ended(t, "e", "fails");
    await ended(t, "e", "errs");
    assert.equal((await t.data("e", "fails")).traceback, "no such customer");
    assert.match(String((await t.data("e", "errs")).traceback), /^Error: broken\n/);
  });

  it("waits for what is a promise by its shape alone", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const query = { then: (done: (value: object) => void) => done({ rows: 1 }) };
    t.start({ tasks: { s: () => query } });
    await ended(t, "s", "u");
    assert.deepEqual(await t.data("s", "u"), { rows: 1 });
  });

  it("leaves a unit as its function settled it", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const worker = t.start({
      tasks: {
        s: async ({ attempt }) => {
          await attempt.fail({ by: "hand" });
          return { never: true };
        },
      },
    });
    await ended(t, "s", "u");
    await turns();
    assert.deepEqual(await t.data("s", "u"), { by: "hand" });
    assert.equal(worker.counts.refused, 0);
  });

  it("runs as many at once as `concurrency` says, whatever the size of the claim", async () => {
    for (const [concurrency, maxGetwork] of [
      [1, 0],
      [4, 0],
      [4, 1],
      [3, 100],
    ] as const) {
      const t = bench();
      await add(t, { name: "s", max_getwork: maxGetwork }, "a", "b", "c", "d", "e", "f", "g", "h");
      let now = 0;
      let seen = 0;
      const worker = t.start({
        concurrency,
        tasks: {
          s: async () => {
            seen = Math.max(seen, ++now);
            await turns(3);
            now--;
          },
        },
      });
      await until("all", () => worker.counts.finished === 8);
      assert.equal(seen, concurrency);
    }
  });

  it("gives back untried what did not begin within a second, so that another worker gets it", async () => {
    const t = bench();
    await add(t, { name: "s", max_retries: 1 }, "a", "b", "c");
    const first = gate();
    const begun: string[] = [];
    const task = async ({ name }: Unit): Promise<void> => {
      begun.push(name);
      if (name === "a") await first.promise;
    };
    // a runtime that claims several units before it knows how long they take
    const runtime: Runtime = { ...tasksRuntime({ s: task }), firstAttempts: 3 };
    const worker = t.start({ runtimes: [runtime] });
    await until("the first runs", () => begun.length === 1);
    assert.equal(await t.status("s", "b"), "pending");
    t.start({ name: "other", tasks: { s: ({ name }) => void begun.push(`${name} other`) } });
    await t.advance(799);
    assert.deepEqual(begun, ["a"]);
    await t.advance(1);
    await until("the others are done", async () => (await t.status("s", "c")) === "finished");
    assert.deepEqual(begun, ["a", "b other", "c other"]);
    assert.equal(worker.counts.released, 2);
    first.open();
    await ended(t, "s", "a");
  });

  it("knows when its task began, besides when it was claimed", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    const first = gate();
    const times: number[][] = [];
    const runtime: Runtime = {
      ...tasksRuntime({
        s: async ({ name, beganAt, attempt }) => {
          times.push([attempt.startTime - start, beganAt - start]);
          if (name === "a") await first.promise;
        },
      }),
      firstAttempts: 2,
    };
    const start = t.clock.now();
    const worker = t.start({ runtimes: [runtime] });
    const told: number[][] = [];
    worker.on("finished", ({ claimedAt, beganAt, ms }) =>
      told.push([claimedAt - start, beganAt - start, ms]),
    );
    await until("it runs", () => times.length === 1);
    await t.advance(500);
    first.open();
    await ended(t, "s", "b");
    await turns();
    assert.deepEqual(times, [
      [0, 0],
      [0, 500],
    ]);
    assert.deepEqual(told, [
      [0, 0, 500],
      [0, 500, 0],
    ]);
  });

  it("a unit that is settled and not waited for is left as it was settled", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const worker = t.start({
      tasks: {
        s: ({ attempt }) => {
          void attempt.fail({ by: "hand" });
          return { never: true };
        },
      },
    });
    await ended(t, "s", "u");
    await turns();
    assert.deepEqual(await t.data("s", "u"), { by: "hand" });
    assert.equal(worker.counts.refused, 0);
  });

  it("throw fail(reason) fails the unit with the reason; throw snooze(ms) runs it later", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    t.start({
      tasks: {
        s: ({ name, attempt }) => {
          if (name === "a") throw fail("no such customer");
          if (attempt.number === 1) throw snooze(60_000);
        },
      },
    });
    await ended(t, "s", "a");
    assert.equal((await t.data("s", "a")).traceback, "no such customer");
    await until("it sleeps", async () => (await t.status("s", "b")) === "delayed");
    await t.advance(59_999);
    assert.equal(await t.status("s", "b"), "delayed");
    await t.advance(1);
    await ended(t, "s", "b");
    assert.equal(await t.status("s", "b"), "finished");
    for (const make of [() => snooze(-1), () => retry(Number.NaN)])
      assert.throws(make, { code: "bad_argument" });
  });
});

describe("settling", () => {
  it("an attempt of another claim is answered, and the unit of the task is settled as usual", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const [earlier] = await t.ns.worker("other").requestAttempts();
    await earlier!.release();
    const answers: unknown[] = [];
    const worker = t.start({
      tasks: {
        s: async ({ attempt }) => {
          const [first] = await (await attempt.workUnit()).attempts();
          answers.push(await first!.renew().catch((error: unknown) => error));
        },
      },
    });
    await ended(t, "s", "u");
    assert.ok(isCoordinateError(answers[0], "lost_lease"));
    assert.equal(worker.counts.refused, 0);
  });

  it("what tasks settle at once is one call", async () => {
    const t = bench();
    await add(t, { name: "s" }, ...Array.from({ length: 250 }, (_, i) => String(i).padStart(3, "0")));
    const calls: number[] = [];
    const counting = watched(t, (changes) => calls.push(changes));
    const worker = t.start({ concurrency: 3, maxAttempts: 50, tasks: { s: () => undefined } }, counting);
    await until("all are finished", () => worker.counts.finished === 250);
    assert.ok(calls.length <= 5, `${calls.length} calls`);
    assert.ok(worker.counts.claims >= 5);
  });

  it("a settle resolves when it is stored", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const seen: string[] = [];
    t.start({
      tasks: {
        s: bulk(async ([attempt]) => {
          await attempt!.finish();
          seen.push(await t.status("s", "u"));
        }),
      },
    });
    await until("it was looked at", () => seen.length === 1);
    assert.deepEqual(seen, ["finished"]);
  });

  it("changes of one attempt stay in order, waited for or not", async () => {
    const t = bench();
    await add(t, { name: "s" }, "u");
    const worker = t.start({
      tasks: {
        s: bulk(([attempt], { progress }) => {
          void progress(attempt!, { part: 1 });
          void progress(attempt!, { part: 2 });
          void attempt!.finish({ part: 3 });
        }),
      },
    });
    await ended(t, "s", "u");
    await turns();
    assert.deepEqual(await t.data("s", "u"), { part: 3 });
    assert.equal(worker.counts.refused, 0);
  });

  it("a change does not overtake an earlier one of the same attempt that is still under way; others do", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    const slow = gate();
    const sent: string[] = [];
    const over = wrapped(t.coordinate, {
      settleAttempts: async (ns, changes) => {
        sent.push(...changes.map(({ attempt, action }) => `${action} ${attempt.split(".")[0]}`));
        if (changes.some(({ action }) => action === "renew")) await slow.promise;
        return t.coordinate.settleAttempts(ns, changes);
      },
    });
    t.start(
      {
        tasks: {
          s: bulk(async ([a, b], { progress }) => {
            void progress(a!, { part: 1 });
            await turns(3);
            void a!.finish({ part: 2 });
            void b!.finish();
          }),
        },
      },
      over,
    );
    await until("the other is finished", async () => (await t.status("s", "b")) === "finished");
    assert.deepEqual(sent, ["renew 1", "finish 2"]);
    slow.open();
    await ended(t, "s", "a");
    assert.deepEqual(sent, ["renew 1", "finish 2", "finish 1"]);
  });

  it("one that is refused tells its task and nobody else, is logged, and ends nothing", async () => {
    const t = bench();
    await add(t, { name: "s" }, "gone", "kept", "lost", "settled");
    const codes: Record<string, string> = {};
    const worker = t.start({
      tasks: {
        s: bulk(async (attempts) => {
          // the units that it lost are claimed again
          if (attempts.length !== 4) {
            await Promise.all(attempts.map((attempt) => attempt.finish()));
            return;
          }
          await t.ns.workSpec("s").deleteWorkUnits({ names: ["gone"] });
          await t.ns.workSpec("s").retry({ names: ["lost"] });
          await t.coordinate.settleAttempts("test", [{ attempt: attempts[3]!.id, action: "retry" }]);
          await Promise.all(
            attempts.map((attempt) =>
              attempt.finish().then(
                () => (codes[attempt.workUnitName] = "ok"),
                (error: unknown) => (codes[attempt.workUnitName] = codeOf(error)),
              ),
            ),
          );
        }),
      },
    });
    await until("all are answered", () => Object.keys(codes).length === 4);
    assert.deepEqual(codes, { gone: "gone", kept: "ok", lost: "lost_lease", settled: "not_pending" });
    await until("told", () => worker.counts.refused === 3);
    assert.equal(t.lines.filter(({ message }) => message === "a settle was refused").length, 3);
    assert.equal(worker.counts.unsettled, 0);
    await t.ns.workSpec("s").addWorkUnits([["next"]]);
    await until("it goes on", () => worker.counts.claims > 1);
  });

  it("data that is too large is refused to the one who sent it", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a", "b");
    const codes: string[] = [];
    t.start({
      tasks: {
        s: bulk(async ([a, b]) => {
          const large = a!.finish({ fill: "x".repeat(17 * 1024 * 1024) }).catch((error: unknown) => {
            codes.push(codeOf(error));
            return a!.fail({ traceback: "too much" });
          });
          await Promise.all([large, b!.finish()]);
        }),
      },
    });
    await ended(t, "s", "a");
    await ended(t, "s", "b");
    assert.deepEqual(codes, ["too_large"]);
    assert.equal(await t.status("s", "b"), "finished");
  });
});

describe("options", () => {
  const task: Task = () => undefined;
  const refused: [string, object, RegExp][] = [
    [
      "a work spec that is not in a list",
      { tasks: { a: task }, workSpecs: "a" },
      /workSpecs: expected a list of names of work specs, got "a"/,
    ],
    [
      "a label that is not in a list",
      { tasks: { a: task }, labels: "gpu" },
      /labels: expected a list of labels/,
    ],
    [
      "a runtime that is not in a list",
      { runtimes: tasksRuntime({}) },
      /runtimes: expected a list of runtimes/,
    ],
    [
      "a logger that lacks a level",
      { tasks: { a: task }, log: { info: () => undefined } },
      /log: expected debug, info, warn and error; debug is missing/,
    ],
    [
      "a logger that is no object",
      { tasks: { a: task }, log: true },
      /log: expected a logger such as console/,
    ],
    ["no tasks", {}, /tasks: a worker needs at least one task/],
    ["an empty object of tasks", { tasks: {} }, /tasks: a worker needs at least one task/],
    ["tasks that are a function", { tasks: task }, /tasks: expected functions by name/],
    [
      "no options",
      undefined as never,
      /options: expected an object such as \{ tasks: \{ … \} \}, got undefined/,
    ],
    ["a task that is no function", { tasks: { a: 1 } }, /tasks\.a: expected a function/],
    [
      "an unknown option",
      { tasks: { a: task }, concurency: 2 },
      /concurency: not an option of a worker; did you mean concurrency\?/,
    ],
    [
      "no slots",
      { tasks: { a: task }, concurrency: 0 },
      /concurrency: expected an integer of 1 or more, got 0/,
    ],
    ["a lease that is no number", { tasks: { a: task }, lifetimeMs: "1" }, /lifetimeMs: expected a number/],
    ["a runtime without a name", { runtimes: [{ names: [] }] }, /runtimes\[0\]\.names/],
    ["names of runtimes for no tasks", { runtimes: [tasksRuntime({})], taskRuntimes: [] }, /taskRuntimes/],
  ];
  for (const [what, options, message] of refused)
    it(`${what}: refused, and named`, () => {
      const t = bench();
      assert.throws(
        () => new Worker(t.ns, options),
        (error: { code: string; message: string }) =>
          error.code === "bad_argument" && message.test(error.message),
      );
    });
});

it("what is no namespace is refused", () => {
  for (const [given, shown] of [
    ["mail", '"mail"'],
    [bench().coordinate, "an object"],
  ] as const)
    assert.throws(
      () => new Worker(given as never, { tasks: { mail: () => undefined } }),
      new RegExp(`namespace: expected what coordinate\\.namespace\\(name\\) returns, got ${shown}`),
    );
});

/** Reports the number of changes of each settle call. */
const watched = (t: Bench, tell: (changes: number) => void): typeof t.coordinate =>
  wrapped(t.coordinate, {
    settleAttempts: (ns, changes) => {
      tell(changes.length);
      return t.coordinate.settleAttempts(ns, changes);
    },
  });

function broken(): never {
  throw new Error("broken");
}
