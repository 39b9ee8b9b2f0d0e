/**
 * The part of Node's Buffer that the client and the data functions of core use, for the browser. The bundle uses it in place of
 * `node:buffer`; test/dashboard/buffer.test.ts checks that it behaves like Node's.
 */
type Encoding = "utf8" | "hex" | "base64" | "base64url";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class Buffer extends Uint8Array<ArrayBuffer> {
  static override from(value: unknown, second?: unknown, third?: unknown): Buffer {
    if (typeof value === "string") return decoded(value, (second ?? "utf8") as Encoding);
    if (value instanceof ArrayBuffer)
      return new Buffer(value, second as number | undefined, third as number | undefined);
    return copied(value as ArrayLike<number>);
  }

  static override of(...bytes: number[]): Buffer {
    return copied(bytes);
  }

  static alloc(length: number): Buffer {
    return new Buffer(new ArrayBuffer(length));
  }

  static allocUnsafe(length: number): Buffer {
    return new Buffer(new ArrayBuffer(length));
  }

  static isBuffer(value: unknown): value is Buffer {
    return value instanceof Buffer;
  }

  static byteLength(text: string, _encoding?: "utf8"): number {
    return encoder.encode(text).length;
  }

  static concat(pieces: readonly Uint8Array[]): Buffer {
    const joined = Buffer.alloc(pieces.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const piece of pieces) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }

  static compare(a: Uint8Array, b: Uint8Array): -1 | 0 | 1 {
    const length = Math.min(a.length, b.length);
    for (let at = 0; at < length; at++) {
      if (a[at] !== b[at]) return a[at]! < b[at]! ? -1 : 1;
    }
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  }

  override toString(encoding: Encoding = "utf8", start = 0, end = this.length): string {
    const bytes = this.subarray(start, end);
    switch (encoding) {
      case "utf8":
        return decoder.decode(bytes);
      case "hex":
        return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      case "base64":
        return base64(bytes);
      case "base64url":
        return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    }
  }

  equals(other: Uint8Array): boolean {
    return Buffer.compare(this, other) === 0;
  }

  write(text: string, at: number, _encoding?: "utf8"): number {
    const bytes = encoder.encode(text);
    this.set(bytes, at);
    return bytes.length;
  }

  copy(target: Uint8Array, at: number, start: number, end: number): number {
    const bytes = this.subarray(start, end);
    target.set(bytes, at);
    return bytes.length;
  }

  get #view(): DataView {
    return new DataView(this.buffer, this.byteOffset, this.byteLength);
  }

  readUInt16BE(at: number): number {
    return this.#view.getUint16(at);
  }

  readBigUInt64BE(at: number): bigint {
    return this.#view.getBigUint64(at);
  }

  readFloatBE(at: number): number {
    return this.#view.getFloat32(at);
  }

  readDoubleBE(at: number): number {
    return this.#view.getFloat64(at);
  }

  writeUInt8(value: number, at: number): number {
    this[at] = value;
    return at + 1;
  }

  writeUInt16BE(value: number, at: number): number {
    this.#view.setUint16(at, value);
    return at + 2;
  }

  writeUInt32BE(value: number, at: number): number {
    this.#view.setUint32(at, value);
    return at + 4;
  }

  writeBigUInt64BE(value: bigint, at: number): number {
    this.#view.setBigUint64(at, value);
    return at + 8;
  }

  writeDoubleBE(value: number, at: number): number {
    this.#view.setFloat64(at, value);
    return at + 8;
  }
}

export function isUtf8(bytes: Uint8Array): boolean {
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function copied(bytes: ArrayLike<number>): Buffer {
  const copy = Buffer.alloc(bytes.length);
  copy.set(bytes);
  return copy;
}

function decoded(text: string, encoding: Encoding): Buffer {
  switch (encoding) {
    case "utf8":
      return copied(encoder.encode(text));
    case "hex":
      return copied((text.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
    case "base64":
    case "base64url":
      return copied(
        Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0)),
      );
  }
}

/** Encodes in chunks: a call with a million arguments would overflow the stack. */
function base64(bytes: Uint8Array): string {
  let letters = "";
  for (let at = 0; at < bytes.length; at += 8192)
    letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(letters);
}
