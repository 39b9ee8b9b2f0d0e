/** The version of a module's code: the sha256 of its file. Imported files are not included. */
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const known = new Map<string, { stamp: string; version: string }>();

/** Cached until the file changes. Returns "" when the file cannot be read. */
export function versionOfFile(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    const stamp = `${mtimeMs} ${size} ${ino}`;
    const before = known.get(file);
    if (before?.stamp === stamp) return before.version;
    const version = createHash("sha256").update(readFileSync(file)).digest("hex");
    known.set(file, { stamp, version });
    return version;
  } catch {
    return ""; // the file may exist only on the workers' machines
  }
}

/**
 * The version of a module as a job names it. Returns "" for relative paths and packages: they are resolved against the roots of
 * the workers, which the scheduling process does not know.
 */
export function versionOfModule(module: string): string {
  if (module.startsWith("file:")) return versionOfFile(fileURLToPath(module));
  return path.isAbsolute(module) ? versionOfFile(module) : "";
}
