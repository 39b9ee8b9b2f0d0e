/** Weights as shares of worker time: short and long units of equal weight get the same time, not the same number of turns. */
import assert from "node:assert/strict";
import { ManualClock, openMemory, seededRandom } from "../src/index.ts";

// A manual clock and a seeded random source make every run the same.
const clock = new ManualClock();
const coordinate = openMemory({ clock, random: seededRandom(1) });
const namespace = coordinate.namespace("shares-of-time");
await namespace.configure({ share: "time" });

const takesMs: Record<string, number> = { thumbnail: 5, video: 50 };
for (const name of Object.keys(takesMs)) {
  const spec = await namespace.setWorkSpec({ name, weight: 10 });
  await spec.addWorkUnits(Array.from({ length: 5000 }, (_, i) => [`unit-${i}`] as const));
}

const worker = namespace.worker("worker-1");
const spent: Record<string, number> = { thumbnail: 0, video: 0 };
for (let i = 0; i < 3000; i++) {
  const [attempt] = await worker.requestAttempts();
  assert.ok(attempt);
  const ms = takesMs[attempt.workSpecName] ?? 0;
  clock.advance(ms);
  spent[attempt.workSpecName] = (spent[attempt.workSpecName] ?? 0) + ms;
  await attempt.finish();
}

console.log(spent);
for (const { workSpec, targetShare, measuredShare, meanMs } of await namespace.explain()) {
  console.log(workSpec, { targetShare, measuredShare, meanMs });
  assert.equal(targetShare, 0.5);
  assert.equal(meanMs, takesMs[workSpec]);
  assert.ok(Math.abs((measuredShare ?? 0) - 0.5) < 0.1);
}
await coordinate.close();
