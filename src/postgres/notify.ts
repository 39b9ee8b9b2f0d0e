/**
 * Wake-ups between daemons by LISTEN and NOTIFY, which are only a hint. A NOTIFY takes a lock that all transactions of a database
 * share, so it is not part of the transactions that do the work: changes are collected, and one statement every few milliseconds
 * notifies the other daemons. A daemon that dies before that notifies nothing, and a connection may fall silent without an error:
 * watching.ts finds changes without a notification.
 */
import { backOffMs, nameFromBytes, nameToBytes } from "../core/index.ts";
import type { Client, Row, Session } from "./connection.ts";
import { quoted } from "./schema.ts";

/** A connection that listens: what is used of a `pg` client. */
export interface ListeningClient extends Client {
  connect(): Promise<void>;
  end(): Promise<void>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
}

interface NotifierOptions {
  channel: string;
  /** Opens the listening connection. Null: the daemon neither sends nor receives notifications. */
  listen: (() => ListeningClient) | null;
  /** Settings for the session that listens. */
  settings: readonly string[];
  /** Runs a statement on any connection. */
  send: (sql: string, values: readonly unknown[]) => Promise<unknown>;
  /** Runs a statement of the store on this connection. */
  run: (client: Client, sql: string, values: readonly unknown[]) => Promise<Row[]>;
  debounceMs: number;
}

/** A listening connection that has not answered for this long is replaced. */
const silentMs = 2000;

const notifySql = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";

const payloadOf = (ns: string): string => nameToBytes(ns).toString("base64");

export class Notifier {
  readonly #options: NotifierOptions;
  readonly #changed = new Set<string>();
  #heard: ((ns: string | null) => void) | null = null;
  #isScheduled = false;
  #sentAt = -Infinity;
  #timer: NodeJS.Timeout | null = null;
  /** The listening connection, from when it begins to connect until it is lost. */
  #client: ListeningClient | null = null;
  /** The same, while it listens and has no statement in progress. */
  #ready: ListeningClient | null = null;
  #failures = 0;
  #closed = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /**
   * Begins to listen. Calls `heard` with the namespace of each change, and with null when a connection begins to listen, since
   * anything may have changed before.
   */
  listen(heard: (ns: string | null) => void): void {
    const isFirst = this.#heard === null;
    this.#heard = heard;
    if (isFirst) void this.#connect();
  }

  /** Units may have become available. Callers in this process are woken up at once, other daemons are notified shortly after. */
  changed(ns: string): void {
    this.#heard?.(ns);
    if (this.#options.listen === null || this.#closed) return;
    this.#changed.add(ns);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // the first change after a pause is sent at once, so that a single unit does not wait
    const waitMs = this.#sentAt + this.#options.debounceMs - performance.now();
    if (waitMs <= 0) setImmediate(() => void this.#send());
    else this.#timer = setTimeout(() => void this.#send(), waitMs).unref();
  }

  /** The same as part of a transaction: all daemons, including this one, are notified when it commits. */
  async changedWithin(session: Session, ns: string): Promise<void> {
    if (this.#options.listen === null) return;
    await session.rows("SELECT pg_notify($1, $2)", [this.#options.channel, payloadOf(ns)]);
  }

  /**
   * Runs a statement on the listening connection, which also checks it: a connection that does not answer is replaced. Null if
   * there is no connection, if it has a statement in progress, or if the statement fails. Never rejects.
   */
  ask(sql: string, values: readonly unknown[]): Promise<Row[] | null> | null {
    const client = this.#ready;
    if (client === null) return null;
    this.#ready = null;
    const silent = setTimeout(() => this.#lost(client), silentMs).unref();
    return this.#options
      .run(client, sql, values)
      .then((rows) => {
        if (this.#client === client) this.#ready = client;
        return rows;
      })
      .catch(() => {
        this.#lost(client);
        return null;
      })
      .finally(() => clearTimeout(silent));
  }

  async #send(): Promise<void> {
    const names = [...this.#changed];
    this.#changed.clear();
    this.#timer = null;
    this.#isScheduled = false;
    if (this.#closed) return;
    this.#sentAt = performance.now();
    const values = [this.#options.channel, names.map(payloadOf)];
    try {
      const told = await this.ask(notifySql, values);
      if (told === null) await this.#options.send(notifySql, values);
    } catch {
      // a lost hint costs the other daemons a second
    }
  }

  async #connect(): Promise<void> {
    const { listen, channel, settings } = this.#options;
    if (listen === null || this.#closed) return;
    const client = listen();
    this.#client = client;
    client.on("error", () => this.#lost(client));
    client.on("end", () => this.#lost(client));
    client.on("notification", ({ payload = "" }) =>
      this.#heard?.(nameFromBytes(Buffer.from(payload, "base64"))),
    );
    try {
      await client.connect();
      const set = settings.map((setting) => `SET ${setting};`).join("");
      // notifications are hints: they need not wait for the disk
      await client.query({ text: `${set}SET synchronous_commit = off;LISTEN ${quoted(channel)}` });
    } catch {
      this.#lost(client);
      return;
    }
    if (this.#client !== client) return;
    this.#failures = 0;
    this.#ready = client;
    this.#heard?.(null);
  }

  #lost(client: ListeningClient): void {
    if (this.#client !== client) return;
    this.#client = this.#ready = null;
    client.end().catch(() => undefined);
    if (this.#closed) return;
    setTimeout(() => void this.#connect(), backOffMs(this.#failures++, 100, 1000)).unref();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#heard = null;
    const client = this.#client;
    this.#client = this.#ready = null;
    await client?.end().catch(() => undefined);
  }
}
