/** Locks: one row per path, ordered by lock key. */
import {
  lockAncestors,
  lockKey,
  type Lock,
  type LockDecision,
  type LockPath,
  type LockView,
} from "../core/index.ts";
import type { Row } from "./driver.ts";
import type { Space, State } from "./state.ts";

export function decideLocks<Answer>(
  state: State,
  known: Space | undefined,
  open: () => Space,
  paths: readonly LockPath[],
  decide: (view: LockView) => LockDecision<Answer>,
  now: number,
): Answer {
  const { sql } = state;
  const { set, release, answer } = decide(seeLocks(state, known, paths, now));
  if (set.length + release.length === 0) return answer;
  const { id } = open();
  state.writes++;
  for (const path of release) sql.dropLock.run(id, lockBytes(lockKey(path)));
  for (const { path, owner, deadline } of set)
    sql.setLock.run(id, lockBytes(lockKey(path)), JSON.stringify(path), JSON.stringify(owner), deadline);
  return answer;
}

/** The live locks at, above and below the paths. */
function seeLocks(state: State, space: Space | undefined, paths: readonly LockPath[], now: number): LockView {
  const { sql } = state;
  const view = new Map<string, Lock>();
  if (space === undefined) return view;
  const see = (row: Row | undefined): void => {
    if (row === undefined || (row[3] as number) < now) return;
    const path = JSON.parse(row[1] as string) as LockPath;
    view.set(lockKey(path), {
      path,
      owner: JSON.parse(row[2] as string) as string,
      deadline: row[3] as number,
    });
  };
  for (const path of paths) {
    const key = lockKey(path);
    for (const ancestor of lockAncestors(path)) see(sql.lockAt.get(space.id, lockBytes(ancestor)));
    for (const row of sql.locksUnder.all(space.id, lockBytes(key), ...lockEnd(space, key))) see(row);
  }
  return view;
}

/** Encodes a lock key. A prefix of a key is a prefix of its bytes, and different keys have different bytes. */
const lockBytes = (key: string): Buffer => Buffer.from(key, "utf16le");

/** The upper bound of all keys that begin with this one, which ends in a zero UTF-16 unit or is empty: no bytes sort after all keys. */
function lockEnd({ id }: Space, key: string): [namespace: number, path: Buffer] {
  const bytes = lockBytes(key);
  if (bytes.length === 0) return [id + 1, bytes];
  bytes[bytes.length - 1] = 1;
  return [id, bytes];
}
