/** A work spec that makes a unit every night at three, by the clock of Brussels, also when that clock changes. */
import assert from "node:assert/strict";
import { ManualClock, openMemory } from "../src/index.ts";

// A clock that moves when told, so that the example need not wait.
const clock = new ManualClock(Date.parse("2026-03-28T12:00:00Z"));
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("schedules");
const worker = namespace.worker("worker-1");

await namespace.setWorkSpec({
  name: "report",
  schedule: { cron: "0 3 * * *", timezone: "Europe/Brussels", overlap: "skip", catch_up: "one" },
});

// Nothing before its time; explain says when that is.
assert.deepEqual(await worker.requestAttempts(), []);
const [why] = await namespace.explain();
console.log(why?.reason);
assert.equal(why?.reason, "makes its next work unit at 2026-03-29T01:00:00.000Z");

// On the night in which the clock is set forward, three o'clock is an hour earlier than the day before.
clock.advance(13 * 3_600_000);
const [night] = await worker.requestAttempts({ lifetimeMs: 48 * 3_600_000 });
console.log(night?.workUnitName);
assert.equal(night?.workUnitName, "2026-03-29T01:00:00Z");

// While it runs the next one is skipped; after an outage of three nights one run is made up for.
clock.advance(24 * 3_600_000);
assert.deepEqual(await worker.requestAttempts(), []);
await night.finish();
clock.advance(3 * 24 * 3_600_000);
const [late] = await worker.requestAttempts();
console.log(late?.workUnitName);
assert.equal(late?.workUnitName, "2026-04-02T01:00:00Z");
await late.finish();

await coordinate.close();
