/**
 * One flow with three runtimes: a TypeScript task, a Python function and a command, chained by `then`. They run in child
 * processes of one worker. The files are in examples/three-runtimes. The example needs `python3`.
 */
import assert from "node:assert/strict";
import path from "node:path";
import { openMemory } from "../src/index.ts";
import { commandRuntime, processRuntime, pythonRuntime, Worker } from "../src/worker/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("flow");
const cwd = path.join(import.meta.dirname, "three-runtimes");

const shout = await namespace.setWorkSpec({
  name: "shout",
  runtime: "command",
  // the command gets the unit's data on standard input as JSON; its output becomes the new data
  command: ["tr", "a-z", "A-Z"],
});
await namespace.setWorkSpec({
  name: "count",
  runtime: "python_3",
  module: "words",
  run_function: "count_letters",
  then: "shout",
});
const split = await namespace.setWorkSpec({ name: "split", runtime: "node", then: "count" });
await split.addWorkUnits([
  ["one", { text: "work is done here" }],
  ["two", { text: "by three languages" }],
]);

const worker = new Worker(namespace, {
  runtimes: [
    await processRuntime({ tasks: path.join(cwd, "tasks.ts"), processes: 1 }),
    await pythonRuntime({ processes: 1, cwd, env: { PYTHONDONTWRITEBYTECODE: "1" } }),
    commandRuntime({ processes: 2 }),
  ],
});
const running = worker.run();
for (let finished = 0; finished < 7;) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  const rows = await namespace.tally();
  assert.equal(
    rows.reduce((sum, { counts }) => sum + counts.failed, 0),
    0,
  );
  finished = rows.find(({ workSpec }) => workSpec === "shout")?.counts.finished ?? 0;
}
await worker.stop();
await running;

for await (const { name, data } of shout.workUnits()) console.log(name, data);
const { data } = await shout.workUnit("two-2");
assert.deepEqual([data.WORD, data.LETTERS], ["LANGUAGES", 9]);
await coordinate.close();
