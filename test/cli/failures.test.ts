/** `coordinate failures`, and selecting units by error: in this process, on a private store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { run } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-failures-"));
const file = path.join(place, "store.sqlite");
const line = (words: string) => run(["--backend", `sqlite:${file}`, ...words.split(" ")]);

beforeAll(async () => {
  const engine = new Engine(await openSqlite(file));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "fetch" }) }]);
  await engine.addWorkUnits("", "fetch", [
    { name: "a1" },
    { name: "a2", labels: ["red"] },
    { name: "b1" },
    { name: "fine" },
  ]);
  const attempts = await engine.requestAttempts("", { worker: "w", number: 4 });
  const errors = [
    "Error: timed out after 12 ms",
    "Error: timed out after 7 ms",
    'Error: no such host "x.org"',
  ];
  await engine.settleAttempts(
    "",
    attempts.map(({ id }, i) =>
      errors[i] === undefined
        ? { attempt: id, action: "finish" as const }
        : { attempt: id, action: "error" as const, error: errors[i] },
    ),
  );
  await engine.close();
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

test("groups are listed, and one of them is retried with its count first", async () => {
  const listed = await line("failures fetch");
  expect(listed.code).toBe(0);
  expect(listed.out).toMatch(/2 +1 .* a2 +Error: timed out after … ms/);
  expect(listed.out).toMatch(/1 +1 .* b1 +Error: no such host …/);
  expect(listed.out).toContain("3 failed units in 2 groups.");
  const groups = JSON.parse((await line("--json failures")).out) as { fingerprint: string; count: number }[];
  const [largest] = groups;
  expect(groups.map(({ count }) => count)).toEqual([2, 1]);

  const labelled = await line(`prioritize fetch --error ${largest?.fingerprint ?? ""} --label red -p 3`);
  expect(labelled.err + labelled.out).toMatch(/1 unit selected[^]*priority of 1 work unit/);
  const retried = await line(`retry fetch --error ${largest?.fingerprint ?? ""} --since 1h`);
  expect(retried.err + retried.out).toMatch(/2 units selected[^]*Retried 2 work units/);
  expect((await line("failures fetch")).out).not.toContain("timed out");
  const cleared = await line("clear fetch --prefix b -s failed");
  expect(cleared.err + cleared.out).toMatch(/1 unit selected[^]*Removed 1 work unit/);
  const none = await line("failures");
  expect([none.code, none.out]).toEqual([2, "Nothing has failed.\n"]);
});

test("a selection is not mixed with names, and bad times are refused", async () => {
  const mixed = await line("retry fetch a1 --label red");
  expect([mixed.code, mixed.err]).toEqual([
    2,
    expect.stringMatching(/--prefix, --label, --error and --since/),
  ]);
  expect((await line("retry fetch --since soon")).err).toMatch(/--since: expected a time such as/);
  expect((await line("failures nowhere")).err).toMatch(/nowhere/);
});
