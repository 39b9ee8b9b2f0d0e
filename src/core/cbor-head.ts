/** The heads of CBOR items (the first byte, and the argument that may follow it), and where items end. */

/** The major types, which are the top three bits of an item's first byte. */
export const major = {
  unsigned: 0,
  negative: 1,
  bytes: 2,
  text: 3,
  array: 4,
  map: 5,
  tag: 6,
  simple: 7,
} as const;

/** The tags allowed in data. */
export const tag = { bigPositive: 2, bigNegative: 3, uuid: 37, tuple: 128 } as const;

/** The additional information of an item of indefinite length, which ends with a break byte. */
export const indefinite = 31;
export const breakByte = 0xff;

export function majorOf(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) >> 5;
}

export function isIndefinite(bytes: Uint8Array, at: number): boolean {
  return ((bytes[at] ?? 0) & 31) === indefinite;
}

/** Where the head (first byte and argument) of the item ends. */
export function headEnd(bytes: Uint8Array, at: number): number {
  const info = (bytes[at] ?? 0) & 31;
  if (info < 24 || info === indefinite) return at + 1;
  return at + 1 + (1 << (info - 24));
}

/** The argument of a head: a length, count, tag or integer. Exact up to 2^53; good enough to refuse longer lengths. */
export function argument(bytes: Uint8Array, at: number): number {
  const info = (bytes[at] ?? 0) & 31;
  if (info < 24) return info;
  let value = 0;
  const end = headEnd(bytes, at);
  for (let byte = at + 1; byte < end; byte++) value = value * 256 + (bytes[byte] ?? 0);
  return value;
}

/** Where the item at `start` ends; only for bytes that were checked. */
export function itemEnd(bytes: Uint8Array, start: number): number {
  // fast path for short strings and small numbers, which most items are
  const only = bytes[start]!;
  if (only < 0x78 && (only & 31) < 24) return start + 1 + (only < 0x40 ? 0 : only & 31);
  let at = start;
  for (let left = 1; left > 0; left--) {
    const first = bytes[at]!;
    const endless = (first & 31) === indefinite;
    const next = headEnd(bytes, at);
    switch (first >> 5) {
      case major.bytes:
      case major.text:
        at = endless ? endlessEnd(bytes, next) : next + argument(bytes, at);
        break;
      case major.array:
        if (!endless) left += argument(bytes, at);
        at = endless ? endlessEnd(bytes, next) : next;
        break;
      case major.map:
        if (!endless) left += argument(bytes, at) * 2;
        at = endless ? endlessEnd(bytes, next) : next;
        break;
      case major.tag:
        left += 1;
        at = next;
        break;
      default:
        at = next;
    }
  }
  return at;
}

/** Recurses only as deep as containers of indefinite length go, which every check bounds. */
function endlessEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (bytes[at] !== breakByte) at = itemEnd(bytes, at);
  return at + 1;
}

/** Decodes a float of two bytes. */
export function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
