/** Data is stored without loss: JSON values, UUIDs, tuples, byte strings, big integers, and the difference between 1 and 1.0. */
import assert from "node:assert/strict";
import {
  cborData,
  dataToCbor,
  decodeData,
  encodeData,
  Float,
  jsonData,
  openMemory,
  Tuple,
  Uuid,
} from "../src/index.ts";

const coordinate = openMemory();
const namespace = coordinate.namespace("data");
const spec = await namespace.setWorkSpec({ name: "spec" });

// From JavaScript: plain objects are stored as JSON text. Values that JSON cannot represent are stored as CBOR.
const data = {
  id: Uuid.parse("01234567-89ab-cdef-0123-456789abcdef"),
  pair: Tuple.of("left", "right"),
  bytes: new Uint8Array([0, 255, 128]),
  ratio: new Float(1),
  large: 2n ** 60n,
  nested: { list: [1, 2.5, null, "text"] },
};
const unit = await spec.addWorkUnit("from-javascript", data);
assert(unit.rawData instanceof Uint8Array);
assert(unit.data.id instanceof Uuid);
assert.equal(String(unit.data.id), "01234567-89ab-cdef-0123-456789abcdef");
assert(unit.data.pair instanceof Tuple);
assert.deepEqual(unit.data.bytes, data.bytes);
assert.equal(unit.data.large, data.large);
assert.deepEqual(unit.data.nested, data.nested);

// `data` has JavaScript numbers. Precise decoding distinguishes 1.0 from 1.
assert.equal(unit.data.ratio, 1);
const precise = decodeData(unit.rawData, { precise: true });
assert(precise.ratio instanceof Float);

// From a JSON client: the text is stored unchanged, with its key order, its spacing and 1.0.
const text = jsonData('{ "b": 1.0, "a": 12345678901234567890, "__proto__": "just a key" }');
await coordinate.verbs.addWorkUnits("data", "spec", [{ name: "from-json", data: text }]);
const fromJson = await spec.workUnit("from-json");
assert.equal(fromJson.rawData, text);
assert.equal(fromJson.data.a, 12345678901234567890n);
assert.deepEqual(Object.keys(fromJson.data), ["b", "a", "__proto__"]);

// From a CBOR client: the bytes are stored unchanged.
const bytes = cborData(dataToCbor(encodeData({ from: "python", args: Tuple.of(1, new Float(1)) })));
await coordinate.verbs.addWorkUnits("data", "spec", [{ name: "from-cbor", data: bytes }]);
assert.deepEqual((await spec.workUnit("from-cbor")).rawData, bytes);

console.log(Object.keys(unit.data), fromJson.rawData);
await coordinate.close();
