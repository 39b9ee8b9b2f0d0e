/** What bulk input is made of once it is read: entries with their units, or what is wrong with them. */
import type { WorkUnitInput } from "../core/index.ts";

export interface Entry {
  /** For messages, counted from 1; of a CSV record that goes over several lines, its first. */
  readonly line: number;
  /** Rises from entry to entry: the line, or the number of the record. */
  readonly position: number;
  readonly units: readonly WorkUnitInput[];
  /** About how much it weighs in a request. */
  readonly size: number;
  /** Of the input up to and including this entry: what was loaded is known again by it. */
  readonly checksum: number;
  /** What is wrong with it; empty when nothing is. */
  readonly problem: string;
}

/** Entries of one format. */
export type Entries = AsyncGenerator<Entry[]>;
