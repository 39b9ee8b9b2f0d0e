/** `coordinate job`, run in this process on an SQLite file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { run } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-job-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));

test("ids of jobs, actions and dependencies are escaped: any client may have added the unit", async () => {
  const store = path.join(place, "jobs.sqlite");
  const engine = new Engine(await openSqlite(store));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "jobs", runtime: "jobs" }) }]);
  await engine.addWorkUnits("", "jobs", [{ name: "first\u001b[2J" }]);
  await engine.addWorkUnits("", "jobs", [
    {
      name: "second\u001b[31m",
      data: encodeData({ job: "named", action: "a\u001b]0;x\u0007" }),
      dependencies: [{ workUnit: "first\u001b[2J" }],
    },
  ]);
  await engine.close();
  const { code, out } = await run(["job", "second\u001b[31m", "--backend", `sqlite:${store}`]);
  expect(code).toBe(0);
  expect(out).not.toMatch(/[\u001b\u0007]/);
  expect(out).toMatch(/^Job +named \(second\\x1b\[31m\)\n/);
  expect(out).toMatch(/^Function +"?a\\x1b\]0;x\\x07"?$/m);
  expect(out).toMatch(/^Waits for +first\\x1b\[2J$/m);
});
