import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import {
  contentHash,
  openSource,
  readEntries,
  syncUnits,
  UnitSorter,
  type SyncOptions,
  type SyncResult,
} from "../../src/bulk/index.ts";
import { compareNames, encodeData, jsonData, type WorkUnitInput } from "../../src/core/index.ts";
import { openMemory, type CoordinateHandle } from "../../src/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-sync-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const opened: CoordinateHandle[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});
let files = 0;

async function setup() {
  const handle = openMemory();
  opened.push(handle);
  const ns = handle.namespace("ns");
  const spec = await ns.setWorkSpec({ name: "s" });
  const file = path.join(directory, `${files++}.jsonl`);
  const manifest = `${file}.manifest`;
  const sync = (units: Record<string, unknown>, options: Partial<SyncOptions> = {}): Promise<SyncResult> => {
    writeFileSync(
      file,
      Object.entries(units)
        .map(([name, data]) => `${JSON.stringify({ [name]: data })}\n`)
        .join(""),
    );
    const source = openSource(file, Readable.from([]));
    return syncUnits({ coordinate: handle.verbs, ns: "ns", workSpec: "s" }, readEntries(source, "jsonl"), {
      name: "list.jsonl",
      manifest,
      ...options,
    });
  };
  const stored = async (): Promise<Record<string, unknown>> => {
    const { rows } = await handle.verbs.listWorkUnits("ns", "s", { limit: 100_000 });
    return Object.fromEntries(
      rows.map(({ name, data }) => [name, JSON.parse(String(data ?? "{}")) as unknown]),
    );
  };
  /** Claims and finishes all units, and adds a result to their data. */
  const work = async (): Promise<void> => {
    for (const attempt of await ns.worker("w").requestAttempts({ number: 1000 }))
      await attempt.finish({ ...attempt.data, result: "done" });
  };
  return { handle, spec, sync, stored, work, manifest };
}

describe("sync", () => {
  test("adds what is new, adds again what changed, leaves alone what is the same", async () => {
    const { sync, stored } = await setup();
    expect(await sync({ a: { x: 1 }, b: {}, c: { y: [1, { z: 2 }] } })).toMatchObject({
      listed: 3,
      added: 3,
    });
    expect(await sync({ c: { y: [1, { z: 2 }] }, a: { x: 2 }, b: {}, d: {} })).toMatchObject({
      listed: 4,
      added: 1,
      changed: 1,
      same: 2,
      vanished: 0,
    });
    expect(await stored()).toEqual({ a: { x: 2 }, b: {}, c: { y: [1, { z: 2 }] }, d: {} });
  });

  test("what vanished stays unless asked; an empty list deletes nothing unless told twice", async () => {
    const { sync, stored } = await setup();
    await sync({ a: {}, b: {}, c: {} });
    expect(await sync({ b: {} })).toMatchObject({ same: 1, vanished: 2, deleted: 0 });
    expect(await sync({ b: {} }, { prune: true, dryRun: true })).toMatchObject({ vanished: 2, deleted: 0 });
    expect(Object.keys(await stored())).toEqual(["a", "b", "c"]);
    expect(await sync({ b: {} }, { prune: true })).toMatchObject({ vanished: 2, deleted: 2 });
    expect(Object.keys(await stored())).toEqual(["b"]);
    await expect(sync({}, { prune: true })).rejects.toThrow("the list is empty");
    expect(Object.keys(await stored())).toEqual(["b"]);
    expect(await sync({}, { prune: true, allowEmpty: true })).toMatchObject({ deleted: 1 });
  });

  test("finished work is not done again, unless its entry changed", async () => {
    const { sync, work, spec } = await setup();
    await sync({ a: { x: 1 }, b: { x: 1 } });
    await work();
    expect(await sync({ b: { x: 1 }, a: { x: 1 } })).toMatchObject({ same: 2, changed: 0 });
    expect((await spec.counts()).finished).toBe(2);
    expect(await sync({ a: { x: 2 }, b: { x: 1 } })).toMatchObject({ same: 1, changed: 1 });
    expect(await spec.counts()).toMatchObject({ finished: 1, available: 1 });
  });

  test("without a manifest, what a worker wrote into is left alone and counted", async () => {
    const { sync, work, spec, manifest } = await setup();
    await sync({ a: { x: 1 }, b: { x: 1 } });
    await work();
    rmSync(manifest);
    expect(await sync({ a: { x: 1 }, b: { x: 2 } })).toMatchObject({ same: 0, changed: 0, uncompared: 2 });
    expect((await spec.counts()).finished).toBe(2);
    expect(await sync({ a: { x: 1 }, b: { x: 3 } })).toMatchObject({ same: 1, changed: 1, uncompared: 0 });
  });

  test("the order of keys and white space are no change", () => {
    expect(contentHash(jsonData('{"a": 1, "b": [1,2]}'))).toBe(contentHash(jsonData('{"b":[1, 2],"a":1}')));
    expect(contentHash(jsonData('{"a":1}'))).not.toBe(contentHash(jsonData('{"a":"1"}')));
    expect(contentHash(null)).toBe(contentHash(jsonData("{}")));
    expect(contentHash(encodeData({ a: new Uint8Array([1]) }))).not.toBe(
      contentHash(encodeData({ a: new Uint8Array([2]) })),
    );
  });

  test("a dry run changes nothing and writes no manifest", async () => {
    const { sync, stored, manifest } = await setup();
    expect(await sync({ a: {} }, { dryRun: true })).toMatchObject({ added: 1 });
    expect(await stored()).toEqual({});
    expect(existsSync(manifest)).toBe(false);
  });

  test("a bad line ends it before anything was changed, and the old manifest stays", async () => {
    const { sync, stored } = await setup();
    await sync({ a: {} });
    await expect(sync({ b: {}, c: 3 })).rejects.toThrow("list.jsonl:2:");
    expect(Object.keys(await stored())).toEqual(["a"]);
    expect(await sync({ b: {}, c: 3 }, { keepGoing: true })).toMatchObject({ added: 1, bad: 1 });
  });

  test("with bad lines nothing is pruned, because their units would be deleted", async () => {
    const { sync, stored } = await setup();
    await sync({ a: {}, b: {} });
    await expect(sync({ a: {}, b: 3, c: {} }, { keepGoing: true, prune: true })).rejects.toThrow(
      "list.jsonl: 1 bad line, whose units --prune would delete; nothing was added or deleted",
    );
    expect(Object.keys(await stored())).toEqual(["a", "b"]);
  });

  test("many units in many pieces on the disk, which are gone afterwards", async () => {
    const { sync, stored } = await setup();
    const place = mkdtempSync(path.join(directory, "pieces-"));
    const units: Record<string, unknown> = {};
    for (let i = 0; i < 2000; i++) units[`u${(i * 7919) % 2000}`] = { i };
    const sort = { pieceSize: 20_000, fanIn: 4, directory: place };
    expect(await sync(units, { sort })).toMatchObject({ listed: 2000, added: 2000 });
    expect(await stored()).toEqual(
      Object.fromEntries(Object.entries(units).sort(([a], [b]) => compareNames(a, b))),
    );
    delete units.u17;
    units.u18 = { other: true };
    expect(await sync(units, { sort, prune: true })).toMatchObject({ same: 1998, changed: 1, deleted: 1 });
    expect(readdirSync(place)).toEqual([]);
  });
});

describe("sorting on the disk", () => {
  test("gives every name once, in the order of names, with the last of its kind", async () => {
    const name = fc.oneof(
      fc.string({ maxLength: 4 }),
      fc.string({ unit: "binary", maxLength: 3 }),
      fc.constantFrom("\udcff", "é", "😀", "\uffff", "a\nb"),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(name, { maxLength: 60 }),
        fc.integer({ min: 1, max: 5000 }),
        async (all, pieceSize) => {
          const usable = all.filter(
            (one) =>
              !/[\ud800-\udfff]/.test(one.replace(/[\ud800-\udbff][\udc00-\udfff]/g, "")) || one === "\udcff",
          );
          const sorter = new UnitSorter({ pieceSize, fanIn: 3, directory });
          const last = new Map<string, number>();
          usable.forEach((one, i) => {
            last.set(one, i);
            sorter.add({ name: one, data: jsonData(`{"i":${i}}`) }, 10);
          });
          const sorted: WorkUnitInput[] = [];
          for await (const unit of sorter.sorted()) sorted.push(unit);
          sorter.close();
          expect(sorted).toEqual(
            [...last]
              .sort(([a], [b]) => compareNames(a, b))
              .map(([one, i]) => ({ name: one, data: `{"i":${i}}` })),
          );
        },
      ),
      { numRuns: Number(process.env.SORT_RUNS ?? 25) },
    );
  });
});
