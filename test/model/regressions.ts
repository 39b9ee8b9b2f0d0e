/**
 * Histories that were found to be answered differently by two stores, or wrongly, made as short as they go. They are literal,
 * so that they stay what they are when the generators change. Long ones are files, a step a line, named by the seed that they came from.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Step } from "./differential.ts";

export interface Regression {
  name: string;
  history: readonly Step[];
}

const unit = (name: string, more: object = {}): object => ({ name, priority: 0, delayMs: 0, ...more });

const folder = new URL("histories/", import.meta.url);

/** The histories of one kind that are files. */
export const storedHistories = (kind: "model" | "differential"): { name: string; history: Step[] }[] =>
  readdirSync(folder)
    .filter((file) => file.startsWith(`${kind}-`))
    .map((file) => ({
      name: file,
      history: readFileSync(new URL(file, folder), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Step),
    }));

export const regressions: readonly Regression[] = [
  ...storedHistories("differential"),
  {
    name: "a cycle of dependencies is not found through a unit that was deleted",
    history: [
      {
        do: "add chain",
        spec: "a",
        names: ["2", "5", "6", "1", "3"],
        kinds: ["hard", "hard", "hard", "soft", "soft"],
        queue: "q",
      },
      { do: "delete", spec: "a", by: "name", selection: { names: ["5", "1"] } },
      // of 2, 3 and 6, which are left, the second
      { do: "add", spec: "a", by: "name", units: [unit("6", { after: [{ pick: 1, kind: "hard" }] })] },
    ],
  },
  {
    name: "one sweep fails exhausted units in one order",
    history: [
      {
        do: "add",
        spec: "a",
        by: "name",
        units: [unit("4", { queues: ["q"] }), unit("3", { queues: ["q"] })],
      },
      { do: "request", worker: "w2", number: 5, lifetimeMs: 1000, draw: 0 },
      { do: "advance", ms: 1000 },
      { do: "set spec", data: { name: "a", max_retries: 1 }, keepMeta: false },
      { do: "sweep" },
      { do: "take", queue: "q", max: 1 },
    ],
  },
  {
    name: "a unit that names itself in its output tells of its end, and again the next time",
    history: [
      { do: "add", spec: "c", by: "name", units: [unit("1", { queues: ["q"] })] },
      { do: "request", worker: "w1", number: 1, lifetimeMs: 1000, draw: 0 },
      {
        do: "settle",
        changes: [{ which: { pick: 0, of: "pending" }, action: "finish", data: { output: ["1"] } }],
      },
      { do: "request", worker: "w1", number: 1, lifetimeMs: 1000, draw: 0 },
      {
        do: "settle one twice",
        which: { pick: 0, of: "pending" },
        actions: ["fail", "finish"],
        before: [],
        between: [],
      },
      { do: "take", queue: "q", max: 1000 },
    ],
  },
];
