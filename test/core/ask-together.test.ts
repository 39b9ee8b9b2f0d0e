import { expect, test } from "vitest";
import { askTogether, CoordinateError, type Asked } from "../../src/core/index.ts";

/** Callers of one item each that note their answers. The callbacks of the first one throw. */
function callers(heard: unknown[]): Asked<string, string>[] {
  const broken = (): never => {
    throw new Error("broken");
  };
  return [
    { items: ["a"], resolve: broken, reject: broken },
    { items: ["b"], resolve: (answers) => heard.push(...answers), reject: (error) => heard.push(error) },
  ];
}

const failure = new CoordinateError("unavailable");
const refusal = new CoordinateError("bad_argument");

test.each([
  ["an answer", (items: readonly string[]) => Promise.resolve([...items]), ["b"]],
  ["a failure", () => Promise.reject(failure), [failure]],
  ["a refusal of each", () => Promise.reject(refusal), [refusal]],
])("a callback that throws keeps %s from no other caller", async (_what, ask, expected) => {
  const heard: unknown[] = [];
  await expect(askTogether(callers(heard), ask)).rejects.toThrow("broken");
  expect(heard).toEqual(expected);
});
