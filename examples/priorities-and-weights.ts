/** Which work spec is chosen: always the highest priority; within a priority, shares in proportion to the weights. */
import assert from "node:assert/strict";
import { openMemory, seededRandom, type WorkSpec } from "../src/index.ts";

// A seeded random source makes the draws the same in every run.
const coordinate = openMemory({ random: seededRandom(1) });
const namespace = coordinate.namespace("shares");
const worker = namespace.worker("worker-1");

const light = await namespace.setWorkSpec({ name: "light", weight: 10 });
const heavy = await namespace.setWorkSpec({ name: "heavy", weight: 30 });
const units = (count: number) => Array.from({ length: count }, (_, i) => [`unit-${i}`] as const);
await light.addWorkUnits(units(100));
await heavy.addWorkUnits(units(100));

// 40 running attempts are divided 10 to 30.
for (let i = 0; i < 40; i++) await worker.requestAttempts();
const pending = async (spec: WorkSpec) => (await spec.counts()).pending;
console.log("light", await pending(light), "heavy", await pending(heavy));
assert.deepEqual([await pending(light), await pending(heavy)], [10, 30]);

// A work spec with a higher priority goes first as long as it has work, whatever the weights.
const urgent = await namespace.setWorkSpec({ name: "urgent", priority: 1, weight: 1 });
await urgent.addWorkUnits(units(3));
const specs: string[] = [];
for (let i = 0; i < 4; i++) {
  const [attempt] = await worker.requestAttempts();
  specs.push(attempt?.workSpecName ?? "none");
}
console.log(specs);
assert.deepEqual(specs.slice(0, 3), ["urgent", "urgent", "urgent"]);
assert.notEqual(specs[3], "urgent");

// Within a work spec, units are claimed by priority, highest first, then by name.
const ordered = await namespace.setWorkSpec({ name: "ordered", priority: 2 });
await ordered.addWorkUnits([{ name: "c" }, { name: "b" }, { name: "a" }, { name: "z", priority: 5 }]);
await ordered.adjustPriorities({ names: ["c"] }, 1);
const attempts = await worker.requestAttempts({ number: 4 });
const names = attempts.map(({ workUnitName }) => workUnitName);
console.log(names);
assert.deepEqual(names, ["z", "c", "a", "b"]);

await coordinate.close();
