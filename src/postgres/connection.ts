/**
 * Talking to the server: a bounded pool, short transactions, and honesty about failure.
 *
 * What the server refuses has not happened, and is tried again where trying again may help (serialization failures,
 * deadlocks, a name that somebody else was quicker to take). A connection that breaks leaves two cases: before the commit
 * was sent nothing has happened, and the transaction is tried again on another connection; after it the outcome is not
 * known, and that is what the caller is told, unless carrying out the request twice is the same as once.
 */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { finished } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import { backOffMs, CoordinateError, Happened, Noted, WaitedError, type Notes } from "../core/index.ts";
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
  /** For the history: counts once the transaction has been committed. */
  readonly noted: Notes;
  /** Sends rows in binary form to `COPY … FROM STDIN`. */
  copy(sql: string, rows: Buffer): Promise<void>;
}

/** What is used of a `pg` client: the caller's own may be one made by any version of the package. */
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
  /** The server's process, and how to end the connection at once: known of connections that a pool made. */
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
  /** Named statements are planned once per connection. Off where a pooler gives every transaction another one. */
  prepare: boolean;
  /** Settings for every transaction, where they cannot be given to the whole session. */
  local: readonly string[];
  /** How long to go on trying while the server cannot be reached. */
  patienceMs: number;
  /** How long to wait for locks in all. A statement gives up after `lockSliceMs`, and is tried again. */
  lockTimeoutMs: number;
  /** Whether the time that a statement is given must be the time at which it is carried out: see `WaitedError`. */
  timely?: boolean;
  random: () => number;
}

interface Repeat {
  /** Carrying it out twice is the same as once: an unknown outcome is cleared up by doing it again. */
  repeatable?: boolean;
  /** Whether a name that somebody else has taken is worth another try; yes where it is looked for first. */
  conflicts?: boolean;
}

/**
 * Plans that do not depend on statistics. On the claim path there is one right plan, an index scan in claim order, and the
 * planner leaves it when it believes a table empty or a status rare. These make every other plan look dear. JIT would
 * compile every such "dear" statement.
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
 * Rows of a table by the ids of other rows, in a way that leaves the planner no other: looked up one by one. Written as an
 * equation it may also be turned around, and when a statement is planned while the table is nearly empty, it is: then every
 * call walks through the whole index, on that connection, until statistics are gathered. Conditions that the index of a
 * status implies must not stand beside it, for the same reason.
 */
export const isRow = (id: string, of: string): string => `${id} = ANY (ARRAY[${of}])`;

/** The values of a column in a group, or a single one where all are equal. */
export const oneOrAll = (column: string): string =>
  `CASE WHEN min(${column}) = max(${column}) THEN ARRAY[min(${column})] ELSE array_agg(${column}) END`;

/** So long a statement waits for a lock at a time: its time is at most this much too early. */
export const lockSliceMs = 250;

export class Database implements Session {
  readonly counters: Counters;
  /** For the history: what happened through this database. */
  readonly happened: Happened;
  readonly #options: DatabaseOptions;
  readonly #texts = new Map<string, { text: string; name: string }>();
  readonly #begin: string;
  readonly #single: boolean;
  #closed = false;

  constructor(
    options: DatabaseOptions,
    counters: Counters = { statements: 0, transactions: 0, retries: 0, discarded: 0, unknown: 0 },
    happened: Happened = new Happened(),
  ) {
    this.#options = options;
    this.counters = counters;
    this.happened = happened;
    const local = options.local.map((setting) => `SET LOCAL ${setting};`).join("");
    this.#begin = `BEGIN ISOLATION LEVEL READ COMMITTED;${local}`;
    // where settings are per transaction, every statement needs one
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

  /** A statement that changes nothing: tried again on another connection when one breaks. */
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
      const noted = new Noted(this.happened);
      const tx = this.bound(client, noted);
      await this.#command(client, this.#begin);
      let answer: Answer;
      try {
        answer = await work(tx);
      } catch (error) {
        // a connection that cannot roll back is thrown away, and the server rolls back
        if (!isBroken(error)) await this.#command(client, "ROLLBACK");
        throw error;
      }
      sent();
      await this.#command(client, "COMMIT");
      noted.committed();
      return answer;
    });
  }

  /** A transaction's way to one connection. */
  protected bound(client: Client, noted: Notes): Transaction {
    return {
      noted,
      rows: (sql, values) => this.run(client, sql, values),
      copy: async (sql, rows) => {
        this.counters.statements++;
        const stream = copyFrom(forSchema(sql, this.schema));
        // a client takes anything that knows how to submit itself; the interface here names only what else is used
        (client as unknown as { query(copy: typeof stream): void }).query(stream);
        // a connection that breaks may tell the stream twice, the second time when nobody waits for it any more
        stream.on("error", unheard);
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

  /** Two that waited for each other gave up at the same moment: not both come back at the same moment. */
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
    /** The connection of a statement that waits on for a lock: it keeps its place among those who want one. */
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
          client.on("error", unheard);
        }
        if (timely && performance.now() - began > lockSliceMs)
          throw this.#waited("no connection was free", began);
        const answer = await work(client, () => (state.sent = true));
        client.removeListener("error", unheard);
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
        if (!discard) client?.removeListener("error", unheard);
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

/** Statements on the caller's own connection, in the caller's own transaction: nothing is begun, ended or tried again here. */
export class BorrowedDatabase extends Database {
  readonly #client: Client;

  constructor(options: DatabaseOptions, client: Client, happened: Happened) {
    super(options, undefined, happened);
    this.#client = client;
  }

  override async rows(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.run(this.#client, sql, values);
  }

  override async write(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.run(this.#client, sql, values);
  }

  /** In a savepoint, so that a refused request leaves the caller's transaction usable. */
  override async transaction<Answer>(work: (tx: Transaction) => Promise<Answer>): Promise<Answer> {
    const client = this.#client;
    const noted = new Noted(this.happened);
    const tx = this.bound(client, noted);
    await client.query({ text: "SAVEPOINT coordinate" });
    try {
      const answer = await work(tx);
      await client.query({ text: "RELEASE SAVEPOINT coordinate" });
      // whether the caller commits is not known here: it nearly always does
      noted.committed();
      return answer;
    } catch (error) {
      if (!isBroken(error)) await client.query({ text: "ROLLBACK TO SAVEPOINT coordinate" });
      throw translate(error);
    }
  }
}

/** A connection that breaks tells twice: by what it was asked, and by an event that ends the process when nobody hears it. */
const unheard = (): void => undefined;

const types = rowTypes;

export const forSchema = (sql: string, schema: string): string =>
  sql.replace(/@(\w+)/g, (_, table: string) => `${quoted(schema)}.${table}`);

// ---- failures

const codeOf = (error: unknown): string => {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** An answer of the server, as opposed to a connection that gave none. */
const isAnswer = (error: unknown): boolean =>
  /^[0-9A-Z]{5}$/.test(codeOf(error)) && !codeOf(error).startsWith("E");

/** The connection is of no use any more, and whatever was under way on it may or may not have happened. */
export function isBroken(error: unknown): boolean {
  if (error instanceof CoordinateError) return false;
  const code = codeOf(error);
  // shut down, crashed, not ready yet; connection exceptions; a server that became or is a standby; idle for too long
  if (/^(57P0[1-5]|08...|25006|25P03)$/.test(code)) return true;
  return !isAnswer(error) && isConnectionError(error);
}

const isConnectionError = (error: unknown): boolean =>
  codeOf(error) !== "" || /connection|timeout|socket|terminated|not queryable/i.test(messageOf(error));

/** The server ended the session because the transaction stood still, and says so: nothing of it has happened. */
const isRolledBack = (error: unknown): boolean => codeOf(error) === "25P03";

const isExhausted = (error: unknown): boolean =>
  messageOf(error).includes("timeout exceeded when trying to connect");

const mustDiscard = (error: unknown): boolean => isBroken(error);

/** Conflicts with others that are gone when tried again: also a name or a row that somebody else was quicker to make. */
const isRetryable = (error: unknown): boolean => /^(40001|40P01|23505)$/.test(codeOf(error));

/** Another transaction holds what this one waited for. */
const isLocked = (error: unknown): boolean => codeOf(error) === "55P03";

/** What the server's log shows of a statement that undid itself: the text is no number. */
const notPlain = "coordinate: not a plain case, done again with care. Rows: ";

/** An expression that fails, and so undoes the statement, unless the condition holds. With a constant text the planner would fail. */
export const failUnless = (condition: string, rows: string): string =>
  `CASE WHEN ${condition} THEN 1 ELSE ('${notPlain}' || ${rows})::int END`;

/** Whether the statement failed by `failUnless`. */
export const isUnsure = (error: unknown): boolean =>
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
