/** Batches: a row each, by name. */
import { compareNames, nameToBytes, type BatchRow } from "../core/index.ts";
import type { Space, State } from "./state.ts";

const parse = (state: unknown): BatchRow => JSON.parse(state as string) as BatchRow;

export function readBatch(state: State, space: Space, name: string): BatchRow | undefined {
  const row = state.sql.batch.get(space.id, nameToBytes(name));
  return row === undefined ? undefined : parse(row[0]);
}

export const listBatches = (state: State, space: Space, previous: string | null, limit: number): BatchRow[] =>
  state.sql.batches.all(space.id, nameToBytes(previous ?? ""), limit).map(([row]) => parse(row));

export function deleteBatch(state: State, space: Space, name: string): void {
  state.writes++;
  state.sql.dropBatch.run(space.id, nameToBytes(name));
}

export const innerBatches = (state: State, space: Space, parents: readonly string[]): string[] =>
  parents
    .flatMap((parent) =>
      state.sql.innerBatches.all(space.id, JSON.stringify(parent)).map(([row]) => parse(row).name),
    )
    .sort(compareNames);
