import fc from "fast-check";
import { expect, test } from "vitest";
import { nameFromBytes, readLines, type Line } from "../../src/core/index.ts";

async function* inChunks(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function linesOf(bytes: Buffer, sizes: readonly number[], longest?: number): Promise<Line[]> {
  const found: Line[] = [];
  for await (const lines of readLines(inChunks(bytes, sizes), longest)) found.push(...lines);
  return found;
}

/** A few byte values only, so that line ends and incomplete characters are frequent. */
const bytes = fc
  .array(fc.constantFrom(0x0a, 0x0d, 0x61, 0xc3, 0xa9, 0xff), { maxLength: 60 })
  .map((array) => Buffer.from(array));
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });

test("are the same however the bytes are cut into chunks", async () => {
  await fc.assert(
    fc.asyncProperty(bytes, sizes, async (input, cuts) => {
      const text = nameFromBytes(input);
      const expected = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
      if (text === "" || text.endsWith("\n")) expected.pop();
      const lines = await linesOf(input, cuts);
      expect(lines.map((line) => line.text)).toEqual(expected);
      expect(lines.map((line) => line.number)).toEqual(expected.map((_, i) => i + 1));
    }),
    { numRuns: 1000 },
  );
});

test("a line that is too long is told once, before it ends, and the next is read as ever", async () => {
  const input = Buffer.from(`one\n${"x".repeat(100)}\r\nthree\n${"y".repeat(100)}`);
  for (const size of [1, 3, 8]) {
    const lines = await linesOf(input, [size], 20);
    expect(lines.map(({ text, number, tooLong }) => [text, number, tooLong])).toEqual([
      ["one", 1, false],
      ["", 2, true],
      ["three", 3, false],
      ["", 4, true],
    ]);
  }
  // a line that never ends is detected while it is being received
  const endless = readLines(
    (async function* () {
      for (;;) yield Buffer.from("zzzz");
    })(),
    20,
  );
  expect((await endless.next()).value).toMatchObject([{ number: 1, tooLong: true }]);
  await endless.return(undefined);
});

test("bytes that are no UTF-8 are kept, and only their own line is said to be no text", async () => {
  const lines = await linesOf(Buffer.from("a\n\xff\nb\n", "latin1"), [64]);
  expect(lines.map(({ isText }) => isText)).toEqual([true, false, true]);
});

test("a byte order mark is no part of the first line", async () => {
  expect((await linesOf(Buffer.from("\ufeffa\nb"), [64])).map(({ text }) => text)).toEqual(["a", "b"]);
});
