/** The entries of bulk input: each has its units, or a problem. */
import type { WorkUnitInput } from "../core/index.ts";

export interface Entry {
  /** For messages, counted from 1; the first line of a CSV record that spans several lines. */
  readonly line: number;
  /** Ascending: the line, or the number of the record. */
  readonly position: number;
  readonly units: readonly WorkUnitInput[];
  /** Its approximate size in a request, in characters. */
  readonly size: number;
  /** The checksum of the input up to and including this entry. A resumed load uses it to check that the input is the same. */
  readonly checksum: number;
  /** Why the entry is bad; empty when it is not. */
  readonly problem: string;
}

/** The entries of an input in order, several at a time. */
export type Entries = AsyncGenerator<Entry[]>;
