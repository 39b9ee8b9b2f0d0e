/** Queues and labels of units as flat arrays for statements: a PostgreSQL array cannot hold lists of different lengths. */
import { createHash } from "node:crypto";
import { nameToBytes, ownTryLimit, type UnitRetry } from "../core/index.ts";
import { byteas, int2s, int4s, int8s, texts } from "./values.ts";

export function extraArrays(
  units: readonly { id: number; queues?: readonly string[]; labels?: readonly string[] }[],
): { ids: Buffer; kinds: Buffer; values: Buffer } {
  const rows = units.flatMap(({ id, queues = [], labels = [] }) => [
    { id, kind: 2, value: null },
    ...queues.map((name) => ({ id, kind: 0, value: nameToBytes(name) })),
    ...labels.map((name) => ({ id, kind: 1, value: nameToBytes(name) })),
  ]);
  return {
    ids: int8s(rows.map(({ id }) => id)),
    kinds: int2s(rows.map(({ kind }) => kind)),
    values: byteas(rows.map(({ value }) => value)),
  };
}

/** Turns the three arrays, from this parameter on, into rows of id, queues and labels. */
export const extrasFrom = (parameter: number): string => `
  SELECT x.id, array_agg(x.value ORDER BY x.at) FILTER (WHERE x.kind = 0) AS queues,
    array_agg(x.value ORDER BY x.at) FILTER (WHERE x.kind = 1) AS labels
  FROM unnest($${parameter}::bigint[], $${parameter + 1}::smallint[], $${parameter + 2}::bytea[])
    WITH ORDINALITY AS x (id, kind, value, at)
  GROUP BY x.id`;

/** The largest number that an `integer` column holds. */
const maxInt4 = 2 ** 31 - 1;

/** The unit's own try limit as a column holds it: no unit is tried that often, so a higher limit means the same. */
export function storedTryLimit(retry: UnitRetry | null): number | null {
  const limit = ownTryLimit(retry);
  return limit === null ? null : Math.min(limit, maxInt4);
}

/** The retry settings of units as arrays: id, settings as JSON, and the try limit that they set. */
export function retryArrays(units: readonly { id: number; retry?: UnitRetry | null }[]): Buffer[] {
  return [
    int8s(units.map(({ id }) => id)),
    texts(units.map(({ retry }) => (retry === undefined || retry === null ? null : JSON.stringify(retry)))),
    int4s(units.map(({ retry }) => storedTryLimit(retry ?? null))),
  ];
}

/** Shortens a long label to its first 32 bytes and a hash, so that it fits into an index entry with the longest key. */
export function labelKey(label: string): Buffer {
  const bytes = nameToBytes(label);
  if (bytes.length <= 64) return bytes;
  return Buffer.concat([bytes.subarray(0, 32), createHash("sha256").update(bytes).digest()]);
}

/** The rows of `label` for units: spec, label, key and unit, an array each. */
export function labelRows(
  units: readonly { id: number; spec: number; key: Buffer; labels?: readonly string[] }[],
): { count: number; values: Buffer[] } {
  const rows = units.flatMap(({ id, spec, key, labels = [] }) =>
    labels.map((label) => ({ id, spec, label: labelKey(label), key })),
  );
  return {
    count: rows.length,
    values: [
      int8s(rows.map(({ spec }) => spec)),
      byteas(rows.map(({ label }) => label)),
      byteas(rows.map(({ key }) => key)),
      int8s(rows.map(({ id }) => id)),
    ],
  };
}
