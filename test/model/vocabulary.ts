/** Arguments for the operations of the differential tests: names, values and selections, most of them ordinary, some unusual. */
import fc from "fast-check";
import {
  encodeData,
  nameFromBytes,
  workUnitStatuses,
  type Data,
  type WorkUnitSelection,
} from "../../src/core/index.ts";

export const specNames = ["a", "b", "c", "\0s\u{1f600}"];
export const workerNames = ["w1", "w2", "w3", "w\0"];
/** A worker with several concurrent requests: the order in which they get units is not guaranteed. */
export const crowd = "crowd";
/** Names with a zero byte, beyond the basic plane, that are not UTF-8, and one that is a prefix of another. */
export const odd = ["n\0", "n", "\u{1f600}", nameFromBytes(Uint8Array.of(0x6e, 0xff)), "\uffff", ""];
export const paths = [["p"], ["p", "q"], ["p", "q", "r"], ["x"], []];
export const queueNames = ["q", "r\0", "\udcff"];
export const labelNames = ["red", "big", "n\0", "l".repeat(200)];
export const batchNames = ["B", "C\0", "D"];
export const actionKeys = ["k", "l", "m\0"];

export const worker = fc.constantFrom(...workerNames);
export const spec = fc.constantFrom("a", "a", "a", "a", "b", "b", "b", "c", "\0s\u{1f600}");
export const usual = fc.constantFrom("1", "2", "3", "4", "5", "6");
/** `*2` stands for a work spec with units, by number; `+2` for one with available units; for "a" if there is none. */
export const busy = fc.oneof(
  { weight: 1, arbitrary: spec },
  { weight: 3, arbitrary: fc.constantFrom("*0", "*1", "*2", "*3") },
);
export const ready = fc.oneof(
  { weight: 1, arbitrary: spec },
  { weight: 5, arbitrary: fc.constantFrom("+0", "+1", "+2", "+3") },
);

/** Placeholders for a queue with messages, and for a worker of one of the latest attempts. */
export const full = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom(...queueNames) },
  { weight: 4, arbitrary: fc.constantFrom("*0", "*1", "*2") },
);
export const occupied = fc.oneof(
  { weight: 1, arbitrary: worker },
  { weight: 4, arbitrary: fc.constantFrom("*0", "*3", "*6") },
);

/** `~3` stands for a long name, so that histories stay readable. */
export const long = fc.constantFrom("~", "~1", "~2", "~3");
export const name = fc.oneof(
  { weight: 20, arbitrary: usual },
  { weight: 4, arbitrary: fc.constantFrom(...odd) },
  { weight: 1, arbitrary: long },
);
export const priority = fc.constantFrom(0, 0, 0, 1, -1, 0.5, 1e9, 5);
export const span = fc.constantFrom(0, 0, 0, 0, 10, 100, 1000);
export const lease = fc.constantFrom(10, 100, 1000, 1000, 10_000, 10_000, 1_000_000);

/** Undefined in most cases. */
export const seldom = <Value>(arbitrary: fc.Arbitrary<Value>, times = 5): fc.Arbitrary<Value | undefined> =>
  fc.oneof({ weight: times, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
export const mostly = <Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.oneof({ weight: 1, arbitrary: fc.constant(undefined) }, { weight: 4, arbitrary });

/** One of them is so long that PostgreSQL indexes it in shortened form. */
export const partition = fc.constantFrom("", "p0", "p1", "p2", "\udc80", "p".repeat(70));

export const output = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: name },
    { weight: 2, arbitrary: fc.tuple(name, fc.record({ k: fc.nat(3) })) },
    {
      weight: 2,
      arbitrary: fc.tuple(
        name,
        fc.constant(null),
        fc.record(
          {
            priority,
            delay: fc.constantFrom(0, 0.1, 2),
            partition: fc.constantFrom("", "p0", "p1"),
            deadline: fc.constantFrom(0, 0.1, 1),
            expires: fc.constantFrom(0, 0.1, 1),
          },
          { requiredKeys: ["priority", "delay"] },
        ),
      ),
    },
    { weight: 1, arbitrary: fc.constantFrom(7, []) },
  ),
  { maxLength: 3 },
);
/** Values with `bytes` are encoded as CBOR. */
export type Value = { n?: number; output?: unknown[]; bytes?: number[] };
export const value: fc.Arbitrary<Value> = fc.oneof(
  fc.record({ n: fc.nat(9) }),
  fc.record({ output }),
  fc.record({ n: fc.nat(9), output }),
  fc.record({ bytes: fc.array(fc.nat(255), { maxLength: 4 }), output }),
);
export const encoded = (given: Value | undefined): Data | null => {
  if (given === undefined) return null;
  const { bytes, output, ...rest } = given;
  return encodeData({
    ...rest,
    ...(output !== undefined && { output: output.map(longNames) }),
    ...(bytes !== undefined && { bytes: Uint8Array.from(bytes) }),
  });
};
export const longNames = (item: unknown): unknown =>
  typeof item === "string"
    ? nameOf(item)
    : Array.isArray(item)
      ? [longNames(item[0]), ...(item as unknown[]).slice(1)]
      : item;

export const nameOf = (name: string): string =>
  name.startsWith("~") ? `~${"x".repeat(2650)}${name.slice(1)}` : name;

export const selection: fc.Arbitrary<WorkUnitSelection> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.uniqueArray(name, { minLength: 3, maxLength: 7 }).map((names) => ({ names })),
  },
  {
    weight: 2,
    arbitrary: fc.subarray([...workUnitStatuses], { minLength: 2 }).map((statuses) => ({ statuses })),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom("", "1", "n", "\udcff", "\u{1f600}", "m", "~")
      .map((prefix) => ({ prefix, statuses: [...workUnitStatuses] })),
  },
  { weight: 1, arbitrary: fc.constantFrom(...labelNames).map((label) => ({ label })) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(...labelNames), fc.subarray([...workUnitStatuses]))
      .map(([label, statuses]) => ({ label, statuses, prefix: "" })),
  },
  { weight: 3, arbitrary: fc.constant({ all: true }) },
);
export const selected = (given: WorkUnitSelection): WorkUnitSelection => ({
  ...given,
  ...(given.names && { names: given.names.map(nameOf) }),
});

/** `new` stands for an id that was never used. Stores remember the others for ten minutes. */
export const requestId = fc.oneof(
  { weight: 8, arbitrary: fc.constant(undefined) },
  { weight: 4, arbitrary: fc.constant("new") },
  { weight: 1, arbitrary: fc.constantFrom("r1", "r2", "r3") },
);
/** How to refer to a work spec: by name, by its current id, or by the id of a deleted one of the same name. */
export const by = fc.oneof(
  { weight: 12, arbitrary: fc.constant("name" as const) },
  { weight: 4, arbitrary: fc.constant("id" as const) },
  { weight: 1, arbitrary: fc.constant("old id" as const) },
);
