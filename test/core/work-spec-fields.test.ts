/** The table of work-spec fields: the code that uses it and the docs agree with it. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { withTables } from "../../scripts/doc-tables.mjs";
import {
  checkMetaChange,
  defaultMeta,
  encodeData,
  isCoordinateError,
  metaFields,
  readKind,
  readStoredMeta,
  readWorkSpec,
  resetMeta,
  settableFields,
  workSpecKeys,
  type FieldKind,
} from "../../src/core/index.ts";

const metaOf = (spec: object) => readWorkSpec(encodeData({ name: "s", ...spec })).meta;

/** For each kind: a value in data, the metadata that results from it, and values that are refused. */
const samples: Readonly<Record<FieldKind, { data: unknown; meta: unknown; wrong: readonly unknown[] }>> = {
  number: { data: -2.5, meta: -2.5, wrong: ["1", true, {}] },
  amount: { data: 0.5, meta: 0.5, wrong: [-1, "1"] },
  share: { data: 0.25, meta: 0.25, wrong: [-0.1, 1.1, "1"] },
  count: { data: 3, meta: 3, wrong: [-1, 1.5, "3"] },
  boolean: { data: true, meta: true, wrong: [1, "true"] },
  text: { data: "next", meta: "next", wrong: [1, {}] },
  object: { data: {}, meta: {}, wrong: [1, [], "x"] },
  arguments: { data: [1], meta: [1], wrong: [1, "x"] },
  duration: { data: 1.5, meta: 1500, wrong: [-1, "1"] },
  time: {
    data: "2030-01-02T03:04:05Z",
    meta: Date.UTC(2030, 0, 2, 3, 4, 5),
    wrong: [-1, "tomorrow", "2030-01-02"],
  },
  times: { data: [1, "1970-01-01T00:00:02Z"], meta: [1000, 2000], wrong: [1, ["tomorrow"], "x"] },
  weights: { data: { a: 2, b: 1 }, meta: { a: 2, b: 1 }, wrong: [[2], { a: 0 }, { a: 1.5 }, { a: "2" }] },
  names: { data: ["a", "b"], meta: ["a", "b"], wrong: ["a", [1], {}] },
  choice: { data: "a", meta: "a", wrong: [1, {}] },
};

describe("every field", () => {
  test.each(metaFields)("$field is derived from the data, and has a default", (row) => {
    const { key, field, kind, metaOnly } = row;
    expect(readStoredMeta("{}")[field]).toEqual(row.default);
    if (metaOnly === true) {
      // metadata only: the scheduler ignores a key with this name in the data
      expect(metaOf({ [key]: "anything" })[field]).toEqual(metaOf({})[field]);
      return;
    }
    expect(metaOf({})[field]).toEqual(row.default);
    const sample = samples[kind];
    // the last word, because the first may be empty
    const word = "words" in row && Array.isArray(row.words) ? (row.words.at(-1) as string) : undefined;
    const { data, meta, wrong } = word === undefined ? sample : { ...sample, data: word, meta: word };
    expect(metaOf({ [key]: data })[field]).toEqual(meta);
    expect(metaOf({ [key]: null })[field]).toEqual(row.default);
    for (const value of wrong)
      expect(() => metaOf({ [key]: value })).toThrow(
        expect.toSatisfy((error) => isCoordinateError(error, "bad_work_spec")),
      );
  });

  test.each(metaFields)("$field is kept and may be set, or neither", ({ field, kind, settable }) => {
    const { meta, wrong } = samples[kind];
    const derived = metaOf({ continuous: true });
    const changed = { ...derived, [field]: field === "continuous" ? false : meta };
    const kept = resetMeta(changed, derived, true);
    expect(resetMeta(changed, derived, false)).toEqual(derived);
    expect(kept[field]).toEqual(settable === true ? changed[field] : derived[field]);
    const check = (value: unknown) => checkMetaChange({ [field]: value });
    if (settable === true) {
      expect(check(meta)).toEqual({ [field]: meta });
      for (const value of wrong) expect(() => check(value)).toThrow(new RegExp(`${field}: expected`));
    } else expect(() => check(meta)).toThrow(/cannot be set/);
  });

  test("of a work spec that was stored before the field was known has its default", () => {
    const { maxRetries: _unknown, ...older } = metaOf({ max_running: 2 });
    expect(readStoredMeta(JSON.stringify(older))).toEqual({ ...older, maxRetries: defaultMeta.maxRetries });
  });
});

test("times are seconds since 1970 or dates with an offset, durations are rounded to milliseconds", () => {
  expect(readKind("time", 12.5)).toBe(12_500);
  expect(readKind("time", "2030-01-02T03:04:05+01:00")).toBe(Date.UTC(2030, 0, 2, 2, 4, 5));
  expect(readKind("time", "2030-01-02T03:04:05")).toBeUndefined();
  expect(readKind("time", 1e14)).toBeUndefined();
  expect(readKind("duration", 0.0004)).toBe(0);
});

test("names, keys and aliases of fields that may be set are all different", () => {
  const names = settableFields.flatMap(({ name, key, aliases = [] }) => [
    ...new Set([name, key, ...aliases]),
  ]);
  expect(new Set(names).size).toBe(names.length);
  expect(Object.keys(workSpecKeys)).not.toContain("next_continuous");
});

test("the tables of docs/work-specs.md are made from it: npm run schemas writes them", () => {
  const page = readFileSync(path.join(import.meta.dirname, "../../docs/work-specs.md"), "utf8");
  const cells = (text: string) => text.replace(/ *\| */g, "|").replace(/-{3,}/g, "---");
  expect(cells(page)).toBe(cells(withTables(page)));
});
