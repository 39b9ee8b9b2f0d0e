/**
 * A part of a pool. What lists, counts, changes many or tidies up may take long, and there may be many who ask for it; it
 * goes by this part, so that there is always a connection left for adds, claims and settles.
 */
import type { Pool, PooledClient } from "./connection.ts";

export class PoolShare implements Pool {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  #free: number;
  readonly #line: (() => void)[] = [];

  /** `most` connections at once; who waits longer than `timeoutMs` for one is told what the pool itself would say. */
  constructor(pool: Pool, max: number, timeoutMs: number) {
    this.#pool = pool;
    this.#free = max;
    this.#timeoutMs = timeoutMs;
  }

  async connect(): Promise<PooledClient> {
    if (this.#free > 0) this.#free--;
    else await this.#turn();
    let client: PooledClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      this.#leave();
      throw error;
    }
    let released = false;
    return {
      query: (config) => client.query(config),
      on: (event, listener) => client.on(event, listener),
      removeListener: (event, listener) => client.removeListener(event, listener),
      release: (destroy) => {
        client.release(destroy);
        if (!released) this.#leave();
        released = true;
      },
    };
  }

  #turn(): Promise<void> {
    return new Promise((resolve, reject) => {
      const mine = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(mine), 1);
        reject(new Error("timeout exceeded when trying to connect"));
      }, this.#timeoutMs);
      this.#line.push(mine);
    });
  }

  #leave(): void {
    const next = this.#line.shift();
    if (next === undefined) this.#free++;
    else next();
  }
}
