/**
 * Wake-ups between daemons: LISTEN and NOTIFY, as a hint and never as the truth. A NOTIFY takes a lock that all
 * transactions of a database share, so it is not part of the transactions that do the work: what changed is gathered,
 * and one statement every few milliseconds tells the others. A daemon that dies before that tells nobody, and a connection
 * may fall silent without an error: watching.ts finds out what was not told.
 */
import { backOffMs, nameFromBytes, nameToBytes } from "../core/index.ts";
import type { Client, Row, Session } from "./connection.ts";

/** A connection that listens: what is used of a `pg` client. */
export interface ListeningClient extends Client {
  connect(): Promise<void>;
  end(): Promise<void>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
}

export interface NotifierOptions {
  channel: string;
  /** Null: other daemons are neither told nor listened to. */
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
  /** Set from when a connection is begun until it is lost. */
  #client: ListeningClient | null = null;
  /** The same, once it listens, and while it owes no answer. */
  #ready: ListeningClient | null = null;
  #failures = 0;
  #closed = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /**
   * Begins to listen. `heard` is called with the namespace of each change, and with null when a connection begins to listen:
   * anything may have changed before.
   */
  listen(heard: (ns: string | null) => void): void {
    const isFirst = this.#heard === null;
    this.#heard = heard;
    if (isFirst) void this.#connect();
  }

  /** Something may have become available. Those of this process hear at once, the others in a moment. */
  changed(ns: string): void {
    this.#heard?.(ns);
    if (this.#options.listen === null || this.#closed) return;
    this.#changed.add(ns);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // the first after a while is told at once, so that a lone unit does not wait
    const waitMs = this.#sentAt + this.#options.debounceMs - performance.now();
    if (waitMs <= 0) setImmediate(() => void this.#send());
    else this.#timer = setTimeout(() => void this.#send(), waitMs).unref();
  }

  /** The same as part of a transaction: everybody, this process too, hears of it when that commits. */
  async changedWithin(session: Session, ns: string): Promise<void> {
    if (this.#options.listen === null) return;
    await session.rows("SELECT pg_notify($1, $2)", [this.#options.channel, payloadOf(ns)]);
  }

  /**
   * Runs a statement on the listening connection, which shows that it lives: one that does not answer is replaced. Null when
   * there is none, or it still owes an answer. Does not fail.
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
      // a hint that is lost costs the others a second
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
      // what this session tells is a hint: it need not wait for the disk
      await client.query({ text: `${set}SET synchronous_commit = off;LISTEN "${channel}"` });
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
