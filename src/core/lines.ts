/** Splits chunks of bytes into lines, holding no more than a chunk and one unfinished line. */
import { Buffer, isUtf8 } from "node:buffer";
import { nameFromBytes } from "./names.ts";

export interface Line {
  /** Without its LF or CRLF. Bytes that are not UTF-8 are escaped as in names, and `isText` is false. */
  readonly text: string;
  /** Counted from 1. */
  readonly number: number;
  readonly isText: boolean;
  /** The line is longer than allowed, and `text` is empty. Reported as soon as that is known, which may be before the line ends. */
  readonly tooLong: boolean;
}

/** In bytes. */
export const longestLine = 64 * 1024 * 1024;

const newline = 0x0a;
const byteOrderMark = Buffer.of(0xef, 0xbb, 0xbf);

/** Yields the lines of each chunk, empty ones included. Skips a byte order mark at the beginning. */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  longest = longestLine,
): AsyncGenerator<Line[]> {
  let number = 0;
  /** Pieces of the line that has not ended yet. */
  let left: Buffer[] = [];
  let leftBytes = 0;
  /** That line was reported as too long: the rest of it is skipped. */
  let passing = false;
  let first = true;
  const make = (text: string, isText = true): Line => {
    number += 1;
    return { text: text.endsWith("\r") ? text.slice(0, -1) : text, number, isText, tooLong: false };
  };
  const makeTooLong = (): Line => ({ text: "", number: (number += 1), isText: true, tooLong: true });
  /** Splits whole lines: decoded together when all bytes are UTF-8, as nearly always, else one by one. */
  const split = (bytes: Buffer): Line[] => {
    if (isUtf8(bytes))
      return bytes
        .toString("utf8")
        .split("\n")
        .map((text) => make(text));
    return splitBytes(bytes).map((line) =>
      isUtf8(line) ? make(line.toString("utf8")) : make(nameFromBytes(line), false),
    );
  };
  for await (const chunk of chunks) {
    let bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (first && bytes.length > 0) {
      // a first chunk of one or two bytes would hide the mark; no reader makes such chunks
      if (bytes.subarray(0, 3).equals(byteOrderMark)) bytes = bytes.subarray(3);
      first = false;
    }
    const lines: Line[] = [];
    const end = bytes.lastIndexOf(newline);
    let from = 0;
    if (end >= 0 && (passing || leftBytes > 0)) {
      from = bytes.indexOf(newline) + 1;
      if (!passing && leftBytes + from - 1 > longest) lines.push(makeTooLong());
      else if (!passing) lines.push(...split(Buffer.concat([...left, bytes.subarray(0, from - 1)])));
      [left, leftBytes, passing] = [[], 0, false];
    }
    if (from <= end) for (const line of split(bytes.subarray(from, end))) lines.push(line);
    const rest = bytes.subarray(end + 1);
    if (rest.length > 0 && !passing) {
      left.push(rest);
      leftBytes += rest.length;
      if (leftBytes > longest) {
        lines.push(makeTooLong());
        [left, leftBytes, passing] = [[], 0, true];
      }
    }
    if (lines.length > 0) yield lines;
  }
  if (leftBytes > 0) yield split(Buffer.concat(left));
}

function splitBytes(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  lines.push(bytes.subarray(start));
  return lines;
}
