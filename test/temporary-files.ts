/**
 * Puts the temporary files of a run into one directory and removes it at the end: tests that kill processes leave files behind. The
 * test files of the run share a PostgreSQL, which also lies there.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { shareServer } from "./postgres/server.ts";

export default async function setup(): Promise<() => Promise<void>> {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-"));
  // PostgreSQL runs as another user if the tests run as root
  chmodSync(directory, 0o755);
  process.env.TMPDIR = directory;
  const stopServer = await shareServer();
  return async () => {
    await stopServer();
    rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  };
}
