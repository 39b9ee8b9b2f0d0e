/** The version of a module's code: the sha256 of its file. What the file imports is not part of it. */
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const known = new Map<string, { stamp: string; version: string }>();

/** Read again when the file has changed. Empty when it cannot be read. */
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
    return ""; // not here: only the workers have it
  }
}

/** Of a module as a job names it. Relative paths and packages count from the roots of the workers, which the one who schedules does not know. */
export function versionOfModule(module: string): string {
  if (module.startsWith("file:")) return versionOfFile(fileURLToPath(module));
  return path.isAbsolute(module) ? versionOfFile(module) : "";
}
