/** The units that a worker has run, newest first: from its attempts, which the store keeps in that order. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { AttemptRow, Page } from "../../core/index.ts";
import { client, sayError } from "../data/connection.ts";
import { errorLine, errorOf } from "../data/units.ts";
import { duration, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { AttemptChip } from "./status.tsx";
import { Ago, Link, Name, Trouble, useNow } from "./text.tsx";
import { LoadOlder, Table } from "./table.tsx";

export function WorkerAttempts({ worker }: { worker: string }): ReactNode {
  const { ns, route } = useHere();
  const now = useNow();
  const attempts = useInfiniteQuery({
    queryKey: ["units", ns, "of worker", worker],
    queryFn: ({ pageParam }) =>
      client.listWorkerAttempts(ns, worker, {
        which: "all",
        limit: 100,
        ...(pageParam !== null && { previous: pageParam }),
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: Page<AttemptRow>) => next,
  });
  if (attempts.error !== null && attempts.data === undefined)
    return <Trouble text={sayError(attempts.error)} />;
  if (attempts.data === undefined) return null;
  const spec = route.spec;
  const rows = attempts.data.pages
    .flatMap((page) => page.rows)
    .filter(({ workSpec }) => spec === undefined || workSpec === spec);
  return (
    <>
      <h1 className="sr">Units</h1>
      <section className="card" aria-label="Units of a worker">
        <header>
          <h2>
            Units of worker <Name text={worker} max={48} />
          </h2>
          <span className="grow" />
          <span className="dim">
            newest first
            {spec !== undefined && (
              <>
                , only <Name text={spec} max={32} />{" "}
                <Link to={{ ns, page: "units", filters: { worker } }} className="l">
                  Show all
                </Link>
              </>
            )}
          </span>
          <Link to={{ ns, page: "units", spec }} className="btn s">
            All units
          </Link>
        </header>
        <Table
          heads={[
            "Unit",
            "Work spec",
            "Attempt",
            { text: "Error", className: "lo" },
            { text: "Run time", className: "r lo" },
            { text: "Started", className: "r" },
          ]}
        >
          {rows.map((attempt) => {
            const error = attempt.status === "finished" ? "" : errorLine(errorOf(attempt.data) ?? "");
            return (
              <tr key={attempt.id} data-row tabIndex={-1}>
                <td>
                  <Link
                    to={{ ns, page: "unit", spec: attempt.workSpec, unit: attempt.workUnit }}
                    className="l"
                  >
                    <Name text={attempt.workUnit} max={56} mono />
                  </Link>
                </td>
                <td>
                  <Link to={{ ns, page: "units", spec: attempt.workSpec, filters: { worker } }}>
                    <Name text={attempt.workSpec} max={24} />
                  </Link>
                </td>
                <td>
                  <AttemptChip status={attempt.status} />
                </td>
                <td className="lo">
                  <code>{visible(error).slice(0, 60)}</code>
                </td>
                <td className="r lo">
                  {duration((attempt.endTime > 0 ? attempt.endTime : now) - attempt.startTime)}
                </td>
                <td className="r mid">
                  <Ago time={attempt.startTime} />
                </td>
              </tr>
            );
          })}
        </Table>
        {rows.length === 0 && <p className="blank">No units of this worker are stored.</p>}
        <LoadOlder query={attempts} />
      </section>
    </>
  );
}
