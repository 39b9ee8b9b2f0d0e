/** How long to wait before trying again: twice as long after each failure, up to `maxMs`. `failures` counts from 0. */
export const backOffMs = (failures: number, firstMs: number, maxMs: number): number =>
  Math.min(maxMs, firstMs * 2 ** failures);
