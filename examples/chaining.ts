/** A pipeline: the output of one work spec becomes the work units of the next. */
import assert from "node:assert/strict";
import { openMemory, type Attempt } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("chaining");

await namespace.setWorkSpecs([
  { name: "split", then: "count" },
  { name: "count", then: "sum" },
  { name: "sum" },
]);

const lines = ["one two", "three four five"];
await namespace.workSpec("split").addWorkUnit("text", { lines });

/** The function that the worker runs for each work spec. It returns the data to finish the unit with. */
const tasks: Record<string, (attempt: Attempt) => object> = {
  // an object as output: the name and data of each new unit
  split: ({ data }) => ({
    output: Object.fromEntries((data.lines as string[]).map((line, i) => [`line-${i}`, { line }])),
  }),
  // a list as output: name, data and metadata of each new unit; units with a higher priority are claimed first
  count: ({ workUnitName, data }) => ({
    output: [[`sum-${workUnitName}`, { words: (data.line as string).split(" ").length }, { priority: 1 }]],
  }),
  sum: ({ data }) => ({ total: data.words }),
};

const worker = namespace.worker("worker-1");
for (;;) {
  const [attempt] = await worker.requestAttempts();
  if (attempt === undefined) break;
  await attempt.finish(tasks[attempt.workSpecName]?.(attempt));
  console.log("finished", attempt.workSpecName, attempt.workUnitName);
}

// Every unit records the units that it was made from.
const sum = await namespace.workSpec("sum").workUnit("sum-line-1");
const lineage = (await sum.lineage()).map(({ unit }) => `${unit.workSpecName}/${unit.name}`);
console.log("sum of line 1:", sum.data, "made by", lineage);
assert.deepEqual(sum.data, { total: 3 });
assert.equal(sum.priority, 1);
assert.deepEqual(lineage, ["count/line-1", "split/text"]);

// Invalid entries of an output are skipped and reported. The other entries become units.
await namespace.workSpec("split").addWorkUnit("broken");
const [attempt] = await worker.requestAttempts();
assert(attempt !== undefined);
const { outputs, chainingErrors } = await attempt.finish({ output: ["good", 42] });
console.log(outputs, chainingErrors);
assert.equal(outputs, 1);
assert.deepEqual(chainingErrors, ["output[1]: is a number, not a name or a list"]);

await coordinate.close();
