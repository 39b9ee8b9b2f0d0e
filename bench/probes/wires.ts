/** Both protocols on one engine: single claims and finishes, ten in flight, in turns. The figure is the CBOR-RPC rate divided by the REST rate. */
import { connectCbor, listenCborRpc } from "../../src/cbor/index.ts";
import { Engine, type Coordinate } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { listen, restServer } from "../../src/rest/index.ts";
import { median } from "../machine.ts";
import { addUnits, claimAndFinish, prepare } from "./claims.ts";
import type { Probe } from "./probe.ts";

async function pairs(client: Coordinate, ms: number): Promise<number> {
  const start = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: 10 }, async (_, i) => {
      while (performance.now() - start < ms) {
        const count = await claimAndFinish(client, "", 1, `w${i}`);
        if (count === 0) await addUnits(client, "", 1000);
        done += count;
      }
    }),
  );
  return (done * 1000) / (performance.now() - start);
}

export const wires: Probe = async (_address, factor) => {
  const engine = new Engine(new MemoryStore());
  const cborServer = await listenCborRpc(engine, { at: { port: 0 } });
  const restListener = await listen(restServer({ coordinate: engine }).app, {
    at: { host: "127.0.0.1", port: 0 },
  });
  const clients = {
    cbor: await connectCbor(`127.0.0.1:${cborServer.port}`),
    rest: new RestClient(restListener.url),
  };
  await prepare(engine, "");
  await addUnits(engine, "", Math.max(2000, 100_000 * Math.min(1, factor)));
  const rates = { cbor: [] as number[], rest: [] as number[] };
  for (let i = 0; i < 3; i++)
    for (const wire of ["cbor", "rest"] as const)
      rates[wire].push(await pairs(clients[wire], 800 * Math.min(1, factor)));
  const [cbor, rest] = [median(rates.cbor), median(rates.rest)];
  return { value: cbor / rest, "CBOR-RPC, pairs/s": cbor, "REST, pairs/s": rest };
};
