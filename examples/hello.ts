/** The smallest complete program: add a unit, claim it, finish it. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("hello");

// A work spec describes a kind of job. A work unit is one job of that kind.
const greet = await namespace.setWorkSpec({ name: "greet" });
await greet.addWorkUnit("world", { greeting: "Hello" });

// A worker requests work and gets attempts. It reads the data, does the job, and settles the attempt.
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
