import { mkdtempSync, readFileSync, existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  cborData,
  dataToCbor,
  decodeData,
  encodeData,
  Float,
  Tuple,
  Uuid,
  type DataObject,
} from "../../../src/core/index.ts";
import { pythonRuntime, type ChildRuntime, type PythonRuntimeOptions } from "../../../src/worker/index.ts";
import { collect, openBench } from "../process/harness.ts";
import { isAlive, until } from "../process/processes.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-python-"));
const open: ChildRuntime[] = [];
/** Most jobs do not change their child process, so one pool is enough for them. A worker that stops does not close it. */
let shared: ChildRuntime;

async function python(options: PythonRuntimeOptions = {}): Promise<ChildRuntime> {
  const runtime = await pythonRuntime({
    processes: 1,
    graceMs: 1000,
    cwd: import.meta.dirname,
    env: { PYTHONDONTWRITEBYTECODE: "1" },
    ...(process.env.TEST_PYTHON !== undefined && { python: process.env.TEST_PYTHON }),
    log: collect().log,
    ...options,
  });
  open.push(runtime);
  return runtime;
}

beforeAll(async () => {
  const runtime = await python({ maxAttempts: 10 });
  open.length = 0;
  shared = { ...runtime, capacity: 1, close: () => Promise.resolve() };
});

afterEach(async () => {
  await Promise.all(open.splice(0).map((runtime) => runtime.close(0)));
});

afterAll(async () => {
  await shared.pool.close(0);
  rmSync(directory, { recursive: true, force: true });
});

const job = (run_function: string, more: object = {}): object => ({ module: "jobs", run_function, ...more });

describe("a Python job", () => {
  test("gets a unit, changes its data, and is finished", async () => {
    const bench = openBench();
    await bench.add("spec", [["a", { n: 21 }]], job("double"));
    await bench.add("explicit", [["b", { n: 4 }]], job("double", { runtime: "python_3" }));
    await bench.work([shared]);
    expect(await bench.attempts("spec", "a")).toMatchObject([
      { status: "finished", data: { n: 21, twice: 42 } },
    ]);
    expect(await bench.attempts("explicit", "b")).toMatchObject([{ status: "finished", data: { twice: 8 } }]);
  });

  test("is not taken from a work spec that has neither a runtime nor a module", async () => {
    const bench = openBench();
    await bench.add("theirs", [["a"]], {});
    await bench.add("mine", [["b", { n: 4 }]], job("double"));
    const { worker, ended } = bench.start([shared]);
    await until("the unit with a module is finished", async () => {
      const [attempt] = await bench.attempts("mine", "b");
      return attempt?.status === "finished";
    });
    await worker.stop();
    await ended;
    expect(await bench.attempts("theirs", "a")).toEqual([]);
  });

  test("makes units of the next work spec", async () => {
    const bench = openBench();
    await bench.namespace.setWorkSpec({ name: "next", runtime: "nobody" });
    await bench.add("first", [["a"]], job("chain", { then: "next" }));
    const { worker, ended } = bench.start([shared]);
    await until("the unit is made", async () => {
      const [unit] = await bench.namespace.verbs.getWorkUnits("test", "next", ["a-next"]);
      return unit?.data === '{"from":"a"}';
    });
    await worker.stop();
    await ended;
  });

  test("can import the package that its unit belongs to", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], job("imports"));
    await bench.work([shared]);
    expect(await bench.attempts("spec", "a")).toMatchObject([
      { status: "finished", data: { same: [true, true, true] } },
    ]);
  });

  test("knows its unit, its spec and the parameters", async () => {
    const bench = openBench();
    await bench.add("spec", [["näme"]], job("described", { config: { depth: 3 } }));
    await bench.add("bytes", [["\udcff\udcfe"]], job("described", { config: { depth: 4 } }));
    await bench.add("list", [["a"]], job("params", { run_params: [1, "two"] }));
    await bench.add("map", [["a"]], job("params", { run_params: { first: 1, second: 2 } }));
    await bench.work([shared]);
    const [spec] = await bench.attempts("spec", "näme");
    expect(spec!.data.seen).toEqual(["näme", "spec", "spec", 3, 1]);
    const [bytes] = await bench.attempts("bytes", "\udcff\udcfe");
    expect(bytes!.data.key_bytes).toEqual(new Uint8Array([0xff, 0xfe]));
    expect((await bench.attempts("list", "a"))[0]!.data.params).toEqual([1, "two"]);
    expect((await bench.attempts("map", "a"))[0]!.data.params).toEqual([1, 2]);
  });

  test("data of every kind goes in and out unharmed", async () => {
    const bench = openBench();
    const given = {
      one: 1,
      float: new Float(1),
      bytes: new Uint8Array([1, 2, 255]),
      tuple: Tuple.of(1, 2),
      id: Uuid.parse("12345678-1234-1234-1234-123456789abc"),
      big: 2n ** 70n,
      nothing: null,
      list: [1, [2]],
      text: "ü",
    };
    await bench.add("kinds", [["a", given]], job("kinds"));
    await bench.work([shared]);
    const [attempt] = await bench.attempts("kinds", "a");
    expect(attempt!.traceback).toBe("");
    expect(attempt!.data.types).toEqual({
      one: "int",
      float: "float",
      bytes: "bytes",
      tuple: "tuple",
      id: "UUID",
      big: "int",
      nothing: "NoneType",
      list: "list",
      text: "str",
    });
    const rows = await bench.namespace.verbs.listUnitAttempts("test", "kinds", "a");
    const { made, types: _types, ...kept } = decodeData(rows[0]!.data!, { precise: true });
    expect(encodeData(kept)).toEqual(encodeData(given));
    expect(made).toMatchObject({
      bytes: new Uint8Array([0, 255]),
      tuple: Tuple.of(1, new Float(2), "x"),
      float: new Float(1),
      big: 2n ** 80n,
      negative: -(2n ** 70n),
      nan: Infinity,
      keys: { "1": "one", b: 2 },
    });
    expect(String((made as DataObject & { uuid: Uuid }).uuid)).toBe("12345678-1234-1234-1234-123456789abc");
  });

  test("data that a job does not change stays as it is to the byte", async () => {
    const bench = openBench();
    const text = '{ "n" : 1.0,  "big":12345678901234567890123 }';
    const spec = await bench.namespace.setWorkSpec({ name: "spec", ...job("untouched") });
    const { verbs } = bench.namespace;
    await verbs.addWorkUnits("test", "spec", [
      { name: "json", data: text as never },
      // an indefinite map and a half float: well formed, but not as the writer would write them
      { name: "cbor", data: cborData(Uint8Array.from([0xbf, 0x61, 0x6e, 0xf9, 0x3c, 0x00, 0xff])) },
    ]);
    await bench.work([shared]);
    const [json] = await verbs.listUnitAttempts("test", "spec", "json");
    const [cbor] = await verbs.listUnitAttempts("test", "spec", "cbor");
    expect([json!.status, json!.data, cbor!.status]).toEqual(["finished", text, "finished"]);
    expect(dataToCbor(cbor!.data!)).toEqual(Uint8Array.from([0xbf, 0x61, 0x6e, 0xf9, 0x3c, 0x00, 0xff]));
    expect(spec.name).toBe("spec");
  });

  test.each([
    ["raises", "ValueError: raised on purpose", { before: true }],
    ["leaves", "SystemExit: 3", {}],
    ["unstorable", "data cannot hold a value of type object", {}],
    ["too_large", "the result cannot be stored: Too large", {}],
    ["not_a_dict", "the data of a work unit: expected a dict, got int", {}],
    ["fails_itself", "ValueError: not today", {}],
    ["no_such_function", "has no attribute 'no_such_function'", {}],
  ])("that %s fails with the traceback of Python", async (name, text, data) => {
    const bench = openBench();
    await bench.add("spec", [["a", { n: 1 }]], job(name));
    await bench.work([shared]);
    const [attempt] = await bench.attempts("spec", "a");
    expect(attempt).toMatchObject({ status: "failed", data: { n: 1, ...data } });
    expect(attempt!.traceback).toContain(text);
    if (name === "raises")
      expect(attempt!.traceback).toMatch(/^Traceback \(most recent call last\):\n {2}File /);
  });

  test("of a module that is not there fails", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], { module: "no_such_module", run_function: "f" });
    await bench.work([shared]);
    expect((await bench.attempts("spec", "a"))[0]!.traceback).toContain("No module named 'no_such_module'");
  });

  test("may settle, renew and give back by itself", async () => {
    const bench = openBench();
    await bench.add("finishes", [["a"]], job("finishes_itself"));
    await bench.add("renews", [["a"]], job("renews"));
    await bench.add("gives", [["a"]], job("gives_back"));
    await bench.work([shared], { lifetimeMs: 20_000 });
    expect(await bench.attempts("finishes", "a")).toMatchObject([{ status: "finished", data: { a: 1 } }]);
    expect((await bench.attempts("finishes", "a"))[0]!.data).not.toHaveProperty("b");
    expect(await bench.attempts("renews", "a")).toMatchObject([{ data: { half: true, renewed: true } }]);
    expect(await bench.attempts("gives", "a")).toMatchObject([
      { status: "expired" },
      { data: { attempts: 2 } },
    ]);
  });

  test("that lost its lease reports nothing", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], job("loses", { max_retries: 1 }));
    await bench.work([shared]);
    const attempts = await bench.attempts("spec", "a");
    expect(attempts.map(({ status }) => status)).toEqual(["expired", "failed"]);
    expect(attempts[1]!.traceback).toBe("too many retries");
    expect(bench.lines.join("")).toContain("a: lost its lease");
  });

  test("what it prints and logs comes to the log", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], job("prints"));
    await bench.work([shared]);
    await until("all four lines", () =>
      ["printed by a", "to stderr by a", "logged by a", "raw bytes"].every((text) =>
        bench.lines.some((line) => line.includes(text)),
      ),
    );
  });

  test("children are used again, and replaced when they are old", async () => {
    const bench = openBench();
    const runtime = await python({ lifetimeMs: 1, maxAttempts: 2 });
    await bench.add("spec", [["a"], ["b"], ["c"]], job("pid"));
    await bench.work([runtime], { ahead: false });
    const pids = await Promise.all(
      ["a", "b", "c"].map(async (unit) => (await bench.attempts("spec", unit))[0]!.data.pid),
    );
    expect(pids[0]).toBe(pids[1]);
    expect(pids[2]).not.toBe(pids[1]);
  });
});

describe("a Python child", () => {
  test("that dies takes one unit with it; the others run in another child", async () => {
    const bench = openBench();
    const units = Array.from({ length: 9 }, (_, i) => [`unit-${i}`, { die: i === 4 }] as const);
    await bench.add("spec", units, job("dies"));
    await bench.work([await python({ maxAttempts: 10 })]);
    for (const [name, { die }] of units) {
      const [attempt, ...more] = await bench.attempts("spec", name);
      expect(more).toEqual([]);
      if (!die) expect(attempt).toMatchObject({ status: "finished", data: { ran: true } });
      else expect(attempt!.traceback).toBe("the child process exited with code 7\nabout to die");
    }
  });

  test("whose unit kills again and again ends by its retry policy", async () => {
    const bench = openBench();
    await bench.add(
      "spec",
      [["bad", { die: true }]],
      job("dies", { retry: { attempts: 3, backoff: { delay: 0.01 } } }),
    );
    await bench.work([await python()]);
    const attempts = await bench.attempts("spec", "bad");
    expect(attempts.map(({ status }) => status)).toEqual(["retryable", "retryable", "failed"]);
    expect(attempts[0]!.traceback).toContain("exited with code 7");
    expect(attempts[2]!.traceback).toBe("too many retries");
    expect(attempts[2]!.data.last_error).toContain("exited with code 7");
  });

  test("that uses too much memory is killed", async () => {
    const bench = openBench();
    await bench.add("spec", [["a"]], job("grows"));
    await bench.work([await python({ memoryLimit: 120 * 1024 * 1024, watchMs: 20 })]);
    expect((await bench.attempts("spec", "a"))[0]!.traceback).toMatch(
      /^the child process used \d+ MiB of memory, the limit is 120 MiB/,
    );
  });

  test("whose time is up may clean up, and is killed; its grandchildren too", async () => {
    const bench = openBench();
    const runtime = await python({ processes: 2 });
    const files = ["a", "b"].map((name) => path.join(directory, name));
    await bench.add(
      "sleeps",
      [["a", { file: files[0] }]],
      job("sleeps", { terminate_function: "cleans_up" }),
    );
    await bench.add("spawns", [["b", { file: files[1] }]], job("spawns"));
    await bench.work([runtime], { lifetimeMs: 6000, concurrency: 2 });
    expect(await bench.attempts("sleeps", "a")).toMatchObject([
      { status: "failed", traceback: "job expired" },
    ]);
    expect(await bench.attempts("spawns", "b")).toMatchObject([
      { status: "failed", traceback: "job expired" },
    ]);
    expect(readFileSync(files[0]!, "utf8")).toBe("cleaned a");
    await until("the grandchild is dead", () => !isAlive(Number(readFileSync(files[1]!, "utf8"))));
  });

  test("is ended early when the settings say so", async () => {
    const bench = openBench();
    const file = path.join(directory, "early");
    const runtime = await python({ stopEarlyMs: 599_000 });
    await bench.add("spec", [["a", { file }]], job("sleeps", { terminate_function: "cleans_up" }));
    await bench.work([runtime], { lifetimeMs: 600_000 });
    expect(await bench.attempts("spec", "a")).toMatchObject([{ status: "failed", traceback: "job expired" }]);
    expect(readFileSync(file, "utf8")).toBe("cleaned a");
  });

  test("is ended when its worker stops, its unit is given back, and this does not count as a try", async () => {
    const bench = openBench();
    const file = path.join(directory, "stop");
    const rules = { terminate_function: "cleans_up", max_retries: 1 };
    await bench.add("spec", [["a", { file }]], job("sleeps", rules));
    const { worker, ended } = bench.start([await python()]);
    await until("the job runs", () => existsSync(file));
    await worker.stop({ graceMs: 0 });
    await ended;
    expect(await bench.attempts("spec", "a")).toMatchObject([{ status: "expired" }]);
    expect(await bench.namespace.worker("next").requestAttempts()).toHaveLength(1);
    expect(readFileSync(file, "utf8")).toBe("cleaned a");
  });
});

test("without Python there is a clear error", async () => {
  await expect(pythonRuntime({ python: "no-such-python", log: collect().log })).rejects.toThrow(
    "no-such-python: a child process could not be started",
  );
});
