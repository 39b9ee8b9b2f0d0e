import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  choose,
  encodeData,
  explainChoice,
  readWorkSpec,
  seededRandom,
  type Candidate,
} from "../../src/core/index.ts";

let ids = 0;
const now = 1_000_000;

function candidate(
  name: string,
  keys: Record<string, unknown> = {},
  more: Partial<Candidate> = {},
): Candidate {
  const { meta } = readWorkSpec(encodeData({ name, ...keys }));
  return { id: ++ids, name, meta, available: 1, pending: 0, topPriority: 0, nextDue: 0, ...more };
}

describe("the weighted choice", () => {
  /** Draws often and compares the shares with the scores: a chi-squared test that a correct scheduler fails once in 10,000 times. */
  function expectShares(candidates: Candidate[], seed: number): void {
    const random = seededRandom(seed);
    const draws = 100_000;
    const seen = new Map<string, number>();
    for (let i = 0; i < draws; i++) {
      const { name } = choose(candidates, {}, now, random) ?? { name: "none" };
      seen.set(name, (seen.get(name) ?? 0) + 1);
    }
    let chiSquared = 0;
    let open = 0;
    for (const { workSpec, chance } of explainChoice(candidates, {}, now)) {
      if (chance === 0) expect(seen.get(workSpec) ?? 0).toBe(0);
      else {
        const expected = chance * draws;
        chiSquared += ((seen.get(workSpec) ?? 0) - expected) ** 2 / expected;
        open++;
      }
    }
    // the 0.9999 quantiles for 1 to 5 degrees of freedom
    const limit = [0, 15.14, 18.42, 21.11, 23.51, 25.74][open - 1] ?? NaN;
    expect(chiSquared).toBeLessThanOrEqual(limit);
  }

  test.each([
    ["equal weights", [20, 20], [0, 0]],
    ["weights 1 : 2 : 3", [1, 2, 3], [0, 0, 0]],
    ["weights 1 : 300", [1, 300], [0, 0]],
    ["pending counts that are not as they should be", [10, 20, 30], [5, 5, 5]],
    ["one far behind", [20, 20, 20, 20], [9, 9, 9, 0]],
    ["fractions", [0.5, 1.25, 3.75], [1, 0, 2]],
  ])("draws in proportion to the scores: %s", (_, weights, pending) => {
    const candidates = weights.map((weight, i) =>
      candidate(`s${i}`, { weight }, { pending: pending[i] ?? 0 }),
    );
    expectShares(candidates, 42 + weights.length);
  });

  test("keeps the numbers of running units in the ratio of the weights, whatever is drawn", () => {
    const random = seededRandom(7);
    const candidates = [1, 2, 3, 4].map((weight) => candidate(`w${weight}`, { weight }, { available: 1000 }));
    for (let i = 0; i < 1000; i++) {
      const chosen = choose(candidates, {}, now, random);
      if (chosen !== null) chosen.pending++;
    }
    expect(candidates.map(({ pending }) => pending)).toEqual([100, 200, 300, 400]);
  });

  test("never starves the smallest weight while units come and go", () => {
    const random = seededRandom(8);
    const candidates = [20, 20, 1].map((weight, i) => candidate(`s${i}`, { weight }));
    const runs = [0, 0, 0];
    // three run at a time: if the lowest (pending + 1) / weight always won, the third would never run
    const running: Candidate[] = [];
    for (let i = 0; i < 20_000; i++) {
      const chosen = choose(candidates, {}, now, random);
      if (chosen === null) continue;
      chosen.pending++;
      runs[candidates.indexOf(chosen)]!++;
      running.push(chosen);
      if (running.length > 3) running.shift()!.pending--;
    }
    expect(runs[2]! / 20_000).toBeGreaterThan(0.015);
    expect(runs[2]! / 20_000).toBeLessThan(0.15);
  });

  test("makes the same choices from the same seed", () => {
    const draw = (): (string | undefined)[] => {
      const random = seededRandom(99);
      const candidates = [candidate("a"), candidate("b"), candidate("c")];
      return Array.from({ length: 50 }, () => choose(candidates, {}, now, random)?.name);
    };
    expect(draw()).toEqual(draw());
  });

  test("a draw of the largest number below 1 chooses the last", () => {
    expect(choose([candidate("a"), candidate("b")], {}, now, () => 1 - 2 ** -53)?.name).toBe("b");
  });

  test("nothing to choose from is nothing chosen", () => {
    expect(choose([], {}, now, () => 0)).toBeNull();
  });

  test.each([NaN, -1, 0, -Infinity])("a weight of %s is never chosen, alone or among others", (weight) => {
    const odd = candidate("odd");
    odd.meta.weight = weight;
    expect(choose([odd], {}, now, () => 0)).toBeNull();
    expect(choose([odd, candidate("even")], {}, now, () => 0)?.name).toBe("even");
  });

  test("the chances of all that may be chosen add up to 1", () => {
    const all = [3, 5, 9].map((weight, i) => candidate(`s${i}`, { weight }, { pending: i }));
    expect(explainChoice(all, {}, now).reduce((sum, { chance }) => sum + chance, 0)).toBeCloseTo(1, 12);
  });
});

describe("shares of time", () => {
  const mean = (meanMs: number | null) => ({ started: 1, workedMs: meanMs ?? 0, meanMs });
  const judged = (all: Candidate[], means: (number | null)[], number?: number): (number | null)[] => {
    const recent = new Map(all.map(({ id }, i) => [id, mean(means[i] ?? null)]));
    if (number === undefined)
      return explainChoice(all, {}, now, "weighted", "time", recent).map(({ excluded, score }) =>
        excluded === null ? score : null,
      );
    const seen = new Set<string | undefined>();
    for (let draw = 0; draw < 1; draw += 0.001)
      seen.add(choose(all, {}, now, () => draw, "weighted", recent, number)?.name);
    return all.map(({ name }, i) => (seen.has(name) ? i : null));
  };
  const three = (pending: number[], weights = [1, 1, 1]): Candidate[] =>
    pending.map((one, i) => candidate(`s${i}`, { weight: weights[i] }, { pending: one }));

  test("scores are weights over durations", () => {
    expect(judged(three([0, 0, 0], [1, 3, 10]), [1, 10, 10_000])).toEqual([1, 0.3, 0.001]);
  });

  test("what is not measured counts as the average of the others that compete", () => {
    const all = three([0, 0, 0]);
    expect(judged(all, [10, 30, null])).toEqual([1 / 10, 1 / 30, 1 / 20]);
    expect(judged(all, [null, null, null])).toEqual([1, 1, 1]);
    expect(judged([...all.slice(0, 2), candidate("idle", {}, { available: 0 })], [10, null, 1000])).toEqual([
      0.1,
      0.1,
      null,
    ]);
  });

  test("an attempt counts for a millisecond at least", () => {
    expect(judged(three([0, 0, 0]), [0, 0.5, 2])).toEqual([1, 1, 0.5]);
  });

  test("one with a whole unit more than its share is passed over, and never all of them", () => {
    // the limit of each is a third of (running units + 1), plus one
    expect(judged(three([0, 0, 0]), [1, 1, 1])).toEqual([1, 1, 1]);
    expect(judged(three([1, 0, 0]), [1, 1, 1])).toEqual([1, 1, 1]);
    expect(judged(three([2, 0, 0]), [1, 1, 1])).toEqual([null, 1, 1]);
    expect(judged(three([2, 1, 1]), [1, 1, 1])).toEqual([1, 1, 1]);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 1, max: 20 })), {
          minLength: 1,
        }),
        fc.integer({ min: 1, max: 20 }),
        (all, number) => {
          const candidates = all.map(([pending, weight], i) => candidate(`s${i}`, { weight }, { pending }));
          expect(choose(candidates, {}, now, () => 0.5, "weighted", new Map(), number)).not.toBeNull();
        },
      ),
    );
  });

  test("a claim of several units may bring one a whole claim over its share", () => {
    expect(judged(three([10, 0, 0]), [1, 1, 1], 1)).toEqual([null, 1, 2]);
    expect(judged(three([10, 0, 0]), [1, 1, 1], 10)).toEqual([0, 1, 2]);
    expect(judged(three([20, 0, 0]), [1, 1, 1], 10)).toEqual([null, 1, 2]);
  });

  test("targets are of those that compete, measured shares of all", () => {
    const all = [
      candidate("a", { weight: 1 }),
      candidate("b", { weight: 3 }),
      candidate("c", { priority: -1 }),
    ];
    const recent = new Map(
      all.map(({ id }, i) => [id, { started: [6, 2, 2][i] ?? 0, workedMs: 10, meanMs: 10 }]),
    );
    const shares = (share: "choices" | "time"): unknown =>
      explainChoice(all, {}, now, "weighted", share, recent).map((one) => [
        one.targetShare,
        one.measuredShare,
      ]);
    expect(shares("choices")).toEqual([
      [0.25, 0.6],
      [0.75, 0.2],
      [0, 0.2],
    ]);
    expect(shares("time")).toEqual([
      [0.25, 0.333333],
      [0.75, 0.333333],
      [0, 0.333333],
    ]);
  });
});

describe("the python policy", () => {
  const order = (candidates: Candidate[]): (string | null)[] =>
    explainChoice(candidates, {}, now, "python").map(({ workSpec, excluded }) =>
      excluded === null ? workSpec : null,
    );

  test("a source into a loop is not passed over for the loop's work", () => {
    const all = [candidate("source", { then: "loop" }), candidate("loop", { then: "loop" })];
    expect(order(all)).toEqual(["source", "loop"]);
  });

  test("siblings with a common successor do not preempt each other", () => {
    const all = [
      candidate("a", { then: "c" }),
      candidate("b", { then: "c" }),
      candidate("c", {}, { available: 0 }),
    ];
    expect(order(all)).toEqual(["a", "b", null]);
  });

  test("preemption does not pass a predecessor that does not preempt", () => {
    const all = [
      candidate("a", { then: "b" }),
      candidate("b", { then: "c", then_preempts: false }, { available: 0 }),
      candidate("c"),
    ];
    expect(order(all)).toEqual(["a", null, "c"]);
  });

  test("a long ring of specs is followed once around", () => {
    const all = Array.from({ length: 50 }, (_, i) => candidate(`s${i}`, { then: `s${(i + 1) % 50}` }));
    expect(
      explainChoice(all, {}, now, "python").every(
        ({ weight, excluded }) => weight === 10 && excluded === null,
      ),
    ).toBe(true);
  });

  test("loops get half and continuous specs a twentieth of the draws that ordinary specs get", () => {
    const random = seededRandom(3);
    const all = [
      candidate("plain"),
      candidate("loop", { then: "loop" }),
      candidate("tick", { continuous: true }, { available: 0 }),
    ];
    const seen = { plain: 0, loop: 0, tick: 0 };
    for (let i = 0; i < 62_000; i++)
      seen[choose(all, {}, now, random, "python")?.name as keyof typeof seen]++;
    expect(seen.loop / seen.plain).toBeCloseTo(0.5, 1);
    expect(seen.tick / seen.plain).toBeCloseTo(0.05, 2);
  });
});
