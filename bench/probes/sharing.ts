/** Whether work specs of weight 1, 2, 3 and 4 get their shares. The figure is the largest deviation of a share from its weight. */
import { encodeData } from "../../src/index.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { payload } from "../systems/driver.ts";
import type { Probe } from "./probe.ts";

export const sharing: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  const weights = [1, 2, 3, 4];
  const claims = Math.max(100, Math.round(2000 * factor));
  await coordinate.setWorkSpecs(
    "",
    weights.map((weight) => ({ data: encodeData({ name: `w${weight}`, weight }) })),
  );
  for (const weight of weights)
    await coordinate.addWorkUnits(
      "",
      `w${weight}`,
      Array.from({ length: claims }, (_, n) => ({ name: `unit-${n}`, data: encodeData(payload(n)) })),
    );
  const held = new Map<string, number>();
  const open: string[] = [];
  for (let i = 0; i < claims; i++) {
    const [attempt] = await coordinate.requestAttempts("", { worker: "w" });
    if (attempt === undefined) throw new Error("ran out of units");
    held.set(attempt.workSpec, (held.get(attempt.workSpec) ?? 0) + 1);
    open.push(attempt.id);
    // keep forty attempts running: shares are defined over running attempts
    if (open.length > 40)
      await coordinate.settleAttempts("", [{ attempt: open.shift() ?? "", action: "finish" }]);
  }
  await coordinate.close();
  const deviations = weights.map(
    (weight) => Math.abs((held.get(`w${weight}`) ?? 0) / claims - weight / 10) / (weight / 10),
  );
  return { value: Math.max(...deviations) * 100 };
};
