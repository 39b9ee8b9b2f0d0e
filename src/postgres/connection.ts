/**
 * Access to the server: a bounded pool, short transactions, and exact reports of failures.
 *
 * A statement that the server refuses has had no effect. It is retried where that may help: after serialization failures,
 * deadlocks, and unique violations by a concurrent insert. If a connection breaks before the commit was sent, nothing has
 * happened, and the transaction is retried on another connection. If it breaks after that, the outcome is unknown: an idempotent
 * request is retried, any other fails with `unknown_outcome`.
 */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { finished } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import {
  backOffMs,
  CoordinateError,
  HistoryCounts,
  TransactionHistory,
  WaitedError,
  type HistorySink,
} from "../core/index.ts";
import { quoted } from "./schema.ts";
import { rowTypes } from "./values.ts";

export type Row = readonly unknown[];

/** Where statements go: a connection in a transaction, or any connection of the pool. */
export interface Session {
  /** `sql` writes `@unit` for the table `unit` of the schema. */
  rows(sql: string, values: readonly unknown[]): Promise<Row[]>;
}

/** A connection in a transaction. */
export interface Transaction extends Session {
  /** Events for the history: they count once the transaction has been committed. */
  readonly history: HistorySink;
  /** Sends rows in binary form to `COPY … FROM STDIN`. */
  copy(sql: string, rows: Buffer): Promise<void>;
}

/** The part of a `pg` client that is used. The caller's own client may come from any version of the package. */
export interface Client {
  query(config: {
    text: string;
    name?: string;
    values?: unknown[];
    rowMode?: "array";
    types?: pg.CustomTypesConfig;
  }): Promise<{ rows: unknown[] }>;
}

export interface PooledClient extends Client {
  release(destroy?: boolean | Error): void;
  on(event: "error", listener: () => void): unknown;
  removeListener(event: "error", listener: () => void): unknown;
  /** The server process, and how to close the connection at once: known for connections that a pool made. */
  processID?: number;
  end?(): Promise<void>;
}

export interface Pool {
  connect(): Promise<PooledClient>;
}

export interface Counters {
  /** Round trips: statements, and the BEGIN and COMMIT around them. */
  statements: number;
  transactions: number;
  retries: number;
  discarded: number;
  unknown: number;
}

export interface DatabaseOptions {
  schema: string;
  pool: Pool;
  /** Named statements are planned once per connection. Off behind a pooler that gives every transaction another connection. */
  prepare: boolean;
  /** Settings for every transaction, if they cannot be set for the whole session. */
  local: readonly string[];
  /** How long to retry while the server cannot be reached. */
  patienceMs: number;
  /** How long to wait for locks in total. Each try of a statement gives up after `lockSliceMs`. */
  lockTimeoutMs: number;
  /** Whether the time that a statement is given must be the time at which it runs: one that had to wait fails with `WaitedError`. */
  timely?: boolean;
  random: () => number;
}

interface Repeat {
  /** The request is idempotent: after an unknown outcome it is sent again. */
  repeatable?: boolean;
  /** Whether to retry after a unique violation: yes by default, for work that looks for the name first. */
  conflicts?: boolean;
  /** The work concerns many units: between two statements this program may compute for longer than a session may be idle. */
  large?: boolean;
}

/** From this many units on, an operation is `large`. */
export const manyUnits = 1000;

/** How long the session of a `large` transaction may be idle. */
const largeIdleMs = 30_000;

/**
 * Settings for plans that do not depend on statistics. The claim path has one right plan, an index scan in claim order, and the
 * planner abandons it when it believes a table empty or a status rare. These settings make every other plan look expensive. JIT
 * would compile every statement that looks expensive.
 */
export const planSettings = [
  "enable_seqscan=off",
  "enable_bitmapscan=off",
  "enable_hashjoin=off",
  "enable_mergejoin=off",
  "jit=off",
  "plan_cache_mode=force_generic_plan",
] as const;

/**
 * A condition that finds rows by the ids of other rows, one by one, and leaves the planner no other way. The planner can reverse
 * a plain equality join, and does so if it plans a statement while the table is nearly empty: every call on that connection then
 * scans the whole index, until statistics are gathered. For the same reason, do not combine it with conditions that the index of
 * a status implies.
 */
export const isRow = (id: string, of: string): string => `${id} = ANY (ARRAY[${of}])`;

/** The values of a column in a group, or a single one where all are equal. */
export const oneOrAll = (column: string): string =>
  `CASE WHEN min(${column}) = max(${column}) THEN ARRAY[min(${column})] ELSE array_agg(${column}) END`;

/** How long one try of a statement waits for a lock: the time that it was given is at most this much too early. */
export const lockSliceMs = 250;

export class Database implements Session {
  readonly counters: Counters;
  /** Events for the history. */
  readonly historyCounts: HistoryCounts;
  readonly #options: DatabaseOptions;
  readonly #texts = new Map<string, { text: string; name: string }>();
  readonly #begin: string;
  readonly #single: boolean;
  #closed = false;

  constructor(
    options: DatabaseOptions,
    counters: Counters = { statements: 0, transactions: 0, retries: 0, discarded: 0, unknown: 0 },
    historyCounts: HistoryCounts = new HistoryCounts(),
  ) {
    this.#options = options;
    this.counters = counters;
    this.historyCounts = historyCounts;
    const local = options.local.map((setting) => `SET LOCAL ${setting};`).join("");
    this.#begin = `BEGIN ISOLATION LEVEL READ COMMITTED;${local}`;
    // with settings per transaction, every statement needs a transaction
    this.#single = local === "";
  }

  get schema(): string {
    return this.#options.schema;
  }

  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
  }

  /** A read-only statement: retried on another connection when one breaks. */
  async rows(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.write(sql, values, { repeatable: true });
  }

  /** One statement that is a transaction by itself. */
  async write(sql: string, values: readonly unknown[], repeat: Repeat = {}): Promise<Row[]> {
    if (!this.#single) return this.transaction((tx) => tx.rows(sql, values), repeat);
    return this.#trying(repeat, async (client, sent) => {
      sent();
      this.counters.transactions++;
      return this.run(client, sql, values);
    });
  }

  async transaction<Answer>(
    work: (tx: Transaction) => Promise<Answer>,
    repeat: Repeat = {},
  ): Promise<Answer> {
    return this.#trying(repeat, async (client, sent) => {
      this.counters.transactions++;
      const history = new TransactionHistory(this.historyCounts);
      const tx = this.bound(client, history);
      const idle = `SET LOCAL idle_in_transaction_session_timeout = ${largeIdleMs}`;
      await this.#command(client, repeat.large === true ? this.#begin + idle : this.#begin);
      let answer: Answer;
      try {
        answer = await work(tx);
      } catch (error) {
        // a connection that cannot roll back is discarded, and the server rolls back
        if (!isBroken(error)) await this.#command(client, "ROLLBACK");
        throw error;
      }
      sent();
      await this.#command(client, "COMMIT");
      history.committed();
      return answer;
    });
  }

  /** The statements of a transaction on one connection. */
  protected bound(client: Client, history: HistorySink): Transaction {
    return {
      history,
      rows: (sql, values) => this.run(client, sql, values),
      copy: async (sql, rows) => {
        this.counters.statements++;
        const stream = copyFrom(forSchema(sql, this.schema));
        // `query` of a client also takes a COPY stream; the interface `Client` does not declare that
        (client as unknown as { query(copy: typeof stream): void }).query(stream);
        // a broken connection may report its error to the stream twice, the second time when nothing listens any more
        stream.on("error", ignoreError);
        const done = finished(stream);
        stream.end(rows);
        await done;
      },
    };
  }

  /** Runs one statement on a connection. */
  async run(client: Client, sql: string, values: readonly unknown[]): Promise<Row[]> {
    this.counters.statements++;
    const { text, name } = this.#text(sql);
    const config = { text, values: values as unknown[], rowMode: "array" as const, types };
    const named = this.#options.prepare && values.length > 0;
    const { rows } = await client.query(named ? { ...config, name } : config);
    return rows as Row[];
  }

  async #command(client: Client, text: string): Promise<void> {
    this.counters.statements++;
    await client.query({ text });
  }

  /** A statement for this schema, with a name that is the same on every daemon. */
  #text(sql: string): { text: string; name: string } {
    let found = this.#texts.get(sql);
    if (found === undefined) {
      const text = forSchema(sql, this.schema);
      const name = `coordinate_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`;
      this.#texts.set(sql, (found = { text, name }));
    }
    return found;
  }

  /** Waits a random time, so that two transactions that gave up waiting for each other do not come back at the same moment. */
  #yieldTo(): Promise<void> {
    return delay(this.#options.random() * 20);
  }

  #waited(message: string, began: number, cause?: unknown): WaitedError {
    this.counters.retries++;
    return new WaitedError(message, performance.now() - began, this.#options.lockTimeoutMs, { cause });
  }

  async #trying<Answer>(
    { repeatable = false, conflicts = true }: Repeat,
    work: (client: Client, sent: () => void) => Promise<Answer>,
  ): Promise<Answer> {
    const { patienceMs, lockTimeoutMs, timely = false } = this.#options;
    const began = performance.now();
    const deadline = began + patienceMs;
    /** The connection of a statement that goes on waiting for a lock. It is kept, so that the statement need not queue for one again. */
    let held: PooledClient | null = null;
    for (let tries = 0; ; tries++) {
      if (this.#closed && held === null) throw new CoordinateError("closed");
      const state = { sent: false };
      let client: PooledClient | null = held;
      let failure: unknown;
      held = null;
      try {
        if (client === null) {
          client = await this.#options.pool.connect();
          client.on("error", ignoreError);
        }
        if (timely && performance.now() - began > lockSliceMs)
          throw this.#waited("no connection was available", began);
        const answer = await work(client, () => (state.sent = true));
        client.removeListener("error", ignoreError);
        client.release();
        return answer;
      } catch (error) {
        failure = error;
        if (!timely && !this.#closed && isLocked(error) && performance.now() - began <= lockTimeoutMs) {
          held = client;
          this.counters.retries++;
          await this.#yieldTo();
          continue;
        }
        const discard = client !== null && mustDiscard(error);
        if (discard) this.counters.discarded++;
        if (!discard) client?.removeListener("error", ignoreError);
        client?.release(discard);
      }
      if (this.closed) throw new CoordinateError("closed");
      const late = performance.now() > deadline;
      if (isBroken(failure)) {
        const isUncertain = client !== null && state.sent && !isRolledBack(failure);
        if (isUncertain && !repeatable) {
          this.counters.unknown++;
          throw new CoordinateError("unknown_outcome", messageOf(failure), { cause: failure });
        }
        if (late || isExhausted(failure)) {
          const code = isUncertain ? "unknown_outcome" : "unavailable";
          throw new CoordinateError(code, messageOf(failure), { cause: failure });
        }
      } else if (timely && isLocked(failure)) {
        await this.#yieldTo();
        throw this.#waited(messageOf(failure), began, failure);
      } else if (!isRetryable(failure) || tries >= 20 || (!conflicts && isUniqueViolation(failure)))
        throw translate(failure);
      this.counters.retries++;
      // full jitter; a conflict is over in milliseconds, a fail-over in seconds
      await delay(this.#options.random() * backOffMs(tries, isBroken(failure) ? 50 : 4, 1000));
    }
  }
}

/** The SQLSTATE of a savepoint outside of a transaction. */
const noTransaction = "25P01";

const notBegun = (cause: unknown): CoordinateError =>
  new CoordinateError(
    "bad_argument",
    "client: expected a client in a transaction; send BEGIN before you use within(client)",
    { cause },
  );

/** The last call on each client of a caller. */
const turns = new WeakMap<Client, Promise<unknown>>();

/**
 * Statements on the caller's own connection, in the caller's own transaction: it begins, commits and retries nothing itself.
 * Concurrent calls take turns: what runs while another call has a savepoint would be rolled back with it.
 */
export class BorrowedDatabase extends Database {
  readonly #client: Client;

  constructor(options: DatabaseOptions, client: Client, historyCounts: HistoryCounts) {
    super(options, undefined, historyCounts);
    this.#client = client;
  }

  #inTurn<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    const turn = (turns.get(this.#client) ?? Promise.resolve()).then(work);
    // the next call does not depend on whether this one failed
    turns.set(
      this.#client,
      turn.catch(() => undefined),
    );
    return turn;
  }

  override rows(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#inTurn(() => this.run(this.#client, sql, values));
  }

  override write(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.rows(sql, values);
  }

  override transaction<Answer>(work: (tx: Transaction) => Promise<Answer>): Promise<Answer> {
    return this.#inTurn(() => this.#inSavepoint(work));
  }

  /** In a savepoint, so that a refused request leaves the caller's transaction usable. */
  async #inSavepoint<Answer>(work: (tx: Transaction) => Promise<Answer>): Promise<Answer> {
    const client = this.#client;
    const history = new TransactionHistory(this.historyCounts);
    const tx = this.bound(client, history);
    await client.query({ text: "SAVEPOINT coordinate" }).catch((error: unknown) => {
      throw codeOf(error) === noTransaction ? notBegun(error) : error;
    });
    try {
      const answer = await work(tx);
      await client.query({ text: "RELEASE SAVEPOINT coordinate" });
      // it is not known here whether the caller commits; it nearly always does
      history.committed();
      return answer;
    } catch (error) {
      if (!isBroken(error)) await client.query({ text: "ROLLBACK TO SAVEPOINT coordinate" });
      throw translate(error);
    }
  }
}

/** A broken connection reports twice: its query rejects, and it emits an `error` event, which ends the process without a listener. */
const ignoreError = (): void => undefined;

const types = rowTypes;

export const forSchema = (sql: string, schema: string): string =>
  sql.replace(/@(\w+)/g, (_, table: string) => `${quoted(schema)}.${table}`);

// ---- failures

const codeOf = (error: unknown): string => {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Whether the error is an answer of the server, and not a connection that gave no answer. */
const isAnswer = (error: unknown): boolean =>
  /^[0-9A-Z]{5}$/.test(codeOf(error)) && !codeOf(error).startsWith("E");

/** The connection is unusable, and the statement in progress may or may not have happened. */
export function isBroken(error: unknown): boolean {
  if (error instanceof CoordinateError) return false;
  const code = codeOf(error);
  // shut down, crashed, not ready yet; connection exceptions; a server that became or is a standby; idle for too long
  if (/^(57P0[1-5]|08...|25006|25P03)$/.test(code)) return true;
  return !isAnswer(error) && isConnectionError(error);
}

/** Not a mistake of this program, such as `ERR_OUT_OF_RANGE`: that has a code, too, and happens again on every connection. */
const isConnectionError = (error: unknown): boolean =>
  !(error instanceof RangeError || error instanceof TypeError) &&
  (codeOf(error) !== "" || /connection|timeout|socket|terminated|not queryable/i.test(messageOf(error)));

/** The server ended the session because the transaction was idle for too long: nothing of it has happened. */
const isRolledBack = (error: unknown): boolean => codeOf(error) === "25P03";

const isExhausted = (error: unknown): boolean =>
  messageOf(error).includes("timeout exceeded when trying to connect");

const mustDiscard = (error: unknown): boolean => isBroken(error);

/** Conflicts that a retry resolves, including a row that a concurrent transaction inserted first. */
const isRetryable = (error: unknown): boolean => /^(40001|40P01|23505)$/.test(codeOf(error));

/** The lock timeout: another transaction holds the lock. */
const isLocked = (error: unknown): boolean => codeOf(error) === "55P03";

/** The server logs this text when an optimistic statement undoes itself by casting it to a number. */
const notPlain = "coordinate: harmless, repeated in another form. Rows: ";

/**
 * An expression that fails, which undoes the statement, unless the condition holds. `rows` is a column or an aggregate: a constant
 * would be evaluated, and fail, when the statement is planned.
 */
export const failUnless = (condition: string, rows: string): string =>
  `CASE WHEN ${condition} THEN 1 ELSE ('${notPlain}' || ${rows})::int END`;

/** Whether the statement failed by `failUnless`. */
export const isNotPlain = (error: unknown): boolean =>
  codeOf(error) === "22P02" && messageOf(error).includes(notPlain);

export const isUniqueViolation = (error: unknown): boolean => codeOf(error) === "23505";

function translate(error: unknown): unknown {
  const code = codeOf(error);
  if (/^53[12]00$/.test(code)) return new CoordinateError("no_space", messageOf(error), { cause: error });
  // canceled by a timeout, lock not available, too many connections, conflicts that did not end
  if (/^(57014|55P03|53300|40001|40P01)$/.test(code))
    return new CoordinateError("unavailable", messageOf(error), { cause: error });
  return error;
}
