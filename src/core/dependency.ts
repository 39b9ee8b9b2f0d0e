/**
 * Dependencies: a unit may wait for others. `hard` fails with them, `soft` runs after they end either way.
 * Until then it is blocked; whoever settles the last of them lets it go in the same step. A dependency that was met
 * stays met, also when that unit is added again, reset or deleted; one that is not is judged by where it stands.
 */
import type { WorkUnitStatus } from "./work-unit.ts";

export type DependencyKind = "hard" | "soft";

/** `open`: still to wait for. `met`: waited for long enough. `broken`: it will never be met. */
export type DependencyState = "open" | "met" | "broken";

/** A null status is a unit that was deleted before it ended. */
export function dependencyState(kind: DependencyKind, status: WorkUnitStatus | null): DependencyState {
  if (status === "finished") return "met";
  if (status === "failed" || status === null) return kind === "hard" ? "broken" : "met";
  return "open";
}

/** The traceback of a unit that fails because what it waits for did. */
export function brokenDependency(workSpec: string, workUnit: string, status: WorkUnitStatus | null): string {
  return `dependency ${workUnit} of work spec ${workSpec} ${status === null ? "was deleted" : "failed"}`;
}

/**
 * Looks for a cycle through `start`, following `needs`. Returns the nodes of the cycle in order, or null.
 * Iterative: chains of dependencies may be long.
 */
export function findCycle<Node>(start: Node, needs: (node: Node) => Iterable<Node>): Node[] | null {
  const seen = new Set<Node>();
  const path: { node: Node; rest: Iterator<Node> }[] = [
    { node: start, rest: needs(start)[Symbol.iterator]() },
  ];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const next = top.rest.next();
    if (next.done === true) path.pop();
    else if (next.value === start) return path.map(({ node }) => node);
    else if (!seen.has(next.value)) {
      seen.add(next.value);
      path.push({ node: next.value, rest: needs(next.value)[Symbol.iterator]() });
    }
  }
  return null;
}
