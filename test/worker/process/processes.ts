/** Looking at processes from outside, and waiting for what becomes of them. */
import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** Not there, or dead and not yet waited for. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/\) [ZX] /.test(stat);
  } catch {
    return false;
  }
}

/** All living processes of a session or group that belong to `pid`'s own, and their children below. */
export function descendants(pid: number): number[] {
  const parents = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      parents.set(parent, [...(parents.get(parent) ?? []), Number(entry)]);
    } catch {
      // it ended while we looked
    }
  }
  const found: number[] = [];
  const visit = (parent: number): void => {
    for (const child of parents.get(parent) ?? []) {
      if (isAlive(child)) found.push(child);
      visit(child);
    }
  };
  visit(pid);
  return found;
}

/** Waits until the condition holds; the time is only there to fail with a message instead of hanging. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  limitMs = 20_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited ${limitMs} ms in vain: ${what}`);
    await delay(10);
  }
}
