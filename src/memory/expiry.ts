/** What is past its time counts as such by rule; here it is moved, whenever it is met. */
import { park } from "./dependents.ts";
import { letGo, unplace, type Attempt, type Spec, type Unit } from "./state.ts";

/** The attempt's lease has ended: the unit waits again, the attempt may still be settled late. */
export function expire(unit: Unit, attempt: Attempt, end: number, now: number): void {
  unplace(unit);
  attempt.status = "expired";
  attempt.end = end;
  letGo(unit, attempt);
  park(unit, now);
}

/** Moves what is past its time. Costs a comparison when nothing is. */
export function catchUp(spec: Spec, now: number, limit = Infinity): { expired: number; due: number } {
  let expired = 0;
  let due = 0;
  for (; expired < limit; expired++) {
    const unit = spec.leases.first();
    if (unit === undefined || unit.attempt === null || unit.attempt.expiration > now) break;
    expire(unit, unit.attempt, unit.attempt.expiration, now);
  }
  for (; due < limit; due++) {
    const unit = spec.due.first();
    if (unit === undefined || unit.notBefore > now) break;
    unplace(unit);
    park(unit, now);
  }
  return { expired, due };
}
