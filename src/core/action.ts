/**
 * Actions: records that many jobs share, by key. A key is meant to be a hash of the content, so a record never changes:
 * putting the same data again is a no-op, and putting other data under the same key is refused. The data is opaque.
 */
import { Buffer } from "node:buffer";
import type { Data } from "./data.ts";
import { CoordinateError } from "./errors.ts";

export interface ActionInput {
  key: string;
  data: Data;
}

export interface ActionRow {
  key: string;
  data: Data;
  createdTime: number;
}

/** Whether both are the same bytes in the same encoding. */
export function sameData(a: Data, b: Data): boolean {
  if (typeof a === "string" || typeof b === "string") return a === b;
  return Buffer.compare(a, b) === 0;
}

export const otherAction = (key: string): CoordinateError =>
  new CoordinateError("name_exists", `action ${key} exists with different data`);
