/** The attempts that workers hold, each with the time left on its lease. */
import type { ReactNode } from "react";
import type { AttemptRow } from "../../core/index.ts";
import { duration } from "../format.ts";
import { useHere } from "../here.ts";
import { Link, Name, useNow } from "./text.tsx";
import { Table } from "./table.tsx";

/** A lease with less time left than this was not renewed. */
export const shortMs = 60_000;

export function Holds({ attempts }: { attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  if (attempts.length === 0) return <span className="dim">none</span>;
  const bySpec = new Map<string, number>();
  for (const { workSpec } of attempts) bySpec.set(workSpec, (bySpec.get(workSpec) ?? 0) + 1);
  const sorted = [...bySpec].sort((a, b) => b[1] - a[1]);
  const only = attempts.length === 1 ? attempts[0] : undefined;
  if (only !== undefined)
    return (
      <Link to={{ ns, page: "unit", spec: only.workSpec, unit: only.workUnit }} className="l">
        <Name text={only.workUnit} max={28} mono />
      </Link>
    );
  return (
    <>
      {sorted.slice(0, 2).map(([spec, number], i) => (
        <span key={spec}>
          {i > 0 && " · "}
          <Link to={{ ns, page: "units", spec, filters: { status: "pending" } }} className="n">
            {number}
          </Link>{" "}
          <span className="dim">
            <Name text={spec} max={20} />
          </span>
        </span>
      ))}
      {sorted.length > 2 && <span className="dim"> and {sorted.length - 2} others</span>}
    </>
  );
}

export function Lease({ left, of, many }: { left: number; of: number; many: boolean }): ReactNode {
  const isShort = left < shortMs && left < of * 0.25;
  return (
    <span className={isShort ? "ls bad" : "ls"}>
      <span className="lb">
        <i style={{ width: `${Math.max(0, Math.min(100, (left / Math.max(1, of)) * 100))}%` }} />
      </span>
      {left <= 0 ? "expired" : `${many ? "shortest " : ""}${duration(Math.floor(left / 1000) * 1000)}`}
    </span>
  );
}

export function HeldList({ attempts }: { attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  const now = useNow();
  if (attempts.length === 0) return <p className="blank">No worker holds a unit now.</p>;
  return (
    <Table
      heads={[
        "Unit",
        "Work spec",
        { text: "Worker", className: "l9" },
        { text: "Running for", className: "r" },
        "Lease left",
      ]}
    >
      {attempts.slice(0, 200).map((attempt) => (
        <tr key={attempt.id} data-row tabIndex={-1}>
          <td>
            <Link to={{ ns, page: "unit", spec: attempt.workSpec, unit: attempt.workUnit }} className="l">
              <Name text={attempt.workUnit} max={48} mono />
            </Link>
          </td>
          <td>
            <Name text={attempt.workSpec} max={28} />
          </td>
          <td className="l9">
            <Name text={attempt.worker} max={28} />
          </td>
          <td className="r">{duration(now - attempt.startTime)}</td>
          <td>
            <Lease
              left={attempt.expirationTime - now}
              of={attempt.expirationTime - attempt.startTime}
              many={false}
            />
          </td>
        </tr>
      ))}
    </Table>
  );
}
