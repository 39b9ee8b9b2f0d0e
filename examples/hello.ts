/** The smallest whole: add a unit, claim it, finish it. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("hello");

// A work spec describes a family of jobs; a work unit is one of them.
const greet = await namespace.setWorkSpec({ name: "greet" });
await greet.addWorkUnit("world", { greeting: "Hello" });

// A worker asks for work and is given attempts. It reads the data, does the job, and says how it ended.
const worker = namespace.worker("worker-1");
const [attempt] = await worker.requestAttempts();
assert(attempt !== undefined);
const text = `${attempt.data.greeting as string}, ${attempt.workUnitName}!`;
console.log(text);
await attempt.finish({ ...attempt.data, text });

// The result is kept with the unit.
const unit = await greet.workUnit("world");
console.log(unit.status, unit.data);
assert.equal(unit.status, "finished");
assert.deepEqual(unit.data, { greeting: "Hello", text: "Hello, world!" });

await coordinate.close();
