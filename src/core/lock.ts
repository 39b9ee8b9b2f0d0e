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

/**
 * The first path that could not be locked, renewed or released, and its owner (null: the path itself is free, or only locked above
 * or below).
 */
export interface LockRefusal {
  path: LockPath;
  owner: string | null;
}

export const defaultLockMs = 60_000;
export const longestLockMs = 1_000_000_000;

/** A path as one string: a prefix of the keys of all paths below it, and of no others. Labels are escaped and cannot be confused. */
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

/** A request for paths, by an owner, until a deadline. */
export interface CheckedLockRequest {
  owner: string;
  paths: readonly LockPath[];
  deadline: number;
}

export type LockRule<Answer> = (view: LockView, ask: CheckedLockRequest) => LockDecision<Answer>;

const refused = (view: LockView, path: LockPath): LockDecision<LockRefusal> => ({
  set: [],
  release: [],
  answer: { path, owner: view.get(lockKey(path))?.owner ?? null },
});

const answered = <Answer>(answer: Answer): LockDecision<Answer> => ({ set: [], release: [], answer });

/** All or nothing: the answer is the first path that is not lockable, or null. */
export const decideLock: LockRule<LockRefusal | null> = (view, { owner, paths, deadline }) => {
  // checked against the locks before the call, not against each other: duplicates in one call succeed
  const taken = paths.find((path) => !lockable(view, path));
  if (taken !== undefined) return refused(view, taken);
  return { set: paths.map((path) => ({ path, owner, deadline })), release: [], answer: null };
};

/** Locks each path that it can, in order, counting the locks just taken: the answer says which were granted. */
export const decideLockSome: LockRule<boolean[]> = (view, { owner, paths, deadline }) => {
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
};

const firstNotHeld = (view: LockView, { owner, paths }: CheckedLockRequest): LockPath | undefined =>
  paths.find((path) => view.get(lockKey(path))?.owner !== owner);

/** Every path must be held by the owner, else nothing changes: the answer is the first that is not. */
export const decideRenew: LockRule<LockRefusal | null> = (view, ask) => {
  const other = firstNotHeld(view, ask);
  if (other !== undefined) return refused(view, other);
  const { owner, paths, deadline } = ask;
  return { set: paths.map((path) => ({ path, owner, deadline })), release: [], answer: null };
};

export const decideUnlock: LockRule<LockRefusal | null> = (view, ask) => {
  const other = firstNotHeld(view, ask);
  if (other !== undefined) return refused(view, other);
  return { set: [], release: [...ask.paths], answer: null };
};

const below = (view: LockView, { paths }: CheckedLockRequest): [string, Lock][] =>
  [...view].filter(([key]) => paths.some((path) => key.startsWith(lockKey(path))));

/** The owner of each path itself, or null. */
export const readOwners: LockRule<(string | null)[]> = (view, { paths }) =>
  answered(paths.map((path) => view.get(lockKey(path))?.owner ?? null));

/** The locks of the paths and below them, in the order of their keys. */
export const readLocksBelow: LockRule<Lock[]> = (view, ask) =>
  answered(
    below(view, ask)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, lock]) => lock),
  );

/** Releases the locks of the paths and below them, whoever holds them. */
export const decideClear: LockRule<null> = (view, ask) => ({
  set: [],
  release: below(view, ask).map(([, lock]) => lock.path),
  answer: null,
});
