/**
 * How many rows a call reads or writes at most, as far as its arguments say: the `limit` or `number` that it asks for, or the
 * length of the longest list that it brings. A listing that says nothing gets a page of 1,000.
 */
export function rowsAsked(verb: string, args: readonly unknown[]): number {
  let rows = 0;
  let limited = false;
  for (const arg of args) {
    if (Array.isArray(arg)) rows = Math.max(rows, arg.length);
    else if (typeof arg === "object" && arg !== null) {
      for (const [key, value] of Object.entries(arg)) {
        if (key === "limit" || key === "number") limited = true;
        if (typeof value === "number" && (key === "limit" || key === "number")) rows = Math.max(rows, value);
        if (Array.isArray(value)) rows = Math.max(rows, value.length);
      }
    }
  }
  return verb.startsWith("list") && !limited ? Math.max(rows, 1000) : rows;
}
