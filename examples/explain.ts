/** `explain` says for every work spec whether the next request would get its units, and if not, why. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("explain");
const [idle, paused, limited, gpu, small, large] = await namespace.setWorkSpecs([
  { name: "idle" },
  { name: "paused", disabled: true },
  { name: "limited", max_running: 1 },
  { name: "gpu", runtime: "cuda" },
  { name: "small", weight: 10 },
  { name: "large", weight: 30 },
]);
assert(idle !== undefined);
for (const spec of [paused, limited, gpu, small, large]) await spec?.addWorkUnits([["a"], ["b"]]);
await namespace.worker("worker-1").requestAttempts({ workSpecs: ["limited"] });

const explained = await namespace.explain({ runtimes: [""] });
for (const { workSpec, excluded, reason, score, chance } of explained) {
  console.log(workSpec.padEnd(8), (excluded ?? `score ${score}, chance ${chance}`).padEnd(26), reason);
}
const found = Object.fromEntries(explained.map(({ workSpec, excluded }) => [workSpec, excluded]));
assert.deepEqual(found, {
  idle: "no_work",
  paused: "paused",
  limited: "max_running",
  gpu: "other_runtime",
  small: null,
  large: null,
});
const chances = explained
  .filter(({ excluded }) => excluded === null)
  .map(({ workSpec, chance }) => [workSpec, chance]);
assert.deepEqual(Object.fromEntries(chances), { small: 0.25, large: 0.75 });

await coordinate.close();
