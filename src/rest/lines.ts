/** Lines of text out of chunks of bytes, without holding more than one chunk and one unfinished line. */
import { Buffer, isUtf8 } from "node:buffer";
import { CoordinateError } from "../core/index.ts";

export interface Line {
  /** Without its end. Lines of white space are skipped. */
  text: string;
  /** Counted from 1. */
  number: number;
}

/** Throws `bad_argument` for what is not UTF-8 and `too_large` for a line that does not end. */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  longest = Infinity,
): AsyncGenerator<Line> {
  for await (const lines of readLineBatches(chunks, longest)) yield* lines;
}

/** The lines of a chunk at once: one step of the loop for a few hundred lines. */
export async function* readLineBatches(
  chunks: AsyncIterable<Uint8Array>,
  longest = Infinity,
): AsyncGenerator<Line[]> {
  let number = 0;
  let left: Buffer[] = [];
  let leftBytes = 0;
  const split = (bytes: Buffer): Line[] => {
    if (!isUtf8(bytes))
      throw new CoordinateError("bad_argument", `line ${number + 1} or after it: invalid UTF-8`);
    const lines: Line[] = [];
    for (const text of bytes.toString("utf8").split("\n")) {
      number += 1;
      if (text.trim() !== "") lines.push({ text, number });
    }
    return lines;
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const end = bytes.lastIndexOf(0x0a);
    if (end < 0) {
      left.push(bytes);
      leftBytes += bytes.length;
      if (leftBytes > longest)
        throw new CoordinateError("too_large", `line ${number + 1}: more than ${longest} bytes`);
      continue;
    }
    const whole = Buffer.concat([...left, bytes.subarray(0, end)]);
    left = end + 1 < bytes.length ? [bytes.subarray(end + 1)] : [];
    leftBytes = bytes.length - end - 1;
    yield split(whole);
  }
  if (leftBytes > 0) yield split(Buffer.concat(left));
}
