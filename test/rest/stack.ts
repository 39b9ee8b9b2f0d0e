import { Engine, ManualClock, seededRandom, type Store } from "../../src/core/index.ts";
import {
  coalesce,
  listen,
  observe,
  RestClient,
  restServer,
  streamRoutes,
  type RestClientOptions,
} from "../../src/rest/index.ts";
import type { Subject } from "../../src/testing/index.ts";

/** A store with an engine, a server on a real port, and a client. All share one clock. */
export async function openRest(store: Store, options: RestClientOptions = {}): Promise<Subject> {
  const clock = new ManualClock();
  let random = seededRandom(1);
  const engine = new Engine(store, { clock, random: () => random() });
  // the layers that a daemon puts between protocol and engine must not change the results
  const everything = { wanted: () => true, add: () => undefined };
  const coordinate = coalesce(observe(engine, everything, () => clock.now()));
  const { app } = restServer({ coordinate, routes: streamRoutes() });
  const listener = await listen(app, { at: { host: "127.0.0.1", port: 0 } });
  const client = new RestClient(listener.url, options);
  return {
    coordinate: client,
    clock,
    setRandom: (next) => (random = next),
    sweep: () => engine.sweep(),
    waiting: () => engine.waiting,
    close: async () => {
      await client.close();
      await listener.stop(1000);
      await app.close();
      await engine.close();
    },
  };
}
