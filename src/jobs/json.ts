/**
 * Arguments and results travel as JSON, unchanged or not at all. A value that JSON.stringify would silently change (NaN into
 * null, a Map into {}) is an error that names the place.
 */

/** Thrown for a value that is not JSON; the message names the place. */
export class NotJsonError extends Error {
  override readonly name = "NotJsonError";
}

/** The maximum nesting of objects and arrays. The data of a unit may have 512 levels, some of which a job needs itself. */
const deepest = 500;

/**
 * Copies a value as JSON represents it: without undefined members, with `toJSON` called, and null for `undefined`. Throws a
 * `NotJsonError` whose message begins with `what`.
 */
export function jsonValue(value: unknown, what: string): unknown {
  return value === undefined ? null : copy(value, what, new Set());
}

function copy(value: unknown, at: string, above: Set<object>): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (!Number.isFinite(value)) throw new NotJsonError(`${at}: ${value} is not JSON`);
      return value;
    case "undefined":
      return null;
    case "bigint":
      throw new NotJsonError(`${at}: a BigInt is not JSON; use a number or a string`);
    case "function":
    case "symbol":
      throw new NotJsonError(`${at}: a ${typeof value} is not JSON`);
    case "object":
      return value === null ? null : copyObject(value, at, above);
  }
}

function copyObject(value: object, at: string, above: Set<object>): unknown {
  if (above.has(value)) throw new NotJsonError(`${at}: contains itself`);
  if (above.size >= deepest) throw new NotJsonError(`${at}: nested more than ${deepest} levels deep`);
  above.add(value);
  try {
    // a Buffer has a toJSON that makes it an object of numbers, and the toJSON of an invalid Date returns null
    if (ArrayBuffer.isView(value)) throw new NotJsonError(`${at}: a binary view is not JSON`);
    if (value instanceof Date && Number.isNaN(value.getTime()))
      throw new NotJsonError(`${at}: an invalid Date is not JSON`);
    if ("toJSON" in value && typeof value.toJSON === "function")
      return copy((value.toJSON as () => unknown)(), at, above);
    if (Array.isArray(value)) return value.map((item, i) => copy(item, `${at}[${i}]`, above));
    if (value instanceof Error) throw new NotJsonError(`${at}: an Error is not JSON; use its message`);
    const odd = oddKinds.find((kind) => value instanceof kind);
    if (odd !== undefined) throw new NotJsonError(`${at}: a ${odd.name} is not JSON`);
    const made: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(value)) {
      if (item === undefined) continue;
      const member = copy(item, `${at}.${key}`, above);
      // a member of this name is data like any other, not the prototype
      if (key === "__proto__")
        Object.defineProperty(made, key, {
          value: member,
          enumerable: true,
          configurable: true,
          writable: true,
        });
      else made[key] = member;
    }
    return made;
  } finally {
    above.delete(value);
  }
}

/** The kinds of object whose contents JSON would lose. */
const oddKinds = [Map, Set, WeakMap, WeakSet, Promise, RegExp, ArrayBuffer, SharedArrayBuffer, Blob];
