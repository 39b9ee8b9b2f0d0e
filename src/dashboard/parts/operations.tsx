/** Operations on many units that run in this tab: their progress, and a button to stop them. */
import type { ReactNode } from "react";
import { forgetOperation, stopOperation, useOperations, type Operation } from "../data/bulk.ts";
import { count, duration } from "../format.ts";
import { StatusGlyph } from "./status.tsx";
import { Icon } from "./icon.tsx";

export function Operations(): ReactNode {
  const operations = useOperations();
  if (operations.length === 0) return null;
  return (
    <ul className="ops" aria-label="Operations">
      {operations.map((operation) => (
        <li key={operation.id} aria-live="polite">
          <Row operation={operation} />
        </li>
      ))}
    </ul>
  );
}

function Row({ operation }: { operation: Operation }): ReactNode {
  const { id, title, total, seen, changed, state, error, startedAt } = operation;
  const perMs = seen / Math.max(1, Date.now() - startedAt);
  const left = perMs > 0 ? (total - seen) / perMs : 0;
  if (state === "running") {
    return (
      <>
        <StatusGlyph status="pending" />
        <span className="what">{title}</span>
        <span
          className="pg"
          role="progressbar"
          aria-valuemin={0}
          aria-valuemax={total}
          aria-valuenow={seen}
          aria-label={title}
        >
          <i style={{ width: `${Math.min(100, (seen / Math.max(1, total)) * 100)}%` }} />
        </span>
        <span className="dim">
          {count(seen)}
          {left > 1000 && ` · ${duration(left)} left`}
        </span>
        <button type="button" className="btn s" onClick={() => stopOperation(id)}>
          Stop
        </button>
      </>
    );
  }
  const words =
    state === "done"
      ? `Done: ${count(changed)} of ${count(seen)} changed`
      : state === "stopped"
        ? `Stopped: ${count(changed)} changed, ${count(Math.max(0, total - seen))} not processed`
        : `Failed after ${count(changed)} changed: ${error}`;
  return (
    <>
      <span className={state === "done" ? "t-finished" : state === "failed" ? "t-failed" : "t-blocked"}>
        <Icon name={state === "done" ? "finished" : state === "failed" ? "failed" : "paused"} />
      </span>
      <span className="what">{title}</span>
      <span className="dim">{words}</span>
      <button type="button" className="icon-btn" aria-label="Dismiss" onClick={() => forgetOperation(id)}>
        <Icon name="x" />
      </button>
    </>
  );
}
