/** `coordinate partitions`: in this process, on a private store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, type PartitionRow } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { run } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-partitions-"));
const file = path.join(place, "store.sqlite");
const line = (words: string) => run(["--backend", `sqlite:${file}`, ...words.split(" ")]);

beforeAll(async () => {
  const engine = new Engine(await openSqlite(file));
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "crawl", max_running_per_partition: 1 }) },
    { data: encodeData({ name: "plain" }) },
  ]);
  await engine.addWorkUnits("", "crawl", [
    { name: "a1", partition: "a.example" },
    { name: "a2", partition: "a.example" },
    { name: "b1", partition: "b.example" },
    { name: "other" },
  ]);
  await engine.requestAttempts("", { worker: "w", number: 2 });
  await engine.close();
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

test("shows what waits and runs in each partition, and what holds it back", async () => {
  const { code, out } = await line("partitions crawl");
  expect(code).toBe(0);
  expect(out).toMatch(/^\(none\) +1 +0 +other +ready to start$/m);
  expect(out).toMatch(/^a\.example +1 +1 +a2 +held: 1 of 1 running \(max_running_per_partition\)$/m);
  expect(out).toMatch(/^b\.example +0 +1 +no waiting units$/m);
  const rows = JSON.parse((await line("--json partitions crawl")).out) as PartitionRow[];
  expect(rows.map(({ partition, held }) => [partition, held])).toEqual([
    ["", null],
    ["a.example", "max_running_per_partition"],
    ["b.example", null],
  ]);
});

test("shows some of them, and says that there are more", async () => {
  const first = await line("partitions crawl -n 2");
  expect(first.out).not.toContain("b.example");
  expect(first.out + first.err).toContain("There are more");
  const rest = await line("partitions crawl --after a.example");
  expect(rest.out).toMatch(/^b\.example /m);
  expect(rest.out + rest.err).not.toMatch(/a\.example|more/);
  expect((await line("partitions crawl --all --limit 2")).code).not.toBe(0);
});

test("says so where partitions mean nothing", async () => {
  const { code, out, err } = await line("partitions plain");
  expect([code, out + err]).toEqual([0, expect.stringContaining("no settings for partitions")]);
  expect((await line("partitions nothing")).code).not.toBe(0);
});
