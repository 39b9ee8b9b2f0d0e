/** Tasks for child processes. Each child process loads this file; the worker itself does not. */
import type { UnitTask } from "../../src/worker/index.ts";

/** Splits a text into words and makes a unit of the next work spec for each word. */
export const split: UnitTask = ({ name, data: { text } }) => {
  if (typeof text !== "string") throw new Error("there is no text to split");
  const words = text.split(" ");
  return { output: Object.fromEntries(words.map((word, i) => [`${name}-${i}`, { word }])) };
};
