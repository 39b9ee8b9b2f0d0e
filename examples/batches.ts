/** A batch: three files are imported, each import makes a unit to check, and one report is made when all of them have ended. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("batches");
const worker = namespace.worker("worker-1");
const files = await namespace.setWorkSpec({ name: "import", then: "check" });
await namespace.setWorkSpec({ name: "check" });
await namespace.setWorkSpec({ name: "report" });

// Set what follows the batch, add its units, then seal it. Only a sealed batch can end.
const batch = namespace.batch("import-17");
await batch.set({ then: { workSpec: "report", on: "ended" } });
await files.addWorkUnits(["a", "b", "c"].map((name) => ({ name, batch: "import-17" })));
await batch.seal();

// Units made from the output of an import join its batch.
for (const attempt of await worker.requestAttempts({ number: 10, workSpecs: ["import"] }))
  await attempt.finish({ output: [`${attempt.workUnitName}-1`] });
const progress = await batch.get();
console.log(`${progress?.finished} of ${progress?.total} finished`);
assert.deepEqual([progress?.finished, progress?.total], [3, 6]);

const [first, ...others] = await worker.requestAttempts({ number: 10, workSpecs: ["check"] });
assert(first !== undefined);
await first.fail();
for (const attempt of others) await attempt.finish();

// When the last unit ended, the report was made, once.
const [report] = await worker.requestAttempts({ workSpecs: ["report"] });
console.log(report?.workUnitName, report?.data);
assert.deepEqual(report?.data, { batch: "import-17", total: 6, finished: 5, failed: 1 });
await report.finish();

// Failed units can be retried. The report is not made a second time.
assert.equal(await batch.retry(), 1);
const [again] = await worker.requestAttempts({ workSpecs: ["check"] });
await again?.finish();
assert.equal((await batch.get())?.finished, 6);
assert.deepEqual(await worker.requestAttempts({ workSpecs: ["report"] }), []);

await coordinate.close();
