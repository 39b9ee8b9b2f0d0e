/**
 * The same store on Node 24, which includes SQLite: runs the conformance suite and the tests of the file there. The npm
 * package `node` provides Node 24; without a network the test is skipped with a message.
 */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { whySkipped } from "../skipped-reporter.ts";

const root = path.join(import.meta.dirname, "../..");
const tests = [
  "test/stacks/sqlite.test.ts",
  "test/sqlite/file.test.ts",
  "test/sqlite/commit.test.ts",
  "test/sqlite/plans.test.ts",
];

// on Node 24 or later the other test files already cover this
const isNewer = Number(process.versions.node.split(".")[0]) >= 24;
test.skipIf(isNewer)(
  `the store works on Node 24${whySkipped(isNewer ? "this is Node 24 or later" : "")}`,
  ({ skip }) => {
    const node = ["--yes", "--package=node@24", "--", "node"];
    const found = spawnSync("npx", [...node, "--version"], { cwd: root, encoding: "utf8" });
    if (!found.stdout.trim().startsWith("v24."))
      skip(`Node 24 cannot be had here: ${found.stderr.trim().slice(-200)}`);
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST")),
    );
    const { status, stdout, stderr } = spawnSync(
      "npx",
      [...node, "node_modules/vitest/vitest.mjs", "run", ...tests],
      { cwd: root, encoding: "utf8", env },
    );
    expect(status, `${stdout.slice(-4000)}\n${stderr.slice(-2000)}`).toBe(0);
  },
  300_000,
);
