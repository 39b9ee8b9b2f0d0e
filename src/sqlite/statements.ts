/**
 * All statements of a running store, by name. They are prepared once. A test runs EXPLAIN on each of them and rejects
 * scans of the unit table. Lists of ids are passed as JSON (`json_each`), so that a batch is one statement. Numbered
 * parameters are not used: `node:sqlite` treats them as named ones. `+ 0` in `LIMIT ? + 0` has a purpose: SQLite plans a
 * statement with a bare parameter again on each binding, which made a claim of one unit five times as slow.
 */
import type { Connection, Statement } from "./driver.ts";

/** A unit with its lease, if it has one. All columns must have distinct names. */
const unitColumns = `
  u.id, u.spec, u.name, u.state, u.priority, u.not_before, u.created, u.attempts, u.tries, u.origin_unit,
  u.origin_number, u.status, u.worker, u.started, u.ended, u.expiration, u.late, u.errors, u.own, u.data,
  u.attempt_data, l.number AS lease_number, l.worker AS lease_worker, l.started AS lease_started,
  l.expiration AS lease_expiration, l.late AS lease_late, l.own AS lease_own, l.data AS lease_data,
  u.not_before > 0 AND EXISTS (
    SELECT 1 FROM delayed AS d WHERE d.spec = u.spec AND d.not_before = u.not_before AND d.unit = u.id
  ) AS is_delayed, u.since, l.progress, u.reason, u.partition`;

const ids = "(SELECT value FROM json_each(?))";

/** The column `tries` of table `ready` for a unit that has reached its own try limit: more than any unit is ever tried. */
export const spentTries = 2 ** 30;

const readyTries = `CASE WHEN e.max_tries IS NULL THEN u.tries WHEN e.max_tries > 0 AND u.tries >= e.max_tries THEN ${spentTries}
  ELSE 0 END`;

/** How many rows a multi-row statement has. */
export const manyRows = 50;

const rows = (columns: number): string =>
  Array.from({ length: manyRows }, (_, i) => `(${i}${",?".repeat(columns)})`).join(",");

const firstOfLanes = `FROM wanted CROSS JOIN unit AS u ON u.id = (
      SELECT r.unit FROM ready_lane AS r WHERE r.partition = wanted.partition AND r.spec = ? ORDER BY r.place, r.name LIMIT 1)`;

export const sql = {
  // ---- loaded when the store is opened, and counts

  counters: "SELECT unit, spec, namespace, worker, log, needs, message, extras FROM counter",
  setCounters: `
    UPDATE counter SET unit = ?, spec = ?, namespace = ?, worker = ?, log = ?, needs = ?, message = ?, extras = ?`,
  namespaces: "SELECT id, name, settings, dead FROM namespace ORDER BY id",
  specs: `
    SELECT s.id, s.namespace, s.name, s.data, s.meta, s.dead, s.plain, s.retained, t.available, t.delayed, t.blocked,
      t.pending, t.finished, t.failed, t.removed_finished, t.removed_failed, t.full, t.cursor, t.turn, s.timed
    FROM spec AS s JOIN tally AS t ON t.spec = s.id ORDER BY s.id`,
  leases: `
    SELECT unit, spec, number, worker, started, expiration, late, own,
      EXISTS (SELECT 1 FROM extra AS e WHERE e.unit = lease.unit AND (e.queues IS NOT NULL OR e.labels LIKE '%"batch:%'))
    FROM lease`,
  setTally: `
    UPDATE tally SET available = ?, delayed = ?, blocked = ?, pending = ?, finished = ?, failed = ?,
      removed_finished = ?, removed_failed = ?, full = ?, cursor = ?, turn = ? WHERE spec = ?`,

  // ---- the history

  putRecord: "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)",
  records: `
    SELECT spec, time, data FROM record WHERE namespace = ? AND spec = ? AND step = ? AND time >= ? AND time < ?`,
  oldRecords: "SELECT namespace, spec, time, writer FROM record WHERE step = ? AND time < ? LIMIT ? + 0",
  dropRecord: "DELETE FROM record WHERE namespace = ? AND spec = ? AND step = ? AND time = ? AND writer = ?",
  dropSpecRecords: "DELETE FROM record WHERE namespace = ? AND spec = ?",
  dropSpaceRecords: "DELETE FROM record WHERE namespace = ?",

  // ---- namespaces and work specs

  addNamespace: "INSERT INTO namespace VALUES (?, ?, ?, 0)",
  setNamespace: "UPDATE namespace SET settings = ? WHERE id = ?",
  buryNamespace: "UPDATE namespace SET dead = 1 WHERE id = ?",
  dropNamespace: "DELETE FROM namespace WHERE id = ?",
  addSpec: "INSERT INTO spec VALUES (?, ?, ?, ?, ?, 0, 1, ?, 0)",
  addTally: "INSERT INTO tally VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0)",
  setSpec: "UPDATE spec SET data = ?, meta = ?, retained = ? WHERE id = ?",
  setSpecMeta: "UPDATE spec SET meta = ? WHERE id = ?",
  setSpecPlain: "UPDATE spec SET plain = 0 WHERE id = ?",
  setSpecRetained: "UPDATE spec SET retained = ? WHERE id = ?",
  burySpec: "UPDATE spec SET dead = 1 WHERE id = ?",
  dropSpec: "DELETE FROM spec WHERE id = ?",
  dropTally: "DELETE FROM tally WHERE spec = ?",

  // ---- units

  unit: `SELECT ${unitColumns} FROM unit AS u LEFT JOIN lease AS l ON l.unit = u.id WHERE u.id = ?`,
  unitByName: `
    SELECT ${unitColumns} FROM unit AS u LEFT JOIN lease AS l ON l.unit = u.id
    WHERE u.spec = ? AND u.name = CAST(? AS TEXT)`,
  unitNameBytes: "SELECT CAST(name AS BLOB) FROM unit WHERE id = ?",
  unitSpec: "SELECT spec FROM unit WHERE id = ?",
  unitId: "SELECT id FROM unit WHERE spec = ? AND name = CAST(? AS TEXT)",
  unitData: "SELECT data FROM unit WHERE id = ?",
  addUnit: `
    INSERT INTO unit (id, spec, name, state, priority, not_before, created, attempts, tries, data)
    VALUES (?, ?, CAST(? AS TEXT), 0, ?, ?, ?, 0, 0, ?)`,
  addPlainUnits: `
    INSERT OR IGNORE INTO unit (id, spec, name, state, priority, not_before, created, attempts, tries, data)
    SELECT ? + column1, ?, column2, 0, 0.0, 0, ?, 0, 0, column3 FROM (VALUES ${rows(2)})`,
  addUnits: `
    INSERT OR IGNORE INTO unit
      (id, spec, name, state, priority, not_before, created, attempts, tries, data, origin_unit, origin_number, partition)
    SELECT ? + column1, ?, column2, 0, column4, column5, ?, 0, 0, column3, column6, column7, column8
    FROM (VALUES ${rows(7)})`,
  addOneUnit: `
    INSERT OR IGNORE INTO unit
      (id, spec, name, state, priority, not_before, created, attempts, tries, data, origin_unit, origin_number, partition)
    VALUES (?, ?, ?, 0, ?, ?, ?, 0, 0, ?, ?, ?, ?)`,
  dropUnitRange: "DELETE FROM unit WHERE id BETWEEN ? AND ?",
  readyRange: `
    INSERT INTO ready SELECT spec, 0 - priority, name, id, 0 FROM unit WHERE id BETWEEN ? AND ? AND not_before <= ?`,
  delayRange: `
    INSERT INTO delayed SELECT spec, not_before, id, name FROM unit WHERE id BETWEEN ? AND ? AND not_before > ?`,
  setUnit: `
    UPDATE unit SET state = ?, priority = ?, not_before = ?, attempts = ?, tries = ?, origin_unit = ?,
      origin_number = ?, status = ?, worker = ?, started = ?, ended = ?, expiration = ?, late = ?, errors = ?, own = ?,
      data = ?, attempt_data = ?, since = ?, partition = ?, reason = ?
    WHERE id = ?`,
  dropUnit: "DELETE FROM unit WHERE id = ?",
  setSpecTimed: "UPDATE spec SET timed = 1 WHERE id = ?",
  addTimer: "INSERT INTO timer VALUES (?, ?, ?)",
  dropTimer: "DELETE FROM timer WHERE spec = ? AND time = ? AND unit = ?",
  dropTimers: `DELETE FROM timer WHERE spec = ? AND unit IN ${ids}`,
  firstTimer: "SELECT time FROM timer WHERE spec = ? ORDER BY time LIMIT 1",
  rung: "SELECT unit, time FROM timer WHERE spec = ? AND time <= ? ORDER BY time, unit LIMIT ? + 0",
  lastLogged: "SELECT max(unit) FROM attempt_log",
  attemptLog: "SELECT total, lines FROM attempt_log WHERE unit = ? AND number = ?",
  setAttemptLog: `
    INSERT INTO attempt_log VALUES (?, ?, ?, ?)
    ON CONFLICT (unit, number) DO UPDATE SET total = excluded.total, lines = excluded.lines`,
  dropLogs: `DELETE FROM attempt_log WHERE unit IN ${ids}`,
  dropHistory: "DELETE FROM history WHERE unit = ?",
  unitsByName: `
    SELECT id, name FROM unit WHERE spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  blockedByName: `
    SELECT id, name FROM unit WHERE state = 1 AND spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  finishedByName: `
    SELECT id, name FROM unit WHERE state = 2 AND spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  failedByName: `
    SELECT id, name FROM unit WHERE state = 3 AND spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  delayedByName: `
    SELECT unit, name FROM delayed WHERE spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  readyByName: `
    SELECT unit, name FROM ready
    WHERE spec = ? AND place = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT) ORDER BY name LIMIT ? + 0`,
  /** For few leases. They are not in name order, so they are sorted. */
  pendingByName: `
    SELECT u.id, u.name FROM lease AS l CROSS JOIN unit AS u ON u.id = l.unit
    WHERE l.spec = ? AND u.name >= CAST(? AS TEXT) AND u.name < CAST(? AS TEXT) ORDER BY u.name LIMIT ? + 0`,
  /** For many leases, or many distinct priorities: walks all units in name order until enough are found. */
  pendingWalk: `
    SELECT u.id, u.name FROM unit AS u WHERE u.spec = ? AND u.name >= CAST(? AS TEXT) AND u.name < CAST(? AS TEXT)
      AND EXISTS (SELECT 1 FROM lease AS l WHERE l.unit = u.id)
    ORDER BY u.name LIMIT ? + 0`,
  readyWalk: `
    SELECT u.id, u.name FROM unit AS u WHERE u.spec = ? AND u.name >= CAST(? AS TEXT) AND u.name < CAST(? AS TEXT)
      AND EXISTS (SELECT 1 FROM ready AS r WHERE r.spec = u.spec AND r.place = 0 - u.priority AND r.name = u.name)
    ORDER BY u.name LIMIT ? + 0`,
  nextPlace: "SELECT place FROM ready WHERE spec = ? AND place > ? ORDER BY place LIMIT 1",

  // ---- available and delayed units

  firstReady: "SELECT place FROM ready WHERE spec = ? ORDER BY place LIMIT 1",
  firstReadyUnit: "SELECT unit FROM ready WHERE spec = ? ORDER BY place, name LIMIT 1",
  addReady: "INSERT INTO ready VALUES (?, ?, CAST(? AS TEXT), ?, ?)",
  dropReady: "DELETE FROM ready WHERE spec = ? AND place = ? AND name = CAST(? AS TEXT)",
  spent:
    "SELECT unit FROM ready WHERE spec = ? AND tries > 0 AND tries >= ? ORDER BY tries, unit LIMIT ? + 0",
  firstDelayed: "SELECT not_before FROM delayed WHERE spec = ? ORDER BY not_before LIMIT 1",
  addDelayed: "INSERT INTO delayed VALUES (?, ?, ?, CAST(? AS TEXT))",
  dropDelayed: "DELETE FROM delayed WHERE spec = ? AND not_before = ? AND unit = ?",
  due: "SELECT unit, not_before FROM delayed WHERE spec = ? AND not_before <= ? ORDER BY not_before, unit LIMIT ? + 0",
  readyMany: `
    INSERT INTO ready SELECT u.spec, 0 - u.priority, u.name, u.id, u.tries
    FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value`,
  /** The same for units that may have their own try limit. */
  readyManyLimited: `
    INSERT INTO ready SELECT u.spec, 0 - u.priority, u.name, u.id, ${readyTries}
    FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value LEFT JOIN extra AS e ON e.unit = u.id`,
  dropDue: "DELETE FROM delayed WHERE spec = ? AND (not_before, unit) <= (?, ?)",

  // ---- available units by partition

  readyLaneRange: `
    INSERT INTO ready_lane SELECT spec, ifnull(partition, x''), 0 - priority, name, id, 0 FROM unit
    WHERE id BETWEEN ? AND ? AND not_before <= ?`,
  addReadyLane: "INSERT INTO ready_lane VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)",
  dropReadyLane:
    "DELETE FROM ready_lane WHERE spec = ? AND partition = ? AND place = ? AND name = CAST(? AS TEXT)",
  fillReadyLane: `
    INSERT INTO ready_lane SELECT r.spec, ifnull(u.partition, x''), r.place, r.name, r.unit, r.tries
    FROM ready AS r CROSS JOIN unit AS u ON u.id = r.unit WHERE r.spec = ?`,
  clearReady: "DELETE FROM ready WHERE spec = ?",
  fillReady: "INSERT INTO ready SELECT spec, place, name, unit, tries FROM ready_lane WHERE spec = ?",
  spentInLanes:
    "SELECT unit FROM ready_lane WHERE spec = ? AND tries > 0 AND tries >= ? ORDER BY tries, unit LIMIT ? + 0",
  waitingInLanes: `
    SELECT u.created, u.since, u.not_before, u.ended FROM ready_lane AS r CROSS JOIN unit AS u ON u.id = r.unit
    WHERE r.spec = ? LIMIT ? + 0`,
  /** The table is ordered by partition, so the units are sorted by name. */
  readyLaneByName: `
    SELECT unit, name FROM ready_lane WHERE spec = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  readyLaneWalk: `
    SELECT u.id, u.name FROM unit AS u WHERE u.spec = ? AND u.name >= CAST(? AS TEXT) AND u.name < CAST(? AS TEXT)
      AND EXISTS (SELECT 1 FROM ready_lane AS r WHERE r.spec = u.spec AND r.partition = ifnull(u.partition, x'')
        AND r.place = 0 - u.priority AND r.name = u.name)
    ORDER BY u.name LIMIT ? + 0`,
  clearReadyLane: "DELETE FROM ready_lane WHERE spec = ?",
  firstInLane: "SELECT unit FROM ready_lane WHERE spec = ? AND partition = ? ORDER BY place, name LIMIT 1",
  firstBegun: `
    SELECT r.unit FROM unit AS u INDEXED BY unit_begun CROSS JOIN ready_lane AS r
      ON r.spec = u.spec AND r.partition = ifnull(u.partition, x'') AND r.place = 0 - u.priority AND r.name = u.name
    WHERE u.spec = ? AND u.partition IS ? AND u.state < 2 AND u.status IS NOT NULL
    ORDER BY r.place, r.name LIMIT 1`,
  lanes: "SELECT partition, full FROM lane WHERE spec = ?",
  laneCounts: "SELECT partition, place, count(*) FROM ready_lane WHERE spec = ? GROUP BY partition, place",
  laneLeases: `
    SELECT u.partition, count(*) FROM lease AS l CROSS JOIN unit AS u ON u.id = l.unit WHERE l.spec = ?
    GROUP BY u.partition`,
  laneBegun: `
    SELECT u.partition, EXISTS (SELECT 1 FROM ready_lane AS r WHERE r.spec = u.spec
      AND r.partition = ifnull(u.partition, x'') AND r.place = 0 - u.priority AND r.name = u.name)
    FROM unit AS u INDEXED BY unit_begun WHERE u.spec = ? AND u.state < 2 AND u.status IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM lease AS l WHERE l.unit = u.id)`,
  setLane: "INSERT OR REPLACE INTO lane VALUES (?, ?, ?)",
  setLanes: `
    WITH served (i, partition, full) AS (VALUES ${rows(2)})
    INSERT OR REPLACE INTO lane SELECT ?, partition, full FROM served`,
  dropLane: "DELETE FROM lane WHERE spec = ? AND partition = ?",
  clearLanes: "DELETE FROM lane WHERE spec = ?",

  // ---- claiming and settling

  claimable: `
    SELECT r.unit, r.name, r.place, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before
    FROM ready AS r CROSS JOIN unit AS u ON u.id = r.unit WHERE r.spec = ? ORDER BY r.place, r.name LIMIT ? + 0`,
  /** The same for units that may have queues, a batch or their own try limit. */
  claimableQueued: `
    SELECT r.unit, r.name, r.place, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before,
      e.queues IS NOT NULL OR coalesce(e.labels LIKE '%"batch:%', 0), e.max_tries
    FROM ready AS r CROSS JOIN unit AS u ON u.id = r.unit LEFT JOIN extra AS e ON e.unit = r.unit
    WHERE r.spec = ? ORDER BY r.place, r.name LIMIT ? + 0`,
  claimableInLane: `
    SELECT r.unit, r.name, r.place, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before
    FROM ready_lane AS r CROSS JOIN unit AS u ON u.id = r.unit
    WHERE r.spec = ? AND r.partition = ? ORDER BY r.place, r.name LIMIT ? + 0`,
  claimableInLaneQueued: `
    SELECT r.unit, r.name, r.place, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before,
      e.queues IS NOT NULL OR coalesce(e.labels LIKE '%"batch:%', 0), e.max_tries
    FROM ready_lane AS r CROSS JOIN unit AS u ON u.id = r.unit LEFT JOIN extra AS e ON e.unit = r.unit
    WHERE r.spec = ? AND r.partition = ? ORDER BY r.place, r.name LIMIT ? + 0`,
  /** The first unit of each of many partitions, with the index of the partition. Takes a third of the time of a statement per partition. */
  claimableFirst: `
    WITH wanted (i, partition) AS (VALUES ${rows(1)})
    SELECT u.id, u.name, 0 - u.priority, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before,
      0 AS queued, NULL AS max_tries, wanted.i
    ${firstOfLanes}`,
  claimableFirstQueued: `
    WITH wanted (i, partition) AS (VALUES ${rows(1)})
    SELECT u.id, u.name, 0 - u.priority, u.data, u.attempts, u.tries, u.status, u.since, u.ended, u.created, u.not_before,
      e.queues IS NOT NULL OR coalesce(e.labels LIKE '%"batch:%', 0), e.max_tries, wanted.i
    ${firstOfLanes} LEFT JOIN extra AS e ON e.unit = u.id`,
  /** SQLite uses only the first column of a row value that has a CAST in it, so higher priorities need this separate statement. */
  dropPlacesBefore: "DELETE FROM ready WHERE spec = ? AND place < ?",
  dropClaimed: "DELETE FROM ready WHERE spec = ? AND place = ? AND name <= CAST(? AS TEXT)",
  addLeases: "INSERT INTO lease SELECT value, ?, ?, ?, ?, ?, 0, 0, NULL, NULL FROM json_each(?)",
  addLease: "INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
  dropLease: "DELETE FROM lease WHERE unit = ?",
  dropLeases: `DELETE FROM lease WHERE unit IN ${ids}`,
  /** Copies ended attempts to the history before a claim starts new ones. */
  supersedeMany: `
    INSERT INTO history
    SELECT id, attempts, status, worker, started, ended, expiration, late, errors, iif(own, attempt_data, data), NULL
    FROM unit WHERE id IN ${ids}`,
  addHistory: "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
  dropHeld: "UPDATE history SET held = NULL WHERE unit = ? AND number = ? AND held = 1",
  heldPast:
    "SELECT unit, number FROM history WHERE held = 1 AND worker = ? AND expiration > ? ORDER BY unit, number",
  setHistory: "UPDATE history SET status = ?, data = ? WHERE unit = ? AND number = ?",
  history: `
    SELECT number, status, worker, started, ended, expiration, late, errors, data FROM history WHERE unit = ?
    ORDER BY number`,
  pastAttempt: `
    SELECT number, status, worker, started, ended, expiration, late, errors, data FROM history
    WHERE unit = ? AND number = ?`,
  endMany: `
    UPDATE unit SET state = ?, status = ?, attempts = ?, tries = tries + 1, worker = ?, started = ?, ended = ?,
      expiration = ?, late = ?, errors = NULL, own = 0, attempt_data = NULL
    WHERE id IN ${ids}`,
  endOne: `
    UPDATE unit SET state = ?, status = ?, attempts = ?, tries = tries + 1, worker = ?, started = ?, ended = ?,
      expiration = ?, late = ?, errors = ?, own = ?, attempt_data = ?
    WHERE id = ?`,
  endedMany: `
    INSERT INTO ended SELECT spec, state, ended, id FROM unit WHERE id IN ${ids}`,
  expireMany: `
    UPDATE unit SET state = 0, status = 1, attempts = l.number, tries = tries + 1, worker = l.worker,
      started = l.started, ended = max(l.expiration, l.started), expiration = l.expiration, late = l.late, errors = NULL,
      own = l.own, attempt_data = l.data
    FROM lease AS l WHERE l.unit = unit.id AND unit.id IN ${ids}`,
  waitAgain: `
    INSERT INTO ready SELECT u.spec, 0 - u.priority, u.name, u.id, u.tries
    FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value WHERE u.not_before <= ?`,
  waitAgainLimited: `
    INSERT INTO ready SELECT u.spec, 0 - u.priority, u.name, u.id, ${readyTries}
    FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value LEFT JOIN extra AS e ON e.unit = u.id
    WHERE u.not_before <= ?`,
  delayAgain: `
    INSERT INTO delayed SELECT u.spec, u.not_before, u.id, u.name
    FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value WHERE u.not_before > ?`,

  // ---- breakers

  addOutcome: `
    INSERT INTO outcome (spec, at, kind, count) VALUES (?, ?, ?, ?)
    ON CONFLICT (spec, at, kind) DO UPDATE SET count = count + excluded.count`,
  outcomes: "SELECT kind, sum(count) FROM outcome WHERE spec = ? AND at >= ? GROUP BY kind",
  dropOutcomes: "DELETE FROM outcome WHERE spec = ? AND at < ?",
  dropAllOutcomes: "DELETE FROM outcome WHERE spec = ?",

  // ---- failure groups

  noteFailed: "INSERT INTO failed SELECT id, spec, NULL, name FROM unit WHERE id = ?",
  noteFailedMany: `INSERT INTO failed SELECT id, spec, NULL, name FROM unit WHERE id IN ${ids}`,
  dropFailed: `DELETE FROM failed WHERE unit IN ${ids}`,
  groupsOf: `SELECT fingerprint FROM failed WHERE unit IN ${ids} AND fingerprint IS NOT NULL`,
  ungrouped: "SELECT unit FROM failed WHERE spec = ? AND fingerprint IS NULL ORDER BY unit LIMIT ? + 0",
  setGroup: "UPDATE failed SET fingerprint = ? WHERE unit = ?",
  failures:
    "SELECT fingerprint, error, count, first, last, tries, example, trend FROM failure WHERE spec = ?",
  putFailure: "INSERT OR REPLACE INTO failure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
  lessFailures: "UPDATE failure SET count = count - ? WHERE spec = ? AND fingerprint = ?",
  dropEmptyFailure: "DELETE FROM failure WHERE spec = ? AND fingerprint = ? AND count <= 0",
  dropFailures: "DELETE FROM failure WHERE spec = ?",
  unitsByFailure: `
    SELECT unit, name FROM failed
    WHERE fingerprint IS NOT NULL AND spec = ? AND fingerprint = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT) ORDER BY name LIMIT ? + 0`,
  groupOf: "SELECT fingerprint FROM failed WHERE unit = ?",
  endOf: "SELECT ended FROM unit WHERE id = ? AND state >= 2",

  // ---- labels, queues and actions

  extra: "SELECT queues, labels, retry, timing FROM extra WHERE unit = ?",
  addExtra: "INSERT INTO extra VALUES (?, ?, ?, ?, ?, ?)",
  dropExtra: "DELETE FROM extra WHERE unit = ?",
  dropExtras: `DELETE FROM extra WHERE unit IN ${ids}`,
  addLabel: "INSERT INTO label VALUES (?, ?, CAST(? AS TEXT), ?)",
  dropLabel: "DELETE FROM label WHERE spec = ? AND label = ? AND name = CAST(? AS TEXT)",
  labelsOf: `
    SELECT CAST(u.name AS BLOB), e.labels FROM json_each(?) AS j CROSS JOIN extra AS e ON e.unit = j.value
      CROSS JOIN unit AS u ON u.id = e.unit
    WHERE e.labels IS NOT NULL`,
  unitsByLabel: `
    SELECT unit, name FROM label WHERE spec = ? AND label = ? AND name >= CAST(? AS TEXT) AND name < CAST(? AS TEXT)
    ORDER BY name LIMIT ? + 0`,
  unitStanding: `
    SELECT u.state, EXISTS (SELECT 1 FROM lease AS l WHERE l.unit = u.id), u.not_before > 0 AND EXISTS (
      SELECT 1 FROM delayed AS d WHERE d.spec = u.spec AND d.not_before = u.not_before AND d.unit = u.id), u.spec
    FROM unit AS u WHERE u.id = ?`,
  firstWaiting: `
    SELECT u.created, u.since, u.not_before, u.ended FROM ready AS r CROSS JOIN unit AS u ON u.id = r.unit
    WHERE r.spec = ? ORDER BY r.place, r.name LIMIT ? + 0`,
  lastWaiting: `
    SELECT u.created, u.since, u.not_before, u.ended FROM ready AS r CROSS JOIN unit AS u ON u.id = r.unit
    WHERE r.spec = ? ORDER BY r.place DESC, r.name DESC LIMIT ? + 0`,
  /** The fields of a queue message about a unit that ended. */
  unitForMessage: `
    SELECT CAST(u.name AS BLOB), u.data, e.queues FROM unit AS u JOIN extra AS e ON e.unit = u.id WHERE u.id = ?`,

  addMessage: "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)",
  firstMessages: `
    SELECT seq, spec, name, attempt, status, at, data FROM message
    WHERE namespace = ? AND queue = ? AND request IS NULL ORDER BY seq LIMIT ? + 0`,
  takenMessages: `
    SELECT seq, spec, name, attempt, status, at, data FROM message
    WHERE namespace = ? AND queue = ? AND request IS NOT NULL AND request = ? ORDER BY seq`,
  firstSeqs:
    "SELECT seq FROM message WHERE namespace = ? AND queue = ? AND request IS NULL ORDER BY seq LIMIT ? + 0",
  takeMessages: `UPDATE message SET request = ?, taken = ? WHERE seq IN ${ids}`,
  dropMessages: `DELETE FROM message WHERE seq IN ${ids}`,
  countMessages: "SELECT count(*) FROM message WHERE namespace = ? AND queue = ? AND request IS NULL",
  oldestMessage:
    "SELECT at FROM message WHERE namespace = ? AND queue = ? AND request IS NULL ORDER BY seq LIMIT 1",
  nextQueue:
    "SELECT queue FROM message WHERE namespace = ? AND queue > ? AND request IS NULL ORDER BY queue LIMIT 1",
  oldMessages: "SELECT seq FROM message WHERE request IS NOT NULL AND taken < ? ORDER BY taken LIMIT ? + 0",
  action: "SELECT key, created, data FROM action WHERE namespace = ? AND key = ?",
  actions: "SELECT key, created, data FROM action WHERE namespace = ? AND key > ? ORDER BY key LIMIT ? + 0",
  addAction: "INSERT INTO action VALUES (?, ?, ?, ?)",
  dropAction: "DELETE FROM action WHERE namespace = ? AND key = ?",

  limits: "SELECT name, rule, full FROM shared_limit WHERE namespace = ?",
  setLimit: `
    INSERT INTO shared_limit VALUES (?, ?, ?, 0)
    ON CONFLICT (namespace, name) DO UPDATE SET rule = excluded.rule`,
  setLimitFull: "UPDATE shared_limit SET full = ? WHERE namespace = ? AND name = ?",
  dropLimit: "DELETE FROM shared_limit WHERE namespace = ? AND name = ?",
  dropLimits: "DELETE FROM shared_limit WHERE namespace = ?",

  batch: "SELECT state FROM batch WHERE namespace = ? AND name = ?",
  batches: "SELECT state FROM batch WHERE namespace = ? AND name > ? ORDER BY name LIMIT ? + 0",
  setBatch: "INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?)",
  innerBatches:
    "SELECT state FROM batch WHERE namespace = ? AND parent = ? AND parent IS NOT NULL ORDER BY name",
  dropBatch: "DELETE FROM batch WHERE namespace = ? AND name = ?",
  batchesOf: "SELECT name FROM batch WHERE namespace = ? LIMIT ? + 0",

  // ---- dependencies

  needs: "SELECT hard, met, target, spec, name FROM need WHERE unit = ? ORDER BY position",
  addNeed: "INSERT INTO need VALUES (?, ?, ?, ?, ?, ?, ?)",
  setMet: "UPDATE need SET met = 1 WHERE unit = ? AND position = ?",
  dropNeeds: "DELETE FROM need WHERE unit = ?",
  anyDependent: "SELECT 1 FROM need WHERE target = ? LIMIT 1",
  dependents: "SELECT DISTINCT unit FROM need WHERE target = ? ORDER BY unit",

  // ---- retention and deletion

  countStates: `SELECT state, count(*) AS units FROM unit WHERE id IN ${ids} GROUP BY state`,
  dropReadyMany: `
    DELETE FROM ready WHERE (spec, place, name) IN
      (SELECT u.spec, 0 - u.priority, u.name FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value)`,
  dropDelayedMany: `
    DELETE FROM delayed WHERE (spec, not_before, unit) IN
      (SELECT u.spec, u.not_before, u.id FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value)`,
  dropEndedMany: `
    DELETE FROM ended WHERE (spec, state, time, unit) IN
      (SELECT u.spec, u.state, u.ended, u.id FROM json_each(?) AS j CROSS JOIN unit AS u ON u.id = j.value)`,
  dropHistoryMany: `DELETE FROM history WHERE unit IN ${ids}`,
  dropUnits: `DELETE FROM unit WHERE id IN ${ids}`,

  addEnded: "INSERT OR IGNORE INTO ended VALUES (?, ?, ?, ?)",
  dropEnded: "DELETE FROM ended WHERE spec = ? AND state = ? AND time = ? AND unit = ?",
  firstEnded: "SELECT unit, time FROM ended WHERE spec = ? AND state = ? ORDER BY time, unit LIMIT ? + 0",
  fillEnded: `
    INSERT OR IGNORE INTO ended
    SELECT spec, state, ended, id FROM unit WHERE spec = ? AND name >= CAST(? AS TEXT) AND name <= CAST(? AS TEXT)
      AND state IN (2, 3)`,
  someEnded: "SELECT state, time, unit FROM ended WHERE spec = ? LIMIT ? + 0",
  unitsOfSpec: "SELECT id FROM unit WHERE spec = ? ORDER BY name LIMIT ? + 0",

  // ---- workers

  workerById: "SELECT name FROM worker WHERE id = ?",
  workerKnown: "SELECT known FROM worker WHERE id = ?",
  workerByName: `
    SELECT id, known, parent, mode, data, updated, expiration, deactivated, desired FROM worker
    WHERE namespace = ? AND name = ? AND known = 1`,
  anyWorker: "SELECT id FROM worker WHERE namespace = ? AND name = ? ORDER BY known DESC, id DESC LIMIT 1",
  addWorker: "INSERT INTO worker VALUES (?, ?, ?, ?, NULL, '\"\"', NULL, ?, ?, 0, NULL)",
  setWorker: `
    UPDATE worker SET parent = ?, mode = ?, data = ?, updated = ?, expiration = ?, deactivated = ?, desired = ?
    WHERE id = ?`,
  oldParent: `
    SELECT p.id, p.name FROM worker AS w JOIN worker AS p ON p.namespace = w.namespace AND p.name = w.parent AND p.known = 1
    WHERE w.id = ? AND p.expiration < ?`,
  forgetWorker: "UPDATE worker SET known = 0, parent = NULL, data = NULL WHERE id = ?",
  workers: `
    SELECT id, name, parent, mode, data, updated, expiration, deactivated, desired FROM worker
    WHERE namespace = ? AND name >= ? AND known = 1 ORDER BY name LIMIT ? + 0`,
  childrenFrom: `
    SELECT id, name, parent, mode, data, updated, expiration, deactivated, desired FROM worker
    WHERE namespace = ? AND parent = ? AND name >= ? AND known = 1 ORDER BY name LIMIT ? + 0`,
  children: "SELECT id, name FROM worker WHERE namespace = ? AND parent = ? AND known = 1 ORDER BY name",
  anyChild: "SELECT 1 FROM worker WHERE namespace = ? AND parent = ? AND known = 1 LIMIT 1",
  oldWorkers: `
    SELECT id, namespace, name, expiration FROM worker INDEXED BY worker_expiration
    WHERE known = 1 AND expiration < ? AND expiration >= ? ORDER BY expiration LIMIT ? + 0`,
  addLog: "INSERT INTO log VALUES (?, ?, ?, ?)",
  logBefore: `
    SELECT time, number, attempts FROM log WHERE worker = ? AND (time, number) < (?, ?)
    ORDER BY time DESC, number DESC LIMIT ? + 0`,
  logFrom: `
    SELECT worker, time, number, attempts FROM log WHERE (worker, time, number) > (?, ?, ?)
    ORDER BY worker, time, number LIMIT ? + 0`,
  dropLog: "DELETE FROM log WHERE worker = ? AND time = ? AND number = ?",
  unitExists: "SELECT 1 FROM unit WHERE id = ?",

  // ---- locks and requests

  locksUnder: `
    SELECT path, labels, owner, deadline FROM lock WHERE (namespace, path) >= (?, ?) AND (namespace, path) < (?, ?)`,
  lockAt: "SELECT path, labels, owner, deadline FROM lock WHERE namespace = ? AND path = ?",
  setLock: "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?)",
  dropLock: "DELETE FROM lock WHERE namespace = ? AND path = ?",
  dropPassedLocks: "DELETE FROM lock WHERE deadline < ?",
  request: "SELECT answer FROM request WHERE namespace = ? AND id = ?",
  addRequest: "INSERT OR REPLACE INTO request VALUES (?, ?, ?, ?)",
  oldRequests: "SELECT namespace, id FROM request WHERE time < ? ORDER BY time LIMIT ? + 0",
  dropRequest: "DELETE FROM request WHERE namespace = ? AND id = ?",

  // ---- what a deleted namespace leaves behind

  workersOf: "SELECT id FROM worker WHERE namespace = ? LIMIT ? + 0",
  dropWorker: "DELETE FROM worker WHERE id = ?",
  logOf: "SELECT time, number FROM log WHERE worker = ? ORDER BY time, number LIMIT ? + 0",
  requestsOf: "SELECT id FROM request WHERE namespace = ? LIMIT ? + 0",
  messagesOf: `
    SELECT seq FROM (SELECT seq FROM message WHERE namespace = ? AND request IS NULL
      UNION ALL SELECT seq FROM message WHERE namespace = ? AND request IS NOT NULL) LIMIT ? + 0`,
  actionsOf: "SELECT key FROM action WHERE namespace = ? LIMIT ? + 0",
  locksOf: "SELECT path FROM lock WHERE namespace = ? LIMIT ? + 0",
} as const satisfies Record<string, string>;

export type Statements = Readonly<Record<keyof typeof sql, Statement>>;

export function prepare(connection: Connection): Statements {
  const entries = Object.entries(sql).map(([name, text]) => [name, connection.prepare(text)] as const);
  return Object.fromEntries(entries) as Statements;
}
