import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";

/**
 * Makes a directory and its parents, with mode 0700. Makes one level at a time, because Node's recursive mkdir never
 * returns if the file system answers ENOENT for a new directory, as /proc does.
 */
export function makeDirectory(directory: string): void {
  const at = path.resolve(directory);
  if (existsSync(at)) return;
  makeDirectory(path.dirname(at));
  try {
    mkdirSync(at, { mode: 0o700 });
  } catch (error) {
    // another process may have made it meanwhile
    if (!existsSync(at)) throw error;
  }
}
