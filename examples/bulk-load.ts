/** A flow file and a file of units: work specs set in one step, units loaded, interrupted and resumed. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { Journal, loadUnits, openSource, readEntries } from "../src/bulk/index.ts";
import { jobConfiguration, readConfiguration, readDocument } from "../src/config/index.ts";
import { applyPlan, planFlow, printPlan, readFlow } from "../src/flow/index.ts";
import { openMemory } from "../src/index.ts";

const flows = path.join(import.meta.dirname, "flows");
const coordinate = openMemory();

// Set the work specs of the flow. Each gets the configuration that its jobs need, without the secrets.
const configuration = readConfiguration({ env: {}, file: path.join(flows, "coordinate.yaml") });
const { config, left } = jobConfiguration(configuration);
const plan = await planFlow(
  coordinate.verbs,
  "news",
  readFlow(readDocument(path.join(flows, "chain.yaml"))),
  config,
);
for (const line of printPlan(plan)) console.log(line);
console.log("left out:", left.join(", "));
await applyPlan(coordinate.verbs, "news", plan);

// Load ten thousand units. The load is stopped in the middle and resumes where it stopped.
const directory = mkdtempSync(path.join(tmpdir(), "coordinate-example-"));
const file = path.join(directory, "units.jsonl");
const lines = Array.from({ length: 10_000 }, (_, i) => `{"name":"page-${i}","data":{"depth":${i % 3}}}\n`);
writeFileSync(file, lines.join(""));

const load = (journal: Journal, signal?: AbortSignal) => {
  const source = openSource(file, Readable.from([]));
  return loadUnits(
    { coordinate: coordinate.verbs, ns: "news", workSpec: "news.fetch" },
    readEntries(source, "jsonl", { from: journal.mark.position }),
    {
      name: file,
      load: "example",
      clock: { now: () => Date.now() },
      journal,
      onProgress: ({ units }) => (units >= 3000 ? stop.abort() : undefined),
      ...(signal !== undefined && { signal }),
    },
  );
};
const stop = new AbortController();
const journalFile = path.join(directory, "journal");
const first = await load(
  Journal.begin(journalFile, {
    load: "example",
    input: file,
    target: "news.fetch",
    options: "",
    batchUnits: 1000,
    batchBytes: 1_000_000,
    started: Date.now(),
  }),
  stop.signal,
);
console.log(`stopped after ${first.units} units`);
assert(!first.complete && first.units < 10_000);

const journal = Journal.read(journalFile);
assert(journal !== null);
const second = await load(journal);
journal.remove();
console.log(`${second.units} units, ${second.resumed} of them before`);
const counts = await coordinate.namespace("news").workSpec("news.fetch").counts();
assert.equal(counts.available, 10_000);

rmSync(directory, { recursive: true });
await coordinate.close();
