/** Puts the temporary files of a run into one directory and removes it at the end: tests that kill processes leave files behind. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export default function setup(): () => void {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-"));
  // PostgreSQL runs as another user if the tests run as root
  chmodSync(directory, 0o755);
  process.env.TMPDIR = directory;
  return () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
}
