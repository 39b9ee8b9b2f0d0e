/** A server for tests: an in-memory engine with a manual clock, and a listener. */
import { listenCborRpc, type CborRpcListener, type CborRpcOptions } from "../../src/cbor/index.ts";
import { Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { WireClient } from "./wire.ts";

export interface Served {
  engine: Engine;
  clock: ManualClock;
  listener: CborRpcListener;
  client: WireClient;
  bugs: unknown[];
  malformed: string[];
  connect: () => Promise<WireClient>;
}

export async function withServer(
  run: (served: Served) => Promise<void>,
  options: CborRpcOptions = {},
): Promise<void> {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock, random: () => 0 });
  const bugs: unknown[] = [];
  const malformed: string[] = [];
  const listener = await listenCborRpc(engine, {
    at: { port: 0 },
    clock,
    onBug: (error) => bugs.push(error),
    onMalformed: ({ message }) => malformed.push(message),
    ...options,
  });
  const clients: WireClient[] = [];
  const connect = async (): Promise<WireClient> => {
    const client = await WireClient.connect(listener.port);
    clients.push(client);
    return client;
  };
  try {
    const client = await connect();
    await run({ engine, clock, listener, client, bugs, malformed, connect });
    if (bugs.length > 0) throw bugs[0];
  } finally {
    for (const client of clients) client.close();
    await listener.close();
    await engine.close();
  }
}
