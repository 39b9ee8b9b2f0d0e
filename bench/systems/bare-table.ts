/** The least that a table of PostgreSQL can do with the same writes: no history, no counts, no guards. */
import pg from "pg";
import type { Driver, WorkSetting } from "./driver.ts";

export async function bareTableDriver(url: string): Promise<Driver> {
  const pool = new pg.Pool({
    connectionString: url,
    max: 8,
    options: "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off",
  });
  await pool.query(`
    CREATE TABLE IF NOT EXISTS raw (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, spec bigint NOT NULL, place float8 NOT NULL,
      name bytea NOT NULL, status smallint NOT NULL, attempts int NOT NULL DEFAULT 0, worker bytea, started bigint, expiration bigint,
      ended bigint, data bytea);
    CREATE UNIQUE INDEX IF NOT EXISTS raw_name ON raw (spec, name);
    CREATE INDEX IF NOT EXISTS raw_ready ON raw (spec, place, name) WHERE status = 0;
    CREATE INDEX IF NOT EXISTS raw_lease ON raw (spec, expiration) WHERE status = 3;`);
  const insert = async (count: number): Promise<void> => {
    await pool.query({
      name: "insert",
      text: `INSERT INTO raw (spec, place, name, status, data)
        SELECT 1, 0, convert_to(gen_random_uuid()::text, 'UTF8'), 0, '\\x7b226e223a317d' FROM generate_series(1, $1::int)`,
      values: [count],
    });
  };
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 10_000) await insert(Math.min(left, 10_000));
      if (count > 1000) await pool.query("VACUUM ANALYZE raw");
    },
    add: () => insert(1),
    work(_task, { how, atOnce }: WorkSetting) {
      let done = 0;
      let stopped = false;
      const size = how === "single" ? 1 : 1000;
      const loops = Array.from({ length: atOnce ?? 2 }, async () => {
        while (!stopped) {
          const { rows } = await pool.query<{ id: string }>({
            name: "claim",
            text: `WITH picked AS MATERIALIZED (
                SELECT id FROM raw WHERE spec = 1 AND status = 0 ORDER BY place, name LIMIT $1 FOR UPDATE SKIP LOCKED)
              UPDATE raw u SET status = 3, attempts = attempts + 1, worker = 'w', started = 1, expiration = 9e12 FROM picked p
              WHERE u.id = p.id RETURNING u.id, u.name, u.attempts, u.data`,
            values: [size],
          });
          if (rows.length === 0) return;
          await pool.query({
            name: "settle",
            text: "UPDATE raw SET status = 4, ended = 2 WHERE id = ANY ($1::bigint[]) AND status = 3",
            values: [rows.map(({ id }) => id)],
          });
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
