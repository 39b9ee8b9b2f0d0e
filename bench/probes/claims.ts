/** Adds and claims through the verbs, for probes that need no worker. */
import { encodeData, type Coordinate } from "../../src/index.ts";
import { payload } from "../systems/driver.ts";

export async function prepare(coordinate: Coordinate, ns: string): Promise<void> {
  await coordinate.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
}

let next = 0;

/** Units with a `priority` above 0 are claimed before the units that wait already. */
export async function addUnits(
  coordinate: Coordinate,
  ns: string,
  count: number,
  priority = 0,
): Promise<void> {
  for (let left = count; left > 0; left -= 5000)
    await coordinate.addWorkUnits(
      ns,
      "s",
      Array.from({ length: Math.min(5000, left) }, () => ({
        name: `unit-${String(next++).padStart(9, "0")}`,
        data: encodeData(payload(next)),
        priority,
      })),
    );
}

/** Claims up to `batch` units and finishes them. Returns their number. */
export async function claimAndFinish(
  coordinate: Coordinate,
  ns: string,
  batch: number,
  worker = "w",
): Promise<number> {
  const attempts = await coordinate.requestAttempts(ns, { worker, number: batch });
  if (attempts.length === 0) return 0;
  await coordinate.settleAttempts(
    ns,
    attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
  );
  return attempts.length;
}

/** Claims and finishes `count` units in batches. Returns units per second. */
export async function rate(
  coordinate: Coordinate,
  ns: string,
  count: number,
  batch: number,
): Promise<number> {
  const start = performance.now();
  for (let done = 0; done < count;) {
    const some = await claimAndFinish(coordinate, ns, batch);
    if (some === 0) throw new Error("ran out of units");
    done += some;
  }
  return (count * 1000) / (performance.now() - start);
}
