/**
 * The external checker. It shares no code with the store: it reads a copy of the file with its own statements, and the
 * ledger that the driver wrote, and returns the contradictions.
 *
 * The ledger has a JSON object per line. A request without a response may or may not have been executed, but never partially.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

type Entry = { phase: "ask" | "ok" | "refused" } & (
  | { op: "add"; names: string[] }
  | { op: "claim"; attempts: string[] }
  | { op: "settle"; changes: { attempt: string; action: string }[] }
);

interface UnitRow {
  id: number;
  spec: number;
  name: string;
  state: number;
  attempts: number;
  status: number | null;
  own: number | null;
  data: string | null;
  attempt_data: string | null;
  origin_unit: number | null;
  origin_number: number | null;
}

const statuses = ["available", "delayed", "blocked", "pending", "finished", "failed"] as const;
type Counts = Record<(typeof statuses)[number], number>;

interface Database {
  prepare(sql: string): { all(): unknown[] };
}

const require = createRequire(import.meta.url);

function open(file: string): Database {
  const name = Number(process.versions.node.split(".")[0]) < 24 ? "@photostructure/sqlite" : "node:sqlite";
  const { DatabaseSync } = require(name) as { DatabaseSync: new (file: string) => Database };
  return new DatabaseSync(file);
}

/** Returns the violations. */
export function check(file: string, ledgerFile: string): string[] {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-check-"));
  try {
    // read a copy: opening the file could repair it or checkpoint its log
    for (const end of ["", "-wal"]) {
      if (existsSync(file + end)) copyFileSync(file + end, path.join(directory, `copy${end}`));
    }
    const ledger = readFileSync(ledgerFile, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Entry);
    return compare(open(path.join(directory, "copy")), ledger);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function compare(database: Database, ledger: readonly Entry[]): string[] {
  const wrong: string[] = [];
  const all = <Row>(sql: string): Row[] => database.prepare(sql).all() as Row[];
  for (const { integrity_check } of all<{ integrity_check: string }>("PRAGMA integrity_check"))
    if (integrity_check !== "ok") wrong.push(integrity_check);

  // the process may have been killed before it created the tables; then nothing can have been acknowledged
  if (all("SELECT 1 FROM sqlite_schema WHERE name = 'spec'").length === 0)
    return ledger.some(({ phase }) => phase === "ok") ? ["there are no tables"] : wrong;

  const specs = new Map(
    all<{ id: number; name: Uint8Array }>("SELECT id, name FROM spec").map((row) => [
      row.id,
      Buffer.from(row.name).toString(),
    ]),
  );
  const units = all<UnitRow>("SELECT * FROM unit");
  const byId = new Map(units.map((unit) => [unit.id, unit]));
  const byName = new Map(units.map((unit) => [`${specs.get(unit.spec)}/${unit.name}`, unit]));
  const leases = new Map(
    all<{ unit: number; number: number }>("SELECT * FROM lease").map((lease) => [lease.unit, lease]),
  );
  const ready = new Set(all<{ unit: number }>("SELECT unit FROM ready").map(({ unit }) => unit));
  const delayed = new Set(all<{ unit: number }>("SELECT unit FROM delayed").map(({ unit }) => unit));
  const numbers = new Map<number, number[]>();
  for (const { unit, number } of all<{ unit: number; number: number }>(
    "SELECT unit, number FROM history ORDER BY unit, number",
  )) {
    if (!numbers.has(unit)) numbers.set(unit, []);
    numbers.get(unit)?.push(number);
  }

  // each unit is in the right tables, and its attempts are numbered without gaps
  const counts = new Map<number, Counts>();
  for (const id of specs.keys())
    counts.set(id, { available: 0, delayed: 0, blocked: 0, pending: 0, finished: 0, failed: 0 });
  for (const unit of units) {
    const places = Number(ready.has(unit.id)) + Number(delayed.has(unit.id)) + Number(leases.has(unit.id));
    if (places !== (unit.state === 0 ? 1 : 0))
      wrong.push(`unit ${unit.id} of state ${unit.state} stands in ${places} places`);
    const status =
      unit.state === 1
        ? "blocked"
        : unit.state === 2
          ? "finished"
          : unit.state === 3
            ? "failed"
            : leases.has(unit.id)
              ? "pending"
              : ready.has(unit.id)
                ? "available"
                : "delayed";
    const count = counts.get(unit.spec);
    if (count === undefined) wrong.push(`unit ${unit.id} has no work spec`);
    else count[status]++;
    const lease = leases.get(unit.id);
    const made = [...(numbers.get(unit.id) ?? [])];
    // while a unit is leased, its row still has the previous attempt, which is also in the history
    if (unit.status !== null && lease === undefined) made.push(unit.attempts);
    if (lease !== undefined) made.push(lease.number);
    if (made.some((number, i) => number !== i + 1)) wrong.push(`unit ${unit.id} has attempts ${made.join()}`);
  }
  if (leases.size + ready.size + delayed.size > units.length)
    wrong.push("more units stand somewhere than there are");
  for (const row of all<Counts & { spec: number }>("SELECT * FROM tally"))
    for (const status of statuses)
      if (row[status] !== (counts.get(row.spec)?.[status] ?? 0))
        wrong.push(
          `${specs.get(row.spec) ?? "?"} counts ${row[status]} ${status}, there are ${counts.get(row.spec)?.[status] ?? 0}`,
        );

  // a finish and its outputs: never one without the other
  const outputs = new Set<string>();
  for (const unit of units) {
    if (unit.state !== 2 || specs.get(unit.spec) !== "first") continue;
    const data = JSON.parse((unit.own === 1 ? unit.attempt_data : unit.data) ?? "{}") as {
      output?: string[];
    };
    for (const name of data.output ?? []) {
      outputs.add(name);
      const output = byName.get(`second/${name}`);
      if (output === undefined) wrong.push(`unit ${unit.id} is finished without its output ${name}`);
      else if (output.origin_unit !== unit.id || output.origin_number !== unit.attempts)
        wrong.push(`output ${name} has another origin`);
    }
  }
  for (const unit of units)
    if (specs.get(unit.spec) === "second" && !outputs.has(unit.name))
      wrong.push(`output ${unit.name} without its finish`);

  // the end of a unit and its messages are one transaction: each of its queues has exactly one message about it
  const named = new Map(
    all<{ unit: number; queues: string | null; labels: string | null }>("SELECT * FROM extra").map(
      ({ unit, queues, labels }) => [
        unit,
        {
          queues: JSON.parse(queues ?? "[]") as string[],
          labels: JSON.parse(labels ?? "[]") as string[],
        },
      ],
    ),
  );
  const messages = all<{ queue: Uint8Array; attempt: string; status: number }>(
    "SELECT queue, attempt, status FROM message ORDER BY seq",
  ).map(({ queue, attempt, status }) => `${Buffer.from(queue).toString()} ${attempt} ${status}`);
  const expected = units.flatMap((unit) =>
    unit.state === 2 || unit.state === 3
      ? (named.get(unit.id)?.queues ?? []).map(
          (queue) => `${queue} ${unit.id}.${unit.attempts} ${unit.state}`,
        )
      : [],
  );
  if (JSON.stringify(messages.sort()) !== JSON.stringify(expected.sort()))
    wrong.push(`${messages.length} messages where ${expected.length} belong`);
  const labels = all<{ unit: number }>("SELECT unit FROM label").map(({ unit }) => unit);
  const labelled = [...named].flatMap(([unit, extra]) => extra.labels.map(() => unit));
  if (String(labels.sort()) !== String(labelled.sort()) || labelled.some((unit) => !byId.has(unit)))
    wrong.push("labels differ from what units say");

  // acknowledged changes are stored, and everything stored was requested
  const asked = new Set<string>();
  const claimed = new Map<number, number>();
  /** The last request for each acknowledged attempt. */
  const last = new Map<string, string>();
  for (const entry of ledger) {
    const { op, phase } = entry;
    if (op === "add" && phase === "ask") for (const name of entry.names) asked.add(name);
    if (op === "add" && phase === "ok")
      for (const name of entry.names)
        if (!byName.has(`first/${name}`)) wrong.push(`acknowledged unit ${name} is lost`);
    if (op === "claim" && phase === "ok")
      for (const attempt of entry.attempts) {
        const [unit = 0, number = 0] = attempt.split(".").map(Number);
        if (number <= (claimed.get(unit) ?? 0))
          wrong.push(`unit ${unit} was claimed as ${number} after ${claimed.get(unit)}`);
        claimed.set(unit, number);
        last.set(attempt, "claim ok");
        const row = byId.get(unit);
        const latest = leases.get(unit)?.number ?? row?.attempts;
        if (row === undefined || (latest ?? 0) < number)
          wrong.push(`acknowledged attempt ${attempt} is lost`);
      }
    if (op === "settle")
      for (const { attempt, action } of entry.changes) last.set(attempt, `${action} ${phase}`);
  }
  for (const [attempt, what] of last) {
    const [unit = 0, number = 0] = attempt.split(".").map(Number);
    const row = byId.get(unit);
    const lease = leases.get(unit);
    const current = lease === undefined && row?.attempts === number;
    if (what === "claim ok" && lease?.number !== number)
      wrong.push(`running attempt ${attempt} has no lease`);
    if (what === "finish ok" && !(row?.state === 2 && current))
      wrong.push(`finished attempt ${attempt} is not`);
    if (what === "fail ok" && !(row?.state === 3 && current)) wrong.push(`failed attempt ${attempt} is not`);
    if (what === "retry ok" && lease?.number === number) wrong.push(`returned attempt ${attempt} still runs`);
  }
  for (const unit of units)
    if (specs.get(unit.spec) === "first" && !asked.has(unit.name))
      wrong.push(`unit ${unit.name} was never asked for`);
  return wrong;
}
