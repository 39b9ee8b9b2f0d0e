/** A short run of the fuzzer. test/cbor/fuzz-run.ts is the long run. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { fuzz } from "./fuzz.ts";
import { withServer } from "./serve.ts";
import { hex, request } from "./wire.ts";

test("mutated frames: no crash, no internal error, only answers that can be read", async () => {
  const figures = await fuzz({ frames: 200_000, seed: 7, maxMs: 15_000 });
  assert.ok(figures.frames >= 5000);
  assert.ok(figures.answered > figures.frames / 10);
  assert.ok(figures.dropped > figures.frames / 20);
}, 60_000);

test("over real sockets: each bad connection ends by itself, others go on", async () => {
  await withServer(async ({ client, connect, listener }) => {
    for (let i = 0; i < 300; i++) {
      const bad = await connect();
      const frame = request(i, "get_work", ["w", {}]);
      frame[i % frame.length] = (i * 37) & 255;
      bad.socket.write(i % 2 === 0 ? frame : Buffer.concat([frame, hex("ff")]));
      if (i % 50 === 0) assert.equal(await client.shown("now"), "1577836800");
      setTimeout(() => bad.close(), 20);
    }
    for (let tries = 0; listener.connections > 1 && tries < 500; tries++) await sleep(10);
    assert.equal(listener.connections, 1);
  });
});
