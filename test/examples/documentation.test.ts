/**
 * Checks the code in the documentation. The `ts` blocks of a page, joined in order, are a program that is type-checked
 * against the sources and run. Two kinds of comments at the end of a line are checked as well:
 *
 *   unit.status; // => "finished"          the value, deeply equal
 *   await attempt.fail(); // throws gone   the code of the error
 *
 * A `ts test` block is a separate file for a test runner: its types are checked, but it is not run.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CoordinateError, errorCodes } from "../../src/index.ts";

const root = path.join(import.meta.dirname, "../..");
const docs = path.join(root, "docs");

/** Pages whose code is a whole program. */
const pages = [
  "README.md",
  "docs/namespaces.md",
  "docs/work-specs.md",
  "docs/work-units.md",
  "docs/attempts.md",
  "docs/workers.md",
  "docs/worker-framework.md",
  "docs/runtimes.md",
  "docs/scheduling.md",
  "docs/chaining.md",
  "docs/continuous.md",
  "docs/schedules.md",
  "docs/flow-control.md",
  "docs/replay.md",
  "docs/batches.md",
  "docs/history.md",
  "docs/dependencies.md",
  "docs/queues.md",
  "docs/data.md",
  "docs/locks.md",
  "docs/jobs.md",
  "docs/errors.md",
  "docs/stores.md",
  "docs/sqlite.md",
  "docs/cbor-rpc.md",
  "docs/testing.md",
  "docs/flows.md",
  "docs/loading.md",
  "docs/configuration.md",
  "docs/guides/retries.md",
  "docs/guides/long-tasks.md",
  "docs/guides/batches.md",
  "docs/guides/testing-tasks.md",
  "docs/guides/web-applications.md",
];

function program(page: string): string {
  const text = readFileSync(path.join(root, page), "utf8");
  const blocks = [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  const code = blocks
    .join("\n")
    .replace(
      /^(.+); \/\/ => (.+)$/gm,
      (_, value: string, wanted: string) => `assert.deepEqual(${value}, ${wanted});`,
    )
    .replace(
      /^(.+); \/\/ throws (\w+)$/gm,
      (_, call: string, error: string) => `await assert.rejects(async () => ${call}, { code: "${error}" });`,
    );
  return `import assert from "node:assert/strict";\n${code}`;
}

function testFiles(page: string): string[] {
  const text = readFileSync(path.join(root, page), "utf8");
  return [...text.matchAll(/^```ts test\n(.*?)^```$/gms)].map(([, code = ""]) => code);
}

/** Two folders may have a page of the same name. */
const fileOf = (page: string): string =>
  `${page.replace(/\.md$/, "").replaceAll("/", "-").toLowerCase()}.mts`;

describe("code", () => {
  let folder = "";
  const files: string[] = [];
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), "coordinate-docs-"));
    const write = (name: string, code: string): void => {
      writeFileSync(path.join(folder, name), code);
      files.push(path.join(folder, name));
    };
    for (const page of pages) {
      write(fileOf(page), program(page));
      testFiles(page).forEach((code, i) => write(`${i}.test.${fileOf(page)}`, code));
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has the types it should", { timeout: 120_000 }, () => {
    const { config } = ts.readConfigFile(path.join(root, "tsconfig.json"), (file) =>
      ts.sys.readFile(file),
    ) as {
      config: object;
    };
    const { options } = ts.parseJsonConfigFileContent({ ...config, files: [], include: [] }, ts.sys, root);
    delete options.tsBuildInfoFile;
    const checked = ts.createProgram({
      rootNames: files,
      options: {
        ...options,
        incremental: false,
        declaration: false,
        // a page writes `unit.status;` to show a value, and imports once for all its blocks
        noUnusedLocals: false,
        typeRoots: [path.join(root, "node_modules/@types")],
        paths: {
          coordinate: [path.join(root, "src/index.ts")],
          "coordinate/*": [path.join(root, "src/*/index.ts")],
          vitest: [path.join(root, "node_modules/vitest/dist/index.d.ts")],
        },
      },
    });
    const found = checked
      .getSourceFiles()
      .filter(({ fileName }) => fileName.startsWith(folder))
      .flatMap((file) => [...checked.getSyntacticDiagnostics(file), ...checked.getSemanticDiagnostics(file)])
      .map(({ file, start = 0, messageText }) => {
        const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line;
        const source = file?.text.split("\n")[line] ?? "";
        return `${path.basename(file?.fileName ?? "")}: ${source.trim()}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
      });
    expect(found).toEqual([]);
  });

  // one process runs all pages: separate processes would each spend seconds loading the same sources
  test("runs, and does what the comments say", { timeout: 120_000 }, async () => {
    const runner = path.join(folder, "all.mjs");
    const lines = pages.map((page) => `await import(${JSON.stringify(`./${fileOf(page)}`)}).catch(note);`);
    const note = "const note = (error) => { console.error(error); process.exitCode = 1; };";
    writeFileSync(runner, [note, ...lines].join("\n"));
    await promisify(execFile)(process.execPath, ["--import", "./examples/typescript.mjs", runner], {
      cwd: root,
    });
  });

  test.each(pages)("%s has some", (page) => {
    expect(program(page)).toMatch(/ from "coordinate/);
  });
});

describe("links", () => {
  const written = [
    ...["README.md", "ARCHITECTURE.md", "CHANGELOG.md"],
    ...readdirSync(docs, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .map((name) => `docs/${name}`),
  ];

  test.each(written)("%s leads somewhere", (page) => {
    const file = path.join(root, page);
    const links = [...readFileSync(file, "utf8").matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(
      ([, to = ""]) => to,
    );
    const broken = links.filter((to) => !existsSync(path.join(path.dirname(file), to)));
    expect(broken).toEqual([]);
  });
});

test("no line of a table is over 160 characters", () => {
  const pages = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".md"),
  );
  const files = [
    ...["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "python/README.md"],
    ...pages.map((name) => `docs/${name}`),
  ];
  const long = files.flatMap((file) =>
    readFileSync(path.join(root, file), "utf8")
      .split("\n")
      .flatMap((line, i) =>
        line.startsWith("|") && line.length > 160 ? [`${file}:${i + 1}: ${line.length}`] : [],
      ),
  );
  expect(long).toEqual([]);
});

test("the index of decisions has every record, once", () => {
  const folder = path.join(docs, "decisions");
  const records = readdirSync(folder).filter((name) => /^\d/.test(name));
  const index = readFileSync(path.join(folder, "README.md"), "utf8");
  const listed = [...index.matchAll(/\]\((\d[^)]*)\)/g)].map(([, to = ""]) => to);
  expect(listed.toSorted()).toEqual(records.toSorted());
});

test("the page of errors has every one of them, with its status", () => {
  const rows = [
    ...readFileSync(path.join(docs, "errors.md"), "utf8").matchAll(/^\| `(\w+)` +\| (\d+) +\|/gm),
  ];
  const written = Object.fromEntries(rows.map(([, code = "", status]) => [code, Number(status)]));
  expect(written).toEqual(
    Object.fromEntries(errorCodes.map((code) => [code, new CoordinateError(code).status])),
  );
});
