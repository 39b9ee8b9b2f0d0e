/** Tenants that share workers: each has a limit and a rate, and none waits for the backlog of another. */
import assert from "node:assert/strict";
import { ManualClock, openMemory } from "../src/index.ts";

const clock = new ManualClock();
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("flow-control");
const spec = await namespace.setWorkSpec({
  name: "render",
  fair: "partition",
  max_running_per_partition: 2,
  rate_per_partition: { limit: 4, period: 1, burst: 4 },
});

await spec.addWorkUnits(Array.from({ length: 1000 }, (_, i) => ({ name: `large-${i}`, partition: "large" })));
await spec.addWorkUnits([
  { name: "small-1", partition: "small" },
  { name: "small-2", partition: "small" },
]);

const worker = namespace.worker("worker-1");
const begun: string[] = [];
async function round(): Promise<number> {
  const attempts = await worker.requestAttempts({ number: 10 });
  for (const attempt of attempts) {
    begun.push(attempt.workUnitName);
    await attempt.finish();
  }
  return attempts.length;
}

// The two tenants take turns, and neither runs more than two units at once.
assert.equal(await round(), 4);
console.log(begun);
assert.deepEqual(begun, ["large-0", "small-1", "large-1", "small-2"]);

// Each tenant may start a burst of four units, then four per second.
assert.equal(await round(), 2);
assert.equal(await round(), 0);
clock.advance(250);
assert.equal(await round(), 1);
await coordinate.close();
