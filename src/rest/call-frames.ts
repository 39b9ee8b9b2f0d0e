/**
 * The frames of `POST /v1/calls`, for both sides. A frame is a line of words and a text; the last word of the line is the length of
 * the text in bytes. A line of one word has no text.
 */
import { Buffer, isUtf8 } from "node:buffer";

export const callsPath = "/v1/calls";

/** The longest text of a request. Longer ones are sent by HTTP, where they are read in pieces. */
export const maxCallBytes = 64 * 1024;

/** The server's first line: it tells the client that no proxy buffers the bodies. */
export const ready = "ready";

/** The longest line: a name takes three times its bytes in a path. */
const maxLineBytes = 32 * 1024;

const newline = 0x0a;

export interface Frame {
  /** The words of its line, without the length. */
  readonly words: readonly string[];
  readonly text: string;
}

/** The bytes are not a frame, and what follows them cannot be understood. */
class FrameError extends Error {
  override readonly name = "FrameError";
}

export const writeFrame = (words: string, text: string): string =>
  `${words} ${Buffer.byteLength(text)}\n${text}`;

/** A chunk of a body in the chunked encoding of HTTP/1.1: both sides write it to the socket directly. */
export const writeChunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

/** Splits chunks of bytes into frames. */
export class FrameReader {
  readonly #maxTextBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** The minimum length of the next frame in bytes, as far as it is known. */
  #needed = 1;

  constructor(maxTextBytes: number) {
    this.#maxTextBytes = maxTextBytes;
  }

  /** The frames that are complete with this chunk. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bytes);
    const frames: Frame[] = [];
    let at = 0;
    for (;;) {
      const end = bytes.indexOf(newline, at);
      const lineBytes = (end < 0 ? bytes.length : end) - at;
      if (lineBytes > maxLineBytes) throw new FrameError("the line is too long");
      this.#needed = lineBytes + 1;
      if (end < 0) break;
      const words = bytes.toString("latin1", at, end).split(" ");
      const length = words.length === 1 ? 0 : readLength(words.pop() ?? "");
      if (length > this.#maxTextBytes) throw new FrameError(`the text is too long: ${length} bytes`);
      this.#needed += length;
      const next = end + 1 + length;
      if (next > bytes.length) break;
      const text = bytes.subarray(end + 1, next);
      if (!isUtf8(text)) throw new FrameError("invalid UTF-8");
      frames.push({ words, text: text.toString("utf8") });
      at = next;
    }
    const rest = bytes.subarray(at);
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
    return frames;
  }
}

function readLength(word: string): number {
  if (!/^\d{1,10}$/.test(word)) throw new FrameError("the line has no length");
  return Number(word);
}
