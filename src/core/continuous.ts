/** Continuous work specs generate their own units: one at a time, not before the interval has passed. */
import { latestTime } from "./check.ts";
import type { WorkSpecMeta } from "./work-spec.ts";

/** The name of a generated unit: Unix time in seconds with three decimals. */
export const continuousName = (time: number): string => (time / 1000).toFixed(3);

/** May a unit be generated now? Not while one is available or pending. */
export function mayGenerate(meta: WorkSpecMeta, available: number, pending: number, now: number): boolean {
  return meta.continuous && available === 0 && pending === 0 && meta.nextContinuous <= now;
}

/** When the next unit may be generated, if one is generated now: at most the latest time that a date can hold. */
export const nextGeneration = (meta: WorkSpecMeta, now: number): number =>
  Math.min(now + meta.intervalMs, latestTime);
