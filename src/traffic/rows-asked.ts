/**
 * The maximum number of rows that a call reads or writes, according to its arguments: its `limit` or `number`, or the length of its
 * longest list. A listing without a limit reads a page of 1,000.
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
