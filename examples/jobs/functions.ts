/** The functions used in docs/jobs.md. */
import { setTimeout as delay } from "node:timers/promises";

export function add(a: number, b: number): number {
  return a + b;
}

export function divide(a: number, b: number): number {
  if (b === 0) throw new RangeError("division by zero");
  return a / b;
}

export async function sleep(ms: number): Promise<string> {
  await delay(ms);
  return "slept";
}
