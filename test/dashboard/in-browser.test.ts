/** The parts of core and of the client that the dashboard uses, with the browser's Buffer instead of Node's: nothing is missing. */
import { expect, test, vi } from "vitest";

vi.mock("node:buffer", () => import("../../src/dashboard/browser/buffer.ts"));

const core = await import("../../src/core/index.ts");
const { nameFromUrl, nameToUrl } = await import("../../src/rest/client.ts");
const { readWire, writeWire } = await import("../../src/rest/wire.ts");
const { readEvents, writeEvent } = await import("../../src/rest/events-text.ts");

const values = {
  a: [1, 2.5, -7, 1e300, 2n ** 63n, null, true],
  b: "é😀",
  c: Uint8Array.of(0, 255),
  d: { e: new core.Float(1) },
};

test("data is written and read, as JSON and as CBOR", () => {
  const data = core.encodeData(values);
  expect(data).toBeInstanceOf(Uint8Array);
  expect(core.decodeData(data)).toMatchObject({ a: values.a, b: values.b });
  expect(core.dataToJson(data)).toMatchObject({ lossless: false });
  const read = readWire(writeWire({ data, units: [{ name: "é" }] })) as { data: typeof data };
  expect(core.decodeData(read.data)).toEqual(core.decodeData(data));
  const noted = core.dataWith(data, "traceback", "é");
  expect(core.dataGetText(noted, "traceback")).toBe("é");
  expect(core.readOutputs(core.encodeData({ output: { a: { x: 2n ** 63n } } })).units).toHaveLength(1);
});

test("names of any bytes go into URLs and back", () => {
  for (const name of ["", "a", "a/b", "é😀", "\udcff\udcfe", "..", "x".repeat(4000)])
    expect(nameFromUrl(nameToUrl(name))).toBe(name);
});

test("lines of units and work specs are read, and what is wrong with them is told", () => {
  expect(core.readUnitLine('{"name":"é","data":{"n":1.0},"delay":3}')).toEqual([
    { name: "é", data: '{"n":1.0}', delayMs: 3000 },
  ]);
  expect(() => core.readUnitLine('{"name":7}')).toThrow("name");
  expect(core.readWorkSpec(core.encodeData({ name: "a", weight: 7 })).meta.weight).toBe(7);
});

test("events come out of chunks of any size", async () => {
  const text = new TextEncoder().encode(
    `: watching\n\n${writeEvent("a.1", { type: "workUnits", verb: "addWorkUnits", time: 1, items: ["é"] })}`,
  );
  for (const size of [1, 7, 1000]) {
    const chunks = async function* (): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
    };
    const events = [];
    for await (const event of readEvents(chunks())) events.push(event);
    expect(events).toMatchObject([{ id: "a.1", type: "workUnits", items: ["é"] }]);
  }
});
