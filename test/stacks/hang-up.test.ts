/**
 * A worker that closes its connection while it is given work: over either protocol, the units are returned at once, as untried.
 * With `max_retries: 1`, a unit that counted as tried would fail without ever having run.
 */
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { connectCbor, listenCborRpc } from "../../src/cbor/index.ts";
import { Writer } from "../../src/cbor/write.ts";
import { writeValue } from "../../src/cbor/verbs.ts";
import { around, encodeData, Engine, type Coordinate } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { restServer } from "../../src/rest/index.ts";

interface Wire {
  port: number;
  connections(): Promise<number>;
  close(): Promise<void>;
}

async function rest(coordinate: Coordinate): Promise<Wire> {
  const { app } = restServer({ coordinate });
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  return {
    port: Number(new URL(url).port),
    connections: () =>
      new Promise((resolve, reject) => {
        app.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
      }),
    close: () => app.close(),
  };
}

async function cbor(coordinate: Coordinate): Promise<Wire> {
  const listener = await listenCborRpc(coordinate, { at: { port: 0 } });
  return {
    port: listener.port,
    connections: async () => listener.connections,
    close: () => listener.close(),
  };
}

const http = (path: string, body: object): Buffer => {
  const text = JSON.stringify(body);
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
};

const rpc = (method: string, ...params: unknown[]): Buffer => {
  const to = new Writer();
  to.map(3).nameBytes("id").number(1).nameBytes("method").nameBytes(method).nameBytes("params");
  writeValue(to, params);
  return to.frame();
};

const asked = { worker: "w", requestId: "r" };
const ways: readonly [name: string, open: (coordinate: Coordinate) => Promise<Wire>, request: Buffer][] = [
  ["REST", rest, http("/v1/namespace/-/request-attempts", asked)],
  ["REST, a wait", rest, http("/v1/namespace/-/request-attempts", { ...asked, waitMs: 60_000 })],
  ["Go", rest, http("/namespace/-/worker/w/request_attempts", { number_of_work_units: 1 })],
  ["CBOR-RPC", cbor, rpc("coordinate.requestAttempts", "", asked)],
  ["CBOR-RPC, a wait", cbor, rpc("coordinate.requestAttempts", "", { ...asked, waitMs: 60_000 })],
  ["Python", cbor, rpc("get_work", "w", {})],
];

test.each(ways)("%s: what it was given goes back untried", async (_name, open, request) => {
  const engine = new Engine(new MemoryStore());
  const socket: { current?: Socket } = {};
  let settled = false;
  const coordinate = around(engine, async (verb, _args, next) => {
    const answer = await next();
    if (verb === "requestAttempts") {
      expect(answer).toHaveLength(1);
      socket.current?.destroy();
      while ((await wire.connections()) > 0) await sleep(5);
    }
    settled ||= verb === "settleAttempts";
    return answer;
  });
  const wire = await open(coordinate);
  try {
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", max_retries: 1 }) }]);
    await engine.addWorkUnits("", "s", [{ name: "u" }]);
    socket.current = connect(wire.port, "127.0.0.1");
    socket.current.on("error", () => undefined);
    socket.current.write(request);
    await expect.poll(() => settled, { timeout: 5000 }).toBe(true);
    const [unit] = await engine.getWorkUnits("", "s", ["u"]);
    expect(unit).toMatchObject({ status: "available", activeAttempt: null });
    const given = await engine.requestAttempts("", { worker: "another" });
    expect(given.map(({ workUnit }) => workUnit)).toEqual(["u"]);
  } finally {
    socket.current?.destroy();
    await wire.close();
    await engine.close();
  }
});

test("CBOR-RPC: a wait for units to end goes on at the next server when the first stops", async () => {
  const engine = new Engine(new MemoryStore());
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits("", "s", [{ name: "u" }]);
  const first = await listenCborRpc(engine, { at: { port: 0 } });
  const client = await connectCbor(first.address);
  const ended = client.awaitWorkUnits("", "s", ["u"], { waitMs: 30_000 });
  await expect.poll(() => engine.waiting).toBe(1);
  await first.close();
  const second = await listenCborRpc(engine, { at: { port: first.port } });
  try {
    await expect.poll(() => engine.waiting, { timeout: 5000 }).toBe(1);
    const [attempt] = await engine.requestAttempts("", { worker: "w" });
    await engine.settleAttempts("", [{ attempt: attempt?.id ?? "", action: "finish" }]);
    expect((await ended)[0]?.status).toBe("finished");
  } finally {
    await client.close();
    await second.close();
    await engine.close();
  }
});
