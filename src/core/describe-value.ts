/** Describes a value in a message: by its kind, or by the value itself when it is short. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value instanceof Uint8Array) return "bytes";
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? value.slice(0, 40) + "…" : value);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint")
    return String(value);
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
