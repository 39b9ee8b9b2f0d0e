/**
 * A part of a pool. Lists, counts, bulk changes and the sweep may take long, and there may be many of them. They use this part,
 * so that a connection is always left for adds, claims and settles.
 */
import type { Pool, PooledClient } from "./connection.ts";

export class PoolShare implements Pool {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  #free: number;
  readonly #line: (() => void)[] = [];

  /** At most `max` connections at once. After `timeoutMs` of waiting for one, `connect` fails with the error of the pool itself. */
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
