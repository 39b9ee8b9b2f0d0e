/** The parts of jobs that need no store and no process. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DataLoop } from "../../src/jobs/data-loop.ts";
import { EventLog } from "../../src/jobs/events.ts";
import { reference } from "../../src/jobs/index.ts";
import { firstIdAt, isJobId, JobIds } from "../../src/jobs/job-id.ts";
import { jsonValue } from "../../src/jobs/json.ts";
import { permissionFlag } from "../../src/jobs/process-runner.ts";
import { wantedWorkers } from "../../src/jobs/scale.ts";
import { inlineFunction } from "../../src/jobs/self-contained.ts";

test("D5 the number of workers is within the bounds, whatever the load", () => {
  const whole = fc.nat(1000);
  fc.assert(
    fc.property(whole, whole, whole, whole, (busy, waiting, min, more) => {
      const max = min + more;
      const wanted = wantedWorkers({ busy, waiting, min, max });
      expect(wanted).toBeGreaterThanOrEqual(min);
      expect(wanted).toBeLessThanOrEqual(max);
      if (busy + waiting >= min && busy + waiting <= max) expect(wanted).toBe(busy + waiting);
    }),
  );
});

describe("ids", () => {
  test("sort in the order they were made, also within a millisecond and when the clock steps back", () => {
    let now = Date.UTC(2026, 0, 1);
    const ids = new JobIds(() => now);
    const made: string[] = [];
    for (let i = 0; i < 20_000; i++) {
      if (i === 5000) now += 1;
      if (i === 10_000) now -= 500;
      made.push(ids.next());
    }
    expect(made).toEqual([...made].sort());
    expect(new Set(made).size).toBe(made.length);
    expect(made.every(isJobId)).toBe(true);
    expect(made[0]!.slice(0, 13)).toBe(firstIdAt(Date.UTC(2026, 0, 1)).slice(0, 13));
  });

  test("the first of a time is before those of that time and after those before it", () => {
    const at = (time: number): string => new JobIds(() => time).next();
    expect(firstIdAt(1000) <= at(1000)).toBe(true);
    expect(firstIdAt(1000) > at(999)).toBe(true);
    expect(isJobId("sum")).toBe(false);
  });
});

describe("JSON", () => {
  test("what is JSON comes back as it is", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // JSON does not distinguish 0 and -0
        const plain: unknown = JSON.parse(JSON.stringify(value));
        expect(JSON.stringify(jsonValue(value, "it"))).toBe(JSON.stringify(plain));
      }),
    );
    expect(jsonValue(undefined, "it")).toBeNull();
    expect(jsonValue({ a: undefined, b: [undefined], c: new Date(0) }, "it")).toEqual({
      b: [null],
      c: "1970-01-01T00:00:00.000Z",
    });
    expect(jsonValue(JSON.parse('{"__proto__": 1}'), "it")).toEqual(JSON.parse('{"__proto__": 1}'));
  });

  test.each([
    [{ a: [1n] }, "it.a[0]: a BigInt"],
    [{ f: () => 1 }, "it.f: a function"],
    [Symbol("s"), "it: a symbol"],
    [[Infinity], "it[0]: Infinity"],
    [new Map(), "it: a Map"],
    [{ s: new Set() }, "it.s: a Set"],
    [new Uint8Array(1), "it: a binary view"],
    [{ b: Buffer.from("b") }, "it.b: a binary view"],
    [new Blob(["b"]), "it: a Blob"],
    [new SharedArrayBuffer(1), "it: a SharedArrayBuffer"],
    [[new Date(NaN)], "it[0]: an invalid Date"],
    [{ e: new Error("no") }, "it.e: an Error"],
    [Promise.resolve(), "it: a Promise"],
  ])("%o is refused", (value, message) => {
    expect(() => jsonValue(value, "it")).toThrow(message);
  });

  test("the same object twice is no cycle, and depth has an end", () => {
    const one = { n: 1 };
    expect(jsonValue([one, one], "it")).toEqual([one, one]);
    let deep: unknown = 1;
    for (let i = 0; i < 1000; i++) deep = [deep];
    expect(() => jsonValue(deep, "it")).toThrow("nested more than");
  });
});

describe("inline functions", () => {
  const outside = 3;
  const made = (source: string): ((...args: never[]) => unknown) =>
    // the functions are made from text, so that no compiler has added code to them
    (0, eval)(`(${source}\n)`) as (...args: never[]) => unknown;

  test.each([
    "(a, b) => a + b",
    "async (n) => { await new Promise((done) => setTimeout(done, n)); return n; }",
    "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }",
    "({ a, b: { c = 1 }, ...rest }, [d, , e] = [], ...more) => [a, c, rest, d, e, more]",
    "async function () { const { createHash } = await import('node:crypto'); return createHash('md5').update('').digest('hex'); }",
    "(list) => { outer: for (const one of list) { for (;;) { if (one) continue outer; break outer; } } }",
    "() => { class Box { #n = 1; static x = 2; get n() { return this.#n; } } return new Box().n + Box.x; }",
    "(o) => ({ o, key: o?.deep?.key, ['computed' + o]: 1, method() { return this.key; } })",
    "() => { try { throw new Error('x'); } catch ({ message }) { return message; } }",
    "function () { return arguments.length; } // a comment",
  ])("%s is self-contained", (source) => {
    expect(inlineFunction(made(source)).code.length).toBeGreaterThan(0);
  });

  test("its name comes along", () => {
    expect(inlineFunction(made("function fib(n) { return n; }")).methodname).toBe("fib");
    expect(inlineFunction(made("() => 1")).methodname).toBe("anonymous");
  });

  test("what it uses from outside is named", () => {
    expect(() => inlineFunction(() => outside)).toThrow(/it uses outside from its surroundings/);
    expect(() => inlineFunction(made("() => __name(1)"))).toThrow(/keepNames/);
    expect(() => inlineFunction(made("(a = missing) => [a, other.property]"))).toThrow(/missing, other/);
  });

  test.each<[string, () => (...args: never[]) => unknown, RegExp]>([
    ["a bound function", () => made("function f() {}").bind(null), /bound and native/],
    ["a native function", () => Math.max, /bound and native/],
    ["a class", () => made("class Box { n = 1; }"), /a class/],
    ["a generator", () => made("function* f() { yield 1; }"), /a generator/],
    ["a method", () => (made("{ f() { return 1; } }") as unknown as { f: () => number }).f, /methods/],
    ["a long one", () => made(`() => "${"x".repeat(300_000)}"`), /at most .* are allowed/],
  ])("%s is refused", (_what, make, message) => {
    expect(() => inlineFunction(make())).toThrow(message);
  });

  test("a reference needs a name", () => {
    expect(reference("file:///a.js", function resize() {})).toEqual({
      module: "file:///a.js",
      export: "resize",
    });
    expect(() => reference("file:///a.js", () => 1)).toThrow(/no name/);
  });
});

test("Node's flag for permissions has changed its name", () => {
  expect(permissionFlag("20.20.2")).toBe("--experimental-permission");
  expect(permissionFlag("22.12.0")).toBe("--experimental-permission");
  expect(permissionFlag("22.13.0")).toBe("--permission");
  expect(permissionFlag("23.4.0")).toBe("--experimental-permission");
  expect(permissionFlag("24.1.0")).toBe("--permission");
});

test("events: in order, from where one likes, to the end; too old ones are gone", async () => {
  const log = new EventLog(() => 1);
  for (let i = 1; i <= 3; i++) log.append("J", String(i), {});
  const seen: number[] = [];
  const reading = (async () => {
    for await (const { seq } of log.read(1)) seen.push(seq);
  })();
  log.append("W", "w", {});
  await new Promise((resolve) => setImmediate(resolve));
  log.end();
  await reading;
  expect(seen).toEqual([2, 3, 4]);
  const many = new EventLog(() => 1);
  for (let i = 0; i < 30_001; i++) many.append("J", "", {});
  await expect(many.read(1).next()).rejects.toMatchObject({ code: "gone" });
  expect((await many.read().next()).value?.seq).toBeGreaterThan(10_000);
});

test("data loop: whatever the moment at which a report comes, it is dealt with", async () => {
  const events = new EventLog(() => 1);
  const loop = new DataLoop(events);
  // each report arrives another number of microtasks after the previous one was stored
  for (let steps = 0; steps < 20; steps++) {
    await loop.push("J", `a${steps}`, Promise.resolve({}));
    for (let step = 0; step < steps; step++) await Promise.resolve();
    await loop.push("J", `b${steps}`, Promise.resolve(null));
  }
  expect(events.seq).toBe(20);
  await expect(loop.push("J", "", Promise.reject(new Error("no")))).rejects.toThrow("no");
  loop.tell("J", "", { last: true });
  await loop.drained();
  expect(events.seq).toBe(21);
});

test("data loop: what is stored sooner is told in its turn", async () => {
  const events = new EventLog(() => 1);
  const loop = new DataLoop(events);
  let store: (data: object) => void = () => undefined;
  const first = loop.push("J", "a", new Promise((resolve) => (store = resolve as typeof store)));
  loop.tell("W", "w", {});
  await loop.push("J", "b", Promise.resolve({}));
  expect(events.seq).toBe(0);
  const drained = loop.drained();
  store({});
  await Promise.all([first, drained]);
  events.end();
  const ids: string[] = [];
  for await (const { id } of events.read()) ids.push(id);
  expect(ids).toEqual(["a", "w", "b"]);
});
