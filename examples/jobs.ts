/**
 * Jobs: 200 pictures are scaled down by worker processes, with progress, results, and one picture that is broken.
 *
 * The function is in a separate module, jobs/thumbnails.ts. Workers load the module; this program only names it.
 */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Engine, systemClock } from "../src/index.ts";
import { openJobs, type JobState } from "../src/jobs/index.ts";
import { openSqlite } from "../src/sqlite/index.ts";
import type { Thumbnail } from "./jobs/thumbnails.ts";

const folder = mkdtempSync(path.join(tmpdir(), "coordinate-thumbnails-"));
const coordinate = new Engine(await openSqlite(path.join(folder, "jobs.sqlite")), { clock: systemClock() });
const jobs = openJobs(coordinate, { namespace: "pictures" });

// Workers load modules from this folder only.
const pool = await jobs.startPool({ roots: [import.meta.dirname] });
const module = "./jobs/thumbnails.ts";

// One request stores all 200 jobs. From here on they survive a crash of this program.
const pictures = Array.from({ length: 200 }, (_, n) => n);
const handles = await jobs.scheduleAll(
  pictures.map((n) => ({
    fn: { module, export: "thumbnail" },
    args: [n, path.join(folder, "thumbnails")],
    kwargs: { width: 32 },
    name: `picture ${n}`,
    category: "thumbnail",
    timeoutMs: 30_000,
    returnQueues: ["thumbnails"],
  })),
);

// The return queue delivers each outcome, success or failure, when the job ends.
const ends: Record<JobState, number> = { NEW: 0, RUNNING: 0, OK: 0, ERROR: 0 };
let done = 0;
for await (const { name, state, error } of jobs.returnQueue("thumbnails")) {
  ends[state]++;
  if (error !== null) console.log(`${name} failed: ${error.message}`);
  if (++done % 50 === 0) console.log(`${done} of ${pictures.length}`);
  if (done === pictures.length) break;
}
assert.deepEqual(ends, { NEW: 0, RUNNING: 0, OK: 199, ERROR: 1 });

// The records of ended jobs are kept and can be read at any time.
const first = await handles[0]!.wait();
console.log(first);
assert.equal(readFileSync((first as Thumbnail).file).readUInt32BE(16), 32);
assert.equal(readdirSync(path.join(folder, "thumbnails")).length, 199);

const broken = await jobs.load("picture 13");
console.log(broken.state, broken.error_cat, broken.error?.frames?.[0]?.function);
assert.equal(broken.error?.frames?.[0]?.function, "thumbnail");
await assert.rejects(handles[13]!.wait(), /its header is damaged/);
assert.equal(await jobs.count({ category: "thumbnail", state: "OK" }), 199);

await pool.stop();
await coordinate.close();
rmSync(folder, { recursive: true });
assert(!existsSync(folder));
