/**
 * Finds the end of a CBOR item, in unchecked bytes that may not all have arrived.
 *
 * It reads only the heads of items: it decodes nothing, allocates nothing by a declared length, and does not recurse, so five
 * bytes that declare four thousand million items cost five bytes. An item that is well-formed but not allowed here (such as an
 * unknown tag) is noted as `refusal` and skipped, so that the request around it can still be answered.
 */
import { cborHead, CoordinateError, nextTurn } from "../core/index.ts";

export const { argument, breakByte, halfFloat, headEnd, indefinite, itemEnd, major } = cborHead;
const { tag } = cborHead;

/** Bytes that are not a request and cannot be answered: the connection ends. */
export class MalformedError extends Error {
  override readonly name = "MalformedError";
}

/** The peer speaks another protocol. Explanations of connection errors know it by its code. */
export class ForeignError extends MalformedError {
  readonly code = "not_cbor_rpc";
}

/** The tags of messages: those of data, and the tag of an encoded item. */
export const tags = { ...tag, encoded: 24 } as const;

const allowedTags: ReadonlySet<number> = new Set([tags.bigPositive, tags.bigNegative, tags.uuid, tags.tuple]);

/** The meaning of an entry of the stack; above 0 it is the number of items still to come. */
const open = { array: -1, mapKey: -2, mapValue: -3, bytes: -4, text: -5 } as const;

/** The maximum nesting of open containers, of indefinite length or with items to come; more than any real request has. */
const deepestAllowed = 1024;
/** The nesting at which even the scan gives up: a constant, so that memory stays bounded. */
const deepestScanned = 131_072;

export class ItemScanner {
  readonly #max: number;
  readonly #stack: number[] = [1];
  #itemsLeft: number;
  #at: number;
  /** The first thing that is well-formed but not allowed. */
  refusal: string | null = null;

  /** Scans an item that starts at `start`, must end at `max` or before, and has at most `maxItems` items in it. */
  constructor(start: number, max: number, maxItems = Infinity) {
    this.#at = start;
    this.#max = max;
    this.#itemsLeft = maxItems;
  }

  /** The end of the item; -1 while it is incomplete. May be called again with the same bytes and more. */
  scan(bytes: Uint8Array, available: number): number {
    const stack = this.#stack;
    while (stack.length > 0) {
      const at = this.#at;
      if (at >= available) return -1;
      const first = bytes[at]!;
      if (first === breakByte) {
        this.#break();
        continue;
      }
      const info = first & 31;
      if (info > 27 && info !== indefinite) throw malformed(at, "reserved length");
      const end = headEnd(bytes, at);
      if (end > available) return -1;
      this.#take(first >> 5, info);
      this.#at = end;
      this.#enter(bytes, at, end);
    }
    // of the last item, if it is a string, only the head may have arrived
    return this.#at > available ? -1 : this.#at;
  }

  #break(): void {
    const top = this.#stack.pop()!;
    if (top > 0 || top === open.mapValue) throw malformed(this.#at, "break out of place");
    this.#at += 1;
  }

  /** Counts one item. A container is dropped from the stack with its last item. */
  #take(kind: number, info: number): void {
    this.#itemsLeft -= 1;
    if (this.#itemsLeft < 0) throw new MalformedError("too many items in one message");
    const stack = this.#stack;
    const last = stack.length - 1;
    const top = stack[last]!;
    if (top > 1) stack[last] = top - 1;
    else if (top === 1) stack.pop();
    else if (top === open.mapKey) stack[last] = open.mapValue;
    else if (top === open.mapValue) stack[last] = open.mapKey;
    else if (top !== open.array) {
      const wanted = top === open.bytes ? major.bytes : major.text;
      if (kind !== wanted || info === indefinite)
        throw malformed(this.#at, "part of a string is of another type");
    }
  }

  #enter(bytes: Uint8Array, at: number, end: number): void {
    const first = bytes[at]!;
    const endless = (first & 31) === indefinite;
    switch (first >> 5) {
      case major.unsigned:
      case major.negative:
        if (endless) throw malformed(at, "indefinite length out of place");
        return;
      case major.bytes:
      case major.text:
        if (endless) return this.#push(first >> 5 === major.bytes ? open.bytes : open.text);
        this.#at = end + this.#fits(at, argument(bytes, at), end);
        return;
      case major.array:
        return endless ? this.#push(open.array) : this.#push(this.#fits(at, argument(bytes, at), end));
      case major.map:
        return endless ? this.#push(open.mapKey) : this.#push(this.#fits(at, argument(bytes, at) * 2, end));
      case major.tag:
        if (endless) throw malformed(at, "indefinite length out of place");
        if (!allowedTags.has(argument(bytes, at)))
          this.refusal ??= `tag ${argument(bytes, at)} is not supported`;
        return this.#push(1);
      default:
        this.#simple(first & 31);
    }
  }

  #simple(info: number): void {
    if (info < 20 || info === 24) this.refusal ??= "unknown simple value";
  }

  /** Every item and every byte of a string takes at least one byte: refuses what cannot fit, instead of waiting for it. */
  #fits(at: number, count: number, end: number): number {
    if (count > this.#max - end) throw malformed(at, "too long");
    return count;
  }

  #push(count: number): void {
    if (count === 0) return;
    this.#stack.push(count);
    if (this.#stack.length <= deepestAllowed) return;
    this.refusal ??= "nested too deep";
    if (this.#stack.length > deepestScanned) throw new MalformedError("nested too deep");
  }
}

function malformed(at: number, why: string): MalformedError {
  return new MalformedError(`malformed CBOR at byte ${at}: ${why}`);
}

/** As `itemEnd`, for bytes that were scanned and refused: they may be nested too deep for recursion. */
export function refusedItemEnd(bytes: Uint8Array, start: number): number {
  return new ItemScanner(start, bytes.length).scan(bytes, bytes.length);
}

/** Scans a whole item. Throws if it is malformed, and returns what is not allowed. */
export function scanWhole(bytes: Uint8Array): { end: number; refusal: string | null } {
  const scanner = new ItemScanner(0, bytes.length);
  const end = scanner.scan(bytes, bytes.length);
  if (end < 0) throw new MalformedError("truncated CBOR");
  return { end, refusal: scanner.refusal };
}

/** Bytes that are scanned in one turn of the event loop: about a millisecond. */
const scannedAtOnce = 256 * 1024;

/**
 * The maximum number of items in one request, data included. Every reader of a request goes through its items again, so this
 * bounds how long it blocks other requests.
 */
const maxItems = 8_000_000;

/** As `scanWhole`, for a request that may be long: yields to the event loop between pieces. */
export async function scanRequest(bytes: Uint8Array): Promise<{ refusal: string | null }> {
  const scanner = new ItemScanner(0, bytes.length, maxItems);
  for (let available = scannedAtOnce; ; available += scannedAtOnce) {
    if (scanner.scan(bytes, Math.min(available, bytes.length)) >= 0) return scanner;
    if (available >= bytes.length) throw new MalformedError("truncated CBOR");
    await nextTurn();
  }
}

/** The error of readers that find an unexpected value in scanned bytes. */
export function badArgument(what: string): CoordinateError {
  return new CoordinateError("bad_argument", what);
}
