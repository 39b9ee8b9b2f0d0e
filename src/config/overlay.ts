/** Merges dictionaries for configurations. Both functions return new objects and change none. */
import { isMapping, setOwn } from "./document.ts";

/**
 * Applies `over` to `base`: merges mappings, deletes a key for null, and replaces everything else, lists too. Null over null
 * stays null.
 */
export function overlay(base: unknown, over: unknown): unknown {
  if (!isMapping(base) || !isMapping(over)) return over;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(base)) {
    if (!Object.hasOwn(over, key)) setOwn(result, key, value);
    else if (over[key] !== null || value === null) setOwn(result, key, overlay(value, over[key]));
  }
  for (const [key, value] of Object.entries(over)) {
    if (!Object.hasOwn(base, key) && value !== null) setOwn(result, key, value);
  }
  return result;
}

/** The dictionary that turns `base` into `target` when it is applied by `overlay`. */
export function difference(
  base: Readonly<Record<string, unknown>>,
  target: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(target)) {
    const old = Object.hasOwn(base, key) ? base[key] : undefined;
    if (isMapping(value) && isMapping(old)) {
      const inside = difference(old, value);
      if (Object.keys(inside).length > 0) setOwn(result, key, inside);
    } else if (JSON.stringify(value) !== JSON.stringify(old)) setOwn(result, key, value);
  }
  for (const key of Object.keys(base)) if (!Object.hasOwn(target, key)) setOwn(result, key, null);
  return result;
}
