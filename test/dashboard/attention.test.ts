/** Why nothing runs: the causes that the dashboard names, for workers as they report themselves. */
import { describe, expect, test } from "vitest";
import { emptyTally, encodeData, readWorkSpec, type WorkerRow } from "../../src/core/index.ts";
import { aroundOf, conditionOf, type SpecLook, type Words } from "../../src/dashboard/attention.ts";

const now = 1_800_000_000_000;

const spec = (data: object): SpecLook => ({
  name: "ocr",
  meta: readWorkSpec(encodeData({ name: "ocr", ...data })).meta,
  counts: { ...emptyTally(), available: 7 },
  explained: undefined,
  waitingSince: now - 5000,
  rates: { added: 0, finished: 0, failed: 0, out: 0, overMs: 0 },
  held: [],
});

const worker = (name: string, report: object | null, row: Partial<WorkerRow> = {}): WorkerRow => ({
  name,
  parent: null,
  active: true,
  mode: "run",
  data: report === null ? null : encodeData(report),
  lastUpdate: now,
  expiration: now + 60_000,
  desired: "run",
  ...row,
});

const asks = (...requests: object[]): object => ({ asks: requests });

const text = (words: Words): string =>
  words
    .map((word) => (typeof word === "string" ? word : "strong" in word ? word.strong : word.code))
    .join("");

/** The condition and its cause, or null for a work spec that a worker can run. */
const said = (one: SpecLook, workers: readonly WorkerRow[]): string | null => {
  const found = conditionOf(one, aroundOf(workers, now));
  return found === null ? null : `${found.title}: ${text(found.cause)}`;
};

const node = asks({ runtimes: ["", "node"], tasks: ["ocr", "mail"] });

describe("no worker can run it", () => {
  test.each([
    ["no worker at all", {}, [], "No worker is active. Start one that has a task for it."],
    [
      "another runtime",
      { runtime: "python-gpu" },
      [worker("a", node), worker("b", node)],
      "Its runtime is python-gpu. None of the 2 active workers supports it. Supported: (none), node.",
    ],
    [
      "no task for it",
      { task: "ocr.pages" },
      [worker("a", node)],
      "It runs the task ocr.pages. The active worker does not have it.",
    ],
    [
      "too little memory",
      { min_gb: 64 },
      [worker("a", asks({ runtimes: [""], availableGb: 8 }))],
      "It needs 64 GB. The active worker has less memory.",
    ],
    [
      "labels of one worker, the runtime of another",
      { runtime: "node", requires: ["gpu"] },
      [worker("a", node), worker("b", asks({ runtimes: ["python"], labels: ["gpu"] }))],
      "It requires gpu. None of the workers that could otherwise run it has a matching label.",
    ],
    [
      "labels that no worker has",
      { requires: ["gpu"] },
      [worker("a", node), worker("b", node)],
      "It requires gpu. None of the 2 active workers has a matching label.",
    ],
    [
      "only other work specs",
      {},
      [worker("a", asks({ runtimes: [""], workSpecs: ["mail"] }))],
      "The active worker requests only other work specs.",
    ],
    [
      "all drain",
      {},
      [worker("a", node, { desired: "idle" }), worker("b", node, { desired: "terminate" })],
      "All 2 active workers were asked to drain or stop: they claim no more units.",
    ],
    [
      "the one that could drains",
      { runtime: "python" },
      [worker("a", node), worker("b", asks({ runtimes: ["python"] }), { desired: "idle" })],
      "Its runtime is python. The only worker that claims units does not support it. Supported: (none), node. " +
        "1 other worker is draining.",
    ],
    [
      "slots do not count as workers",
      { runtime: "python" },
      [worker("a", node), worker("a/1", null, { parent: "a" }), worker("a/2", null, { parent: "a" })],
      "Its runtime is python. The active worker does not support it. Supported: (none), node.",
    ],
  ] as const)("%s", (_case, data, workers, cause) => {
    expect(said(spec(data), workers)).toBe(`No worker can run it: ${cause}`);
  });

  test.each([
    [
      "a worker that does not report its requests, beside others",
      { runtime: "go" },
      [worker("a", node), worker("go", null)],
    ],
    ["a record that cannot be read", { runtime: "go" }, [worker("a", { asks: "all" })]],
    [
      "one of the requests of a worker",
      {},
      [worker("a", asks({ runtimes: ["python"] }, { runtimes: [""] }))],
    ],
    [
      "its task by a pattern",
      { task: "pages.ocr" },
      [worker("a", asks({ runtimes: [""], tasks: ["pages.*"] }))],
    ],
  ] as const)("can run it: %s", (_case, data, workers) => {
    expect(said(spec(data), workers)).toBe(null);
  });
});
