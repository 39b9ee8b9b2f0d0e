/**
 * Splits a stream of bytes into messages.
 *
 * A message is a CBOR map, bare or wrapped as tag 24 around a byte string. Anything else that a peer sends cannot be answered and
 * throws `MalformedError`. Memory grows with the bytes that have arrived, never with a declared length: a message within one
 * chunk is a view of it; a longer one is collected in a buffer that doubles, up to the declared length, so that a frame costs at
 * most about twice its size while it arrives.
 */
import { Buffer } from "node:buffer";
import {
  argument,
  breakByte,
  ForeignError,
  headEnd,
  indefinite,
  ItemScanner,
  major,
  MalformedError,
  tags,
} from "./scan.ts";

/** The memory for incomplete messages, shared by all connections. */
export interface FrameBudget {
  used: number;
  readonly max: number;
}

const smallest = 64 * 1024;

export class FrameReader {
  readonly #maxBytes: number;
  readonly #budget: FrameBudget;
  #bytes: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  /** The size of #bytes if it is our own buffer, which counts in the budget; 0 if it is a view of a received chunk. */
  #owned = 0;
  /** The length of the incomplete message; 0 while it is not known. */
  #total = 0;
  /** Finds the end of a message that does not declare its length. Its positions count from #start. */
  #scanner: ItemScanner | null = null;

  constructor(maxBytes: number, budget: FrameBudget = { used: 0, max: Infinity }) {
    this.#maxBytes = maxBytes;
    this.#budget = budget;
  }

  /** Whether there are bytes of an incomplete message. */
  get partial(): boolean {
    return this.#end > this.#start;
  }

  push(chunk: Buffer): void {
    const unread = this.#end - this.#start;
    if (unread === 0) {
      this.#release();
      this.#bytes = chunk;
      this.#start = 0;
      this.#end = chunk.length;
      return;
    }
    const needed = unread + chunk.length;
    if (this.#owned === 0 || this.#end + chunk.length > this.#owned) this.#grow(unread, needed);
    chunk.copy(this.#bytes, this.#end);
    this.#end += chunk.length;
  }

  #grow(unread: number, needed: number): void {
    let size = Math.max(smallest, needed * 2);
    // pipelined requests may follow the incomplete message: its declared length is no upper bound
    if (this.#total > 0) size = Math.max(needed, Math.min(size, this.#total));
    // checked before the allocation: a buffer that exceeds the budget is never allocated
    if (this.#budget.used - this.#owned + size > this.#budget.max)
      throw new MalformedError("too many bytes of unfinished messages");
    // not from Buffer's pool, and not zeroed: it is written before it is read
    const grown = Buffer.allocUnsafeSlow(size);
    this.#bytes.copy(grown, 0, this.#start, this.#end);
    this.#budget.used += size - this.#owned;
    this.#owned = size;
    this.#bytes = grown;
    this.#start = 0;
    this.#end = unread;
  }

  #release(): void {
    this.#budget.used -= this.#owned;
    this.#owned = 0;
    this.#bytes = Buffer.alloc(0);
    this.#start = 0;
    this.#end = 0;
  }

  /** Releases its memory; no message comes after that. */
  close(): void {
    this.#release();
    this.#scanner = null;
  }

  /** The next message, or null while it is incomplete. The returned bytes are never overwritten. */
  next(): Buffer | null {
    if (!this.partial) {
      if (this.#owned > 0) this.#release();
      return null;
    }
    const frame = this.#read();
    if (frame === null) {
      // an incomplete message is refused only when it cannot end within the limit, however slowly it arrives
      if (this.#end - this.#start > this.#maxBytes + 64) throw tooLong(this.#maxBytes);
      return null;
    }
    this.#total = 0;
    this.#scanner = null;
    return frame;
  }

  #read(): Buffer | null {
    const bytes = this.#bytes;
    const at = this.#start;
    const kind = bytes[at]! >> 5;
    if (kind === major.map) return this.#scanned(at, at);
    if (kind !== major.tag) throw new ForeignError("not a message");
    checkInfo(bytes, at);
    const inner = headEnd(bytes, at);
    if (inner > this.#end) return null;
    if (argument(bytes, at) !== tags.encoded) throw new ForeignError("not a message");
    if (inner === this.#end) return null;
    if (bytes[inner]! >> 5 !== major.bytes) throw new MalformedError("not a wrapped message");
    if ((bytes[inner]! & 31) === indefinite) return this.#scanned(at, inner);
    checkInfo(bytes, inner);
    const content = headEnd(bytes, inner);
    if (content > this.#end) return null;
    const length = argument(bytes, inner);
    if (length > this.#maxBytes) throw tooLong(this.#maxBytes);
    const end = content + length;
    if (end > this.#end) {
      this.#total = end - at;
      return null;
    }
    this.#start = end;
    return bytes.subarray(content, end);
  }

  /** A message whose end is found by scanning: a bare map, or a byte string in parts. */
  #scanned(at: number, item: number): Buffer | null {
    this.#scanner ??= new ItemScanner(item - at, item - at + this.#maxBytes);
    const found = this.#scanner.scan(this.#bytes.subarray(at), this.#end - at);
    if (found < 0) return null;
    this.#start = at + found;
    if (item === at) return this.#bytes.subarray(at, this.#start);
    return joinParts(this.#bytes.subarray(item, this.#start));
  }
}

function checkInfo(bytes: Uint8Array, at: number): void {
  if ((bytes[at]! & 31) > 27) throw new MalformedError("reserved length");
}

/** The content of a byte string in parts. */
function joinParts(string: Buffer): Buffer {
  const whole = Buffer.allocUnsafeSlow(string.length);
  let length = 0;
  for (let at = 1; string[at] !== breakByte;) {
    const start = headEnd(string, at);
    const end = start + argument(string, at);
    length += string.copy(whole, length, start, end);
    at = end;
  }
  return whole.subarray(0, length);
}

function tooLong(max: number): MalformedError {
  return new MalformedError(`message of more than ${max} bytes`);
}
