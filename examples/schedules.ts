/** A work spec that makes a unit every night at three o'clock in Brussels, also when daylight saving time begins or ends. */
import assert from "node:assert/strict";
import { ManualClock, openMemory } from "../src/index.ts";

// A manual clock, so that the example does not have to wait.
const clock = new ManualClock(Date.parse("2026-03-28T12:00:00Z"));
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("schedules");
const worker = namespace.worker("worker-1");

await namespace.setWorkSpec({
  name: "report",
  schedule: { cron: "0 3 * * *", timezone: "Europe/Brussels", overlap: "skip", catch_up: "one" },
});

// No unit is made before it is due. `explain` says when that is.
assert.deepEqual(await worker.requestAttempts(), []);
const [why] = await namespace.explain();
console.log(why?.reason);
assert.equal(why?.reason, "makes its next work unit at 2026-03-29T01:00:00.000Z");

// On the night in which the clock is set forward, three o'clock is an hour earlier than the day before.
clock.advance(13 * 3_600_000);
const [night] = await worker.requestAttempts({ lifetimeMs: 48 * 3_600_000 });
console.log(night?.workUnitName);
assert.equal(night?.workUnitName, "2026-03-29T01:00:00Z");

// While a unit runs, the next one is skipped. After an outage of three nights, one missed unit is made.
clock.advance(24 * 3_600_000);
assert.deepEqual(await worker.requestAttempts(), []);
await night.finish();
clock.advance(3 * 24 * 3_600_000);
const [late] = await worker.requestAttempts();
console.log(late?.workUnitName);
assert.equal(late?.workUnitName, "2026-04-02T01:00:00Z");
await late.finish();

await coordinate.close();
