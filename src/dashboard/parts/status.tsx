/** Statuses by shape, colour and texture. */
import type { ReactNode } from "react";
import type { AttemptStatus, Tally, WorkUnitStatus } from "../../core/index.ts";
import { count } from "../format.ts";
import { Icon, type IconName } from "./icon.tsx";

const attemptLooks: Readonly<Record<AttemptStatus, { icon: IconName; tone: string }>> = {
  pending: { icon: "pending", tone: "pending" },
  expired: { icon: "expired", tone: "blocked" },
  finished: { icon: "finished", tone: "finished" },
  failed: { icon: "failed", tone: "failed" },
  retryable: { icon: "retryable", tone: "blocked" },
};

export function StatusGlyph({ status }: { status: WorkUnitStatus }): ReactNode {
  return (
    <span className={`t-${status}`}>
      <Icon name={status} />
    </span>
  );
}

export function StatusChip({ status }: { status: WorkUnitStatus }): ReactNode {
  return (
    <span className={`chip t-${status}`}>
      <Icon name={status} />
      {status}
    </span>
  );
}

export function AttemptGlyph({ status, label }: { status: AttemptStatus; label?: string }): ReactNode {
  const { icon, tone } = attemptLooks[status];
  return (
    <span className={`t-${tone}`}>
      <Icon name={icon} {...(label !== undefined && { label })} />
    </span>
  );
}

export function AttemptChip({ status }: { status: AttemptStatus }): ReactNode {
  const { icon, tone } = attemptLooks[status];
  return (
    <span className={`chip t-${tone}`}>
      <Icon name={icon} />
      {status}
    </span>
  );
}

/** In the order in which people look for them: what waits, what runs, how it ended. */
export const statusOrder = [
  "available",
  "delayed",
  "blocked",
  "pending",
  "failed",
  "finished",
] as const satisfies readonly WorkUnitStatus[];

const parts = ["failed", "blocked", "delayed", "available", "pending"] as const;

/** Open and failed units: the total length is logarithmic, the parts are proportional. Finished units would dwarf the rest. */
export function StatusBar({ counts, max }: { counts: Tally; max: number }): ReactNode {
  const total = parts.reduce((sum, status) => sum + counts[status], 0);
  const length =
    total === 0 ? 0 : Math.max(6, (Math.log10(1 + total) / Math.log10(1 + Math.max(max, 10))) * 100);
  const shown = parts.filter((status) => counts[status] > 0);
  const said = shown.map((status) => `${count(counts[status])} ${status}`).join(", ");
  return (
    <div className="bar log" role="img" aria-label={said === "" ? "nothing open" : said} title={said}>
      {shown.map((status) => (
        <i
          key={status}
          className={`f-${status}`}
          style={{ width: `${(counts[status] / total) * length}%` }}
        />
      ))}
    </div>
  );
}

/** The reference for the length of a bar: the largest number of open and failed units of one work spec. */
export const maxOpen = (all: readonly { counts: Tally }[]): number =>
  all.reduce(
    (max, { counts }) =>
      Math.max(
        max,
        parts.reduce((sum, status) => sum + counts[status], 0),
      ),
    0,
  );
