/** Single claims and finishes over REST compared with a bare route, in turns, at 1, 10 and 100 connections. The figure is the lowest ratio. */
import { fork } from "node:child_process";
import path from "node:path";
import { here, median, sleep, sourceFlags } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { addUnits, prepare } from "./claims.ts";
import { Connection } from "./http.ts";
import type { Probe } from "./probe.ts";

type Step = (connection: Connection) => Promise<number>;

async function requests(url: string, connections: number, ms: number, step: Step): Promise<number> {
  const all = Array.from({ length: connections }, () => new Connection(url));
  let count = 0;
  let isOver = false;
  const loops = all.map(async (connection) => {
    while (!isOver) {
      const done = await step(connection);
      count += done;
    }
  });
  await sleep(ms / 4);
  const [from, start] = [count, performance.now()];
  await sleep(ms);
  const rate = ((count - from) * 1000) / (performance.now() - start);
  isOver = true;
  await Promise.all(loops);
  for (const connection of all) connection.close();
  return rate;
}

export const routes: Probe = async (address, factor) => {
  const bare = fork(path.join(here, "probes/bare-route.ts"), { execArgv: sourceFlags, stdio: "inherit" });
  const bareUrl = await new Promise<string>((resolve) =>
    bare.once("message", (url) => resolve(url as string)),
  );
  const client = await openCoordinate(address);
  await prepare(client, "single");
  const claim = JSON.stringify({ worker: "w" });
  const bareStep: Step = async (connection) => {
    await connection.post("/bare", claim);
    return 1;
  };
  const ourStep: Step = async (connection) => {
    const answer = await connection.post("/v1/namespace/single/request-attempts", claim);
    const [attempt] = JSON.parse(answer) as { id: string }[];
    if (attempt === undefined) throw new Error("ran out of units");
    const change = JSON.stringify({ changes: [{ attempt: attempt.id, action: "finish" }] });
    await connection.post("/v1/namespace/single/settle-attempts", change);
    return 2;
  };
  const ms = 700 * Math.min(1, factor);
  const figures: Record<string, number> = {};
  for (const connections of [1, 10, 100]) {
    await addUnits(client, "single", Math.max(3000, 120_000 * Math.min(1, factor)));
    const ratios: number[] = [];
    for (let i = 0; i < 3; i++) {
      const min = await requests(bareUrl, connections, ms, bareStep);
      ratios.push((await requests(address, connections, ms, ourStep)) / min);
    }
    figures[`${connections} connections`] = median(ratios);
  }
  bare.disconnect();
  await client.close();
  return { value: Math.min(...Object.values(figures)), ...figures };
};
