/** Lists the workers of a namespace, and arranges them in a tree by parent. */
import { firstRows, type Coordinate, type WorkerQuery, type WorkerRow } from "../core/index.ts";

/** At most `max` workers; `more` is true when there are others. */
export const listWorkers = (
  coordinate: Coordinate,
  ns: string,
  query: WorkerQuery,
  max: number,
): Promise<{ rows: WorkerRow[]; more: boolean }> =>
  firstRows(max, (page) => coordinate.listWorkers(ns, { ...query, ...page }));

export interface Branch {
  row: WorkerRow;
  /** The tree lines to draw before the name. */
  lead: string;
}

/** Parents before their children; a worker whose parent is not listed is a root. */
export function tree(rows: readonly WorkerRow[]): Branch[] {
  const known = new Set(rows.map(({ name }) => name));
  const children = new Map<string | null, WorkerRow[]>();
  for (const row of rows) {
    const parent = row.parent !== null && known.has(row.parent) ? row.parent : null;
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [row]);
    else siblings.push(row);
  }
  const branches: Branch[] = [];
  const add = (row: WorkerRow, lead: string, below: string): void => {
    branches.push({ row, lead });
    const own = children.get(row.name) ?? [];
    own.forEach((child, i) => {
      const last = i === own.length - 1;
      add(child, `${below}${last ? "└─ " : "├─ "}`, `${below}${last ? "   " : "│  "}`);
    });
  };
  for (const row of children.get(null) ?? []) add(row, "", "");
  return branches;
}
