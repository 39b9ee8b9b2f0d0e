/** A batch: three files are imported, each leads to rows that are checked, and one report is made when all of it has ended. */
import assert from "node:assert/strict";
import { openMemory } from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("batches");
const worker = namespace.worker("worker-1");
const files = await namespace.setWorkSpec({ name: "import", then: "check" });
await namespace.setWorkSpec({ name: "check" });
await namespace.setWorkSpec({ name: "report" });

// What follows is said before, and when all units are there the batch is sealed.
const batch = namespace.batch("import-17");
await batch.set({ then: { workSpec: "report", on: "ended" } });
await files.addWorkUnits(["a", "b", "c"].map((name) => ({ name, batch: "import-17" })));
await batch.seal();

// The units that an import leads to stay in its batch.
for (const attempt of await worker.requestAttempts({ number: 10, workSpecs: ["import"] }))
  await attempt.finish({ output: [`${attempt.workUnitName}-1`] });
const progress = await batch.get();
console.log(`${progress?.finished} of ${progress?.total} finished`);
assert.deepEqual([progress?.finished, progress?.total], [3, 6]);

const [first, ...others] = await worker.requestAttempts({ number: 10, workSpecs: ["check"] });
assert(first !== undefined);
await first.fail();
for (const attempt of others) await attempt.finish();

// The last of them made the report, once.
const [report] = await worker.requestAttempts({ workSpecs: ["report"] });
console.log(report?.workUnitName, report?.data);
assert.deepEqual(report?.data, { batch: "import-17", total: 6, finished: 5, failed: 1 });
await report.finish();

// What failed can be done again; the report is not made a second time.
assert.equal(await batch.retry(), 1);
const [again] = await worker.requestAttempts({ workSpecs: ["check"] });
await again?.finish();
assert.equal((await batch.get())?.finished, 6);
assert.deepEqual(await worker.requestAttempts({ workSpecs: ["report"] }), []);

await coordinate.close();
