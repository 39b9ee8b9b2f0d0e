/** Schedules: the work specs that create units on a schedule, their last run and its outcome, and the next runs. */
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { hasSchedule, nextRuns, runName, type WorkSpecMeta } from "../../core/index.ts";
import { every } from "../data/live.ts";
import type { SpecRow } from "../data/look.ts";
import { unitsNamed } from "../data/units.ts";
import { count, dayTime, duration, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { usePausing } from "../parts/pausing.ts";
import { scheduleWords } from "../parts/schedule-words.ts";
import { StatusGlyph } from "../parts/status.tsx";
import { Ago, Link, Name, useNow } from "../parts/text.tsx";
import { Table } from "../parts/table.tsx";

const shownRuns = 4;

/** The next run is stored with the work spec; later runs follow from the schedule. */
function comingRuns(
  { schedule, nextRun, continuous, nextContinuous, intervalMs }: WorkSpecMeta,
  now: number,
): number[] {
  if (nextRun > 0) return [nextRun, ...nextRuns(schedule, nextRun, shownRuns - 1)].slice(0, shownRuns);
  if (!continuous) return [];
  const first = Math.max(now, nextContinuous);
  return intervalMs > 0 ? Array.from({ length: shownRuns }, (_, i) => first + i * intervalMs) : [first];
}

export default function Schedules(): ReactNode {
  const { ns, look } = useHere();
  const now = useNow();
  if (look.specs === undefined) return null;
  const rows = look.specs
    .filter(({ meta }) => hasSchedule(meta.schedule) || meta.continuous)
    .map((spec) => ({ spec, runs: comingRuns(spec.meta, now) }))
    // the next run first, work specs without one last
    .sort(
      (a, b) => (a.runs[0] ?? Infinity) - (b.runs[0] ?? Infinity) || (a.spec.name < b.spec.name ? -1 : 1),
    );
  if (rows.length === 0)
    return (
      <section className="card blank">
        <h1>No work spec has a schedule</h1>
        <p>
          A work spec with a <code>schedule</code> creates units at set times: by a cron expression in any
          time zone, at an interval, or on given dates. In a flow file:
        </p>
        <pre className="sample">{`flows:
  report:
    schedule: { cron: "0 3 * * *", timezone: Europe/Brussels }`}</pre>
      </section>
    );
  return (
    <>
      <h1 className="sr">Schedules</h1>
      <section className="card schedules" aria-label="Schedules">
        <header>
          <h2>Schedules</h2>
          <span className="count quiet">{count(rows.length)}</span>
          <span className="grow" />
          <span className="dim">in the time zone of this browser</span>
        </header>
        <Table
          heads={[
            "Work spec",
            { text: "Schedule", className: "lo" },
            "Last run",
            "Next run",
            { text: "Later runs", className: "lo" },
            { text: "Actions", className: "r", hidden: true },
          ]}
        >
          {rows.map(({ spec, runs }) => (
            <Row key={spec.name} ns={ns} spec={spec} runs={runs} />
          ))}
        </Table>
      </section>
    </>
  );
}

function Row(props: { ns: string; spec: SpecRow; runs: readonly number[] }): ReactNode {
  const { may } = useHere();
  const now = useNow();
  const { ns, spec, runs } = props;
  const { name, meta } = spec;
  const pause = usePausing();
  const words =
    meta.continuous && !hasSchedule(meta.schedule)
      ? `continuous, every ${duration(meta.intervalMs)}`
      : scheduleWords(meta.schedule);
  const [times, ...rest] = words.split("; ");
  return (
    <tr data-row tabIndex={-1}>
      <td className="strong">
        <span className={meta.paused ? "t-blocked" : "ok"}>
          <Icon name={meta.paused ? "paused" : "ok"} label={meta.paused ? "paused" : "active"} />
        </span>{" "}
        <Link to={{ ns, page: "spec", spec: name }}>
          <Name text={name} max={32} />
        </Link>
      </td>
      <td className="lo">
        <code>{visible(times ?? "")}</code>
        {rest.length > 0 && <span className="dim">; {visible(rest.join("; "))}</span>}
      </td>
      <td>
        <LastRun spec={spec} />
      </td>
      <td>
        {meta.paused ? (
          <span className="t-blocked">paused</span>
        ) : runs[0] === undefined ? (
          <span className="z">never</span>
        ) : runs[0] <= now ? (
          "due now"
        ) : (
          <Ago time={runs[0]} />
        )}
      </td>
      <td className="mid lo">
        {runs
          .slice(1)
          .map((time) => dayTime(time, now))
          .join(" · ")}
      </td>
      <td className="r">
        {may("write") && (
          <button type="button" className="btn s" onClick={() => pause(spec, !meta.paused)}>
            {meta.paused ? "Resume" : "Pause"}
          </button>
        )}
      </td>
    </tr>
  );
}

/** The last run; the name of its unit is its time. */
function LastRun({ spec: { name, meta } }: { spec: SpecRow }): ReactNode {
  const { ns } = useHere();
  const unitName = meta.lastRun === 0 ? "" : runName(meta.lastRun);
  const unit = useQuery({
    queryKey: ["units", ns, "run", name, unitName],
    queryFn: async () => (await unitsNamed(ns, name, [unitName]))[0] ?? null,
    enabled: unitName !== "",
    refetchInterval: every(10_000),
  });
  if (unitName === "") return <span className="z">{meta.continuous ? "–" : "none yet"}</span>;
  if (unit.data === undefined || unit.data === null) return <Ago time={meta.lastRun} />;
  return (
    <Link to={{ ns, page: "unit", spec: name, unit: unitName }}>
      <StatusGlyph status={unit.data.status} /> <span className="l">{unit.data.status}</span>{" "}
      <span className="dim">
        <Ago time={meta.lastRun} />
      </span>
    </Link>
  );
}
