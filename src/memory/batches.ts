/** Lists of batches, in the order of their names. */
import { compareNames, type BatchRow } from "../core/index.ts";
import type { Space } from "./state.ts";

export const listBatches = (space: Space | undefined, previous: string | null, limit: number): BatchRow[] =>
  [...(space?.batches.values() ?? [])]
    .filter(({ name }) => previous === null || compareNames(name, previous) > 0)
    .sort((a, b) => compareNames(a.name, b.name))
    .slice(0, limit);

export function innerBatches(space: Space | undefined, parents: readonly string[]): string[] {
  const wanted = new Set<string | null>(parents);
  const inner = [...(space?.batches.values() ?? [])].filter(({ parent }) => wanted.has(parent));
  return inner.map(({ name }) => name).sort(compareNames);
}
