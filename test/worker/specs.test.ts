import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { encodeData, Engine, ManualClock, override, type Coordinate } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { Specs } from "../../src/worker/specs.ts";

async function known() {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock });
  const set = (version: number): Promise<unknown> =>
    engine.setWorkSpecs("", [{ data: encodeData({ name: "s", version }) }]);
  await set(1);
  let reads = 0;
  let isBroken = false;
  const verbs: Coordinate = override(engine, {
    getWorkSpecs: (...args) => {
      reads++;
      return isBroken ? Promise.reject(new Error("no answer")) : engine.getWorkSpecs(...args);
    },
  });
  const specs = new Specs(verbs, "", clock);
  const version = async (): Promise<unknown> => (await specs.get("s"))?.data.version;
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return { clock, set, version, turn, reads: () => reads, breaks: (is: boolean) => (isBroken = is) };
}

describe("the work specs that a worker has met", () => {
  it("are read again while they are used, and nobody waits for that", async () => {
    const { clock, set, version, turn, reads } = await known();
    assert.equal(await version(), 1);
    await set(2);
    clock.advance(499);
    assert.deepEqual([await version(), reads()], [1, 1]);
    clock.advance(1);
    assert.deepEqual([await Promise.all([version(), version()]), reads()], [[1, 1], 2]);
    await turn();
    assert.deepEqual([await version(), reads()], [2, 2]);
  });

  it("are never older than a second", async () => {
    const { clock, set, version } = await known();
    assert.equal(await version(), 1);
    await set(2);
    clock.advance(1000);
    assert.equal(await version(), 2);
  });

  it("that could not be read again are read by the next who needs them, who hears of the trouble", async () => {
    const { clock, version, turn, breaks, reads } = await known();
    await version();
    breaks(true);
    clock.advance(500);
    assert.equal(await version(), 1);
    await turn();
    assert.deepEqual([await version(), reads()], [1, 2]);
    clock.advance(500);
    await assert.rejects(version(), /no answer/);
    breaks(false);
    assert.equal(await version(), 1);
  });
});
