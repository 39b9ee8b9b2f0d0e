/** A series of numbers as a line of blocks. */
const blocks = "▁▂▃▄▅▆▇█";

/** The scale is from 0 to the largest value; a null value is a space. */
export function sparkline(values: readonly (number | null)[]): string {
  const top = Math.max(...values.map((value) => value ?? 0));
  return values
    .map((value) => {
      if (value === null) return " ";
      const level = top > 0 ? Math.ceil((value / top) * (blocks.length - 1)) : 0;
      return blocks[Math.min(blocks.length - 1, Math.max(0, level))] ?? " ";
    })
    .join("");
}
