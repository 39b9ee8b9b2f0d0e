/** Opens a store: by URL, by the `PG*` variables of the environment, or on a pool of the program. */
import pg from "pg";
import { systemRandom, type Random } from "../core/index.ts";
import { Database, lockSliceMs, planSettings, type DatabaseOptions, type Pool } from "./connection.ts";
import { LivePool } from "./live.ts";
import { Notifier, type ListeningClient } from "./notify.ts";
import { migrate, notMigrated, readVersion, schemaVersion } from "./schema.ts";
import { PoolShare } from "./share.ts";
import { PostgresStore } from "./store.ts";

export interface PostgresOptions {
  /** `postgres://user@host:5432/database`. Without it, and without `pool`, the `PG*` variables of the environment are used. */
  url?: string;
  /** A `pg` pool of the program's own. It is not closed here, and its sessions are not changed. */
  pool?: Pool;
  /** The schema of the tables; default `coordinate`. */
  schema?: string;
  /**
   * The maximum number of connections; default 10. With `pool`, the size of that pool. Two of them are reserved: lists, counts,
   * bulk changes and the sweep never use them.
   */
  poolSize?: number;
  /** How long a request waits for a connection of the pool; default 5 seconds. */
  connectTimeoutMs?: number;
  /** How long the server may work on one statement; default 30 seconds. */
  statementTimeoutMs?: number;
  /** How long to wait for an answer before the connection is discarded; default `statementTimeoutMs` plus 5 seconds. */
  answerTimeoutMs?: number;
  /** How long to wait for a lock; default 10 seconds. Claims and settles that waited are written with a later time. */
  lockTimeoutMs?: number;
  /** How long to retry while the server cannot be reached; default 10 seconds. */
  patienceMs?: number;
  /**
   * How long to retry while the server cannot be reached for the first time; default 1 second. A wrong address is then reported
   * soon, and a server that is just being restarted is not missed.
   */
  openPatienceMs?: number;
  /** For PgBouncer in transaction mode: uses no session state, so no named statements and no LISTEN. Give the engine a `pollMs` then. */
  pgBouncer?: boolean;
  /** Wake-ups by LISTEN and NOTIFY; on by default, except behind PgBouncer or on a pool without `listenUrl`. */
  notify?: boolean;
  /** Where to listen, if statements go through a pooler or a pool. */
  listenUrl?: string;
  /** The least time between two notifications to other daemons; default 10 ms. The first change after a pause is sent at once. */
  notifyMs?: number;
  /** Migrate the schema to this version; default on. If it is off, a schema that needs a migration is refused. */
  migrate?: boolean;
  /** More settings for every session, such as `synchronous_commit=off`. */
  settings?: readonly string[];
  applicationName?: string;
  random?: Random;
  /** False: every operation uses the rules of core, one unit at a time, without the statements of `fast-paths.ts`. For tests. */
  fastPaths?: boolean;
}

export async function openPostgres(options: PostgresOptions = {}): Promise<PostgresStore> {
  const {
    schema = "coordinate",
    pgBouncer = false,
    statementTimeoutMs = 30_000,
    lockTimeoutMs = 10_000,
    settings = [],
    poolSize = 10,
    connectTimeoutMs = 5000,
    openPatienceMs = 1000,
  } = options;
  const session = [
    ...planSettings,
    "default_transaction_isolation=read committed",
    "bytea_output=hex",
    `statement_timeout=${statementTimeoutMs}`,
    `lock_timeout=${Math.min(lockSliceMs, lockTimeoutMs)}`,
    // a daemon that is stopped in a transaction blocks other daemons with its locks no longer than this
    `idle_in_transaction_session_timeout=${Math.min(1000, statementTimeoutMs)}`,
    ...settings,
  ];
  const perSession = options.pool === undefined && !pgBouncer;
  const config: pg.PoolConfig = {
    ...(options.url === undefined ? {} : { connectionString: options.url }),
    application_name: options.applicationName ?? "coordinate",
    connectionTimeoutMillis: connectTimeoutMs,
    // the server cancels first; this is for servers that do not answer at all
    query_timeout: options.answerTimeoutMs ?? statementTimeoutMs + 5000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...(perSession && {
      options: session.map((setting) => `-c ${setting.replace(/[ \\]/g, "\\$&")}`).join(" "),
    }),
  };
  let pool: Pool;
  let end = (): Promise<void> => Promise.resolve();
  if (options.pool === undefined) {
    const own = openPool({ ...config, max: poolSize, idleTimeoutMillis: 60_000 });
    pool = own;
    end = () => own.end();
  } else pool = options.pool;
  const live = new LivePool(pool);
  const databaseOptions: DatabaseOptions = {
    schema,
    pool: live,
    prepare: !pgBouncer,
    local: perSession
      ? []
      : session.filter((setting) => !setting.startsWith("default_transaction_isolation")),
    patienceMs: options.patienceMs ?? 10_000,
    lockTimeoutMs,
    random: options.random ?? systemRandom,
  };
  const db = new Database(databaseOptions);
  const share = new PoolShare(live, Math.max(1, poolSize - 2), connectTimeoutMs);
  const slow = new Database({ ...databaseOptions, pool: share }, db.counters, db.historyCounts);
  const timely = new Database({ ...databaseOptions, timely: true }, db.counters, db.historyCounts);
  const mayListen = options.listenUrl !== undefined || perSession;
  const listens = options.notify ?? mayListen;
  const { options: _options, query_timeout: _timeout, ...plain } = config;
  const listenUrl = options.listenUrl ?? options.url;
  const notifier = new Notifier({
    channel: `coordinate ${schema}`.slice(0, 63),
    listen:
      listens && mayListen
        ? () =>
            new pg.Client({
              ...plain,
              ...(listenUrl === undefined ? {} : { connectionString: listenUrl }),
            }) as unknown as ListeningClient
        : null,
    send: (sql, values) => db.rows(sql, values),
    settings: [...planSettings, "application_name='coordinate listener'"],
    run: (client, sql, values) => db.run(client, sql, values),
    debounceMs: options.notifyMs ?? 10,
  });
  const opening = new Database({ ...databaseOptions, patienceMs: openPatienceMs }, db.counters);
  try {
    // a role that may not create tables can start a daemon when there is nothing to migrate
    const version = await readVersion(opening, schema);
    if (version < schemaVersion) {
      if (options.migrate === false) throw notMigrated(schema, version);
      // a connection without `query_timeout`: a statement that rewrites a large table takes long
      const { query_timeout: _limit, ...unhurried } = config;
      const one = options.pool === undefined ? openPool({ ...unhurried, max: 1 }) : null;
      const migrating = new Database({ ...databaseOptions, pool: one ?? live }, db.counters);
      await migrating
        .transaction(
          async (tx) => {
            await tx.rows("SET LOCAL statement_timeout = 0", []);
            // in a busy database, a change of a table gets its lock only by waiting in line for it
            await tx.rows(`SET LOCAL lock_timeout = ${lockTimeoutMs}`, []);
            await migrate(tx, schema);
          },
          { repeatable: true },
        )
        .finally(() => one?.end());
    }
  } catch (error) {
    await end();
    throw error;
  }
  const { fastPaths = true } = options;
  return new PostgresStore({ db, slow, timely, live, options: databaseOptions, notifier, fastPaths, end });
}

function openPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config);
  // an idle connection that breaks emits an error here; the next request notices by itself
  pool.on("error", () => undefined);
  // between two uses a connection has no listener, and an error event without a listener ends the process
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}
