/** Listings of units that wait by partition, which have no index by name: a few are sorted, many are found by a scan of all units. */
import { expect, test } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

test("available units of a work spec with partitions are listed in name order, few or many", async () => {
  const engine = new Engine(await openSqlite(":memory:"));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", max_running_per_partition: 1 }) }]);
  const nameOf = (i: number): string => String(i).padStart(6, "0");
  const add = (from: number, to: number) =>
    engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: to - from }, (_, i) => ({
        name: nameOf(from + i),
        partition: `p${(from + i) % 3}`,
        priority: i % 2,
      })),
    );
  const listed = async (previous: number): Promise<string[]> => {
    const query = { statuses: ["available" as const], previous: nameOf(previous), limit: 4 };
    return (await engine.listWorkUnits("", "s", query)).rows.map(({ name }) => name);
  };
  await add(0, 1000);
  // one unit of each partition, with the higher priority: 1, 3 and 5
  const running = await engine.requestAttempts("", { worker: "w", number: 10 });
  expect(running.map(({ workUnit }) => workUnit).sort()).toEqual([1, 3, 5].map(nameOf));
  expect(await listed(0)).toEqual([2, 4, 6, 7].map(nameOf));
  for (let from = 1000; from < 101_000; from += 20_000) await add(from, from + 20_000);
  expect(await listed(0)).toEqual([2, 4, 6, 7].map(nameOf));
  expect(await listed(100_500)).toEqual([100_501, 100_502, 100_503, 100_504].map(nameOf));
  await engine.close();
}, 60_000);
