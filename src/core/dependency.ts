/**
 * Dependencies: a unit may wait for other units. With `hard` it fails if they fail, with `soft` it runs after they end either
 * way. Until then it is blocked; the transaction that ends the last of them unblocks it. A met dependency stays met, even when
 * that unit is added again, reset or deleted; an unmet one is judged by the unit's current status.
 */
import type { WorkUnitStatus } from "./work-unit.ts";

export type DependencyKind = "hard" | "soft";

/** `open`: has not ended yet. `met`: no longer to wait for. `broken`: will never be met. */
export type DependencyState = "open" | "met" | "broken";

/** A null status is a unit that was deleted before it ended. */
export function dependencyState(kind: DependencyKind, status: WorkUnitStatus | null): DependencyState {
  if (status === "finished") return "met";
  if (status === "failed" || status === null) return kind === "hard" ? "broken" : "met";
  return "open";
}

/** The traceback of a unit that fails because a dependency failed or was deleted. */
export function brokenDependency(workSpec: string, workUnit: string, status: WorkUnitStatus | null): string {
  return `dependency ${workUnit} of work spec ${workSpec} ${status === null ? "was deleted" : "failed"}`;
}

/**
 * Looks for a cycle that can be reached from one of `starts`, following `needs`. Returns the nodes of the cycle in order, or null.
 * Visits each node once, however many starts lead to it. Iterative: chains of dependencies may be long.
 */
export function findCycle<Node>(
  starts: Iterable<Node>,
  needs: (node: Node) => Iterable<Node>,
): Node[] | null {
  const seen = new Set<Node>();
  const path: { node: Node; rest: Iterator<Node> }[] = [];
  const onPath = new Set<Node>();
  const visit = (node: Node): void => {
    seen.add(node);
    onPath.add(node);
    path.push({ node, rest: needs(node)[Symbol.iterator]() });
  };
  for (const start of starts) {
    if (!seen.has(start)) visit(start);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const { node, rest } = top;
      const next = rest.next();
      if (next.done === true) {
        path.pop();
        onPath.delete(node);
      } else if (onPath.has(next.value)) {
        const nodes = path.map((step) => step.node);
        return nodes.slice(nodes.indexOf(next.value));
      } else if (!seen.has(next.value)) visit(next.value);
    }
  }
  return null;
}
