/**
 * Maintenance of a store in use: backup, check, compaction, statistics. Operations that read the whole file run in a
 * separate thread with its own read-only connection, so that no other call waits for them.
 */
import { chmodSync, closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { CoordinateError, nextTurn } from "../core/index.ts";
import type { Connection } from "./driver.ts";
import { explain, syncDirectory } from "./file.ts";
import { schemaVersion } from "./schema.ts";
import type { State } from "./state.ts";
import type { OpenedFile } from "./store.ts";

export interface Progress {
  /** Bytes. */
  done: number;
  total: number;
}

export interface Statistics {
  file: string;
  driver: string;
  sqliteVersion: string;
  schemaVersion: number;
  fileBytes: number;
  /** The size of the write-ahead log. */
  logBytes: number;
  pageSize: number;
  pages: number;
  /** Pages that are free inside the file; `compact` gives them back. */
  freePages: number;
  units: number;
  leases: number;
  /** Why nothing is written any more; null when all is well. */
  failure: string | null;
}

export interface CheckReport {
  ok: boolean;
  /** Human-readable: at most 20 of SQLite's integrity check and 10 of each rule. */
  problems: string[];
}

const pragma = (connection: Connection, name: string): number =>
  Number(connection.once(`PRAGMA ${name}`)?.[0]);

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

export function statistics(
  { file, driver, connection }: OpenedFile,
  state: State,
  failure: CoordinateError | null,
): Statistics {
  let units = 0;
  for (const { counts } of state.specs.values())
    units +=
      counts.available + counts.delayed + counts.blocked + counts.pending + counts.finished + counts.failed;
  return {
    file,
    driver: driver.name,
    sqliteVersion: driver.version,
    schemaVersion,
    fileBytes: sizeOf(file),
    logBytes: sizeOf(`${file}-wal`),
    pageSize: pragma(connection, "page_size"),
    pages: pragma(connection, "page_count"),
    freePages: pragma(connection, "freelist_count"),
    units,
    leases: state.leases.size,
    failure: failure?.value ?? null,
  };
}

// ---- backup

/** Writes to a temporary file and renames it, so that a file with this name is always complete. Overwrites an interrupted copy. */
export async function backup(
  opened: OpenedFile,
  toFile: string,
  onProgress?: (progress: Progress) => void,
): Promise<void> {
  const { connection, file } = opened;
  if (file === ":memory:")
    throw new CoordinateError("not_supported", "a store in memory has no file to back up");
  if (existsSync(toFile)) throw new CoordinateError("name_exists", toFile);
  const partial = `${toFile}.partial`;
  const total =
    (pragma(connection, "page_count") - pragma(connection, "freelist_count")) *
    pragma(connection, "page_size");
  const tell = (): void => onProgress?.({ done: Math.min(sizeOf(partial), total), total });
  const timer = setInterval(tell, 200);
  try {
    rmSync(partial, { force: true });
    // SQLite writes into an existing empty file: created here, it is readable only by its owner
    closeSync(openSync(partial, "wx", 0o600));
    await inThread(opened, "backup", partial);
    chmodSync(partial, 0o600);
    const handle = openSync(partial, "r+");
    fsyncSync(handle);
    closeSync(handle);
    renameSync(partial, toFile);
    syncDirectory(path.dirname(path.resolve(toFile)));
    onProgress?.({ done: total, total });
  } catch (error) {
    rmSync(partial, { force: true });
    throw explain(toFile, error);
  } finally {
    clearInterval(timer);
  }
}

// ---- check

export async function check(opened: OpenedFile): Promise<CheckReport> {
  if (opened.file === ":memory:") return { ok: true, problems: [] };
  const problems = (await inThread(opened, "check", "")) as string[];
  return { ok: problems.length === 0, problems };
}

/** Each query finds rows that must not exist. The key is the message. */
const rules = {
  "a unit without a work spec": "SELECT id FROM unit WHERE spec NOT IN (SELECT id FROM spec)",
  "a waiting entry without its unit":
    "SELECT r.unit FROM ready AS r LEFT JOIN unit AS u ON u.id = r.unit WHERE u.id IS NULL OR u.spec <> r.spec OR u.name <> r.name OR u.state <> 0 OR 0 - u.priority <> r.place",
  "a delayed entry without its unit":
    "SELECT d.unit FROM delayed AS d LEFT JOIN unit AS u ON u.id = d.unit WHERE u.id IS NULL OR u.spec <> d.spec OR u.name <> d.name OR u.state <> 0 OR u.not_before <> d.not_before",
  "a lease without its unit":
    "SELECT l.unit FROM lease AS l LEFT JOIN unit AS u ON u.id = l.unit WHERE u.id IS NULL OR u.spec <> l.spec OR u.state <> 0 OR l.number <> u.attempts + 1",
  "a waiting unit without an entry, or with two": `
    SELECT u.id FROM unit AS u WHERE u.state = 0 AND
      EXISTS (SELECT 1 FROM ready AS r WHERE r.spec = u.spec AND r.place = 0 - u.priority AND r.name = u.name)
      + EXISTS (SELECT 1 FROM ready_lane AS r WHERE r.spec = u.spec AND r.partition = ifnull(u.partition, x'')
        AND r.place = 0 - u.priority AND r.name = u.name)
      + EXISTS (SELECT 1 FROM delayed AS d WHERE d.spec = u.spec AND d.not_before = u.not_before AND d.unit = u.id)
      + EXISTS (SELECT 1 FROM lease AS l WHERE l.unit = u.id) <> 1`,
  "an entry of a partition without its waiting unit": `
    SELECT l.unit FROM ready_lane AS l LEFT JOIN unit AS u ON u.id = l.unit
    WHERE u.id IS NULL OR u.spec <> l.spec OR u.name <> l.name OR u.state <> 0 OR 0 - u.priority <> l.place
      OR ifnull(u.partition, x'') <> l.partition`,
  "waiting entries of a work spec in two orders":
    "SELECT spec FROM ready WHERE spec IN (SELECT spec FROM ready_lane)",
  "a past attempt without its unit": "SELECT unit FROM history WHERE unit NOT IN (SELECT id FROM unit)",
  "a timer of a unit that does not wait": `
    SELECT t.unit FROM timer AS t LEFT JOIN unit AS u ON u.id = t.unit
    WHERE u.id IS NULL OR u.spec <> t.spec OR u.state > 1 OR EXISTS (SELECT 1 FROM lease AS l WHERE l.unit = t.unit)`,
  "a log of an attempt without its unit":
    "SELECT unit FROM attempt_log WHERE unit NOT IN (SELECT id FROM unit)",
  "a dependency of a unit that does not exist":
    "SELECT unit FROM need WHERE unit NOT IN (SELECT id FROM unit)",
  "queues or labels of a unit that does not exist":
    "SELECT unit FROM extra WHERE unit NOT IN (SELECT id FROM unit)",
  "a wrong count of units with queues or labels":
    "SELECT extras FROM counter WHERE extras <> (SELECT count(*) FROM extra)",
  "a label without its unit": `
    SELECT b.unit FROM label AS b LEFT JOIN unit AS u ON u.id = b.unit
    WHERE u.id IS NULL OR u.spec <> b.spec OR u.name <> b.name`,
  "a wrong number of labels": `
    SELECT n FROM (SELECT count(*) AS n FROM label)
    WHERE n <> (SELECT ifnull(sum(json_array_length(labels)), 0) FROM extra)`,
  "a message with a number that is not assigned yet":
    "SELECT seq FROM message WHERE seq > (SELECT message FROM counter)",
  "a unit with an id that is not assigned yet": "SELECT id FROM unit WHERE id > (SELECT unit FROM counter)",
  "a wrong count of work spec": `
    SELECT t.spec FROM tally AS t
    LEFT JOIN (
      SELECT spec, count(*) AS n FROM (SELECT spec FROM ready UNION ALL SELECT spec FROM ready_lane) GROUP BY spec
    ) AS a ON a.spec = t.spec
    LEFT JOIN (SELECT spec, count(*) AS n FROM delayed GROUP BY spec) AS d ON d.spec = t.spec
    LEFT JOIN (SELECT spec, count(*) AS n FROM lease GROUP BY spec) AS p ON p.spec = t.spec
    LEFT JOIN (
      SELECT spec, sum(state = 1) AS blocked, sum(state = 2) AS finished, sum(state = 3) AS failed FROM unit GROUP BY spec
    ) AS u ON u.spec = t.spec
    WHERE t.available <> ifnull(a.n, 0) OR t.delayed <> ifnull(d.n, 0) OR t.pending <> ifnull(p.n, 0)
      OR t.blocked <> ifnull(u.blocked, 0) OR t.finished <> ifnull(u.finished, 0) OR t.failed <> ifnull(u.failed, 0)`,
};

// ---- compaction

const pagesAtOnce = 1000;

export async function compact(
  { connection, file }: OpenedFile,
  write: (work: () => number) => Promise<number>,
  onProgress?: (progress: Progress) => void,
): Promise<number> {
  const pageSize = pragma(connection, "page_size");
  const total = pragma(connection, "freelist_count");
  let freed = 0;
  for (;;) {
    const done = await write(() => {
      const before = pragma(connection, "page_count");
      connection.once(`PRAGMA incremental_vacuum(${pagesAtOnce})`);
      return before - pragma(connection, "page_count");
    });
    if (done <= 0) break;
    freed += done;
    onProgress?.({ done: freed * pageSize, total: Math.max(total, freed) * pageSize });
    await nextTurn();
  }
  // the file itself shrinks at the next checkpoint
  if (file !== ":memory:") {
    try {
      connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // the file is being written or read: a later checkpoint does it
    }
  }
  return freed * pageSize;
}

// ---- the maintenance thread

/** Plain JavaScript, since it is run as text: a thread cannot be started from a TypeScript source. */
const program = `
  process.emitWarning = () => {};
  const { parentPort, workerData } = require("node:worker_threads");
  const { DatabaseSync } = require(workerData.module);
  const answer = { problems: [], error: null };
  try {
    const database = new DatabaseSync(workerData.file, { readOnly: true });
    if (workerData.task === "backup") database.prepare("VACUUM INTO ?").run(workerData.toFile);
    else {
      database.exec("BEGIN");
      for (const row of database.prepare("PRAGMA integrity_check(20)").all())
        if (row.integrity_check !== "ok") answer.problems.push(row.integrity_check);
      for (const [problem, sql] of Object.entries(workerData.rules))
        for (const row of database.prepare(sql + " LIMIT 10").all()) answer.problems.push(problem + ": " + Object.values(row)[0]);
      database.exec("COMMIT");
    }
    database.close();
  } catch (error) {
    answer.error = { message: error.message, errcode: error.errcode };
  }
  parentPort.postMessage(answer);
`;

function inThread({ file, driver }: OpenedFile, task: "backup" | "check", toFile: string): Promise<unknown> {
  const workerData = {
    module: driver.module,
    file: path.resolve(file),
    task,
    toFile: path.resolve(toFile),
    rules,
  };
  return new Promise((resolve, reject) => {
    const thread = new Worker(program, { eval: true, workerData });
    thread.once(
      "message",
      ({ problems, error }: { problems: string[]; error: { message: string; errcode: number } | null }) => {
        if (error === null) resolve(problems);
        else reject(Object.assign(new Error(error.message), { errcode: error.errcode }));
      },
    );
    thread.once("error", reject);
    thread.once("exit", () => reject(new Error(`the thread for ${task} ended without an answer`)));
  });
}
