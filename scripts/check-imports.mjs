// Which folder of src may import what. The tables below are the architecture; the code after them enforces it:
//
//   - a folder imports only the folders and packages listed for it, and no two folders import each other in a circle;
//   - other folders import only the index.ts of a folder, or another entry listed for it;
//   - the folders marked pure read no clock, draw no random number and set no timer: they get these as arguments.
//
// Run `node scripts/check-imports.mjs [root]`. It prints file:line and a message for each violation and then exits with 1.

import { existsSync, readFileSync, readdirSync, realpathSync } from "node:fs";
import { isBuiltin } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/**
 * @typedef {object} Folder
 * @property {string[]} imports Other folders: "core" means its index.ts, "rest/client" another entry, "lazy sqlite" an index.ts that
 *   may be loaded only by `import()`.
 * @property {string[]} packages Packages and node: builtins. A trailing "*" matches any ending; node:sqlite must be named in full.
 * @property {string[]} [entries] Files that other folders may import, without .ts. Default: ["index"].
 * @property {boolean} [pure] No ambient clock, random or timer.
 */

const coreAndObjects = ["core", "objects"];
const everyLibrary = [
  ...coreAndObjects,
  "memory",
  "sqlite",
  "postgres",
  "rest",
  "cbor",
  "traffic",
  "testing",
  "worker",
  "jobs",
  "config",
  "flow",
  "bulk",
];

/** @type {Record<string, Folder>} */
export const folders = {
  core: {
    imports: [],
    // croner computes the times of cron expressions. It is pure and has no dependencies.
    packages: ["croner", "node:assert", "node:buffer", "node:crypto", "node:events", "node:util"],
    pure: true,
  },
  objects: { imports: ["core"], packages: [], pure: true },
  memory: { imports: ["core"], packages: [], pure: true },
  sqlite: { imports: ["core"], packages: ["@photostructure/sqlite", "node:sqlite", "node:*"], pure: true },
  postgres: { imports: ["core"], packages: ["pg", "pg-copy-streams", "node:*"], pure: true },
  // Limits the resources that connections may use in the serving process, for both protocols.
  traffic: { imports: [], packages: ["node:*"] },
  rest: {
    imports: [...coreAndObjects, "memory", "traffic"],
    packages: ["fastify", "@fastify/*", "node:*"],
    // The client is a separate entry, so that a browser or a worker loads no fastify. "wire" is the wire format of values
    // alone, for other code that writes it.
    entries: ["index", "client", "wire", "connection-problem"],
  },
  cbor: { imports: [...coreAndObjects, "traffic"], packages: ["node:*"] },
  // Settings and their files: the daemon, the command line and flows read them the same way.
  config: {
    imports: [],
    packages: ["yaml", "node:*"],
    // The light parts are separate entries, so that a command that needs no file loads no YAML.
    entries: ["index", "config-error", "did-you-mean", "find-file"],
  },
  flow: { imports: ["core", "config"], packages: ["yaml", "node:*"] },
  bulk: { imports: ["core", "config", "rest/wire"], packages: ["csv-parse", "node:*"] },
  testing: { imports: [...coreAndObjects, "memory"], packages: ["vitest", "fast-check", "node:*"] },
  worker: {
    imports: coreAndObjects,
    packages: ["node:*"],
    // The protocol of a child process, separate from the worker: a child must start fast.
    entries: ["index", "process/frame"],
  },
  jobs: { imports: [...coreAndObjects, "worker", "worker/process/frame"], packages: ["acorn", "node:*"] },
  daemon: {
    imports: [...everyLibrary, "config/config-error", "config/did-you-mean", "rest/client"],
    // The command line uses these without loading a server: opening a store by its address, and housekeeping.
    entries: ["index", "backend", "housekeeping", "version"],
    packages: ["fastify", "@fastify/*", "@opentelemetry/api", "pino", "prom-client", "yaml", "node:*"],
  },
  cli: {
    imports: [
      ...everyLibrary,
      "config/config-error",
      "config/did-you-mean",
      "config/find-file",
      "rest/client",
      "rest/wire",
      "rest/connection-problem",
      "daemon",
      "daemon/backend",
      "daemon/housekeeping",
      "daemon/version",
    ],
    packages: ["commander", "cli-progress", "fast-string-truncated-width", "yaml", "node:*"],
  },
  dashboard: {
    // Core, because the browser must parse data, names, unit lines and work specs exactly as the other parts do.
    imports: ["rest/client", "core"],
    packages: ["react", "react/*", "react-dom", "react-dom/*", "@tanstack/*", "@xyflow/*", "@dagrejs/*"],
  },
};

/**
 * Files directly in src: index.ts, the package's main entry. It stays light: `connect` loads a driver or a protocol when it is
 * needed, and never a server.
 * @type {Folder}
 */
export const main = {
  imports: [
    ...coreAndObjects,
    "memory",
    "lazy sqlite",
    "lazy postgres",
    "lazy rest/client",
    "lazy rest/connection-problem",
    "lazy cbor",
  ],
  packages: [],
};

/** Names that a pure folder may not use, each with the alternative. "new Date()" means the call without arguments. */
export const ambient = {
  "Date.now": "take `now` as an argument",
  "new Date()": "take `now` as an argument",
  "performance.now": "take `now` as an argument",
  "Math.random": "take a Random as an argument",
  "crypto.randomUUID": "take a Random as an argument",
  randomUUID: "take a Random as an argument",
  setTimeout: "timers belong to the edges",
  setInterval: "timers belong to the edges",
};

/** Files of pure folders that may use these names, each with the reason. */
export const exceptions = [
  { file: "src/core/clock.ts", reason: "defines the system clock and random that are given to the edges" },
  { file: "src/sqlite/commit.ts", reason: "gathers writes into commits by how long a commit takes" },
  { file: "src/sqlite/maintenance.ts", reason: "checkpoints from time to time" },
  { file: "src/postgres/clock.ts", reason: "measures how far the server's clock is from the process's" },
  { file: "src/postgres/connection.ts", reason: "tries again for as long as it was told to" },
  { file: "src/postgres/floor.ts", reason: "how long a remembered place in an index is used" },
  { file: "src/postgres/live.ts", reason: "finds dead connections" },
  { file: "src/postgres/looks.ts", reason: "how long a look is used" },
  { file: "src/postgres/notify.ts", reason: "gathers notices, and listens again after a failure" },
  { file: "src/postgres/share.ts", reason: "how long a request waits for a connection" },
  { file: "src/postgres/watching.ts", reason: "looks again when notices may be lost" },
];

/**
 * @typedef {{ file: string, line: number, message: string }} Violation
 * @typedef {{ name: string, line: number, lazy: boolean }} Import
 * @typedef {{ file: string, line: number }} Place
 */

/**
 * Checks every source below root/src against the tables above.
 * @param {string} root
 * @returns {{ files: number, violations: Violation[] }}
 */
export function checkImports(root) {
  const src = path.join(root, "src");
  const files = existsSync(src) ? sourceFiles(src) : [];
  /** @type {Violation[]} */
  const violations = [];
  /** @type {Map<string, Map<string, Place>>} The folders that each folder imports, and where it first does. */
  const graph = new Map();

  for (const relative of files) {
    const file = `src/${relative}`;
    const folder = folderOf(relative);
    const rules = folder === "" ? main : folders[folder];
    if (rules === undefined) {
      violations.push({
        file,
        line: 1,
        message: `src/${folder} is not in the table of scripts/check-imports.mjs`,
      });
      continue;
    }
    const source = parse(file, readFileSync(path.join(src, relative), "utf8"));

    for (const found of importsOf(source)) {
      const target = found.name.startsWith(".")
        ? path.posix.join(path.posix.dirname(relative), found.name)
        : undefined;
      const message =
        target === undefined
          ? packageViolation(folder, rules, found.name)
          : folderViolation(folder, rules, found, target);
      if (message !== undefined) violations.push({ file, line: found.line, message });
      if (target === undefined || target.startsWith("../") || folderOf(target) === folder) continue;
      /** @type {Map<string, Place>} */
      const edges = graph.get(folder) ?? new Map();
      graph.set(folder, edges);
      if (!edges.has(folderOf(target))) edges.set(folderOf(target), { file, line: found.line });
    }

    if (rules.pure === true && !exceptions.some((exception) => exception.file === file)) {
      for (const { what, advice, line } of ambientUses(source)) {
        violations.push({ file, line, message: `${what} is not allowed in src/${folder}: ${advice}` });
      }
    }
  }

  for (const circle of circles(graph)) {
    const place = /** @type {Place} */ (graph.get(circle[0] ?? "")?.get(circle[1] ?? ""));
    violations.push({
      ...place,
      message: `folders import each other in a circle: ${circle.map(nameOf).join(" -> ")}`,
    });
  }
  return { files: files.length, violations };
}

/**
 * @param {string} folder
 * @param {Folder} rules
 * @param {Import} found
 * @param {string} target the imported file, relative to src
 */
function folderViolation(folder, rules, found, target) {
  if (target.startsWith("../")) return `"${found.name}" leaves src`;
  if (/\.[cm]?jsx?$/.test(target)) return `"${found.name}" must name the source file, which ends in .ts`;
  const to = folderOf(target);
  if (to === folder) return undefined;
  if (to === "")
    return `${nameOf(folder)} may not import ${target}: the main entry is for users of the package`;

  const entry = target.slice(to.length + 1).replace(/\.tsx?$/, "");
  const wanted = entry === "index" ? to : `${to}/${entry}`;
  if (!(folders[to]?.entries ?? ["index"]).includes(entry)) {
    return `"${found.name}" reaches inside src/${to}: import src/${to}/index.ts`;
  }
  if (rules.imports.includes(wanted)) return undefined;
  if (rules.imports.includes(`lazy ${wanted}`)) {
    return found.lazy
      ? undefined
      : `${nameOf(folder)} may load ${wanted} only when it is needed: use \`import()\``;
  }
  return `${nameOf(folder)} may not import ${wanted}; it may import ${listed(rules.imports)}`;
}

/**
 * @param {string} folder
 * @param {Folder} rules
 * @param {string} name
 */
function packageViolation(folder, rules, name) {
  if (isBuiltin(name) && !name.startsWith("node:")) return `"${name}" is a builtin: write "node:${name}"`;
  const allowed = rules.packages.some((pattern) => {
    if (!pattern.endsWith("*")) return name === pattern;
    return name.startsWith(pattern.slice(0, -1)) && name !== "node:sqlite";
  });
  if (allowed) return undefined;
  return `${nameOf(folder)} may not import "${name}"; its packages are ${listed(rules.packages)}`;
}

/**
 * Every module a file names: import, export from, import(), require() and import("...") in a type.
 * @param {ts.SourceFile} source
 */
function importsOf(source) {
  /** @type {Import[]} */
  const found = [];
  /** @param {ts.Node | undefined} name */
  const add = (name, lazy = false) => {
    if (name !== undefined && ts.isStringLiteralLike(name)) {
      found.push({ name: name.text, line: lineOf(source, name), lazy });
    }
  };
  walk(source, (node) => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier);
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier);
    } else if (ts.isExternalModuleReference(node)) {
      add(node.expression);
    } else if (ts.isImportTypeNode(node)) {
      if (ts.isLiteralTypeNode(node.argument)) add(node.argument.literal);
    } else if (ts.isCallExpression(node)) {
      const { expression } = node;
      const loads =
        expression.kind === ts.SyntaxKind.ImportKeyword || expression.getText(source) === "require";
      if (loads) add(node.arguments[0], expression.kind === ts.SyntaxKind.ImportKeyword);
    }
  });
  return found;
}

/**
 * Uses of the names in `ambient`. It searches the syntax tree, so comments and strings do not count.
 * @param {ts.SourceFile} source
 */
function ambientUses(source) {
  /** @type {{ what: string, advice: string, line: number }[]} */
  const found = [];
  /** @param {ts.Node} node @param {string} what */
  const add = (node, what) => {
    const advice = Object.entries(ambient).find(([name]) => name === what)?.[1];
    if (advice !== undefined) found.push({ what, advice, line: lineOf(source, node) });
  };
  walk(source, (node) => {
    if (ts.isNewExpression(node)) {
      const isDate = withoutGlobal(node.expression.getText(source)) === "Date";
      if (isDate && (node.arguments?.length ?? 0) === 0) add(node, "new Date()");
    } else if (ts.isPropertyAccessExpression(node)) {
      add(node, withoutGlobal(node.getText(source).replace(/\s|\?/g, "")));
    } else if (ts.isIdentifier(node) && isUse(node)) {
      add(node, node.text);
    }
  });
  return found;
}

/**
 * Whether an identifier refers to the global or imported function, not to a member of another object or to a type.
 * @param {ts.Identifier} node
 */
function isUse(node) {
  const { parent } = node;
  if (ts.isImportSpecifier(parent) || ts.isShorthandPropertyAssignment(parent)) return true;
  if (ts.isTypeQueryNode(parent)) return false;
  return !("name" in parent && parent.name === node);
}

/** @param {string} text */
function withoutGlobal(text) {
  return text.replace(/^globalThis\./, "");
}

/**
 * Each import cycle once, as a path that ends where it began.
 * @param {Map<string, Map<string, Place>>} graph
 */
function circles(graph) {
  /** @type {string[][]} */
  const found = [];
  /** @type {Set<string>} */
  const done = new Set();
  /** @param {string} folder @param {string[]} trail */
  const visit = (folder, trail) => {
    const start = trail.indexOf(folder);
    if (start >= 0) found.push([...trail.slice(start), folder]);
    if (start >= 0 || done.has(folder)) return;
    for (const next of graph.get(folder)?.keys() ?? []) visit(next, [...trail, folder]);
    done.add(folder);
  };
  for (const folder of graph.keys()) visit(folder, []);
  return found;
}

/** @param {string} src */
function sourceFiles(src) {
  return readdirSync(src, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll(path.sep, "/"))
    .filter((name) => /\.[cm]?tsx?$/.test(name) && !name.includes("node_modules/"))
    .sort();
}

/** @param {string} file @param {string} text */
function parse(file, text) {
  return ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
}

/** @param {ts.Node} node @param {(node: ts.Node) => void} visit */
function walk(node, visit) {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

/** @param {ts.SourceFile} source @param {ts.Node} node */
function lineOf(source, node) {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}

/** The folder of a path relative to src; "" for a file directly in it. @param {string} relative */
function folderOf(relative) {
  return relative.includes("/") ? relative.slice(0, relative.indexOf("/")) : "";
}

/** @param {string} folder */
function nameOf(folder) {
  return folder === "" ? "src" : `src/${folder}`;
}

/** @param {string[]} names */
function listed(names) {
  return names.length === 0 ? "none" : names.join(", ");
}

// Node resolves symbolic links in import.meta.url. Without realpath the check would not run at all below a linked folder.
if (realpathSync(process.argv[1] ?? ".") === fileURLToPath(import.meta.url)) {
  const root = process.argv[2] ?? path.join(import.meta.dirname, "..");
  const { files, violations } = checkImports(root);
  for (const { file, line, message } of violations) console.error(`${file}:${line}: ${message}`);
  // Finding no sources is a failure: otherwise the check would always pass after src is moved.
  if (files === 0) console.error("found no sources in src");
  console.log(`imports: ${files} files, ${violations.length} violations`);
  process.exitCode = files === 0 || violations.length > 0 ? 1 : 0;
}
