/** Jobs: units that run an action, shown as job records, newest first. */
import type { ReactNode } from "react";
import { workUnitStatuses, type WorkUnitStatus } from "../../core/index.ts";
import { sayError } from "../data/connection.ts";
import { useJobQueues, useJobs } from "../data/jobs.ts";
import { errorLine, errorOf } from "../data/units.ts";
import { count, duration, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { StatusChip, StatusGlyph, statusOrder } from "../parts/status.tsx";
import { Ago, Link, Name, Trouble } from "../parts/text.tsx";
import type { Route } from "../route.ts";
import "./units.css";
import { Table } from "../parts/table.tsx";

const ranges: Readonly<Record<string, number>> = {
  "15m": 900_000,
  "1h": 3_600_000,
  "24h": 86_400_000,
  all: 0,
};

export default function Jobs(): ReactNode {
  const { ns, route, look } = useHere();
  const specs = useJobQueues();
  const range = route.filters?.range ?? "24h";
  const status = workUnitStatuses.find((one) => one === route.filters?.status) ?? "";
  const label = route.filters?.label ?? "";
  const jobs = useJobs(ns, specs, { sinceMs: ranges[range] ?? 0, status, label });
  const at = (filters: Record<string, string>): Route => ({
    ns,
    page: "jobs",
    filters: { ...route.filters, ...filters },
  });
  const counts = (one: WorkUnitStatus): number =>
    specs.reduce((sum, spec) => sum + (look.byName.get(spec)?.counts[one] ?? 0), 0);
  if (look.specs === undefined) return null;
  return (
    <>
      <h1 className="sr">Jobs</h1>
      <section className="card ul" aria-label="Jobs">
        <header className="fac">
          <Link to={at({ status: "" })} {...(status === "" && { current: true })}>
            All
          </Link>
          {statusOrder.map((one) => (
            <Link key={one} to={at({ status: one })} {...(status === one && { current: true })}>
              <StatusGlyph status={one} />
              {one[0]!.toUpperCase() + one.slice(1)} <span className="fn">{count(counts(one))}</span>
            </Link>
          ))}
          <span className="grow" />
          <div className="seg sm" role="group" aria-label="Scheduled in the last">
            {Object.keys(ranges).map((one) => (
              <Link
                key={one}
                to={at({ range: one === "24h" ? "" : one })}
                {...(range === one && { current: true })}
              >
                {one === "all" ? "All" : one.replace(/([mh])/, " $1")}
              </Link>
            ))}
          </div>
        </header>
        {label !== "" && (
          <div className="selbar">
            Only <b>{visible(label)}</b>.{" "}
            <Link to={at({ label: "" })} className="l">
              Show all
            </Link>
          </div>
        )}
        {jobs.error !== null && <Trouble text={sayError(jobs.error)} />}
        <Table
          heads={[
            "Job",
            "State",
            { text: "Category", className: "l9" },
            { text: "Action", className: "l12" },
            { text: "Error", className: "l9" },
            { text: "Run time", className: "r l9" },
            { text: "Scheduled", className: "r" },
          ]}
        >
          {(jobs.data?.jobs ?? []).map(({ id, spec, name, category, action, unit, errorCategory }) => {
            const attempt = unit.activeAttempt;
            const error = unit.status === "failed" ? errorLine(errorOf(unit.data) ?? "") : "";
            return (
              <tr key={`${spec} ${id}`} data-row tabIndex={-1}>
                <td>
                  <Link to={{ ns, page: "unit", spec, unit: id }} className="l">
                    {name === "" ? <Name text={id} max={36} mono /> : <Name text={name} max={48} />}
                  </Link>
                </td>
                <td>
                  <StatusChip status={unit.status} />
                </td>
                <td className="l9">
                  {category !== "" && (
                    <Link to={at({ label: `category:${category}` })} className="lab">
                      <Name text={category} max={24} />
                    </Link>
                  )}
                </td>
                <td className="l12">
                  <Link to={at({ label: `action:${action}` })} className="mid">
                    <Name text={action} max={14} mono />
                  </Link>
                </td>
                <td className="l9 u-err">
                  {errorCategory !== "" && <b>{visible(errorCategory)} </b>}
                  <code>{visible(error).slice(0, 60)}</code>
                </td>
                <td className="r l9">
                  {attempt !== null && attempt.endTime > 0 ? (
                    duration(attempt.endTime - attempt.startTime)
                  ) : (
                    <span className="z">–</span>
                  )}
                </td>
                <td className="r mid">
                  <Ago time={unit.createdTime} />
                </td>
              </tr>
            );
          })}
        </Table>
        {jobs.data?.jobs.length === 0 && (
          <p className="blank">No jobs match. Choose a longer time range or another state.</p>
        )}
        {jobs.data?.more === true && (
          <p className="blank dim">
            Not all jobs are shown. Choose a shorter time range, or search the units.
          </p>
        )}
      </section>
    </>
  );
}
