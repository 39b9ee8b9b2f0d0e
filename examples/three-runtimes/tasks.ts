/** Tasks for child processes: this file is loaded by each of them, and not by the worker itself. */
import type { UnitTask } from "../../src/worker/index.ts";

/** Splits a text into its words, and makes a unit of the next work spec for each. */
export const split: UnitTask = ({ name, data: { text } }) => {
  if (typeof text !== "string") throw new Error("there is no text to split");
  const words = text.split(" ");
  return { output: Object.fromEntries(words.map((word, i) => [`${name}-${i}`, { word }])) };
};
