/** Human-readable JSON from which the original data can be restored. */
import { expect, test } from "vitest";
import {
  dataFromMarked,
  dataToMarkedJson,
  decodeData,
  encodeData,
  jsonData,
  Tuple,
  Uuid,
  type Data,
} from "../../src/core/index.ts";

const bytes = (text: string): Buffer => Buffer.from(text);
const back = (data: Data): Data => dataFromMarked(decodeData(jsonData(dataToMarkedJson(data))));

test.each([
  ["byte strings, also as keys", encodeData(new Map([[bytes("name"), bytes("beta")]]))],
  ["bytes that are not UTF-8", encodeData({ name: "s", raw: Buffer.of(0xff, 0) })],
  [
    "tuples and UUIDs",
    encodeData({ name: "s", t: Tuple.of(1, "a"), u: Uuid.parse("00112233-4455-6677-8899-aabbccddeeff") }),
  ],
  ["large integers beside bytes", encodeData({ n: 2n ** 80n, b: bytes("x") })],
  ["plain JSON", encodeData({ name: "s", n: 1 })],
])("%s", (_, data) => {
  expect(back(data)).toEqual(data);
});

test("byte strings are shown as the text they are", () => {
  const data = encodeData({ name: bytes("beta.two") });
  expect(decodeData(jsonData(dataToMarkedJson(data)))).toMatchObject({ name: "beta.two" });
});

test("what was changed since is refused, and counts without the mark", () => {
  const text = dataToMarkedJson(encodeData({ name: bytes("beta") })).replace("beta", "gamma");
  const value = decodeData(jsonData(text)) as Record<string, unknown>;
  expect(() => dataFromMarked(value)).toThrow(/changed after/);
  expect(() => dataFromMarked({ ...value, $cbor: 7 })).toThrow(/changed after/);
  delete value.$cbor;
  expect(dataFromMarked(value)).toBe('{"name":"gamma"}');
});
