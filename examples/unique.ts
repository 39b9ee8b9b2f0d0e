/** Adding a unit that exists: debounced, throttled or refused; and a work spec that limits how many units may wait. */
import assert from "node:assert/strict";
import { isCoordinateError, ManualClock, openMemory } from "../src/index.ts";

const clock = new ManualClock();
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("unique");
const worker = namespace.worker("worker-1");
const index = await namespace.setWorkSpec({ name: "index", max_waiting: 3 });

// Debounce: of several additions within a second, the last one wins.
await index.addWorkUnits([{ name: "page-1", data: { version: 1 }, debounceMs: 1000 }]);
clock.advance(500);
await index.addWorkUnits([{ name: "page-1", data: { version: 2 }, debounceMs: 1000 }]);
clock.advance(999);
assert.deepEqual(await worker.requestAttempts(), []);
clock.advance(1);
const [attempt] = await worker.requestAttempts();
console.log(attempt?.data);
assert.deepEqual(attempt?.data, { version: 2 });
await attempt.finish();

// Throttle: one unit per minute, also when the first has ended.
const again = { name: "page-1", throttleMs: 60_000, data: { version: 3 } };
await index.addWorkUnits([again]);
assert.equal((await index.workUnit("page-1")).status, "finished");

// Refuse: when one of the units exists, the call fails and adds nothing.
const refused = await index
  .addWorkUnits([{ name: "page-2" }, { name: "page-1" }], { onConflict: "refuse" })
  .catch((error: unknown) => error);
assert(isCoordinateError(refused, "name_exists"));
console.log(refused.message);

// At most three units may wait. A fourth is refused.
await index.addWorkUnits(["a", "b", "c"].map((name) => ({ name })));
const full = await index.addWorkUnits([{ name: "d" }]).catch((error: unknown) => error);
assert(isCoordinateError(full, "queue_full"));
console.log(full.message);

await coordinate.close();
