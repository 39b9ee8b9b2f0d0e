/**
 * Locks on paths of a tree, with owners and deadlines. A path can be locked when nothing from the root down to
 * it, and nothing below it, is locked. Not re-entrant. The rules are pure; a store reads and writes the rows.
 */
export type LockPath = readonly string[];

export interface Lock {
  path: LockPath;
  owner: string;
  deadline: number;
}

/** What a decision writes: locks to set (by path) and paths to release. */
export interface LockDecision<Answer> {
  set: Lock[];
  release: LockPath[];
  answer: Answer;
}

/** Why nothing was done: this path could not be, and who holds it (null: nobody, or a relative holds one). */
export interface LockRefusal {
  path: LockPath;
  owner: string | null;
}

export const defaultLockMs = 60_000;
export const longestLockMs = 1_000_000_000;

/** A path as one string: sorts below its parent's and above nothing else's; the labels cannot be confused. */
export const lockKey = (path: LockPath): string =>
  path
    .map(
      (label) =>
        label.replace(/[\u0000\u0001]/g, (c) => (c === "\u0000" ? "\u0001\u0001" : "\u0001\u0002")) +
        "\u0000",
    )
    .join("");

/** The keys of the path itself and of everything above it, root first. */
export const lockAncestors = (path: LockPath): string[] =>
  Array.from({ length: path.length + 1 }, (_, length) => lockKey(path.slice(0, length)));

/** Live locks by key. */
export type LockView = ReadonlyMap<string, Lock>;

function lockable(view: LockView, path: LockPath): boolean {
  if (lockAncestors(path).some((key) => view.has(key))) return false;
  const key = lockKey(path);
  for (const other of view.keys()) if (other.startsWith(key)) return false;
  return true;
}

const refusal = (view: LockView, path: LockPath): LockRefusal => ({
  path,
  owner: view.get(lockKey(path))?.owner ?? null,
});

/** All or nothing: the answer is the first path that is not lockable, or null. */
export function decideLock(
  view: LockView,
  owner: string,
  paths: readonly LockPath[],
  deadline: number,
): LockDecision<LockRefusal | null> {
  // checked against the locks before the call, not against each other: duplicates in one call succeed
  const refused = paths.find((path) => !lockable(view, path));
  if (refused !== undefined) return { set: [], release: [], answer: refusal(view, refused) };
  return { set: paths.map((path) => ({ path, owner, deadline })), release: [], answer: null };
}

/** Each path in order, against the locks just taken too: the answer says which were granted. */
export function decideLockSome(
  view: LockView,
  owner: string,
  paths: readonly LockPath[],
  deadline: number,
): LockDecision<boolean[]> {
  const taken = new Map(view);
  const set: Lock[] = [];
  const answer = paths.map((path) => {
    if (!lockable(taken, path)) return false;
    const lock = { path, owner, deadline };
    taken.set(lockKey(path), lock);
    set.push(lock);
    return true;
  });
  return { set, release: [], answer };
}

/** Every path must be held by the owner, else nothing changes: the answer is the first that is not. */
export function decideRenew(
  view: LockView,
  owner: string,
  paths: readonly LockPath[],
  deadline: number,
): LockDecision<LockRefusal | null> {
  const refused = paths.find((path) => view.get(lockKey(path))?.owner !== owner);
  if (refused !== undefined) return { set: [], release: [], answer: refusal(view, refused) };
  return { set: paths.map((path) => ({ path, owner, deadline })), release: [], answer: null };
}

export function decideUnlock(
  view: LockView,
  owner: string,
  paths: readonly LockPath[],
): LockDecision<LockRefusal | null> {
  const refused = paths.find((path) => view.get(lockKey(path))?.owner !== owner);
  if (refused !== undefined) return { set: [], release: [], answer: refusal(view, refused) };
  return { set: [], release: [...paths], answer: null };
}
