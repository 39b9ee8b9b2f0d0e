/** The heads of CBOR items: the first byte, and the argument that may follow it. */

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

/** Decodes a float of two bytes. */
export function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
