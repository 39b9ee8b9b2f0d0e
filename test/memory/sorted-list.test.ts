import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SortedList } from "../../src/core/index.ts";

/** Objects, not numbers: the list finds items by order, and may start the next search where it found the last item. */
interface Item {
  key: number;
}

const byKey = (a: Item, b: Item): number => a.key - b.key;

describe("a sorted list", () => {
  test("behaves like an array that is sorted after every change", { timeout: 120_000 }, () => {
    const item = fc.nat({ max: 3000 });
    const step = fc.oneof(
      fc.record({ do: fc.constant("add" as const), keys: fc.array(item, { maxLength: 1500, size: "max" }) }),
      fc.record({
        do: fc.constant("remove" as const),
        keys: fc.array(item, { maxLength: 1500, size: "max" }),
      }),
      fc.record({
        do: fc.constant("remove first" as const),
        keys: fc.array(item, { maxLength: 300, size: "max" }),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (steps) => {
        const items = new Map<number, Item>();
        const list = new SortedList<Item>(byKey);
        const find = (key: number): Item | undefined => list.find((item) => item.key - key);
        for (const { do: what, keys } of steps) {
          const wrong: number[] = [];
          for (const key of keys) {
            if (find(key) !== items.get(key)) wrong.push(key);
            if (what === "add") {
              const item = items.get(key) ?? { key };
              items.set(key, item);
              list.add(item);
            } else if (what === "remove") {
              const item = items.get(key);
              expect(list.remove(item ?? { key })).toBe(item !== undefined);
              items.delete(key);
            } else {
              const first = list.first();
              if (first === undefined) continue;
              expect(list.remove(first)).toBe(true);
              items.delete(first.key);
            }
          }
          const expected = [...items.keys()].sort((a, b) => a - b);
          expect([...list].map(({ key }) => key)).toEqual(expected);
          expect(list.size).toBe(expected.length);
          expect(list.first()?.key).toBe(expected[0]);
          // one expect for all keys, because expect is slow
          for (const key of [...expected, ...keys]) if (find(key) !== items.get(key)) wrong.push(key);
          expect(wrong).toEqual([]);
          const from = keys[0] ?? 0;
          expect([...list.from(({ key }) => key >= from)].map(({ key }) => key)).toEqual(
            expected.filter((key) => key >= from),
          );
          for (const [i, key] of expected.slice(0, 600).entries())
            expect(list.next(items.get(key)!)?.key).toBe(expected[i + 1]);
          expect(list.next(items.get(keys[0] ?? 0) ?? { key: -1 })?.key).toBe(
            items.has(keys[0] ?? 0) ? expected[expected.indexOf(keys[0] ?? 0) + 1] : undefined,
          );
          for (const low of [...keys.slice(0, 20), ...expected.slice(0, 600)])
            for (const next of [low, low + 1])
              expect(list.firstFrom(({ key }) => key >= next)?.key).toBe(expected.find((key) => key >= next));
        }
      }),
      { numRuns: 100 },
    );
  });

  test("is told where its items are, through splits and merges", () => {
    const where = new Map<Item, readonly Item[]>();
    const list = new SortedList<Item, { count: number }>(byKey, {
      note: (items) => ({ count: items.length }),
      added: (item, chunk) => {
        chunk.note.count++;
        where.set(item, chunk.items);
      },
      removed: (item, chunk) => {
        chunk.note.count--;
        where.delete(item);
      },
      moved: (items, chunk) => {
        for (const item of items) where.set(item, chunk.items);
      },
    });
    const items = Array.from({ length: 5000 }, (_, i) => ({ key: (i * 7919) % 5000 }));
    for (const item of items) list.add(item);
    for (const item of items.filter(({ key }) => key % 9 !== 0)) list.remove(item);
    const left = items.filter(({ key }) => key % 9 === 0);
    expect(where.size).toBe(left.length);
    for (const item of left) expect(where.get(item)).toContain(item);
    expect([...list.from(undefined, ({ count }) => count === 0)]).toHaveLength(left.length);
  });

  test("finds an item at the end of a hundred thousand as fast as among a hundred", () => {
    const list = new SortedList<Item>(byKey);
    let compared = 0;
    const counting = new SortedList<Item>((a, b) => {
      compared++;
      return byKey(a, b);
    });
    for (let key = 0; key < 100_000; key++) counting.add({ key });
    compared = 0;
    counting.remove({ key: 77_777 });
    expect(compared).toBeLessThan(25);
    expect(list.first()).toBeUndefined();
  });
});
