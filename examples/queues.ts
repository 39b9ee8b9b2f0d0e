/** How to learn that work has ended: wait for units, or read the messages that ended units append to a queue. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("queues");
const worker = namespace.worker("worker-1");
const resize = await namespace.setWorkSpec({ name: "resize" });

await resize.addWorkUnits([
  { name: "cat.png", queues: ["ends"], labels: ["customer=7"] },
  { name: "dog.png", queues: ["ends"], labels: ["customer=7"] },
  { name: "elk.png", queues: ["ends"] },
]);

// One caller waits for two of the units. Another reads a message for every unit that ends.
const waiting = resize.awaitWorkUnits(["cat.png", "dog.png"], { waitMs: 60_000 });
const reading = (async () => {
  const told: string[] = [];
  for await (const { workUnit, status } of namespace.queue("ends").messages({ waitMs: 60_000 })) {
    told.push(`${workUnit} ${status}`);
    if (told.length === 3) break;
  }
  return told;
})();

for (const attempt of await worker.requestAttempts({ number: 3 })) {
  if (attempt.workUnitName === "dog.png") await attempt.fail({ traceback: "not an image" });
  else await attempt.finish({ size: 64 });
}

const units = (await waiting).map((unit) => `${unit?.name ?? ""} ${unit?.status ?? ""}`);
console.log(units);
assert.deepEqual(units, ["cat.png finished", "dog.png failed"]);
const told = await reading;
console.log(told);
assert.deepEqual(told, ["cat.png finished", "dog.png failed", "elk.png finished"]);
const counts = await resize.countWorkUnits({ label: "customer=7" });
assert.deepEqual([counts.finished, counts.failed], [1, 1]);
await coordinate.close();
