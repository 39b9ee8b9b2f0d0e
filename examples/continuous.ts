/** A work spec that makes its own units: one at a time, at most one in every interval. */
import assert from "node:assert/strict";
import { ManualClock, openMemory } from "../src/index.ts";

// A manual clock, so that the example does not have to wait.
const clock = new ManualClock(Date.UTC(2026, 0, 1));
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("continuous");
const worker = namespace.worker("worker-1");

const poll = await namespace.setWorkSpec({ name: "poll", continuous: true, interval: 60 });

// No unit was added: the request for work makes one. Its name is the time.
const [first] = await worker.requestAttempts({ number: 10 });
assert(first !== undefined);
console.log(first.workUnitName, first.data);
assert.equal(first.workUnitName, "1767225600.000");
assert.deepEqual(first.data, {});

// No unit is made while one is running, or before the interval has passed.
assert.deepEqual(await worker.requestAttempts(), []);
await first.finish();
assert.deepEqual(await worker.requestAttempts(), []);
const [why] = await namespace.explain();
console.log(why?.reason);
assert.equal(why?.excluded, "continuous_not_due");

clock.advance(60_000);
const [second] = await worker.requestAttempts();
assert.equal(second?.workUnitName, "1767225660.000");
await second.finish();

// A continuous work spec can be switched off and on again.
await poll.setMeta({ continuous: false });
clock.advance(60_000);
assert.deepEqual(await worker.requestAttempts(), []);
await poll.setMeta({ continuous: true });
assert.equal((await worker.requestAttempts()).length, 1);

await coordinate.close();
