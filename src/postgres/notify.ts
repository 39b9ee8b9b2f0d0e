/**
 * Wake-ups between daemons: LISTEN and NOTIFY, as a hint and never as the truth. A NOTIFY takes a lock that all
 * transactions of a database share, so it is not part of the transactions that do the work: what changed is gathered,
 * and one statement every few milliseconds tells the others.
 */
import { nameFromBytes, nameToBytes } from "../core/index.ts";
import type { Session } from "./connection.ts";

/** A connection that listens: what is used of a `pg` client. */
export interface ListeningClient {
  connect(): Promise<void>;
  query(text: string): Promise<unknown>;
  end(): Promise<void>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
}

export interface NotifierOptions {
  channel: string;
  /** Null: nobody else is told, and nobody is listened to. */
  listen: (() => ListeningClient) | null;
  send: (channel: string, payloads: readonly string[]) => Promise<void>;
  debounceMs: number;
}

const payloadOf = (ns: string): string => nameToBytes(ns).toString("base64");

export class Notifier {
  readonly #options: NotifierOptions;
  readonly #listeners = new Set<(ns: string) => void>();
  /** What was seen to be listened to: after a gap all of it may have changed. */
  readonly #changed = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #client: ListeningClient | null = null;
  #retryMs = 100;
  #closed = false;
  /** Namespaces whose changes were ever heard of or made here: looked at again when the listener comes back. */
  readonly #known = new Set<string>();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  watch(listener: (ns: string) => void): () => void {
    this.#listeners.add(listener);
    if (this.#options.listen !== null && this.#client === null) void this.#connect();
    return () => this.#listeners.delete(listener);
  }

  /** Something may have become available. Those of this process hear at once, the others in a moment. */
  changed(ns: string): void {
    this.#tell(ns);
    if (this.#options.listen === null || this.#closed) return;
    this.#changed.add(ns);
    this.#timer ??= setTimeout(() => void this.#send(), this.#options.debounceMs).unref();
  }

  /** The same as part of a transaction: everybody, this process too, hears of it when that commits. */
  async changedWithin(session: Session, ns: string): Promise<void> {
    if (this.#options.listen === null) return;
    await session.rows("SELECT pg_notify($1, $2)", [this.#options.channel, payloadOf(ns)]);
  }

  #tell(ns: string): void {
    if (this.#known.size < 10_000) this.#known.add(ns);
    for (const listener of this.#listeners) listener(ns);
  }

  async #send(): Promise<void> {
    const names = [...this.#changed];
    this.#changed.clear();
    this.#timer = null;
    try {
      await this.#options.send(this.#options.channel, names.map(payloadOf));
    } catch {
      // a hint that is lost costs at most one poll
    }
  }

  async #connect(): Promise<void> {
    const { listen, channel } = this.#options;
    if (listen === null || this.#closed) return;
    const client = listen();
    this.#client = client;
    const lost = (): void => {
      if (this.#client !== client) return;
      this.#client = null;
      client.end().catch(() => undefined);
      if (this.#closed) return;
      setTimeout(() => void this.#connect(), this.#retryMs).unref();
      this.#retryMs = Math.min(5000, this.#retryMs * 2);
    };
    client.on("error", lost);
    client.on("end", lost);
    client.on("notification", ({ payload = "" }) =>
      this.#tell(nameFromBytes(Buffer.from(payload, "base64"))),
    );
    try {
      await client.connect();
      await client.query(`LISTEN "${channel}"`);
      this.#retryMs = 100;
      // whatever happened while nobody listened
      for (const ns of this.#known) this.#tell(ns);
    } catch {
      lost();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#listeners.clear();
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => undefined);
  }
}
