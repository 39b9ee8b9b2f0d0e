/** The pure rules, as tables. */
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import {
  attemptId,
  attemptStatuses,
  checkParents,
  continuousName,
  CoordinateError,
  decideLock,
  decideLockSome,
  dependencyState,
  errorCodes,
  findCycle,
  isCoordinateError,
  judge,
  lockKey,
  ManualClock,
  parseAttemptId,
  seededRandom,
  systemClock,
  Waiting,
  Watches,
  type AttemptAction,
  type Lock,
} from "../../src/core/index.ts";

describe("judge", () => {
  const actions: AttemptAction[] = ["finish", "fail", "error", "retry", "expire", "renew"];
  test.each(attemptStatuses)("an attempt that was replaced and is %s is never changed", (status) => {
    for (const action of actions) expect(judge(status, false, action)).not.toBe("apply");
  });
  test("only pending and expired attempts may be changed, but for failed then finished", () => {
    const allowed = attemptStatuses.flatMap((status) =>
      actions
        .filter((action) => judge(status, true, action) === "apply")
        .map((action) => `${status} ${action}`),
    );
    expect(allowed).toEqual([
      ...["finish", "fail", "error", "retry", "expire", "renew"].map((action) => `pending ${action}`),
      ...["finish", "fail", "error", "retry", "renew"].map((action) => `expired ${action}`),
      "failed finish",
    ]);
  });
});

describe("attempt ids", () => {
  test("come back as they went in", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        fc.integer({ min: 1, max: 2 ** 40 }),
        (unitId, number) => {
          expect(parseAttemptId(attemptId(unitId, number))).toEqual({ unitId, number });
        },
      ),
    );
  });
  test.each([
    "",
    ".",
    "1",
    "1.",
    ".1",
    "1.0",
    "0.1",
    "1.1.1",
    "01.1",
    "1.01",
    "1e3.1",
    "-1.1",
    "1.-1",
    " 1.1",
    "1.1 ",
    "0x1.1",
    "99999999999999999999.1",
    "NaN.1",
  ])("%j is none", (id) => {
    expect(parseAttemptId(id)).toBeNull();
  });
  test("what is no text is none", () => {
    expect(parseAttemptId(5 as unknown as string)).toBeNull();
  });
});

describe("dependencies", () => {
  test.each([
    ["hard", "finished", "met"],
    ["hard", "failed", "broken"],
    ["hard", null, "broken"],
    ["hard", "pending", "open"],
    ["hard", "blocked", "open"],
    ["soft", "finished", "met"],
    ["soft", "failed", "met"],
    ["soft", null, "met"],
    ["soft", "available", "open"],
    ["soft", "delayed", "open"],
  ] as const)("a %s dependency on a unit that is %s is %s", (kind, status, state) => {
    expect(dependencyState(kind, status)).toBe(state);
  });
  test("a cycle is found exactly when there is one", () => {
    const edges = fc.array(fc.tuple(fc.nat({ max: 7 }), fc.nat({ max: 7 })), { maxLength: 12 });
    fc.assert(
      fc.property(edges, fc.array(fc.nat({ max: 7 }), { maxLength: 3 }), (pairs, starts) => {
        const needs = (node: number): number[] => pairs.filter(([from]) => from === node).map(([, to]) => to);
        // reachable in one or more steps, by brute force
        const reachable = (start: number): Set<number> => {
          const reach = new Set(needs(start));
          for (let i = 0; i < 8; i++)
            for (const node of [...reach]) for (const next of needs(node)) reach.add(next);
          return reach;
        };
        const visited = starts.flatMap((start) => [start, ...reachable(start)]);
        const cycle = findCycle(starts, needs);
        expect(cycle !== null).toBe(visited.some((node) => reachable(node).has(node)));
        if (cycle !== null)
          cycle.forEach((node, i) => expect(needs(node)).toContain(cycle[(i + 1) % cycle.length]));
      }),
    );
  });
  test("a chain of a million has no cycle, and does not overflow", () => {
    expect(findCycle([0], (node) => (node < 1_000_000 ? [node + 1] : []))).toBeNull();
  });
});

describe("workers", () => {
  const parents: Record<string, string | null> = { child: "parent", parent: "top", top: null };
  test.each([
    ["top", "child", true],
    ["parent", "parent", true],
    ["child", "top", false],
    ["other", "child", false],
    ["top", null, false],
  ])("%s below %s: a cycle is %s", (worker, parent, cycle) => {
    const check = (): void => checkParents([{ name: worker, parent }], (name) => parents[name]);
    if (cycle) expect(check).toThrow(`${worker} below ${parent}`);
    else expect(check).not.toThrow();
  });

  test("changes are taken in order: what an earlier one sets counts for the later", () => {
    const changes = [
      { name: "top", parent: "child" },
      { name: "child", parent: null },
    ];
    expect(() => checkParents(changes, (name) => parents[name])).toThrow("top below child");
    expect(() => checkParents(changes.toReversed(), (name) => parents[name])).not.toThrow();
  });
});

describe("continuous units", () => {
  test("are named by seconds with three decimals", () => {
    expect(continuousName(1447862400123)).toBe("1447862400.123");
    expect(continuousName(1447862400000)).toBe("1447862400.000");
    expect(continuousName(5)).toBe("0.005");
  });
});

describe("locks", () => {
  const label = fc.string({
    unit: fc.constantFrom("a", "b", "\u0000", "\u0001", "\u0002", "é"),
    maxLength: 3,
  });
  const path = fc.array(label, { maxLength: 4 });
  test("a path's key begins with another's exactly when the path does", () => {
    fc.assert(
      fc.property(path, path, (a, b) => {
        expect(lockKey(a).startsWith(lockKey(b))).toBe(b.every((one, i) => a[i] === one));
      }),
    );
  });
  test("what is granted one by one never overlaps", () => {
    fc.assert(
      fc.property(fc.array(path, { maxLength: 8 }), (paths) => {
        const { set, answer } = decideLockSome(new Map(), { owner: "o", paths, deadline: 1 });
        expect(set).toHaveLength(answer.filter(Boolean).length);
        for (const a of set)
          for (const b of set) if (a !== b) expect(lockKey(a.path).startsWith(lockKey(b.path))).toBe(false);
      }),
    );
  });
  test("a refusal sets nothing", () => {
    const held: Lock = { path: ["a"], owner: "x", deadline: 1 };
    const view = new Map([[lockKey(held.path), held]]);
    expect(decideLock(view, { owner: "o", paths: [["b"], ["a", "c"]], deadline: 1 })).toEqual({
      set: [],
      release: [],
      answer: { path: ["a", "c"], owner: null },
    });
  });
});

describe("errors", () => {
  test("every code has a message, a status, and carries its value", () => {
    for (const code of errorCodes) {
      const error = new CoordinateError(code, "the value");
      expect(error.message).not.toMatch(/\{\}/);
      expect(error.message.length).toBeGreaterThan(3);
      expect(error.status).toBeGreaterThanOrEqual(400);
      expect(isCoordinateError(error, code)).toBe(true);
    }
  });
  test("a value is put in as it is", () => {
    expect(new CoordinateError("no_such_work_spec", "$& {}").message).toBe("No such work spec $& {}");
  });
});

describe("clocks", () => {
  test("the system's clock never goes back", () => {
    const walls = [5000, 4000, 6000];
    // no time passes between the reads, however slow the machine is
    const clock = systemClock(
      () => walls.shift()!,
      () => 0,
    );
    expect([clock.now(), clock.now(), clock.now()]).toEqual([5000, 5000, 6000]);
  });
  test("the system's clock waits until a time, and less when told to stop", async () => {
    const clock = systemClock();
    const start = clock.now();
    await clock.waitUntil(start + 20);
    expect(clock.now()).toBeGreaterThanOrEqual(start + 20);
    await clock.waitUntil(start - 5);
    const stop = new AbortController();
    const wait = clock.waitUntil(clock.now() + 1e12, stop.signal);
    stop.abort();
    await wait;
  });
  test("a manual clock moves only when told, and never back", async () => {
    const clock = new ManualClock(100);
    const wait = clock.waitUntil(150);
    expect(clock.waiting).toBe(1);
    clock.advance(50);
    await wait;
    clock.set(10);
    expect([clock.now(), clock.waiting]).toEqual([150, 0]);
  });
  test("a seed gives the same numbers again, between 0 and 1", () => {
    const draw = (seed: number): number[] => Array.from({ length: 1000 }, seededRandom(seed));
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
    expect(draw(1).every((value) => value >= 0 && value < 1)).toBe(true);
  });
});

describe("waiting in line", () => {
  /** The watches of a store: any number of watchers, and all are called. */
  const watches = new Watches();
  const changed = (): boolean => watches.changed("ns");
  const waitIn = <Found>(
    waiting: Waiting,
    line: string,
    look: () => Promise<{ found: Found | null; again: number }>,
  ): Promise<Found | null> =>
    waiting.wait({
      group: "ns",
      line,
      deadline: 1e6,
      signal: undefined,
      watch: (wake) => watches.watchWork("ns", wake),
      look,
    });
  afterEach(() => expect(watches.isEmpty, "nothing is watched that nobody waits for").toBe(true));

  test("one change makes one of a thousand look, and each who finds makes the next look", async () => {
    const clock = new ManualClock(0);
    const waiting = new Waiting(clock);
    let looks = 0;
    let units = 0;
    const look = async (): Promise<{ found: string | null; again: number }> => {
      looks++;
      return { found: units > 0 ? `unit ${units--}` : null, again: 1e9 };
    };
    const answers = Array.from({ length: 1000 }, () => waitIn(waiting, "same", look));
    await new Promise((resolve) => setImmediate(resolve));
    expect(looks).toBe(1);
    units = 1;
    changed();
    expect(await Promise.race(answers)).toBe("unit 1");
    await new Promise((resolve) => setImmediate(resolve));
    expect(looks).toBeLessThanOrEqual(3);
    expect(waiting.size).toBe(999);
    units = 10;
    changed();
    await new Promise((resolve) => setImmediate(resolve));
    expect(waiting.size).toBe(989);
    expect(looks).toBeLessThanOrEqual(3 + 11);
    clock.advance(1e6);
    expect((await Promise.all(answers)).filter((answer) => answer !== null)).toHaveLength(11);
    expect(waiting.size).toBe(0);
  });

  test("a change while looking is not missed", async () => {
    const clock = new ManualClock(0);
    const waiting = new Waiting(clock);
    let units = 0;
    let looks = 0;
    const answer = waitIn(waiting, "", async () => {
      const found = units > 0 ? "unit" : null;
      if (looks++ === 0) {
        // the unit arrives after this look has found nothing and before it returns
        units = 1;
        changed();
      }
      await Promise.resolve();
      return { found, again: 1e9 };
    });
    expect(await answer).toBe("unit");
  });

  test("when waiting is stopped everybody is answered with nothing", async () => {
    const waiting = new Waiting(new ManualClock(0));
    const look = async (): Promise<{ found: null; again: number }> => ({ found: null, again: 1e9 });
    const answers = ["a", "a", "b"].map((key) => waitIn(waiting, key, look));
    await new Promise((resolve) => setImmediate(resolve));
    waiting.stop();
    expect(await Promise.all(answers)).toEqual([null, null, null]);
    expect(waiting.size).toBe(0);
  });

  test("a look that fails ends only that wait", async () => {
    const waiting = new Waiting(new ManualClock(0));
    const failed = waitIn(waiting, "", () => Promise.reject(new Error("store is down")));
    await expect(failed).rejects.toThrow("store is down");
    expect(waiting.size).toBe(0);
  });
});
