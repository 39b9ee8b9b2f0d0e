import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { limitConnections, type ConnectionCaps } from "../../src/traffic/index.ts";

let server: Server | undefined;
const peers: Socket[] = [];
afterEach(() => {
  for (const peer of peers.splice(0)) peer.destroy();
  server?.close();
});

/** A server that marks a connection as busy or idle when it receives "busy" or "idle". */
async function serve(caps: ConnectionCaps): Promise<(from?: string) => Promise<Socket>> {
  server = createServer();
  const limiter = limitConnections(server, caps);
  server.on("connection", (socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      if (chunk.toString() === "busy") limiter.busy(socket);
      else limiter.idle(socket);
      socket.write("ok");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return async (from = "127.0.0.1") => {
    const peer = connect({ host: "127.0.0.1", port, localAddress: from });
    peers.push(peer);
    peer.on("error", () => undefined).resume();
    await once(peer, "connect");
    // wait until the server has accepted or refused the connection
    await new Promise((resolve) => setTimeout(resolve, 20));
    return peer;
  };
}

async function say(peer: Socket, what: "busy" | "idle"): Promise<void> {
  peer.write(what);
  await once(peer, "data");
}

test("silent connections do not keep out others: the oldest goes", async () => {
  const dial = await serve({ maxConnections: 3 });
  const [a, b, c, d] = [await dial(), await dial(), await dial(), await dial()];
  await vi.waitUntil(() => a.closed);
  const e = await dial();
  await vi.waitUntil(() => b.closed);
  expect([c, d, e].map(({ closed }) => closed)).toEqual([false, false, false]);
});

test("whoever has asked something goes after those who never did; whoever is served stays", async () => {
  const dial = await serve({ maxConnections: 3 });
  const [busy, idle, silent] = [await dial(), await dial(), await dial()];
  await say(busy, "busy");
  await say(idle, "busy");
  await say(idle, "idle");
  const next = await dial();
  await vi.waitUntil(() => silent.closed);
  await say(next, "busy");
  const last = await dial();
  await vi.waitUntil(() => idle.closed);
  await say(last, "busy");
  // all connections are busy: there is no room
  const refused = await dial();
  await vi.waitUntil(() => refused.closed);
  expect([busy, next, last].map(({ closed }) => closed)).toEqual([false, false, false]);
});

test("one address does not keep out another", async () => {
  const dial = await serve({ maxConnections: 100, maxConnectionsPerAddress: 2 });
  const other = await dial("127.0.0.2");
  const [a, b, c] = [await dial(), await dial(), await dial()];
  await vi.waitUntil(() => a.closed);
  expect([other, b, c].map(({ closed }) => closed)).toEqual([false, false, false]);
  for (const peer of [b, c]) await say(peer, "busy");
  const refused = await dial();
  await vi.waitUntil(() => refused.closed);
  await dial("127.0.0.3");
  expect(other.closed).toBe(false);
});
