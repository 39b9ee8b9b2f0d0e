/** An engine on the PostgreSQL store, with an optional pooler between store and server. */
import { Engine, ManualClock, type Random } from "../../src/core/index.ts";
import { openPostgres, type PostgresOptions } from "../../src/postgres/index.ts";
import type { Stack } from "../../src/testing/index.ts";
import { openServer } from "../postgres/server.ts";

export interface Way {
  options: PostgresOptions;
  /** Stops the pooler between the store and the server. */
  end?: () => Promise<void>;
}

export const stack = (name: string, way: (url: string) => Way | Promise<Way>): Stack => ({
  name,
  async open() {
    const server = await openServer();
    const clock = new ManualClock();
    let random: Random = () => 0;
    const { options, end } = await way(await server.createDatabase());
    const store = await openPostgres(options);
    const coordinate = new Engine(store, { clock, random: () => random() });
    return {
      coordinate,
      clock,
      setRandom: (next) => (random = next),
      sweep: () => coordinate.sweep(),
      waiting: () => coordinate.waiting,
      async close() {
        await coordinate.close();
        await end?.();
        await server.stop();
      },
    };
  },
});
