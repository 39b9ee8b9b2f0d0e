/**
 * What partitions cost: claims and finishes of a work spec with limits, a rate and turns over 10,000 partitions, beside one without any of
 * it, in turns, in one store; and with 10,000 and with 1,000,000 units waiting.
 */
import { encodeData, type Coordinate } from "../../src/index.ts";
import { median } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { payload } from "../systems/driver.ts";
import { rate } from "./claims.ts";
import type { Probe } from "./probe.ts";

const partitions = 10_000;
const fast = { limit: 10_000_000, burst: 10_000_000 };
const rules = { max_running_per_partition: 100, rate: fast, rate_per_partition: fast, fair: "partition" };

async function addUnits(coordinate: Coordinate, ns: string, from: number, count: number): Promise<void> {
  for (let at = from; at < from + count; at += 5000)
    await coordinate.addWorkUnits(
      ns,
      "s",
      Array.from({ length: Math.min(5000, from + count - at) }, (_, i) => ({
        name: `unit-${String(at + i).padStart(9, "0")}`,
        data: encodeData(payload(at + i)),
        partition: `tenant-${((at + i) * 7919) % partitions}`,
      })),
    );
}

export const partitioned: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  const turn = Math.max(200, Math.round(5000 * Math.min(1, factor)));
  const places = { plain: 10_000, few: 10_000, many: 1_000_000 };
  const added = new Map<string, number>();
  const add = async (ns: string, count: number): Promise<void> => {
    await addUnits(coordinate, ns, added.get(ns) ?? 0, count);
    added.set(ns, (added.get(ns) ?? 0) + count);
  };
  for (const [ns, waiting] of Object.entries(places)) {
    await coordinate.setWorkSpecs(ns, [
      { data: encodeData({ name: "s", ...(ns === "plain" ? {} : rules) }) },
    ]);
    await add(ns, Math.max(turn, waiting * factor));
  }
  const rates: Record<keyof typeof places, number[]> = { plain: [], few: [], many: [] };
  const order = ["plain", "few", "many"] as const;
  for (let i = 0; i < (factor < 1 ? 3 : 7); i++)
    for (const ns of i % 2 === 0 ? order : order.toReversed()) {
      await add(ns, turn);
      rates[ns].push(await rate(coordinate, ns, turn, 100));
    }
  await coordinate.close();
  const over = (a: keyof typeof places, b: keyof typeof places): number =>
    median(rates[a].map((one, i) => one / (rates[b][i] ?? NaN)));
  return {
    value: over("few", "plain"),
    "1,000,000 / 10,000 waiting": over("many", "few"),
    "without, units/s": median(rates.plain),
    "10,000 wait, units/s": median(rates.few),
    "1,000,000 wait, units/s": median(rates.many),
  };
};
