/**
 * A pool that survives silent connections: a proxy, a firewall or a machine is gone, and no error reports it. A statement on such
 * a connection waits for its timeout, half a minute. While no connection is suspected, this costs nothing.
 */
import { setTimeout as delay } from "node:timers/promises";
import { nextTurn } from "../core/index.ts";
import type { Pool, PooledClient, Session } from "./connection.ts";
import { int4s } from "./values.ts";

/** A suspected connection that does not answer within this time is discarded. It counts towards the 2 s in which work reaches a worker. */
const answerMs = 250;
/** A statement that takes longer than this is checked on the server. */
const slowMs = 1000;
/** An answer that the server has sent must have arrived after this time. */
const arrivalMs = 100;

/** The answer, or `late` if it does not arrive in time. A busy process first reads the answers that have already arrived. */
export async function orLate<Answer, Late>(
  answer: Promise<Answer>,
  ms: number,
  late: Late,
): Promise<Answer | Late> {
  const over = delay(ms, undefined, { ref: false }).then(nextTurn).then(nextTurn);
  return Promise.race([answer, over.then(() => late)]);
}

export class LivePool implements Pool {
  readonly #pool: Pool;
  /** When a connection was made, or last answered to a check. */
  readonly #checked = new WeakMap<PooledClient, number>();
  /** Connections with a statement in progress, and since when. */
  readonly #asked = new Map<PooledClient, number>();
  #suspected = -Infinity;
  #silent = -Infinity;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Call it when an answer did not arrive in time: each connection made so far is checked before it is used again. */
  suspect(): void {
    this.#suspected = performance.now();
  }

  async connect(): Promise<PooledClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if (await this.#isAlive(client)) return this.#tracked(client);
      client.release(true);
    }
  }

  async #isAlive(client: PooledClient): Promise<boolean> {
    const checked = this.#checked.get(client);
    if (checked !== undefined && checked < this.#silent) return false;
    if (checked === undefined || checked >= this.#suspected) {
      if (checked === undefined) this.#checked.set(client, performance.now());
      return true;
    }
    const suspected = this.#suspected;
    const ignoreError = (): void => undefined;
    client.on("error", ignoreError);
    const answer = client.query({ text: "SELECT 1" }).then(
      () => true,
      () => false,
    );
    const isAlive = await orLate(answer, answerMs, false);
    if (isAlive) {
      client.removeListener("error", ignoreError);
      this.#checked.set(client, performance.now());
    } else this.#silent = suspected;
    return isAlive;
  }

  #tracked(client: PooledClient): PooledClient {
    return {
      query: (config) => {
        const answer = client.query(config);
        // a COPY returns no promise and is not tracked: the server works on it as long as rows are sent
        if (answer instanceof Promise) {
          this.#asked.set(client, performance.now());
          const done = (): boolean => this.#asked.delete(client);
          answer.then(done, done);
        }
        return answer;
      },
      on: (event, listener) => client.on(event, listener),
      removeListener: (event, listener) => client.removeListener(event, listener),
      release: (destroy) => client.release(destroy),
    };
  }

  /** Closes connections on which a statement waits although the server has answered it or never received it. */
  async endSilent(session: Session): Promise<void> {
    const late = performance.now() - slowMs;
    const slow = [...this.#asked].filter(([{ processID }, since]) => since < late && processID !== undefined);
    if (slow.length === 0) return;
    const rows = await session.rows(notActiveSql, [int4s(slow.map(([{ processID = 0 }]) => processID))]);
    if (rows.length === 0) return;
    await delay(arrivalMs, undefined, { ref: false });
    const idle = new Set(rows.map(([pid]) => pid));
    for (const [client, since] of slow)
      if (idle.has(client.processID) && this.#asked.get(client) === since)
        client.end?.().catch(() => undefined);
  }
}

const notActiveSql = `
  SELECT a.pid FROM pg_stat_activity a WHERE a.pid = ANY ($1::int[]) AND a.state IN ('idle', 'idle in transaction')`;
