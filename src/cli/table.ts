/**
 * Tables for a terminal and for a pipe. On a terminal a table is never wider than the window: columns with a `min` are cut with
 * an ellipsis, the widest first; in a window that is too narrow even for that, each row takes several lines. In a pipe nothing
 * is cut.
 */
import measure from "fast-string-truncated-width";
import { show } from "./escape.ts";

/** Styles as `util.styleText` names them. */
export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan" | "magenta";

/** `text` is escaped before it is shown. */
export interface Cell {
  text: string;
  style?: Style | undefined;
}

export interface Column {
  head: string;
  align?: "left" | "right";
  /** May be cut when the table is too wide, to no less than this. */
  min?: number;
}

export type Paint = (style: Style | undefined, text: string) => string;

const ascii = /^[\u0020-\u007e]*$/;

/** Columns of a terminal that a text without control characters takes. */
export const width = (text: string): number => (ascii.test(text) ? text.length : measure(text).width);

/** The text, or its beginning with an ellipsis, in at most `max` columns. */
export function cut(text: string, max: number): string {
  if (width(text) <= max) return text;
  if (max < 1) return "";
  const { index } = measure(text, { limit: max, ellipsis: "…", ellipsisWidth: 1 });
  // of letters that are not Latin, the library counts those before a Latin one too late
  const kept = Array.from(text.slice(0, index));
  while (width(kept.join("")) >= max) kept.pop();
  return `${kept.join("")}…`;
}

export const pad = (text: string, to: number, align: "left" | "right" = "left"): string => {
  const space = " ".repeat(Math.max(0, to - width(text)));
  return align === "left" ? text + space : space + text;
};

/** The lines of a table; `max` is the width of the window, Infinity for a pipe. */
export const tableLines = (...table: Parameters<typeof tableBlocks>): string[] =>
  tableBlocks(...table).flat();

/** The head of a table, then the lines of each row. */
export function tableBlocks(
  columns: readonly Column[],
  rows: readonly (readonly (string | Cell)[])[],
  max: number,
  paint: Paint,
): string[][] {
  const cells = rows.map((row) =>
    row.map((cell) => (typeof cell === "string" ? { text: show(cell) } : { ...cell, text: show(cell.text) })),
  );
  const widths = columns.map(({ head }, i) =>
    cells.reduce((widest, row) => Math.max(widest, width(row[i]?.text ?? "")), width(head)),
  );
  if (!shrink(columns, widths, max)) return cells.map((row) => paragraph(columns, row, max, paint));
  const line = (row: readonly Cell[]): string =>
    columns
      .map(({ align = "left" }, i) => {
        const { text, style } = row[i] ?? { text: "" };
        const shown = cut(text, widths[i] ?? 0);
        // the last column needs no padding, and a line no white space at its end
        return i === columns.length - 1 && align === "left"
          ? paint(style, shown)
          : pad(shown, widths[i] ?? 0, align).replace(shown, () => paint(style, shown));
      })
      .join("  ")
      .trimEnd();
  return [columns.map(({ head }): Cell => ({ text: head, style: "bold" })), ...cells].map((row) => [
    line(row),
  ]);
}

/** A row for a window that is too narrow for the columns: the first cell, then the others with their heads. */
function paragraph(columns: readonly Column[], row: readonly Cell[], max: number, paint: Paint): string[] {
  const [first, ...others] = row;
  const lines = first === undefined || first.text === "" ? [] : [paint(first.style, cut(first.text, max))];
  let taken = max;
  for (const [i, { text, style }] of others.entries()) {
    if (text === "") continue;
    const head = columns[i + 1]?.head ?? "";
    const shown = cut(text, max - width(head) - 3);
    const piece = `  ${paint("bold", head)} ${paint(style, shown)}`;
    const size = width(head) + width(shown) + 3;
    if (taken + size > max) {
      lines.push(piece);
      taken = size;
    } else {
      lines.push(`${lines.pop() ?? ""}${piece}`);
      taken += size;
    }
  }
  return lines;
}

/** Narrows the widest column that can still shrink, until the table fits. Returns false if it cannot fit. */
function shrink(columns: readonly Column[], widths: number[], max: number): boolean {
  let over = widths.reduce((sum, one) => sum + one, 2 * (columns.length - 1)) - max;
  while (over > 0) {
    let widest = -1;
    for (let i = 0; i < widths.length; i++) {
      const { min } = columns[i] ?? {};
      if (min === undefined || (widths[i] ?? 0) <= min) continue;
      if (widest < 0 || (widths[i] ?? 0) > (widths[widest] ?? 0)) widest = i;
    }
    if (widest < 0) return false;
    widths[widest] = (widths[widest] ?? 0) - 1;
    over -= 1;
  }
  return true;
}

/** Wraps a text between words into lines of at most `max` columns; `indent` precedes every line but the first. */
export function wrap(text: string, max: number, indent = ""): string[] {
  if (!Number.isFinite(max)) return [text];
  const lead = /^ */.exec(text)?.[0] ?? "";
  const lines: string[] = [];
  let line = lead;
  let empty = true;
  for (const word of text.slice(lead.length).split(" ")) {
    const longer = empty ? line + word : `${line} ${word}`;
    if (!empty && width(longer) > max) {
      lines.push(line);
      line = indent + word;
    } else line = longer;
    empty = false;
  }
  return [...lines, line];
}
