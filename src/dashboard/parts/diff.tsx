/** Two texts side by side: removed text at the left, added text at the right, changed words marked. */
import type { ReactNode } from "react";
import { visible } from "../format.ts";

type Step = { readonly kind: "same" | "del" | "add"; readonly text: string };

/** A line diff by longest common subsequence. When the changed parts are too large for it, all their lines are removed and added. */
function diffLines(a: readonly string[], b: readonly string[]): Step[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  const middle =
    left.length * right.length > 4_000_000
      ? [...left.map(step("del")), ...right.map(step("add"))]
      : longestCommon(left, right);
  return [...a.slice(0, start).map(step("same")), ...middle, ...a.slice(a.length - end).map(step("same"))];
}

const step =
  (kind: Step["kind"]) =>
  (text: string): Step => ({ kind, text });

function longestCommon(a: readonly string[], b: readonly string[]): Step[] {
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const steps: Step[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      steps.push({ kind: "same", text: a[i]! });
      i++;
      j++;
    } else if (
      i < a.length &&
      (j >= b.length || lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)
    )
      steps.push({ kind: "del", text: a[i++]! });
    else steps.push({ kind: "add", text: b[j++]! });
  }
  return steps;
}

interface Cell {
  readonly number: number;
  readonly text: string;
  readonly kind: Step["kind"];
  /** The other side of a changed line. */
  readonly other?: string;
}

export interface DiffRow {
  readonly left: Cell | null;
  readonly right: Cell | null;
}

/** Rows for two columns: a removed line is beside the added line that replaces it. */
export function diffRows(a: readonly string[], b: readonly string[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let left = 0;
  let right = 0;
  let taken: string[] = [];
  let added: string[] = [];
  const flush = (): void => {
    for (let i = 0; i < Math.max(taken.length, added.length); i++) {
      const before = taken[i];
      const after = added[i];
      rows.push({
        left:
          before === undefined
            ? null
            : {
                number: (left += 1),
                text: before,
                kind: "del",
                ...(after !== undefined && { other: after }),
              },
        right:
          after === undefined
            ? null
            : {
                number: (right += 1),
                text: after,
                kind: "add",
                ...(before !== undefined && { other: before }),
              },
      });
    }
    taken = [];
    added = [];
  };
  for (const { kind, text } of diffLines(a, b)) {
    if (kind === "del") taken.push(text);
    else if (kind === "add") added.push(text);
    else {
      flush();
      rows.push({
        left: { number: (left += 1), text, kind },
        right: { number: (right += 1), text, kind },
      });
    }
  }
  flush();
  return rows;
}

/** Only the changed rows, with `context` rows around them. Null stands for omitted rows. */
export function around(rows: readonly DiffRow[], context: number): (DiffRow | null)[] {
  const isNear = rows.map((_row, i) =>
    rows
      .slice(Math.max(0, i - context), i + context + 1)
      .some(({ left, right }) => left?.kind !== "same" || right?.kind !== "same"),
  );
  const shown: (DiffRow | null)[] = [];
  rows.forEach((row, i) => {
    if (isNear[i] === true) shown.push(row);
    else if (shown.at(-1) !== null) shown.push(null);
  });
  return shown;
}

export function Diff({ rows }: { rows: readonly (DiffRow | null)[] }): ReactNode {
  return (
    <div className="dd" role="table" aria-label="Differences">
      {rows.map((row, i) =>
        row === null ? (
          <div className="dr gap" role="row" key={i}>
            <span role="cell">⋯</span>
          </div>
        ) : (
          <div className="dr" role="row" key={i}>
            <Side cell={row.left} />
            <Side cell={row.right} />
          </div>
        ),
      )}
    </div>
  );
}

function Side({ cell }: { cell: Cell | null }): ReactNode {
  if (cell === null) return <div className="dl nil" role="cell" />;
  const { number, text, kind, other } = cell;
  const sign = kind === "del" ? "−" : kind === "add" ? "+" : "";
  return (
    <div className={`dl ${kind}`} role="cell">
      <span className="no">{number}</span>
      <span className="sg2">{sign}</span>
      <code>{other === undefined ? visible(text) : <Marked text={text} other={other} />}</code>
    </div>
  );
}

/** Marks the part of a changed line that differs between the two sides. */
function Marked({ text, other }: { text: string; other: string }): ReactNode {
  let start = 0;
  while (start < text.length && start < other.length && text[start] === other[start]) start++;
  let end = 0;
  while (end < text.length - start && end < other.length - start && text.at(-1 - end) === other.at(-1 - end))
    end++;
  // lines with little in common are different lines: marking all of it would say nothing
  if (start + end < Math.min(text.length, other.length) * 0.3) return visible(text);
  // mark whole words, not letters: move back to the start of the changed word
  while (start > 0 && /[\w.]/.test(text[start - 1] ?? "") && /[\w.]/.test(text[start] ?? other[start] ?? ""))
    start--;
  while (
    end > 0 &&
    /[\w.]/.test(text.at(-end) ?? "") &&
    /[\w.]/.test(text.at(-1 - end) ?? other.at(-1 - end) ?? "")
  )
    end--;
  return (
    <>
      {visible(text.slice(0, start))}
      <mark>{visible(text.slice(start, text.length - end))}</mark>
      {visible(text.slice(text.length - end))}
    </>
  );
}
