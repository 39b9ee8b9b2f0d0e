import assert from "node:assert/strict";
import {
  cborData,
  decodeData,
  encodeData,
  Float,
  jsonData,
  Tuple,
  Uuid,
  type Data,
} from "../../core/index.ts";
import { sameData, table, type CaseGroup } from "../stack.ts";

const cbor = (hex: string): Data => cborData(Buffer.from(hex, "hex"));

/** Data that must be returned byte for byte, in its original encoding. */
const carried: readonly [string, Data][] = [
  ["an empty object", jsonData("{}")],
  ["white space and key order", jsonData('{ "b" : 1, "a":2 }')],
  ["1.0 beside 1", jsonData('{"a":1.0,"b":1}')],
  ["an integer beyond 2^53", jsonData('{"n":123456789012345678901234567890}')],
  ["duplicate keys", jsonData('{"a":1,"a":2}')],
  ["a __proto__ key", jsonData('{"__proto__":{"polluted":true}}')],
  ["a constructor key", jsonData('{"constructor":{"prototype":{"x":1}}}')],
  ["NUL and quotes in text", jsonData('{"a":"\\u0000\\"\'"}')],
  ["a lone surrogate in text", jsonData('{"a":"\\ud800"}')],
  ["text beyond the BMP", jsonData('{"😀":"中"}')],
  ["deep nesting", jsonData('{"a":' + "[".repeat(100) + "]".repeat(100) + "}")],
  ["an empty CBOR map", cbor("a0")],
  ["a UUID", cbor("a1616dd8255000112233445566778899aabbccddeeff")],
  ["a tuple", cbor("a1616dd880820102")],
  ["a tuple in a tuple", cbor("a1616dd88081d88080")],
  ["a byte string", cbor("a1616b43ff00fe")],
  ["byte string keys", cbor("a1416b4176")],
  ["1.0 as a CBOR float", cbor("a16161fb3ff0000000000000")],
  ["a float of single precision", cbor("a16161fa3fc00000")],
  ["a big integer", cbor("a16161c249010000000000000000")],
  ["an indefinite map", cbor("bf616101ff")],
];

export const data: CaseGroup = {
  concept: "data",
  cases: [
    ...table(
      carried,
      ([what]) => `${what} comes back from a work unit as it went in`,
      async (t, [, data]) => {
        await t.spec("s");
        await t.add("s", { name: "u", data });
        sameData((await t.unit("s", "u")).data, data);
        const attempt = await t.claimOne();
        sameData(attempt.data, data);
      },
    ),
    ...table(
      carried,
      ([what]) => `${what} comes back from an attempt as it went in`,
      async (t, [, data]) => {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "finish", { data });
        sameData((await t.unit("s", "u")).data, data);
        sameData((await t.attempt(attempt.id)).data, data);
      },
    ),
    {
      name: "values of every kind survive the object form",
      async run(t) {
        await t.spec("s");
        const id = Uuid.parse("01234567-89ab-cdef-0123-456789abcdef");
        const value = {
          uuid: id,
          tuple: Tuple.of(1, "x"),
          bytes: Uint8Array.of(255, 0),
          one: new Float(1),
          big: 2n ** 70n,
          no: null,
        };
        await t.add("s", { name: "u", data: encodeData(value) });
        const { data } = await t.unit("s", "u");
        assert.ok(data !== null);
        sameData(data, encodeData(value));
        const back = decodeData(data);
        assert.ok(back.uuid instanceof Uuid);
        assert.equal(back.uuid.toString(), "01234567-89ab-cdef-0123-456789abcdef");
        assert.ok(back.tuple instanceof Tuple);
        assert.equal(back.big, 2n ** 70n);
      },
    },
    {
      name: "a __proto__ key reaches no prototype",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: jsonData('{"__proto__":{"polluted":true}}') });
        const { data } = await t.unit("s", "u");
        assert.ok(data !== null);
        const back = decodeData(data);
        assert.ok(Object.hasOwn(back, "__proto__"));
        assert.equal(({} as Record<string, unknown>).polluted, undefined);
        assert.equal(back.polluted, undefined);
      },
    },
    {
      name: "a work spec's data comes back as it went in, unknown keys and key order included",
      async run(t) {
        const data = jsonData('{"zeta":1.0,"name":"s","alpha":{"b":[1,2]},"weight":7}');
        await t.c.setWorkSpecs(t.ns, [{ data }]);
        sameData((await t.getSpec("s")).data, data);
      },
    },
    {
      name: "a work spec in CBOR with byte string keys is read like one in JSON",
      async run(t) {
        // {b"name": b"s", b"weight": 7, b"then": b"next"}
        const data = cbor("a3446e616d6541734677656967687407447468656e446e657874");
        await t.c.setWorkSpecs(t.ns, [{ data }]);
        const { meta, data: back } = await t.getSpec("s");
        assert.equal(meta.weight, 7);
        assert.equal(meta.nextWorkSpecName, "next");
        sameData(back, data);
      },
    },
    {
      name: "work specs whose names are different byte strings are different",
      async run(t) {
        // {"name": b"\xff"} and {"name": b"\xfe"}
        await t.c.setWorkSpecs(t.ns, [
          { data: cbor("a1646e616d6541ff") },
          { data: cbor("a1646e616d6541fe") },
        ]);
        const { rows } = await t.c.listWorkSpecs(t.ns);
        assert.deepEqual(
          rows.map(({ name }) => name),
          ["\udcfe", "\udcff"],
        );
      },
    },
    {
      name: "a worker's data comes back as it went in",
      async run(t) {
        const data = cbor("a1616dd880820102");
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true, data }]);
        sameData((await t.c.getWorkers(t.ns, ["w"]))[0]?.data, data);
      },
    },
    {
      name: "a unit without data has none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        assert.equal((await t.unit("s", "u")).data, null);
        assert.equal((await t.claimOne()).data, null);
      },
    },
    {
      name: "data of a megabyte is carried",
      async run(t) {
        await t.spec("s");
        const data = encodeData({ text: "x".repeat(1 << 20) });
        await t.add("s", { name: "u", data });
        assert.equal((await t.unit("s", "u")).data, data);
      },
    },
    {
      name: "data of more than 16 MiB is too large, and nothing is stored",
      async run(t) {
        await t.spec("s");
        const limits = { maxBytes: 64 << 20 };
        const data = encodeData({ text: "x".repeat(16 << 20) }, limits);
        await t.refuses("too_large", t.add("s", { name: "a" }, { name: "u", data }));
        assert.deepEqual(await t.statuses("s"), {});
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.refuses("too_large", t.settle(attempt, "finish", { data }));
        assert.equal(await t.status("s", "u"), "pending");
      },
    },
  ],
};
