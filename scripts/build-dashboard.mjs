// Builds the dashboard, src/dashboard, into dist/dashboard: files with a hash in their names, and no requests to other hosts.
// Skips the build when none of its inputs has changed, so that `npm start` takes a second and tests can call it.
//
// Run `node scripts/build-dashboard.mjs [--force]`.

import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.join(import.meta.dirname, "..");
const source = path.join(root, "src", "dashboard");
const target = path.join(root, "dist", "dashboard");

/** A hash of the inputs of the build: the sources of the bundle, this script, and the versions of packages. */
function fingerprint() {
  const hash = createHash("sha256");
  const read = (/** @type {string} */ file) =>
    hash.update(`${file}\0`).update(readFileSync(path.join(root, file)));
  for (const folder of ["src/dashboard", "src/rest", "src/core"]) {
    const files = readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" });
    for (const file of files.sort()) if (/\.\w+$/.test(file)) read(path.join(folder, file));
  }
  read("package-lock.json");
  read(path.relative(root, fileURLToPath(import.meta.url)));
  return hash.digest("hex");
}

/**
 * Replaces the previous build. Other processes may do the same at this moment, such as test files that run in parallel: the old
 * directory is renamed before it is deleted, so that no process deletes files of a build that another has just put in place.
 */
function replace(/** @type {string} */ next) {
  const old = `${next}-old`;
  for (let put = false; !put;) {
    try {
      renameSync(target, old);
    } catch (error) {
      if (!isCode(error, "ENOENT")) throw error;
    }
    try {
      renameSync(next, target);
      put = true;
    } catch (error) {
      // another process has put its build there in the meantime
      if (!isCode(error, "ENOTEMPTY", "EEXIST")) throw error;
    }
    rmSync(old, { recursive: true, force: true });
  }
}

const isCode = (/** @type {unknown} */ error, /** @type {string[]} */ ...codes) =>
  error instanceof Error && "code" in error && codes.includes(String(error.code));

export async function buildDashboard(force = false) {
  const built = fingerprint();
  const note = path.join(target, ".built");
  if (!force && existsSync(note) && readFileSync(note, "utf8") === built) return false;
  const { build } = await import("vite");
  // built in a temporary directory and then renamed: a daemon or a test never reads half a build
  const next = path.join(root, "dist", `.dashboard-${randomBytes(4).toString("hex")}`);
  mkdirSync(path.dirname(next), { recursive: true });
  // for Vite this variable takes precedence over other settings, and a test runner sets it
  const before = process.env.NODE_ENV;
  process.env.NODE_ENV = "production";
  try {
    await build({
      configFile: false,
      root: source,
      base: "./",
      logLevel: "warn",
      resolve: {
        // the client handles data and names as bytes; the browser build replaces Node's Buffer by a small subset
        alias: [
          { find: "node:buffer", replacement: path.join(source, "browser", "buffer.ts") },
          {
            find: /^\.\/(call|node)-transport\.ts$/,
            replacement: path.join(source, "browser", "no-node.ts"),
          },
        ],
      },
      build: {
        outDir: next,
        emptyOutDir: true,
        target: "es2022",
        assetsDir: "dashboard",
        // no data: URLs, which the content security policy refuses
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        sourcemap: false,
        reportCompressedSize: false,
        rolldownOptions: {
          onLog: (level, log, handle) => {
            // "use client" concerns only server-side rendering, and the timings of plugins are not needed here
            if (log.code !== "MODULE_LEVEL_DIRECTIVE" && log.code !== "PLUGIN_TIMINGS") handle(level, log);
          },
        },
      },
    });
    writeFileSync(path.join(next, ".built"), built);
    replace(next);
  } finally {
    if (before === undefined) delete process.env.NODE_ENV;
    else process.env.NODE_ENV = before;
    rmSync(next, { recursive: true, force: true });
  }
  return true;
}

if (process.argv[1] !== undefined && path.resolve(process.argv[1]) === fileURLToPath(import.meta.url))
  await buildDashboard(process.argv.includes("--force"));
