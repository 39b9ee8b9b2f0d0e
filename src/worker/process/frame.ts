/**
 * The encoding of the messages between a supervisor and its child processes.
 *
 *   frame    two lengths (32 bits each, most significant byte first), a head, a body
 *   head     JSON: the kind of the message, its fields, and the size of each piece of data
 *   body     the pieces of data one after the other, in the encoding they are stored in
 *
 * Data is not part of the head: it is passed on unchanged as text or bytes, so that CBOR is not damaged and JSON is not parsed on the
 * way. The first byte tells them apart: a CBOR map begins with 0xa0 to 0xbf, which cannot begin JSON text.
 */
import { Buffer } from "node:buffer";
import { cborData, jsonData, type Data } from "../../core/index.ts";

/** The fields of a message. `messages.ts` validates those that a child sends. */
export interface Head {
  readonly kind: string;
  readonly [field: string]: unknown;
}

export interface Message {
  readonly head: Head;
  readonly data: readonly (Data | null)[];
}

/** Thrown for bytes that are not a message. Nothing that follows in the stream can be trusted. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

const lengths = 8;
const longestHead = 64 * 1024 * 1024;
const longestBody = 2 ** 31 - 1;
const noData = -1;
/** No size limit here: the sender has checked the size of data, and the store checks it again. */
const unlimited = { maxBytes: Infinity };

export function encodeMessage({ head, data }: Message): Buffer {
  if (data.length === 0) return encodeHead(head);
  const pieces = data.map((piece) => {
    if (piece === null) return null;
    return typeof piece === "string" ? Buffer.from(piece, "utf8") : piece;
  });
  const sizes = pieces.map((piece) => piece?.length ?? noData);
  const text = Buffer.from(JSON.stringify({ ...head, sizes }), "utf8");
  const body = pieces.filter((piece) => piece !== null);
  const start = Buffer.allocUnsafe(lengths);
  start.writeUInt32BE(text.length, 0);
  start.writeUInt32BE(
    body.reduce((sum, piece) => sum + piece.length, 0),
    4,
  );
  return Buffer.concat([start, text, ...body]);
}

/** Encodes a message without data in a single buffer. */
function encodeHead(head: Head): Buffer {
  const text = JSON.stringify(head);
  const length = Buffer.byteLength(text, "utf8");
  const frame = Buffer.allocUnsafe(lengths + length);
  frame.writeUInt32BE(length, 0);
  frame.writeUInt32BE(0, 4);
  frame.write(text, lengths, "utf8");
  return frame;
}

/** Reassembles messages from the chunks of a stream. Throws a `FrameError` for invalid bytes; the reader cannot be used after that. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #length = 0;
  /** Number of bytes to collect before the next attempt to decode. */
  #wanted = lengths;

  push(chunk: Buffer): Message[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const messages: Message[] = [];
    while (this.#length >= this.#wanted) {
      const all = this.#joined();
      const headLength = all.readUInt32BE(0);
      const bodyLength = all.readUInt32BE(4);
      if (headLength > longestHead || bodyLength > longestBody)
        throw new FrameError(`a frame of ${headLength} and ${bodyLength} bytes`);
      const end = lengths + headLength + bodyLength;
      if (all.length < end) {
        this.#wanted = end;
        break;
      }
      messages.push(
        readMessage(all.subarray(lengths, lengths + headLength), all.subarray(lengths + headLength, end)),
      );
      this.#chunks = [all.subarray(end)];
      this.#length = all.length - end;
      this.#wanted = lengths;
    }
    return messages;
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    if (first !== undefined && this.#chunks.length === 1) return first;
    const all = Buffer.concat(this.#chunks, this.#length);
    this.#chunks = [all];
    return all;
  }
}

function readMessage(text: Buffer, body: Buffer): Message {
  const { sizes, ...head } = readHead(text);
  const data: (Data | null)[] = [];
  let at = 0;
  for (const size of sizes) {
    data.push(size === noData ? null : readData(body.subarray(at, at + size)));
    at += Math.max(0, size);
  }
  if (at !== body.length) throw new FrameError(`a body of ${body.length} bytes, its data has ${at}`);
  return { head, data };
}

function readHead(text: Buffer): Head & { sizes: readonly number[] } {
  let head: unknown;
  try {
    head = JSON.parse(text.toString("utf8"));
  } catch (cause) {
    throw new FrameError("a head that is not JSON", { cause });
  }
  if (typeof head !== "object" || head === null || !("kind" in head) || typeof head.kind !== "string")
    throw new FrameError("a head without a kind");
  const sizes: unknown = "sizes" in head ? head.sizes : [];
  if (!Array.isArray(sizes) || !sizes.every((size) => Number.isInteger(size)))
    throw new FrameError("a head without the sizes of its data");
  return { ...head, kind: head.kind, sizes: sizes as number[] };
}

function readData(bytes: Buffer): Data {
  const first = bytes[0] ?? 0;
  try {
    // a copy, because the bytes are a view of everything that arrived together
    if (first >= 0xa0 && first <= 0xbf) return cborData(new Uint8Array(bytes), unlimited);
    return jsonData(bytes.toString("utf8"), unlimited);
  } catch (cause) {
    throw new FrameError(`data that cannot be read: ${cause instanceof Error ? cause.message : ""}`, {
      cause,
    });
  }
}
