/** A worker program: tasks, a stop on signals, and a report at the end. With a daemon, only the first line differs. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";
import { bulk, fail, retry, Worker, type UnitTask } from "../src/worker/index.ts";

const coordinate = openMemory();
// with a daemon: const coordinate = handles(new RestClient("http://localhost:5980/"));
const namespace = coordinate.namespace("shop");

// `resize` makes thumbnails; its output becomes units of `index`
const [images] = await namespace.setWorkSpecs([
  { name: "resize", runtime: "node", then: "index", max_retries: 3 },
  { name: "index", runtime: "node" },
]);
await images?.addWorkUnits([
  ["cat.png", { width: 640 }],
  ["dog.png", { width: 480 }],
  ["broken.png", {}],
]);

// a task for one unit: its return value is stored; a thrown error is retried, `fail` is not, `retry` sets the delay
const resize: UnitTask = async ({ name, data, attempt }) => {
  if (typeof data.width !== "number") throw fail(`${name} has no width`);
  if (name === "dog.png" && attempt.number === 1) throw retry(50);
  return { output: { [`thumb-${name}`]: { width: data.width / 10 } } };
};

// a bulk task gets all units of a claim at once, for work that is cheaper together
const index = bulk(async (attempts, { signal, log }) => {
  log.info({ count: attempts.length }, "indexing");
  for (const attempt of attempts) {
    if (signal.aborted) break;
    await attempt.finish({ ...attempt.data, indexed: true });
  }
});

const worker = new Worker(namespace, { tasks: { resize, index }, concurrency: 4, graceMs: 5000 });

// the first signal waits for running tasks, the second stops them
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void worker.stop());

const running = worker.run();

// a real worker runs until a signal stops it; this one runs until all units have ended
const waits = async (): Promise<boolean> =>
  (await namespace.tally()).some(({ counts }) => counts.available + counts.delayed + counts.pending > 0);
while (await waits()) await new Promise((go) => setTimeout(go, 10));
await worker.stop();
await running;

for await (const unit of namespace.workSpec("index").workUnits()) console.log(unit.name, unit.data);
const broken = await namespace.workSpec("resize").workUnit("broken.png");
console.log(broken.status, (broken.data.traceback as string).split("\n")[0]);
assert.equal(worker.counts.finished, 4);
assert.equal(worker.counts.retried, 1);
assert.equal(broken.status, "failed");
await coordinate.close();
