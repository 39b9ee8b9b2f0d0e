/** Whether the rate depends on how many units wait: claims and finishes with 10,000 and with 1,000,000, in turns, in one store. */
import { median } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { addUnits, prepare, rate } from "./claims.ts";
import type { Probe } from "./probe.ts";

export const flat: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  const turn = Math.max(200, Math.round(5000 * Math.min(1, factor)));
  await prepare(coordinate, "few");
  await prepare(coordinate, "many");
  await addUnits(coordinate, "few", Math.max(turn, 10_000 * factor));
  await addUnits(coordinate, "many", Math.max(turn, 1_000_000 * factor));
  const rates = { few: [] as number[], many: [] as number[] };
  for (let i = 0; i < (factor < 1 ? 3 : 11); i++)
    for (const ns of i % 2 === 0 ? (["few", "many"] as const) : (["many", "few"] as const)) {
      // as many as will be taken, before the others: what waits stays as much as it was
      await addUnits(coordinate, ns, turn, 1);
      rates[ns].push(await rate(coordinate, ns, turn, 100));
    }
  await coordinate.close();
  const ratio = median(rates.many.map((many, i) => many / (rates.few[i] ?? NaN)));
  return {
    value: ratio,
    "10,000 wait, units/s": median(rates.few),
    "1,000,000 wait, units/s": median(rates.many),
  };
};
