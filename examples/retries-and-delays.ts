/** Retries: at once, after a delay, and limited in number; and what happens when a worker is lost. */
import assert from "node:assert/strict";
import { isCoordinateError, ManualClock, openMemory } from "../src/index.ts";

const clock = new ManualClock();
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("retries");
const worker = namespace.worker("worker-1");
const fetch = await namespace.setWorkSpec({ name: "fetch", max_retries: 3 });

// A unit may be added with a delay.
await fetch.addWorkUnit("page", { url: "https://example.org/" }, { delayMs: 10_000 });
assert.deepEqual(await worker.requestAttempts(), []);
clock.advance(10_000);

// A worker that cannot do the job now returns the unit, here with a delay of one minute.
const [first] = await worker.requestAttempts();
assert(first !== undefined);
await first.retry({ delayMs: 60_000, data: { ...first.data, error: "503" } });
const page = await fetch.workUnit("page");
console.log(page.status, "until", new Date(page.notBefore).toISOString());
assert.equal(page.status, "delayed");
clock.advance(60_000);

// A lost worker settles nothing. When its lease expires, the unit is available again.
const [second] = await namespace.worker("lost").requestAttempts({ lifetimeMs: 5000 });
assert(second !== undefined);
clock.advance(5000);
const [third] = await worker.requestAttempts();
assert(third !== undefined);
console.log("attempt", third.number, "by", third.workerName);
assert.equal(third.number, 3);

// If the lost worker comes back, it gets an error: it no longer holds the lease.
await assert.rejects(second.finish(), (error) => isCoordinateError(error, "lost_lease"));

// Three attempts were allowed: the next request fails the unit instead of handing it out.
await third.retry();
assert.deepEqual(await worker.requestAttempts(), []);
await page.refresh();
console.log(page.status, page.data);
assert.equal(page.status, "failed");
assert.equal(page.data.traceback, "too many retries");

// The history lists every attempt, and an operator may retry the failed unit.
const history = (await page.attempts()).map(({ number, status }) => `${number} ${status}`);
console.log(history);
assert.deepEqual(history, ["1 retryable", "2 expired", "3 retryable", "4 failed"]);
assert.equal(await fetch.retry(), 1);
const [again] = await worker.requestAttempts();
await again?.finish();
assert.equal((await fetch.counts()).finished, 1);

await coordinate.close();
