/** Bytes on disk per finished unit; on PostgreSQL also the WAL bytes of an add, and of a claim with its finish. */
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import pg from "pg";
import { openCoordinate } from "../systems/coordinate.ts";
import { addUnits, prepare, rate } from "./claims.ts";
import type { Probe } from "./probe.ts";

async function bytesOf(address: string): Promise<{ stored: number; log: number }> {
  if (!address.startsWith("postgres:")) {
    const sizes = readdirSync(address)
      .filter((file) => file.endsWith(".sqlite"))
      .map((file) => statSync(path.join(address, file)).size);
    return { stored: sizes.reduce((sum, size) => sum + size, 0), log: NaN };
  }
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  const { rows } = await client.query<{ stored: string; log: string }>(
    "SELECT pg_database_size(current_database()) AS stored, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS log",
  );
  await client.end();
  return { stored: Number(rows[0]?.stored), log: Number(rows[0]?.log) };
}

export const footprint: Probe = async (address, factor) => {
  const units = Math.max(1000, Math.round(100_000 * factor));
  const coordinate = await openCoordinate(address);
  await prepare(coordinate, "");
  const before = await bytesOf(address);
  await addUnits(coordinate, "", units);
  const waiting = await bytesOf(address);
  await rate(coordinate, "", units, 1000);
  const done = await bytesOf(address);
  await coordinate.close();
  const closed = await bytesOf(address);
  const each = (bytes: number): number => bytes / units;
  return {
    value: each(closed.stored - before.stored),
    ...(address.startsWith("postgres:") && {
      "WAL of an add, bytes": each(waiting.log - before.log),
      "WAL of claim and finish, bytes": each(done.log - waiting.log),
    }),
  };
};
