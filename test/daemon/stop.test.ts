/** Stopping a daemon process while it is busy. */
import { mkdtempSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { RestClient } from "../../src/rest/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { startProcess } from "./built.ts";

interface Caller {
  /** Units whose addition was acknowledged. */
  acknowledged: string[];
  /** Requests that were sent and never answered. */
  lost: number;
  ended: Promise<void>;
}

/** Adds units one by one on one connection until the server sends `connection: close`. */
function call(url: string, id: number): Caller {
  const { port } = new URL(url);
  const socket = createConnection({ host: "127.0.0.1", port: Number(port), noDelay: true });
  const caller: Caller = {
    acknowledged: [],
    lost: 0,
    ended: new Promise((resolve) => socket.once("close", () => resolve())),
  };
  let serial = 0;
  let waitingFor = "";
  let got = "";
  const next = (): void => {
    waitingFor = `${id}-${serial++}`;
    const body = JSON.stringify({ workSpec: "s", units: [{ name: waitingFor, data: { n: serial } }] });
    socket.write(
      `POST /v1/namespace/n/add-work-units HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  };
  socket.setEncoding("latin1");
  socket.on("connect", next);
  socket.on("error", () => undefined);
  socket.on("data", (chunk: string) => {
    got += chunk;
    const end = got.indexOf("\r\n\r\n");
    const length = Number(/content-length: (\d+)/i.exec(got)?.[1]);
    if (end < 0 || got.length < end + 4 + length) return;
    expect(got).toMatch(/^HTTP\/1.1 200 /);
    caller.acknowledged.push(waitingFor);
    waitingFor = "";
    const last = /connection: close/i.test(got);
    got = "";
    if (!last) next();
  });
  socket.on("close", () => {
    if (waitingFor !== "") caller.lost += 1;
  });
  return caller;
}

test(
  "TERM under load: whoever was heard is answered, and all that was answered is kept",
  { timeout: 120_000 },
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "stop-"));
    const file = path.join(directory, "store.sqlite");
    const daemon = await startProcess([
      "--backend",
      `sqlite:${file}`,
      "--http",
      "127.0.0.1:0",
      "--data-dir",
      directory,
    ]);
    const client = new RestClient(daemon.url);
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    const waiting = client.requestAttempts("empty", { worker: "w", waitMs: 60_000 });
    const callers = Array.from({ length: 50 }, (_, id) => call(daemon.url, id));
    // the promise covers only connections that the daemon has accepted
    await vi.waitUntil(() => callers.every(({ acknowledged }) => acknowledged.length > 0), 60_000);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    daemon.child.kill("SIGTERM");
    await Promise.all(callers.map(({ ended }) => ended));
    expect(await daemon.ended).toBe(0);
    expect(
      callers.reduce((sum, { lost }) => sum + lost, 0),
      daemon.output(),
    ).toBe(0);
    // the long poll got an empty response
    expect(await waiting).toEqual([]);
    await client.close();

    const engine = new Engine(await openSqlite(file));
    const acknowledged = callers.flatMap((caller) => caller.acknowledged);
    expect(acknowledged.length).toBeGreaterThan(100);
    for (let i = 0; i < acknowledged.length; i += 1000) {
      const rows = await engine.getWorkUnits("n", "s", acknowledged.slice(i, i + 1000));
      expect(rows.every((row) => row !== null)).toBe(true);
    }
    await engine.close();
  },
);

test("a second signal ends it at once", { timeout: 60_000 }, async () => {
  const daemon = await startProcess(["--backend", "memory:", "--http", "127.0.0.1:0", "--grace-ms", "60000"]);
  const socket = createConnection({ host: "127.0.0.1", port: Number(new URL(daemon.url).port) });
  socket.on("error", () => undefined);
  // a request that never ends keeps the daemon from stopping
  socket.write(
    "POST /v1/tally HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
  );
  await new Promise((resolve) => setTimeout(resolve, 200));
  daemon.child.kill("SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(daemon.child.exitCode).toBe(null);
  daemon.child.kill("SIGINT");
  expect(await daemon.ended).toBe(1);
  socket.destroy();
});

test("a log that nothing reads any more does not keep it from stopping", { timeout: 60_000 }, async () => {
  const daemon = await startProcess([
    "--backend",
    "memory:",
    "--http",
    "127.0.0.1:0",
    "--log-format",
    "text",
  ]);
  onTestFinished(() => void daemon.child.kill("SIGKILL"));
  // it handles signals when it answers
  await fetch(daemon.url);
  daemon.child.stderr?.destroy();
  // it logs that it stops
  daemon.child.kill("SIGTERM");
  expect(await Promise.race([daemon.ended, sleep(20_000, "still running", { ref: false })])).toBe(0);
});

test("a mistake in the settings: exit code 78, and what is wrong", { timeout: 60_000 }, async () => {
  const daemon = await startProcess([
    "--http",
    "0.0.0.0:0",
    "--backend",
    "memory:",
    "--data-dir",
    mkdtempSync(path.join(tmpdir(), "stop-")),
  ]);
  expect(await daemon.ended).toBe(78);
  expect(daemon.output()).toContain("is reachable from other machines");
  const other = await startProcess(["--htpp", "x"]);
  expect(await other.ended).toBe(78);
  expect(other.output()).toContain("did you mean --http?");
  const help = await startProcess(["--help"]);
  expect(await help.ended).toBe(0);
  expect(help.output()).toContain("--backend TEXT");
});
