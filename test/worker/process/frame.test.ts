import { describe, expect, test } from "vitest";
import { cborData, encodeData, jsonData, Tuple } from "../../../src/core/index.ts";
import { encodeMessage, FrameError, FrameReader, type Message } from "../../../src/worker/process/frame.ts";

const messages: Message[] = [
  { head: { kind: "run", text: "ä\u{1f600}\udcff", n: 1.5 }, data: [jsonData('{ "a": 1.0 }'), null] },
  { head: { kind: "done" }, data: [] },
  {
    head: { kind: "settle" },
    data: [encodeData({ t: Tuple.of(1) }), jsonData("{}"), cborData(Uint8Array.of(0xbf, 0xff))],
  },
];

describe("frames", () => {
  test.each([1, 2, 7, 8, 9, 1000])("in pieces of %i bytes are put together again", (size) => {
    const bytes = Buffer.concat(messages.map(encodeMessage));
    const reader = new FrameReader();
    const read: Message[] = [];
    for (let at = 0; at < bytes.length; at += size) read.push(...reader.push(bytes.subarray(at, at + size)));
    expect(read).toEqual(messages);
  });

  const frame = (head: string, body = ""): Buffer => {
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(Buffer.byteLength(head), 0);
    lengths.writeUInt32BE(Buffer.byteLength(body), 4);
    return Buffer.concat([lengths, Buffer.from(head), Buffer.from(body)]);
  };

  test.each([
    ["garbage", Buffer.from("console.log to the wrong place\n")],
    ["a head that is not JSON", frame("{kind:1}")],
    ["no kind", frame("{}")],
    ["a kind that is no text", frame('{"kind":1}')],
    ["sizes that are none", frame('{"kind":"a","sizes":["x"]}')],
    ["a body that is longer", frame('{"kind":"a","sizes":[2]}', "{}{}")],
    ["a body that is shorter", frame('{"kind":"a","sizes":[5]}', "{}")],
    ["data that is none", frame('{"kind":"a","sizes":[4]}', "nope")],
    ["data that is no object", frame('{"kind":"a","sizes":[2]}', "[]")],
    [
      "CBOR that is cut",
      Buffer.concat([frame('{"kind":"a","sizes":[1]}', "x").subarray(0, -1), Buffer.of(0xa1)]),
    ],
  ])("%s is refused", (_what, bytes) => {
    expect(() => new FrameReader().push(bytes)).toThrow(FrameError);
  });
});
