/** Every example runs as a separate program and checks its own output. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = path.join(import.meta.dirname, "../..");
const examples = readdirSync(path.join(root, "examples")).filter((name) => name.endsWith(".ts"));

test("there are examples", () => {
  expect(examples).toContain("hello.ts");
});

test.each(examples)("%s", { timeout: 60_000 }, async (name) => {
  // rejects with the program's output when its exit code is not 0
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--import", "./examples/typescript.mjs", `examples/${name}`],
    { cwd: root },
  );
  expect(stdout).not.toBe("");
});
