/** A pool for a store whose statements a test executes itself, to look at them first or to do something in between. */
import pg from "pg";
import type { Client, Pool } from "../../src/postgres/index.ts";

type Query = Client["query"];

export class WrappedPool implements Pool {
  readonly #pool: pg.Pool;
  readonly #execute: (client: pg.PoolClient, config: Parameters<Query>[0]) => ReturnType<Query>;

  constructor(
    url: string,
    execute: (client: pg.PoolClient, config: Parameters<Query>[0]) => ReturnType<Query>,
  ) {
    this.#pool = new pg.Pool({ connectionString: url, max: 4 });
    this.#execute = execute;
  }

  async connect() {
    const client = await this.#pool.connect();
    return {
      query: (config: Parameters<Query>[0]) => this.#execute(client, config),
      release: (destroy?: boolean | Error) => client.release(destroy),
      on: (event: "error", listener: () => void) => client.on(event, listener),
      removeListener: (event: "error", listener: () => void) => client.removeListener(event, listener),
    };
  }

  end(): Promise<void> {
    return this.#pool.end();
  }
}
