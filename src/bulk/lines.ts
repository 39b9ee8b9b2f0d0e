/** Lines out of chunks of bytes, without holding more than a chunk and one unfinished line. */
import { Buffer, isUtf8 } from "node:buffer";
import { nameFromBytes } from "../core/index.ts";

export interface Line {
  /** Without its end, be it LF or CRLF. Bytes that are no UTF-8 are escaped as in names, and `isText` is false. */
  readonly text: string;
  /** Counted from 1. */
  readonly number: number;
  readonly isText: boolean;
  /** It was longer than allowed, and `text` is empty. */
  readonly tooLong: boolean;
}

export const longestLine = 64 * 1024 * 1024;

/** The lines of each chunk; empty lines too. A byte order mark at the beginning is no part of the first line. */
export async function* readLines(
  chunks: AsyncIterable<Buffer>,
  longest = longestLine,
): AsyncGenerator<Line[]> {
  let number = 0;
  let left: Buffer[] = [];
  let leftBytes = 0;
  let first = true;
  const make = (bytes: Buffer, tooLong = false): Line => {
    number += 1;
    if (tooLong) return { text: "", number, isText: true, tooLong };
    const isText = isUtf8(bytes);
    const text = isText ? bytes.toString("utf8") : nameFromBytes(bytes);
    return { text: text.endsWith("\r") ? text.slice(0, -1) : text, number, isText, tooLong };
  };
  /** All lines of whole bytes: together when they are text, as nearly always, else each by itself. */
  const split = (bytes: Buffer): Line[] => {
    if (!isUtf8(bytes)) return splitBytes(bytes).map((line) => make(line));
    const lines: Line[] = [];
    for (const text of bytes.toString("utf8").split("\n")) {
      number += 1;
      const plain = text.endsWith("\r") ? text.slice(0, -1) : text;
      lines.push({ text: plain, number, isText: true, tooLong: false });
    }
    return lines;
  };
  for await (const chunk of chunks) {
    let bytes = chunk;
    if (first && bytes.length > 0) {
      // a chunk of one or two bytes would hide the mark, and no reader makes such
      if (bytes.subarray(0, 3).equals(Buffer.of(0xef, 0xbb, 0xbf))) bytes = bytes.subarray(3);
      first = false;
    }
    const end = bytes.lastIndexOf(0x0a);
    if (end < 0) {
      leftBytes += bytes.length;
      // of a line that is too long anyway nothing more is kept
      if (leftBytes <= longest) left.push(bytes);
      else left = [];
      continue;
    }
    const lines: Line[] = [];
    let from = 0;
    if (leftBytes > 0) {
      const firstEnd = bytes.indexOf(0x0a);
      const tooLong = leftBytes + firstEnd > longest;
      lines.push(
        make(tooLong ? Buffer.alloc(0) : Buffer.concat([...left, bytes.subarray(0, firstEnd)]), tooLong),
      );
      from = firstEnd + 1;
    }
    if (from <= end) for (const line of split(bytes.subarray(from, end))) lines.push(line);
    left = end + 1 < bytes.length ? [bytes.subarray(end + 1)] : [];
    leftBytes = bytes.length - end - 1;
    yield lines;
  }
  if (leftBytes > 0) yield [make(Buffer.concat(left), leftBytes > longest)];
}

function splitBytes(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, start)) {
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  lines.push(bytes.subarray(start));
  return lines;
}
