/** `npm ci` accepts every lock file of the repository: each matches its package.json. */
import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";

const root = path.join(import.meta.dirname, "..", "..");

test.each([".", "bench", "site"])("npm ci takes the lock file of %s", { timeout: 120_000 }, (folder) => {
  // a dry run compares the two files and installs nothing
  const options = ["ci", "--dry-run", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"];
  expect(() => execFileSync("npm", options, { cwd: path.join(root, folder), stdio: "pipe" })).not.toThrow();
});
