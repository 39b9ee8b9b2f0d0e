import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkImports, folders } from "../../scripts/check-imports.mjs";

let root: string;

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "check-imports-"));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

/** Writes a tree of sources and returns its violations as "file:line: message". */
function check(sources: Record<string, string>): string[] {
  for (const [file, text] of Object.entries(sources)) {
    mkdirSync(path.join(root, path.dirname(file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  }
  return checkImports(root).violations.map(({ file, line, message }) => `${file}:${line}: ${message}`);
}

describe("what is allowed", () => {
  const allowed: [title: string, file: string, text: string][] = [
    ["a folder's index from a folder above", "src/memory/store.ts", `import { a } from "../core/index.ts";`],
    ["any file of the same folder", "src/worker/runtimes/node.ts", `import { a } from "../pool.ts";`],
    ["a listed package", "src/postgres/pool.ts", `import pg from "pg";`],
    ["a package behind a pattern", "src/rest/server.ts", `import helmet from "@fastify/helmet";`],
    ["a builtin by name", "src/sqlite/driver.ts", `await import("node:sqlite");`],
    ["a value of core in the browser", "src/dashboard/app.tsx", `import { a } from "../core/index.ts";`],
    ["a second entry", "src/dashboard/app.tsx", `import { a } from "../rest/client.ts";`],
    ["the main entry over core and objects", "src/index.ts", `export * from "./core/index.ts";`],
    ["a driver when it is needed", "src/connect.ts", `await import("./sqlite/index.ts");`],
    ["the clock where it is defined", "src/core/clock.ts", `export const now = () => Date.now();`],
    ["the clock at an edge", "src/worker/lease.ts", `export const now = () => Date.now();`],
    [
      "the clock in comments and strings",
      "src/core/a.ts",
      `// Date.now()\n/* setTimeout() */ f("Math.random()");`,
    ],
    ["a date from a value", "src/core/a.ts", `new Date(now);`],
    [
      "a timer that was passed in",
      "src/core/a.ts",
      `clock.setTimeout(f, 1); interface C { setTimeout(): void }`,
    ],
  ];
  test.each(allowed)("%s", (_title, file, text) => {
    expect(check({ [file]: text })).toEqual([]);
  });
});

describe("what is found", () => {
  const planted: [title: string, file: string, text: string, line: number, message: RegExp][] = [
    [
      "a driver that is loaded at once",
      "src/connect.ts",
      `import { a } from "./sqlite/index.ts";`,
      1,
      /may load sqlite only when it is needed: use `import\(\)`/,
    ],
    [
      "a folder below",
      "src/core/a.ts",
      `\nimport "../memory/index.ts";`,
      2,
      /src\/core may not import memory; .* none/,
    ],
    ["a sideways folder", "src/rest/a.ts", `export * from "../sqlite/index.ts";`, 1, /may not import sqlite/],
    [
      "a type from below",
      "src/core/a.ts",
      `type A = import("../jobs/index.ts").A;`,
      1,
      /may not import jobs/,
    ],
    [
      "a dynamic import",
      "src/worker/a.ts",
      `\n\nawait import("../daemon/index.ts");`,
      3,
      /may not import daemon/,
    ],
    ["a require", "src/worker/a.ts", `require("pg");`, 1, /may not import "pg"/],
    ["a way past the index", "src/memory/a.ts", `import "../core/data.ts";`, 1, /reaches inside src\/core/],
    [
      "the server in the dashboard",
      "src/dashboard/a.ts",
      `import "../rest/index.ts";`,
      1,
      /may not import rest;/,
    ],
    [
      "the dashboard in the cli",
      "src/cli/a.ts",
      `import "../dashboard/index.ts";`,
      1,
      /may not import dashboard/,
    ],
    ["the main entry from inside", "src/memory/a.ts", `import "../index.ts";`, 1, /may not import index\.ts/],
    ["the package by its own name", "src/cli/a.ts", `import "coordinate";`, 1, /may not import "coordinate"/],
    ["a way out of src", "src/cli/a.ts", `import "../../package.json";`, 1, /leaves src/],
    ["a .js ending", "src/core/a.ts", `import "./b.js";`, 1, /ends in \.ts/],
    [
      "a driver elsewhere",
      "src/daemon/a.ts",
      `import "better-sqlite3";`,
      1,
      /may not import "better-sqlite3"/,
    ],
    [
      "node:sqlite behind node:*",
      "src/daemon/a.ts",
      `import "node:sqlite";`,
      1,
      /may not import "node:sqlite"/,
    ],
    ["a builtin without node:", "src/cli/a.ts", `import "fs";`, 1, /write "node:fs"/],
    ["a package in a pure folder", "src/memory/a.ts", `import "node:timers";`, 1, /its packages are none/],
    ["a folder nobody knows", "src/utils/a.ts", ``, 1, /src\/utils is not in the table/],
    [
      "Date.now",
      "src/core/a.ts",
      `// why\nconst t = Date.now();`,
      2,
      /Date\.now .* in src\/core: take `now`/,
    ],
    ["Date.now as a value", "src/core/a.ts", `f({ clock: Date.now });`, 1, /Date\.now/],
    ["new Date", "src/memory/a.ts", `const t = new Date();`, 1, /new Date\(\) .* in src\/memory/],
    [
      "performance.now",
      "src/objects/a.ts",
      `globalThis.performance.now();`,
      1,
      /performance\.now .* src\/objects/,
    ],
    ["Math.random", "src/core/a.ts", `Math.random();`, 1, /Math\.random .* take a Random/],
    ["crypto.randomUUID", "src/core/a.ts", `crypto.randomUUID();`, 1, /crypto\.randomUUID/],
    ["randomUUID by name", "src/core/a.ts", `import { randomUUID } from "node:crypto";`, 1, /randomUUID/],
    ["setTimeout", "src/core/a.ts", `setTimeout(f, 1);`, 1, /setTimeout .* timers/],
    ["setTimeout as a field", "src/core/a.ts", `class A { timer = setTimeout; }`, 1, /setTimeout/],
    ["setTimeout passed on", "src/core/a.ts", `f({ setTimeout });`, 1, /setTimeout/],
    ["setInterval", "src/core/a.ts", `globalThis.setInterval(f, 1);`, 1, /setInterval .* timers/],
  ];
  test.each(planted)("%s", (_title, file, text, line, message) => {
    const found = check({ [file]: text });
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^${file}:${line}: `));
    expect(found[0]).toMatch(message);
  });

  test("a circle of folders, once, with its path", () => {
    const found = check({
      "src/core/a.ts": `import "../jobs/index.ts";`,
      "src/jobs/index.ts": `import "../objects/index.ts";`,
      "src/objects/index.ts": `import "../core/index.ts";`,
    });
    expect(found.filter((message) => message.includes("circle"))).toEqual([
      "src/core/a.ts:1: folders import each other in a circle: src/core -> src/jobs -> src/objects -> src/core",
    ]);
  });
});

test("the table names only folders it describes, and allows no circle", () => {
  const sources: Record<string, string> = {};
  for (const [folder, { imports }] of Object.entries(folders)) {
    const lines = imports.map((name) => {
      const [target, keyword] = name.startsWith("type ")
        ? [name.slice(5), "import type {}"]
        : [name, "import {}"];
      return `${keyword} from "../${target.includes("/") ? target : `${target}/index`}.ts";`;
    });
    sources[`src/${folder}/index.ts`] = lines.join("\n");
  }
  expect(check(sources)).toEqual([]);
  for (const { imports } of Object.values(folders)) {
    for (const name of imports)
      expect(Object.keys(folders)).toContain(name.replace(/^type /, "").split("/")[0]);
  }
});

test("as a command it prints the violations and exits with 1, also when it finds nothing to check", () => {
  const run = () => {
    const script = path.join(import.meta.dirname, "../../scripts/check-imports.mjs");
    return execFileSync(process.execPath, [script, root], { encoding: "utf8", stdio: "pipe" });
  };
  expect(run).toThrow(/found no sources in src/);
  check({ "src/core/a.ts": `export const a = 1;` });
  expect(run()).toBe("imports: 1 files, 0 violations\n");
  check({ "src/core/a.ts": `Math.random();` });
  expect(run).toThrow(/src\/core\/a\.ts:1: Math\.random/);
});
