/**
 * What a tenant with very many units costs the others when partitions take turns: how long it takes until all units of 99 tenants with
 * 100 units each are done, beside a tenant with 1,000,000 units, and without it; in turns, in one store.
 */
import { encodeData, type Coordinate } from "../../src/index.ts";
import { median } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { payload } from "../systems/driver.ts";
import type { Probe } from "./probe.ts";

const tenants = 99;
const each = 100;

async function add(
  coordinate: Coordinate,
  ns: string,
  count: number,
  name: (i: number) => string,
  partition: (i: number) => string,
): Promise<void> {
  for (let at = 0; at < count; at += 5000)
    await coordinate.addWorkUnits(
      ns,
      "s",
      Array.from({ length: Math.min(5000, count - at) }, (_, i) => ({
        name: name(at + i),
        data: encodeData(payload(at + i)),
        partition: partition(at + i),
      })),
    );
}

const addSmall = (coordinate: Coordinate, ns: string, round: number): Promise<void> =>
  add(
    coordinate,
    ns,
    tenants * each,
    (i) => `small ${round} ${String(i).padStart(6, "0")}`,
    (i) => `tenant-${String(i % tenants).padStart(2, "0")}`,
  );

/** Works until the small tenants are done. Returns the seconds and how many units were handed out. */
async function work(coordinate: Coordinate, ns: string): Promise<{ seconds: number; units: number }> {
  const start = performance.now();
  let units = 0;
  for (let left = tenants * each; left > 0;) {
    const attempts = await coordinate.requestAttempts(ns, { worker: "w", number: 100 });
    if (attempts.length === 0) throw new Error("ran out of units");
    await coordinate.settleAttempts(
      ns,
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
    units += attempts.length;
    left -= attempts.filter(({ workUnit }) => workUnit.startsWith("small")).length;
  }
  return { seconds: (performance.now() - start) / 1000, units };
}

export const fairness: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  for (const ns of ["alone", "beside"])
    await coordinate.setWorkSpecs(ns, [{ data: encodeData({ name: "s", fair: "partition" }) }]);
  const large = Math.max(1000, Math.round(1_000_000 * factor));
  await add(
    coordinate,
    "beside",
    large,
    (i) => `large ${String(i).padStart(9, "0")}`,
    () => "large",
  );
  const seconds: Record<"alone" | "beside", number[]> = { alone: [], beside: [] };
  let units = 0;
  for (let round = 0; round < (factor < 1 ? 3 : 5); round++)
    for (const ns of round % 2 === 0 ? (["alone", "beside"] as const) : (["beside", "alone"] as const)) {
      await addSmall(coordinate, ns, round);
      const worked = await work(coordinate, ns);
      seconds[ns].push(worked.seconds);
      if (ns === "beside") units = worked.units;
    }
  await coordinate.close();
  return {
    value: median(seconds.beside.map((one, i) => one / (seconds.alone[i] ?? NaN))),
    "units handed out": units,
    "alone, s": median(seconds.alone),
    "beside, s": median(seconds.beside),
  };
};
