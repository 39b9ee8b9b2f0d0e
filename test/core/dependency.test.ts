/** The search for cycles of dependencies. */
import { expect, test } from "vitest";
import { findCycle } from "../../src/core/dependency.ts";

const needsOf = (graph: Readonly<Record<string, readonly string[]>>) => (node: string) => graph[node] ?? [];

test("a cycle is found from each start that leads to it, and its nodes are in order", () => {
  const needs = needsOf({ a: ["x", "b"], b: ["c"], c: ["b"], x: [] });
  expect(findCycle(["a"], needs)).toEqual(["b", "c"]);
  expect(findCycle(["x", "c"], needs)).toEqual(["c", "b"]);
  expect(findCycle(["x"], needs)).toBeNull();
  expect(findCycle(["s"], needsOf({ s: ["s"] }))).toEqual(["s"]);
});

test("two ways to one node are no cycle", () => {
  expect(findCycle(["a", "b"], needsOf({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] }))).toBeNull();
});

test("each node is visited once, however many starts lead to it", () => {
  let visits = 0;
  const starts = Array.from({ length: 1000 }, (_, n) => n);
  const needs = (n: number): number[] => {
    visits++;
    return n + 1 < starts.length ? [n + 1] : [];
  };
  expect(findCycle(starts, needs)).toBeNull();
  expect(visits).toBe(1000);
});
