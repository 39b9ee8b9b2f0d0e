import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync, appendFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import {
  BulkError,
  Journal,
  loadUnits,
  mustBeAdded,
  openSource,
  readEntries,
  type BadEntry,
  type LoadOptions,
  type LoadResult,
} from "../../src/bulk/index.ts";
import {
  CoordinateError,
  type Engine,
  ManualClock,
  type Coordinate,
  type WorkUnitInput,
  type WorkUnitRow,
} from "../../src/core/index.ts";
import { openMemory, type CoordinateHandle } from "../../src/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-load-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const opened: CoordinateHandle[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});
let files = 0;

async function setup() {
  const clock = new ManualClock(1_000_000);
  const handle = openMemory({ clock });
  opened.push(handle);
  const spec = await handle.namespace("ns").setWorkSpec({ name: "s" });
  const file = path.join(directory, `${files++}.jsonl`);
  const journalFile = `${file}.journal`;
  const calls: { units: readonly WorkUnitInput[]; requestId: string }[] = [];
  /** Called before and after each add. A hook that throws simulates a server that does not answer. */
  const hooks = {
    before: async (_call: number): Promise<void> => undefined,
    after: async (_call: number): Promise<void> => undefined,
  };
  const coordinate = new Proxy(handle.verbs, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (key !== "addWorkUnits")
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      return async (...args: Parameters<Coordinate["addWorkUnits"]>) => {
        const call = calls.length;
        calls.push({ units: args[2], requestId: args[3]?.requestId ?? "" });
        await hooks.before(call);
        const added = await target.addWorkUnits(...args);
        await hooks.after(call);
        return added;
      };
    },
  });
  const header = {
    load: `load-${files}`,
    input: file,
    target: "t",
    options: "",
    batchUnits: 10,
    batchBytes: 1e6,
    started: 0,
  };
  const run = async (options: Partial<LoadOptions> & { journal?: Journal } = {}): Promise<LoadResult> => {
    const from = options.journal?.mark.position ?? 0;
    const source = openSource(file, Readable.from([]));
    const entries = readEntries(source, "jsonl", from > 0 ? { from } : {});
    return loadUnits({ coordinate, ns: "ns", workSpec: "s" }, entries, {
      name: "units.jsonl",
      load: "x",
      clock,
      batchUnits: 10,
      ...options,
    }).finally(() => options.journal?.close());
  };
  const begin = (): Journal => Journal.begin(journalFile, header);
  const again = (): Journal => {
    const journal = Journal.read(journalFile);
    if (journal === null) throw new Error("no journal");
    return journal;
  };
  const write = (count: number, line = (i: number) => `"u${String(i).padStart(5, "0")}"`): void =>
    writeFileSync(file, Array.from({ length: count }, (_, i) => `${line(i)}\n`).join(""));
  /** Claims and finishes all available units. */
  const work = async (): Promise<number> => {
    const worker = handle.namespace("ns").worker("w");
    let done = 0;
    for (;;) {
      const attempts = await worker.requestAttempts({ number: 100 });
      if (attempts.length === 0) return done;
      for (const attempt of attempts) await attempt.finish();
      done += attempts.length;
    }
  };
  return { handle, spec, file, journalFile, calls, hooks, clock, run, begin, again, write, work };
}

const killed = (): never => {
  throw new CoordinateError("unavailable", "nobody answers");
};

describe("loading", () => {
  test("batches, several at once, and what was new", async () => {
    const { run, write, calls, spec } = await setup();
    write(95);
    expect(await run()).toEqual({ units: 95, created: 95, bad: 0, resumed: 0, complete: true });
    expect(calls.map(({ units }) => units.length)).toEqual([...Array<number>(9).fill(10), 5]);
    expect(new Set(calls.map(({ requestId }) => requestId)).size).toBe(10);
    expect((await spec.counts()).available).toBe(95);
    expect(await run({ load: "y" })).toMatchObject({ units: 95, created: 0 });
  });

  test("no more requests are on their way than allowed, and batches are bounded by their text", async () => {
    const { run, write, hooks } = await setup();
    write(200, (i) => JSON.stringify({ name: `u${i}`, data: { x: "y".repeat(1000) } }));
    let now = 0;
    let max = 0;
    hooks.before = async () => {
      max = Math.max(max, (now += 1));
      await new Promise((resolve) => setTimeout(resolve, 2));
    };
    hooks.after = async () => void (now -= 1);
    await run({ inFlight: 3, batchUnits: 1000, batchBytes: 5000 });
    expect(max).toBe(3);
  });

  test("units of one name are added in the order of the input", async () => {
    const { run, write, hooks, handle } = await setup();
    write(100, (i) => JSON.stringify({ name: i % 10 === 0 ? "same" : `u${i}`, data: { i } }));
    hooks.before = (call) => new Promise((resolve) => setTimeout(resolve, call % 2 === 0 ? 5 : 0));
    await run();
    const unit = await handle.namespace("ns").workSpec("s").workUnit("same");
    expect(unit.data).toEqual({ i: 90 });
  });

  test("a bad line ends the load, with what came before it stored", async () => {
    const { run, write, spec } = await setup();
    write(30, (i) => (i === 24 ? "nonsense" : `"u${i}"`));
    await expect(run()).rejects.toThrow(/^units\.jsonl:25: expected an object/);
    expect((await spec.counts()).available).toBe(24);
  });

  test("or it is told, and the load goes on", async () => {
    const { run, write, spec } = await setup();
    write(30, (i) => (i % 10 === 4 ? "nonsense" : `"u${i}"`));
    const bad: BadEntry[] = [];
    expect(await run({ keepGoing: true, onBad: (one) => bad.push(one) })).toMatchObject({
      units: 27,
      bad: 3,
    });
    expect(bad.map(({ line }) => line)).toEqual([5, 15, 25]);
    expect((await spec.counts()).available).toBe(27);
  });

  test("what the server refuses is found among its batch, and told by its line", async () => {
    const { run, write, spec } = await setup();
    const line = (i: number): string =>
      JSON.stringify({ name: `u${i}`, ...(i === 17 && { dependencies: ["nobody"] }) });
    write(30, line);
    await expect(run({ inFlight: 1 })).rejects.toThrow(/^units\.jsonl:18: Bad dependency: .*nobody/);
    expect((await spec.counts()).available).toBe(17);
    const bad: BadEntry[] = [];
    expect(await run({ keepGoing: true, onBad: (one) => bad.push(one) })).toMatchObject({
      units: 29,
      bad: 1,
    });
    expect(bad).toEqual([{ line: 18, problem: expect.stringContaining("nobody") as string }]);
    expect((await spec.counts()).available).toBe(29);
  });

  test("a work spec that is not there ends it at once", async () => {
    const { run, write, spec, calls } = await setup();
    await spec.delete();
    write(300);
    await expect(run({ keepGoing: true })).rejects.toMatchObject({ code: "no_such_work_spec" });
    expect(calls.length).toBeLessThan(10);
  });

  test("an empty input is nothing", async () => {
    const { run, write, calls } = await setup();
    write(0);
    expect(await run()).toEqual({ units: 0, created: 0, bad: 0, resumed: 0, complete: true });
    expect(calls).toEqual([]);
  });
});

describe("going on after an interruption", () => {
  test.each([0, 1, 5, 9])(
    "a server that is gone from call %i on: nothing is lost and nothing is done twice",
    async (call) => {
      const { run, write, hooks, begin, again, spec, work, calls, journalFile } = await setup();
      write(100);
      hooks.before = async (n) => (n >= call ? killed() : undefined);
      await expect(run({ journal: begin() })).rejects.toThrow("nobody answers");
      const stored = (await spec.counts()).available;
      const finished = await work();
      expect(finished).toBe(stored);
      hooks.before = async () => undefined;
      const before = calls.length;
      const journal = again();
      expect(journal.mark.units).toBe(stored);
      expect(await run({ journal })).toMatchObject({ units: 100, resumed: stored, complete: true });
      expect(calls.length - before).toBe(10 - stored / 10);
      expect(await spec.counts()).toMatchObject({ finished, available: 100 - finished });
      journal.remove();
      expect(existsSync(journalFile)).toBe(false);
    },
  );

  test.each([
    ["at once", 0],
    ["an hour later", 3_600_000],
  ])("an add that was carried out and whose answer was lost is not done twice, %s", async (_when, later) => {
    const { run, write, hooks, begin, again, spec, work, clock } = await setup();
    write(100);
    // the responses of all calls from the fourth on are lost, except that of the sixth
    hooks.after = async (n) => (n >= 3 && n !== 5 ? killed() : undefined);
    await expect(run({ journal: begin(), inFlight: 4 })).rejects.toThrow("nobody answers");
    const stored = (await spec.counts()).available;
    expect(stored).toBeGreaterThan(30);
    clock.advance(1);
    expect(await work()).toBe(stored);
    clock.advance(later);
    hooks.after = async () => undefined;
    expect(await run({ journal: again() })).toMatchObject({ units: 100, complete: true });
    expect(await spec.counts()).toMatchObject({ finished: stored, available: 100 - stored });
  });

  test("nor is it done twice by a third run, when the second one was interrupted too", async () => {
    const { run, write, hooks, begin, again, spec, work, clock, handle } = await setup();
    write(10);
    hooks.after = async () => killed();
    await expect(run({ journal: begin() })).rejects.toThrow("nobody answers");
    clock.advance(1);
    expect(await work()).toBe(10);
    clock.advance(60_000);
    hooks.before = async () => killed();
    await expect(run({ journal: again() })).rejects.toThrow("nobody answers");
    clock.advance(3_600_000);
    // forgets old request ids
    await (handle.verbs as Engine).sweep();
    hooks.before = hooks.after = async () => undefined;
    expect(await run({ journal: again() })).toMatchObject({ units: 10, complete: true });
    expect(await spec.counts()).toMatchObject({ finished: 10, available: 0 });
  });

  test("units that had ended before the load are done again, also by one that was interrupted", async () => {
    const { run, write, hooks, begin, again, spec, work, clock } = await setup();
    write(40);
    await run();
    await work();
    expect((await spec.counts()).finished).toBe(40);
    clock.advance(5000);
    hooks.before = async (n) => (n >= 6 ? killed() : undefined);
    await expect(run({ journal: begin(), inFlight: 1 })).rejects.toThrow("nobody answers");
    clock.advance(3_600_000);
    hooks.before = async () => undefined;
    await run({ journal: again() });
    expect(await spec.counts()).toMatchObject({ available: 40, finished: 0 });
  });

  test("a mistake further down may be mended, what was loaded may not change", async () => {
    const { run, write, begin, again, spec, file } = await setup();
    write(50, (i) => (i === 44 ? "nonsense" : `"u${i}"`));
    await expect(run({ journal: begin() })).rejects.toThrow("units.jsonl:45");
    const broken = readFileSync(file, "utf8");
    writeFileSync(file, broken.replace('"u3"', '"other"'));
    await expect(run({ journal: again() })).rejects.toThrow(
      "its first 44 lines or records differ from those of the earlier load",
    );
    writeFileSync(file, '"u0"\n');
    await expect(run({ journal: again() })).rejects.toThrow(BulkError);
    writeFileSync(file, broken.replace("nonsense", '"u44"'));
    expect(await run({ journal: again() })).toMatchObject({ units: 50, resumed: 44 });
    expect((await spec.counts()).available).toBe(50);
  });

  test("an orderly end waits for what is on its way", async () => {
    const { run, write, hooks, begin, again, spec } = await setup();
    write(100);
    const controller = new AbortController();
    hooks.before = async (n) => (n === 4 ? controller.abort() : undefined);
    const result = await run({ journal: begin(), signal: controller.signal });
    expect(result.complete).toBe(false);
    expect((await spec.counts()).available).toBe(result.units);
    expect(await run({ journal: again() })).toMatchObject({
      units: 100,
      resumed: result.units,
      complete: true,
    });
    expect((await spec.counts()).available).toBe(100);
  });

  test("a line that a crash cut off is none, and a journal stays short", async () => {
    const { run, write, hooks, begin, again, journalFile, spec } = await setup();
    write(22_000);
    hooks.before = async (n) => (n >= 2000 ? killed() : undefined);
    await expect(run({ journal: begin() })).rejects.toThrow("nobody answers");
    expect(readFileSync(journalFile).length).toBeLessThan(300_000);
    appendFileSync(journalFile, '{"done":2001,"posi');
    hooks.before = async () => undefined;
    const journal = again();
    expect(journal.mark.done).toBe(1999);
    expect(await run({ journal })).toMatchObject({ units: 22_000, resumed: 20_000, complete: true });
    expect((await spec.counts()).available).toBe(22_000);
  });

  test("a file that is no journal is refused, none is none", () => {
    const other = path.join(directory, "other");
    writeFileSync(other, "hello\n");
    expect(() => Journal.read(other)).toThrow("not a journal of a load");
    expect(Journal.read(path.join(directory, "nothing"))).toBeNull();
  });

  test.each([
    [null, true],
    [{ status: "available" }, true],
    [{ status: "pending", activeAttempt: { endTime: 0 } }, true],
    [{ status: "finished", createdTime: 500, activeAttempt: { endTime: 900 } }, true],
    [{ status: "finished", createdTime: 500, activeAttempt: { endTime: 1100 } }, false],
    [{ status: "failed", createdTime: 1050, activeAttempt: { endTime: 1100 } }, false],
  ])("a unit that is %j, of a batch that was sent at 1000, must be added: %s", (row, must) => {
    expect(mustBeAdded(row as WorkUnitRow | null, 1000)).toBe(must);
  });
});
