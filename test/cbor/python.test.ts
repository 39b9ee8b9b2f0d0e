/** A real Python program, written from the description of the protocol, against a real listener. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import path from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { test } from "vitest";
import { listenCborRpc } from "../../src/cbor/index.ts";
import { Engine } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

const program = (name: string): string => path.join(import.meta.dirname, "python", name);
// no .pyc files in the source tree
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };

test("specs, units, four workers, chaining and a failure, end to end", async () => {
  const engine = new Engine(new MemoryStore());
  const listener = await listenCborRpc(engine, { at: { port: 0 } });
  try {
    const { stdout } = await promisify(execFile)("python3", [program("flow.py"), String(listener.port)], {
      env,
    });
    assert.deepEqual(JSON.parse(stdout), {
      // 62 units: one fails, 60 make three units each, and one makes one
      ran: 62 + 181,
      count: { 4: 61, 5: 1 },
      measure: { 4: 181 },
      broken: [5, true, null],
      modes: { parent: "RUN" },
      children: {},
      error: "no such method NoSuchThing",
    });
  } finally {
    await listener.close();
    await engine.close();
  }
});

test("a daemon that stops and starts again is not noticed", async () => {
  const engine = new Engine(new MemoryStore());
  let listener = await listenCborRpc(engine, { at: { port: 0 } });
  const { port } = listener;
  const child = spawn("python3", [program("reset.py"), String(port)], {
    stdio: ["pipe", "pipe", "inherit"],
    env,
  });
  try {
    const output = text(child.stdout);
    await new Promise((resolve) => child.stdout.once("data", resolve));
    for (let i = 0; i < 3; i++) {
      // wait until the program has connected, so that it notices every restart
      while (listener.connections === 0) await sleep(10);
      await sleep(100);
      await listener.close();
      listener = await listenCborRpc(engine, { at: { port } });
    }
    while (listener.connections === 0) await sleep(10);
    await sleep(100);
    child.stdin.end();
    const [, calls, reconnects] = /(\d+) (\d+)\s*$/.exec(await output) ?? [];
    assert.ok(Number(calls) > 5, "it went on calling");
    assert.ok(Number(reconnects) >= 3, `it connected anew ${reconnects} times`);
  } finally {
    child.kill();
    await listener.close();
    await engine.close();
  }
});
