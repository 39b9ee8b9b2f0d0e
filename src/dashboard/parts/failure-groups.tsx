/** The failures of a work spec by error, with actions for each group. */
import { useState, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { useFailures, type FailureGroup } from "../data/failures.ts";
import type { SpecRow } from "../data/look.ts";
import { everyUnit } from "../data/units.ts";
import { count, percent, plural, rate, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Ask } from "./bulk-bar.tsx";
import { HourBars } from "./plot.tsx";
import { Table } from "./table.tsx";
import { Ago, Link, Trouble, useNow } from "./text.tsx";

/** How many groups are shown at first; the others usually have few units. */
const firstGroups = 10;

const hour = 3_600_000;

function trendText({ trend }: FailureGroup, now: number): string {
  const within = (hours: number): number =>
    trend.reduce((sum, { time, count: failed }) => (time > now - (hours + 1) * hour ? sum + failed : sum), 0);
  return `${count(within(1))} in the last two hours, ${count(within(48))} in the last 48`;
}

export function FailureGroups({ spec }: { spec: SpecRow }): ReactNode {
  const { ns, may, changed } = useHere();
  const failures = useFailures(ns, spec.name, true);
  const now = useNow();
  const [asked, setAsked] = useState<FailureGroup | null>(null);
  const [all, setAll] = useState(false);
  if (failures.error !== null && failures.data === undefined)
    return <Trouble text={sayError(failures.error)} />;
  if (failures.data === undefined || failures.data.length === 0) return null;
  const groups = failures.data;
  const units = groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <section className="card fg" aria-label="Failure groups" id="failures">
      <header>
        <h2>Failure groups</h2>
        <span className="count quiet">{groups.length}</span>
        <span className="grow" />
        <span className="dim">{plural(units, "failed unit")}, grouped by error</span>
      </header>
      <Table
        heads={[
          "Error",
          { text: "Units", className: "r", status: "failed" },
          { text: "Share", className: "l12" },
          { text: "Last 48 hours", className: "l12" },
          { text: "First", className: "r l12" },
          { text: "Last", className: "r l12" },
          { text: "Max. tries", className: "r l12" },
          { text: "Actions", className: "r", hidden: true },
        ]}
      >
        {(all ? groups : groups.slice(0, firstGroups)).map((group) => (
          <tr key={group.fingerprint} data-row tabIndex={-1}>
            <td className="err">
              <code title={visible(group.error)}>{visible(group.error)}</code>
              <span className="sub">
                <Link to={{ ns, page: "unit", spec: spec.name, unit: group.example }} className="l">
                  Example
                </Link>
                {now - group.firstTime < hour && <span className="t-failed"> · new</span>}
                {group.perMinute >= 0.5 && (
                  <span className="t-blocked"> · rising, {rate(group.perMinute)} per minute</span>
                )}
              </span>
            </td>
            <td className="r">
              <Link
                to={{ ns, page: "units", spec: spec.name, filters: { error: group.fingerprint } }}
                className="n"
              >
                {count(group.count)}
              </Link>
            </td>
            <td className="l12">
              <div className="sh" title={percent(group.count / units)}>
                <i style={{ width: `${(group.count / units) * 100}%` }} />
              </div>
            </td>
            <td className="l12">
              <HourBars points={group.trend} hours={48} now={now} label={trendText(group, now)} />
            </td>
            <td className="r mid l12">
              <Ago time={group.firstTime} />
            </td>
            <td className="r mid l12">
              <Ago time={group.lastTime} />
            </td>
            <td className="r mid l12">{count(group.tries)}</td>
            <td className="r">
              {may("write") && (
                <button type="button" className="btn s" onClick={() => setAsked(group)}>
                  Retry {count(group.count)}…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {!all && groups.length > firstGroups && (
        <p className="fold">
          <button type="button" className="plain l" onClick={() => setAll(true)}>
            {plural(groups.length - firstGroups, "more group")}
          </button>
        </p>
      )}
      {asked !== null && (
        <Ask
          asked="retry"
          target={{ ns, spec: spec.name, query: { error: asked.fingerprint } }}
          filter={{ ...everyUnit, error: asked.fingerprint }}
          onClose={() => setAsked(null)}
          onStarted={() => setTimeout(() => changed("failures", "counts"), 500)}
        />
      )}
    </section>
  );
}
