/** Units that wait for other units. With a hard dependency a unit fails when the other fails; with a soft one it runs anyway. */
import assert from "node:assert/strict";
import { isCoordinateError, openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("dependencies");
const worker = namespace.worker("worker-1");
const build = await namespace.setWorkSpec({ name: "build" });

await build.addWorkUnits([
  { name: "1-compile" },
  { name: "2-test", dependencies: [{ workUnit: "1-compile" }] },
  { name: "3-publish", dependencies: [{ workUnit: "2-test", kind: "hard" }] },
  { name: "4-report", dependencies: [{ workUnit: "2-test", kind: "soft" }] },
]);
const statuses = async () => {
  const found: Record<string, string> = {};
  for await (const unit of build.workUnits()) found[unit.name] = unit.status;
  return found;
};
console.log(await statuses());

// Only units without open dependencies are handed out.
const [compile, none] = await worker.requestAttempts({ number: 4 });
assert.equal(compile?.workUnitName, "1-compile");
assert.equal(none, undefined);
await compile.finish();

// The test fails. The publish unit fails with it; the report unit becomes available.
const [test] = await worker.requestAttempts();
assert.equal(test?.workUnitName, "2-test");
await test.fail({ traceback: "assertion failed" });
console.log(await statuses());
assert.deepEqual(await statuses(), {
  "1-compile": "finished",
  "2-test": "failed",
  "3-publish": "failed",
  "4-report": "available",
});
const publish = await build.workUnit("3-publish");
console.log(publish.data);
assert.equal(publish.data.traceback, "dependency 2-test of work spec build failed");

// Adding a unit is refused when its dependency does not exist or when the dependencies form a cycle.
const refused = (code: "bad_dependency" | "dependency_cycle") => (error: unknown) =>
  isCoordinateError(error, code);
const missing = { dependencies: [{ workUnit: "no such unit" }] };
await assert.rejects(build.addWorkUnit("x", {}, missing), refused("bad_dependency"));
const circle = [
  { name: "a", dependencies: [{ workUnit: "b" }] },
  { name: "b", dependencies: [{ workUnit: "a" }] },
];
await assert.rejects(build.addWorkUnits(circle), refused("dependency_cycle"));

await coordinate.close();
