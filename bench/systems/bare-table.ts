/**
 * A minimal PostgreSQL table with the same writes as ours, as a baseline: a row is written when a unit is added, claimed and finished, with
 * the same indexes; no history, no counts, no guards. Three batches at once; one prepared statement claims and reads a batch, another
 * settles it. A claim starts where the last one ended, as ours does: otherwise it would scan the index entries of all claimed rows.
 */
import pg from "pg";
import { payload, type Driver, type WorkSetting } from "./driver.ts";

const insert = `INSERT INTO raw (spec, place, name, status, data)
  SELECT 1, 0, name, 0, data FROM unnest($1::bytea[], $2::bytea[]) AS given (name, data)`;
const claim = `WITH picked AS MATERIALIZED (
    SELECT id FROM raw WHERE spec = 1 AND status = 0 AND (place, name) > (0, $2) ORDER BY place, name LIMIT $1 FOR UPDATE SKIP LOCKED)
  UPDATE raw u SET status = 3, attempts = attempts + 1, worker = 'w', started = 1, expiration = 9000000000000 FROM picked
  WHERE u.id = picked.id RETURNING u.id, u.name, u.data`;
const settle = "UPDATE raw SET status = 4, ended = 2 WHERE id = ANY ($1::bigint[]) AND status = 3";

export async function bareTableDriver(url: string): Promise<Driver> {
  const pool = new pg.Pool({
    connectionString: url,
    max: 8,
    options:
      "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off",
  });
  await pool.query(`
    CREATE TABLE IF NOT EXISTS raw (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, spec bigint NOT NULL, place float8 NOT NULL,
      name bytea NOT NULL, status smallint NOT NULL, attempts int NOT NULL DEFAULT 0, worker bytea, started bigint, expiration bigint,
      ended bigint, data bytea);
    CREATE UNIQUE INDEX IF NOT EXISTS raw_name ON raw (spec, name);
    CREATE INDEX IF NOT EXISTS raw_ready ON raw (spec, place, name) WHERE status = 0;
    CREATE INDEX IF NOT EXISTS raw_lease ON raw (spec, expiration) WHERE status = 3;`);
  const mark = process.pid.toString(36);
  let added = 0;
  const add = async (count: number): Promise<void> => {
    const names: Buffer[] = [];
    const data: Buffer[] = [];
    for (let n = 0; n < count; n++) {
      names.push(Buffer.from(`unit-${mark}-${String(added++).padStart(9, "0")}`));
      data.push(Buffer.from(JSON.stringify(payload(n))));
    }
    await pool.query({ name: "insert", text: insert, values: [names, data] });
  };
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 5000) await add(Math.min(left, 5000));
      if (count > 1000) await pool.query("VACUUM ANALYZE raw");
    },
    add: () => add(1),
    work(_task, { how, atOnce }: WorkSetting) {
      let done = 0;
      let stopped = false;
      let floor: Buffer = Buffer.alloc(0);
      const size = how === "single" ? 1 : 1000;
      const loops = Array.from({ length: atOnce ?? 3 }, async () => {
        while (!stopped) {
          const { rows } = await pool.query<[id: string, name: Buffer, data: Buffer]>({
            name: "claim",
            text: claim,
            values: [size, floor],
            rowMode: "array",
          } as never);
          const last = rows.at(-1)?.[1];
          if (last === undefined) return;
          if (Buffer.compare(last, floor) > 0) floor = last;
          await pool.query({ name: "settle", text: settle, values: [rows.map(([id]) => id)] });
          done += rows.length;
        }
      });
      return Promise.resolve({
        done: () => done,
        stop: async () => {
          stopped = true;
          await Promise.all(loops);
        },
      });
    },
    close: () => pool.end(),
  };
}
