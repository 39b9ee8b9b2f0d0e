/**
 * What partitions cost: claims and finishes with each rule for 10,000 partitions, with all rules together, and with none, in turns, in
 * one store; and with 10,000 and 1,000,000 waiting units.
 *
 * Units are named in the order in which they are added, which is the order in which a work spec without rules hands them out: it
 * finds them beside each other, and turns find them everywhere. If names begin with the partition, both take units from everywhere.
 */
import { encodeData, type Coordinate } from "../../src/index.ts";
import { median } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { payload } from "../systems/driver.ts";
import { rate } from "./claims.ts";
import type { Probe } from "./probe.ts";

const partitions = 10_000;
const fast = { limit: 10_000_000, burst: 10_000_000 };
const limit = { max_running_per_partition: 100 };
const rates = { rate: fast, rate_per_partition: fast };
const all = { ...limit, ...rates, fair: "partition" };

interface Kind {
  rules: Record<string, unknown>;
  waiting: number;
  /** Whether names begin with the partition. */
  tenantFirst?: true;
}

/** By namespace. */
const kinds: Record<string, Kind> = {
  without: { rules: {}, waiting: 10_000 },
  "a limit": { rules: limit, waiting: 10_000 },
  "two rates": { rules: rates, waiting: 10_000 },
  turns: { rules: { fair: "partition" }, waiting: 10_000 },
  order: { rules: { order: "partition" }, waiting: 10_000 },
  all: { rules: all, waiting: 10_000 },
  "all, 1,000,000 wait": { rules: all, waiting: 1_000_000 },
  "without, tenant first": { rules: {}, waiting: 10_000, tenantFirst: true },
  "all, tenant first": { rules: all, waiting: 10_000, tenantFirst: true },
};

async function addUnits(coordinate: Coordinate, ns: string, from: number, count: number): Promise<void> {
  for (let at = from; at < from + count; at += 5000)
    await coordinate.addWorkUnits(
      ns,
      "s",
      Array.from({ length: Math.min(5000, from + count - at) }, (_, i) => {
        const partition = `tenant-${((at + i) * 7919) % partitions}`;
        const name = `unit-${String(at + i).padStart(9, "0")}`;
        return {
          name: kinds[ns]?.tenantFirst === true ? `${partition}/${name}` : name,
          data: encodeData(payload(at + i)),
          partition,
        };
      }),
    );
}

export const partitioned: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  // long enough for compiled code, except in trial runs
  const turn = factor < 0.05 ? 200 : 5000;
  const names = Object.keys(kinds);
  const added = new Map<string, number>();
  const add = async (ns: string, count: number): Promise<void> => {
    await addUnits(coordinate, ns, added.get(ns) ?? 0, count);
    added.set(ns, (added.get(ns) ?? 0) + count);
  };
  const measured = new Map<string, number[]>();
  for (const ns of names) {
    const { rules, waiting } = kinds[ns]!;
    await coordinate.setWorkSpecs(ns, [{ data: encodeData({ name: "s", ...rules }) }]);
    await add(ns, Math.max(turn, waiting * factor));
    measured.set(ns, []);
  }
  for (let i = 0; i < (factor < 1 ? 3 : 7); i++)
    for (const ns of i % 2 === 0 ? names : names.toReversed()) {
      await add(ns, turn);
      measured.get(ns)?.push(await rate(coordinate, ns, turn, 100));
    }
  await coordinate.close();
  const over = (a: string, b: string): number =>
    median((measured.get(a) ?? []).map((one, i) => one / (measured.get(b)?.[i] ?? NaN)));
  return {
    value: over("all", "without"),
    ...Object.fromEntries(
      names
        .filter((name) => !name.startsWith("without"))
        .map((name) => [
          name,
          over(name, kinds[name]?.tenantFirst === true ? "without, tenant first" : "without"),
        ]),
    ),
    "1,000,000 / 10,000 waiting": over("all, 1,000,000 wait", "all"),
    ...Object.fromEntries(names.map((name) => [`${name}, units/s`, median(measured.get(name) ?? [])])),
  };
};
