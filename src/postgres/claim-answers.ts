/**
 * The parts that all claim statements share: what is written for units that a statement has picked, and the answer for each
 * caller. The parameters of these parts are $1 spec, $3 now, $5 workers, $6 lengths of their leases, $7 the first turn of each
 * caller, $14 ids for lease rows, $15 request ids.
 */
import { attemptId, type AttemptRow, type Claim, type HistorySink } from "../core/index.ts";
import { oneOrAll, type Row } from "./connection.ts";
import { noArrivals, tallyConflict, tallyInsert } from "./tally.ts";
import { bytesData, Pieces, unescape } from "./values.ts";

/**
 * Data up to this many bytes is returned in one text per caller. Longer data has its own rows: texts of a gigabyte are too long
 * for the server.
 */
const longestShort = 8192;

export const isExhausted = "u.tries >= nullif(coalesce(u.max_tries, $4::bigint), 0)";

/** When the attempt of a unit `u` begins, where `freed` is the end of the attempt whose place it takes; and since when the unit waits. */
export const beginsAndWaits = (
  freed: string,
): string => `greatest($3::bigint, u.since, u.attempt_end, ${freed}) AS begins,
        greatest(coalesce(u.since, u.created), u.not_before, u.attempt_end) AS waits`;

/**
 * The answer of an earlier claim with this request id. LIMIT makes the planner look up the id; otherwise it would scan all
 * requests of the namespace from the last ten minutes.
 */
export const requestOf = (namespace: string, id: string): string =>
  `(SELECT q.answer FROM @request q WHERE q.namespace = ${namespace} AND q.spec = 0 AND q.id = ${id} LIMIT 1)`;

/** The caller of a unit, by its turn among the picked units. */
export const callerOf = "width_bucket(turn, $7::bigint[]) AS caller";

/** Starts the attempts of units `u`, from rows `p`. `list` is the position of the lease row among those of $14. */
export const claimUnit = (list: string, from: string, columns: string): string => `claimed AS (
    UPDATE @unit u SET status = 3, attempts = p.attempts + 1, tries = p.tries + 1,
      attempt_status = 0, attempt_worker = ($5::bytea[])[p.caller], attempt_start = p.begins, attempt_end = 0,
      attempt_expiration = p.begins + ($6::bigint[])[p.caller],
      attempt_late = false, attempt_own = false, attempt_errors = NULL, attempt_data = NULL, attempt_progress = NULL,
      timer = NULL, lease = ($14::bigint[])[${list}]
    ${from}
    RETURNING u.id, u.key, u.long_name, u.attempts, u.place, u.data, u.attempt_start, u.attempt_expiration, u.needs,
      p.caller, p.turn, p.waiting,
      greatest(0, p.begins - p.waits) AS waited${columns}
  )`;

/**
 * The units of each caller in the order of turns, sorted once for the lease row, the log, the request and the answer. The answer
 * has one row for each caller: a row for each unit took the server twice as long to write, and this process four times as long to
 * read. Names and data are concatenated into one text each, with their lengths; long data has its own rows.
 */
export const dealt = `dealt AS MATERIALIZED (
    SELECT caller, array_agg(id) AS units, array_agg(attempts) AS numbers, min(attempts) AS least, max(attempts) AS most,
      min(attempt_expiration) AS expiration, bool_or(needs) AS needy, max(place) AS place, ${oneOrAll("attempt_start")} AS starts,
      ${oneOrAll("waited")} AS waits, string_agg(name, '') AS names, array_agg(length(name)) AS name_lengths,
      string_agg(data, '') FILTER (WHERE length(data) <= ${longestShort}) AS data, array_agg(coalesce(length(data), -1)) AS data_lengths
    FROM (SELECT caller, id, attempts, attempt_start, attempt_expiration, needs, place, waited, coalesce(long_name, key) AS name, data
      FROM claimed ORDER BY caller, turn) AS c GROUP BY caller
  )`;

/** Attempt ids, as `readKeys` reads them. Mostly all attempts have the same number, and then one text is made of all units at once. */
const answered = `CASE WHEN d.least = d.most
      THEN replace(array_to_string(d.units, ','), ',', '.' || d.least || ',') || '.' || d.least
      ELSE (SELECT string_agg(g.unit || '.' || g.number, ',') FROM unnest(d.units, d.numbers) AS g (unit, number)) END`;

/** Records the requests (if `noted`), the attempts of the workers, and the counts. `spec` is a row with the id of the namespace. */
export const recorded = (noted: boolean): string => `${
  noted
    ? `noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT spec.namespace, 0, ($15::bytea[])[d.caller], $3::bigint, ${answered}
    FROM spec, dealt d WHERE ($15::bytea[])[d.caller] IS NOT NULL
  ), `
    : ""
}logged AS (
    INSERT INTO @log (namespace, worker, units, numbers)
    SELECT spec.namespace, ($5::bytea[])[d.caller], d.units, d.numbers FROM spec, dealt d
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), -sum(cardinality(units)), 0, 0, sum(cardinality(units)), 0, 0, 0, 0, ${noArrivals} FROM dealt HAVING count(*) > 0
    ${tallyConflict}
  )`;

/** Encodes with `escape`, which leaves ASCII as it is, or in hexadecimal if that is shorter. `unescape` reads both. */
const bytesText = (column: string): string =>
  `CASE WHEN octet_length(escaped.${column}) <= 2 * length(d.${column}) THEN escaped.${column} ELSE '\\x' || encode(d.${column}, 'hex') END`;

/** The answer, from a row `state` with the flags of the claim. `check` is an additional column. */
export const dealtAnswer = (check: string): string => `
  SELECT state.flags, d.caller, d.units, d.numbers, d.starts, d.waits, ${bytesText("names")}, d.name_lengths,
    ${bytesText("data")}, d.data_lengths, d.place${check}
  FROM state LEFT JOIN dealt d ON true
    LEFT JOIN LATERAL (SELECT encode(d.names, 'escape') AS names, encode(d.data, 'escape') AS data OFFSET 0) escaped ON true
  UNION ALL
  SELECT 0, c.caller, ARRAY[c.id], NULL, NULL, NULL, NULL, NULL, '\\x' || encode(c.data, 'hex'), NULL, NULL${check === "" ? "" : ", NULL"}
  FROM claimed c WHERE length(c.data) > ${longestShort}`;

/**
 * The answer for one caller. `starts` and `waits` have one element if all are equal; `names` and `data` are concatenated, with
 * their lengths; `place` is the last place. A row without numbers has the long data of one unit.
 */
type DealtRow = readonly [
  flags: number,
  caller: number,
  units: number[] | null,
  numbers: number[] | null,
  starts: number[],
  waits: number[],
  names: string,
  nameLengths: number[],
  data: string | null,
  dataLengths: number[],
  place: number,
];

/** The flags of the claim; undefined if the statement returned no row. */
export const flagsOf = (rows: readonly Row[]): number | undefined =>
  (rows as unknown as readonly DealtRow[]).find(
    ([, , units, numbers]) => units === null || numbers !== null,
  )?.[0];

/** The attempts of each caller that got any, and the last place. Throws if there are more than `places`. */
export function readDealt(
  rows: readonly Row[],
  claims: readonly Claim[],
  places: number,
  notes: HistorySink,
  now: number,
): { caller: number; place: number; attempts: AttemptRow[] }[] {
  const long = new Map<number, string>();
  for (const [, , units, numbers, , , , , text] of rows as unknown as readonly DealtRow[])
    if (numbers === null && units !== null) long.set(units[0]!, text!);
  const answers: { caller: number; place: number; attempts: AttemptRow[] }[] = [];
  for (const row of rows as unknown as readonly DealtRow[]) {
    if (row[3] === null) continue;
    const caller = row[1] - 1;
    const claim = claims[caller];
    if (claim === undefined) throw new Error("unreachable");
    answers.push({ caller, place: row[10], attempts: readCaller(row, claim, long, notes, now) });
  }
  const count = answers.reduce((sum, { attempts }) => sum + attempts.length, 0);
  if (count > places) throw new Error(`claimed ${count} units where ${places} were asked for`);
  return answers;
}

function readCaller(
  [, , ids, all, starts, waits, nameText, nameLengths, dataText, dataLengths]: DealtRow,
  { workSpec, worker, lifetimeMs }: Claim,
  long: ReadonlyMap<number, string>,
  notes: HistorySink,
  now: number,
): AttemptRow[] {
  const units = ids ?? [];
  const numbers = all ?? [];
  const names = new Pieces(nameText);
  const data = new Pieces(dataText ?? "");
  if (waits.length === 1) notes.note(workSpec.id, "started", now, waits[0]!, units.length);
  else for (const waited of waits) notes.note(workSpec.id, "started", now, waited, 1);
  const attempts: AttemptRow[] = [];
  for (let i = 0; i < units.length; i++) {
    const id = units[i]!;
    const number = numbers[i]!;
    const startTime = starts.length === 1 ? starts[0]! : starts[i]!;
    const length = dataLengths[i]!;
    attempts.push({
      id: attemptId(id, number),
      workSpec: workSpec.name,
      workUnit: names.name(nameLengths[i]!),
      worker,
      number,
      status: "pending",
      active: true,
      startTime,
      endTime: 0,
      expirationTime: startTime + lifetimeMs,
      data:
        length < 0
          ? null
          : length > longestShort
            ? bytesData(unescape(long.get(id) ?? ""))
            : data.data(length),
      late: false,
      chainingErrors: [],
      progress: null,
    });
  }
  return attempts;
}
