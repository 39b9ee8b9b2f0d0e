/**
 * The tables, and the migrations from older versions.
 *
 * The state of a unit is split over tables so that the common case writes little. `unit` has a row per unit, which a
 * claim does not touch. Available units are in `ready`, clustered in claim order, or by partition in `ready_lane`;
 * running units are in `lease`, delayed ones in `delayed`. Settling deletes the lease and writes the unit once, with the
 * ended attempt. Only a superseded attempt becomes a row of `history`. `tally` has the counts, written by the
 * transaction that changes them.
 *
 * Names of units are TEXT of arbitrary bytes (written with CAST, never normalised), so that SQLite's order of TEXT is
 * the order of names. Other names are BLOBs of the same bytes.
 */
import { CoordinateError } from "../core/index.ts";
import type { Connection } from "./driver.ts";

/** "Coor" in ASCII: identifies the file format in the header, for example to the command `file`. */
export const applicationId = 0x436f6f72;

/** The status in a unit's row. A `waiting` unit is also in another table, which makes it available, delayed or pending. */
export const unitState = { waiting: 0, blocked: 1, finished: 2, failed: 3 } as const;

/** The position of an attempt's status in `attemptStatuses` of core; never to be reordered. */
export const attemptCode = { pending: 0, expired: 1, finished: 2, failed: 3, retryable: 4 } as const;

export const migrations: readonly string[] = [
  `
  CREATE TABLE counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    unit INTEGER NOT NULL, spec INTEGER NOT NULL, namespace INTEGER NOT NULL, worker INTEGER NOT NULL,
    log INTEGER NOT NULL,
    needs INTEGER NOT NULL
  );
  INSERT INTO counter VALUES (1, 0, 0, 0, 0, 0, 0);

  CREATE TABLE namespace (id INTEGER PRIMARY KEY, name BLOB NOT NULL, settings TEXT NOT NULL, dead INTEGER NOT NULL);

  CREATE TABLE spec (
    id INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    name BLOB NOT NULL,
    data NOT NULL,
    meta TEXT NOT NULL,
    dead INTEGER NOT NULL,
    -- whether the driver reads every unit's name as it is: no zero byte, no byte that is not UTF-8
    plain INTEGER NOT NULL,
    -- whether table ended has every ended unit: 0 no, 1 being filled, 2 yes
    retained INTEGER NOT NULL
  );

  CREATE TABLE tally (
    spec INTEGER PRIMARY KEY,
    available INTEGER NOT NULL, delayed INTEGER NOT NULL, blocked INTEGER NOT NULL,
    pending INTEGER NOT NULL, finished INTEGER NOT NULL, failed INTEGER NOT NULL,
    removed_finished INTEGER NOT NULL, removed_failed INTEGER NOT NULL
  );

  CREATE TABLE unit (
    id INTEGER PRIMARY KEY,
    spec INTEGER NOT NULL,
    name TEXT NOT NULL,
    state INTEGER NOT NULL,
    priority REAL NOT NULL,
    not_before INTEGER NOT NULL,
    created INTEGER NOT NULL,
    -- attempts made, and those that count against max_retries; a lease is not counted before it ends
    attempts INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    origin_unit INTEGER,
    origin_number INTEGER,
    -- the latest attempt once it ended, until the unit is taken from it; its number is that of attempts
    status INTEGER,
    worker INTEGER,
    started INTEGER,
    ended INTEGER,
    expiration INTEGER,
    late INTEGER,
    errors TEXT,
    -- 1: the attempt's data is attempt_data, not the unit's own
    own INTEGER,
    data,
    attempt_data
  );
  CREATE UNIQUE INDEX unit_name ON unit (spec, name);
  CREATE INDEX unit_blocked ON unit (spec, name) WHERE state = 1;
  CREATE INDEX unit_finished ON unit (spec, name) WHERE state = 2;
  CREATE INDEX unit_failed ON unit (spec, name) WHERE state = 3;

  CREATE TABLE ready (
    spec INTEGER NOT NULL,
    -- the negated priority: ascending is claim order
    place REAL NOT NULL,
    name TEXT NOT NULL,
    unit INTEGER NOT NULL,
    -- as the unit's: to find those that were tried too often, by whatever limit there is now. Of a unit with a limit of its
    -- own, 0 or, when it is reached, a number above every limit
    tries INTEGER NOT NULL,
    PRIMARY KEY (spec, place, name)
  ) WITHOUT ROWID;
  CREATE INDEX ready_tries ON ready (spec, tries, unit) WHERE tries > 0;

  CREATE TABLE delayed (
    spec INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (spec, not_before, unit)
  ) WITHOUT ROWID;
  CREATE INDEX delayed_name ON delayed (spec, name);

  CREATE TABLE lease (
    unit INTEGER PRIMARY KEY,
    spec INTEGER NOT NULL,
    number INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    started INTEGER NOT NULL,
    expiration INTEGER NOT NULL,
    late INTEGER NOT NULL,
    own INTEGER NOT NULL,
    data
  );

  CREATE TABLE history (
    unit INTEGER NOT NULL,
    number INTEGER NOT NULL,
    status INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    expiration INTEGER NOT NULL,
    late INTEGER NOT NULL,
    errors TEXT,
    data,
    PRIMARY KEY (unit, number)
  ) WITHOUT ROWID;

  -- what a unit waits for; the names stay when the other unit is gone; met stays 1 whatever becomes of that unit
  CREATE TABLE need (
    unit INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hard INTEGER NOT NULL,
    met INTEGER NOT NULL,
    target INTEGER NOT NULL,
    spec BLOB NOT NULL,
    name BLOB NOT NULL,
    PRIMARY KEY (unit, position)
  ) WITHOUT ROWID;
  CREATE INDEX need_target ON need (target, unit);

  -- ended units by time, of specs with retention
  CREATE TABLE ended (
    spec INTEGER NOT NULL,
    state INTEGER NOT NULL,
    time INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (spec, state, time, unit)
  ) WITHOUT ROWID;

  -- a worker that was forgotten keeps its row, unknown, for the sake of the attempts it made
  CREATE TABLE worker (
    id INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    name BLOB NOT NULL,
    known INTEGER NOT NULL,
    parent BLOB,
    mode TEXT NOT NULL,
    data,
    updated INTEGER NOT NULL,
    expiration INTEGER NOT NULL,
    deactivated INTEGER NOT NULL,
    desired TEXT
  );
  CREATE INDEX worker_name ON worker (namespace, name);
  CREATE INDEX worker_parent ON worker (namespace, parent, name) WHERE parent IS NOT NULL;
  CREATE INDEX worker_expiration ON worker (expiration) WHERE known = 1;

  -- which attempts a worker made: a row per claim, not per attempt
  CREATE TABLE log (
    worker INTEGER NOT NULL,
    time INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempts BLOB NOT NULL,
    PRIMARY KEY (worker, time, number)
  ) WITHOUT ROWID;

  CREATE TABLE lock (
    namespace INTEGER NOT NULL,
    path BLOB NOT NULL,
    labels TEXT NOT NULL,
    owner TEXT NOT NULL,
    deadline INTEGER NOT NULL,
    PRIMARY KEY (namespace, path)
  ) WITHOUT ROWID;
  CREATE INDEX lock_deadline ON lock (deadline);

  CREATE TABLE request (
    namespace INTEGER NOT NULL,
    id TEXT NOT NULL,
    time INTEGER NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
  ) WITHOUT ROWID;
  CREATE INDEX request_time ON request (time);
  `,
  `
  -- when the unit became available, where nothing else says it: added again, reset, or let go by what it waited for
  ALTER TABLE unit ADD COLUMN since INTEGER;
  -- the last message, and how many rows extra has: while it has none nobody looks there
  ALTER TABLE counter ADD COLUMN message INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE counter ADD COLUMN extras INTEGER NOT NULL DEFAULT 0;

  -- what few units have: the queues that hear of their end, and their labels, as lists in JSON
  CREATE TABLE extra (unit INTEGER PRIMARY KEY, queues TEXT, labels TEXT);

  CREATE TABLE label (
    spec INTEGER NOT NULL,
    label BLOB NOT NULL,
    name TEXT NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (spec, label, name)
  ) WITHOUT ROWID;

  -- a message that was taken by a request with an id is kept, with that id, until the request is forgotten
  CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    queue BLOB NOT NULL,
    spec BLOB NOT NULL,
    name BLOB NOT NULL,
    attempt TEXT,
    status INTEGER NOT NULL,
    at INTEGER NOT NULL,
    request TEXT,
    taken INTEGER,
    data
  );
  CREATE INDEX message_queue ON message (namespace, queue, seq) WHERE request IS NULL;
  CREATE INDEX message_request ON message (namespace, queue, request, seq) WHERE request IS NOT NULL;
  CREATE INDEX message_taken ON message (taken) WHERE request IS NOT NULL;

  CREATE TABLE action (
    namespace INTEGER NOT NULL,
    key BLOB NOT NULL,
    created INTEGER NOT NULL,
    data NOT NULL
  );
  CREATE UNIQUE INDEX action_key ON action (namespace, key);
  `,
  `
  -- 1: taken from its worker before the lease ended, and not settled by it yet
  ALTER TABLE history ADD COLUMN held INTEGER;
  CREATE INDEX history_held ON history (worker, unit, number) WHERE held = 1;

  -- units that belong together, by the label that they carry: their counts, and what follows, in JSON
  CREATE TABLE batch (
    namespace INTEGER NOT NULL,
    name BLOB NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
  ) WITHOUT ROWID;
  -- how far the attempt has come, in JSON
  ALTER TABLE lease ADD COLUMN progress TEXT;

  -- why a unit failed, where that is not 'error'
  ALTER TABLE unit ADD COLUMN reason TEXT;
  -- what the unit says of its tries, as JSON, and after how many it fails; null: its work spec says so
  ALTER TABLE extra ADD COLUMN retry TEXT;
  ALTER TABLE extra ADD COLUMN max_tries INTEGER;

  -- failed units, each with the fingerprint of its failure group; null until it was put into one
  CREATE TABLE failed (unit INTEGER PRIMARY KEY, spec INTEGER NOT NULL, fingerprint TEXT, name TEXT NOT NULL);
  CREATE INDEX failed_group ON failed (spec, fingerprint, name) WHERE fingerprint IS NOT NULL;
  CREATE INDEX failed_new ON failed (spec, unit) WHERE fingerprint IS NULL;
  INSERT INTO failed SELECT id, spec, NULL, name FROM unit WHERE state = 3;
  CREATE TABLE failure (
    spec INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    error TEXT NOT NULL,
    count INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    example BLOB NOT NULL,
    PRIMARY KEY (spec, fingerprint)
  ) WITHOUT ROWID;
  -- what happened over time; spec 0 is the namespace as a whole
  CREATE TABLE record (
    namespace INTEGER NOT NULL,
    spec INTEGER NOT NULL,
    step INTEGER NOT NULL,
    time INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (namespace, spec, step, time, writer)
  ) WITHOUT ROWID;
  CREATE INDEX record_time ON record (step, time);
  `,
  `
  -- null for none
  ALTER TABLE unit ADD COLUMN partition BLOB;
  -- units that were claimed, do not run and have not ended
  CREATE INDEX unit_begun ON unit (spec, partition) WHERE state < 2 AND status IS NOT NULL;

  -- of specs whose units are handed out by partition: what waits, once more, by partition; empty where there is none
  CREATE TABLE ready_lane (
    spec INTEGER NOT NULL,
    partition BLOB NOT NULL,
    place REAL NOT NULL,
    name TEXT NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (spec, partition, place, name)
  ) WITHOUT ROWID;
  -- when the bucket of a partition's rate is full again
  CREATE TABLE lane (spec INTEGER NOT NULL, partition BLOB NOT NULL, full REAL NOT NULL, PRIMARY KEY (spec, partition))
    WITHOUT ROWID;
  -- the partition that was served last, and when the bucket of the spec's rate is full again
  ALTER TABLE tally ADD COLUMN cursor BLOB;
  ALTER TABLE tally ADD COLUMN full REAL NOT NULL DEFAULT 0;
  `,
  `
  -- limits that work specs share: what they allow, in JSON, and when the bucket of the rate is full again
  CREATE TABLE shared_limit (
    namespace INTEGER NOT NULL,
    name BLOB NOT NULL,
    rule TEXT NOT NULL,
    full REAL NOT NULL,
    PRIMARY KEY (namespace, name)
  ) WITHOUT ROWID;
  -- what the breakers of work specs count: how many attempts came to what, by the tenth of the window
  CREATE TABLE outcome (
    spec INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (spec, at, kind)
  ) WITHOUT ROWID;
  -- of specs whose units are handed out by partition, what waits stands by partition alone: a claim that takes one unit each of many
  -- partitions would else write a page of ready for each
  ALTER TABLE ready_lane ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
  UPDATE ready_lane SET tries = r.tries FROM ready AS r
    WHERE r.spec = ready_lane.spec AND r.place = ready_lane.place AND r.name = ready_lane.name AND r.tries > 0;
  CREATE INDEX ready_lane_tries ON ready_lane (spec, tries, unit) WHERE tries > 0;
  DELETE FROM ready WHERE spec IN (SELECT spec FROM ready_lane);
  -- how many units the partition that was served last has had of its turn
  ALTER TABLE tally ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

  -- how many failed so in each hour, in JSON
  ALTER TABLE failure ADD COLUMN trend TEXT;

  -- the name of the batch that it belongs to, in JSON
  ALTER TABLE batch ADD COLUMN parent TEXT;
  UPDATE batch SET parent = state -> '$.parent' WHERE state ->> '$.parent' IS NOT NULL;
  CREATE INDEX batch_parent ON batch (namespace, parent, name) WHERE parent IS NOT NULL;

  -- what the unit says of time, as JSON
  ALTER TABLE extra ADD COLUMN timing TEXT;
  -- whether any of its units had a deadline
  ALTER TABLE spec ADD COLUMN timed INTEGER NOT NULL DEFAULT 0;
  -- waiting units that something happens to by itself, and when
  CREATE TABLE timer (spec INTEGER NOT NULL, time INTEGER NOT NULL, unit INTEGER NOT NULL, PRIMARY KEY (spec, time, unit))
    WITHOUT ROWID;

  -- what tasks wrote: the newest lines of each attempt, in JSON, and how many there were
  CREATE TABLE attempt_log (unit INTEGER NOT NULL, number INTEGER NOT NULL, total INTEGER NOT NULL, lines TEXT NOT NULL);
  CREATE UNIQUE INDEX attempt_log_unit ON attempt_log (unit, number);
  `,
];

export const schemaVersion = migrations.length;

/** The schema version of a file; 0 for an empty one. Throws if it belongs to another program or a newer version. */
export function checkVersion(connection: Connection, file: string): number {
  const pragma = (name: string): number => Number(connection.once(`PRAGMA ${name}`)?.[0]);
  const version = pragma("user_version");
  const id = pragma("application_id");
  const tables = Number(connection.once("SELECT count(*) FROM sqlite_schema")?.[0]);
  if (id !== applicationId && (version !== 0 || tables !== 0))
    throw new CoordinateError("unavailable", `${file}: is an SQLite database of another program`);
  if (version > schemaVersion)
    throw new CoordinateError(
      "unavailable",
      `${file}: was written by a newer version of this program (schema ${version}; this version supports up to ${schemaVersion}). Upgrade the program, or open another file`,
    );
  return version;
}

/** Migrates a file to this version. Each numbered step is a transaction, so an interrupted step is repeated. */
export function migrate(
  connection: Connection,
  file: string,
  onProgress: (step: number, of: number) => void,
): void {
  for (let version = checkVersion(connection, file); version < schemaVersion; version++) {
    onProgress(version + 1, schemaVersion);
    connection.exec("BEGIN IMMEDIATE");
    connection.exec(migrations[version] ?? "");
    connection.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version + 1}; COMMIT`);
  }
}
