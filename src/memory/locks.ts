/** Locks: looks up those that a decision depends on, and carries out the decision. */
import {
  lockAncestors,
  lockKey,
  type Lock,
  type LockDecision,
  type LockPath,
  type LockView,
} from "../core/index.ts";
import type { Space } from "./state.ts";

export function decideLocks<Answer>(
  known: Space | undefined,
  open: () => Space,
  paths: readonly LockPath[],
  decide: (view: LockView) => LockDecision<Answer>,
  now: number,
): Answer {
  const locks = known?.locks ?? new Map<string, Lock>();
  for (const [key, { deadline }] of locks) if (deadline < now) locks.delete(key);
  const above = new Set(paths.flatMap(lockAncestors));
  const at = paths.map(lockKey);
  const view = new Map([...locks].filter(([key]) => above.has(key) || at.some((one) => key.startsWith(one))));
  const { set, release, answer } = decide(view);
  for (const path of release) locks.delete(lockKey(path));
  // a refused call does not create the namespace
  if (set.length > 0) for (const lock of set) open().locks.set(lockKey(lock.path), lock);
  return answer;
}
