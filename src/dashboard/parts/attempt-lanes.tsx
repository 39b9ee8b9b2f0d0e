/** The attempts of a unit as lanes on one time line. */
import type { ReactNode } from "react";
import type { AttemptRow, WorkUnitRow } from "../../core/index.ts";
import { errorLine, errorOf } from "../data/units.ts";
import { clockTime, count, dayTime, duration, exactTime, percent, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { AttemptChip, AttemptGlyph } from "./status.tsx";
import { Link, Name, useNow } from "./text.tsx";

const niceSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

/** One lane for each attempt: thin for the wait before it, solid while it ran, its outcome at the end. */
export function Attempts(props: {
  unit: WorkUnitRow;
  attempts: readonly AttemptRow[];
  onRunAs: (attempt: AttemptRow) => void;
}): ReactNode {
  const { ns, look, may } = useHere();
  const { unit, attempts, onRunAs } = props;
  // a running unit keeps the data that it was claimed with
  const canRunAs = may("write") && unit.status !== "pending";
  const now = useNow();
  const shown = attempts.slice(-30);
  const first = shown[0]!;
  const retries = look.byName.get(unit.workSpec)?.meta.maxRetries ?? 0;
  const before = attempts[attempts.length - shown.length - 1];
  const ends = shown.map(({ endTime, expirationTime }) =>
    endTime > 0 ? endTime : Math.max(now, expirationTime),
  );
  const latest = Math.max(...ends, unit.status === "delayed" ? unit.notBefore : 0);
  const began = before?.endTime ?? unit.createdTime;
  const ran = latest - first.startTime;
  // cut a wait that is much longer than the runs, so that the runs can be seen
  const isCut = first.startTime - began > ran * 4 + 1000;
  const from = isCut ? first.startTime - Math.max(ran * 0.25, 50) : began;
  const span = Math.max(1, latest - from) * 1.06;
  const at = (time: number): string => `${Math.max(0, Math.min(100, ((time - from) / span) * 100))}%`;
  const wide = (start: number, end: number): string =>
    `${Math.max(0, ((end - Math.max(start, from)) / span) * 100)}%`;
  const stepMs = (niceSteps.find((one) => one * 1000 >= span / 6) ?? span / 6000) * 1000;
  const ticks: number[] = [];
  for (let tick = Math.ceil(from / stepMs) * stepMs; tick < from + span && ticks.length < 12; tick += stepMs)
    ticks.push(tick);
  const grid = ticks.map((tick) => <i className="gr" key={tick} style={{ left: at(tick) }} />);
  return (
    <section className="card at" aria-label="Attempts">
      <header>
        <h2>Attempts</h2>
        <span className="count quiet">{count(attempts.length)}</span>
        {retries > 0 && <span className="dim">of max_retries {retries}</span>}
        {shown.length < attempts.length && <span className="dim">last {shown.length} shown</span>}
        <span className="grow" />
        <div className="lgd dim">
          <i className="sg wait" />
          waiting <i className="sg run" />
          running <i className="sg lost" />
          lease left
        </div>
      </header>
      <div className="lns">
        {shown.map((attempt, i) => {
          const waitedFrom = shown[i - 1]?.endTime ?? began;
          const end = attempt.endTime > 0 ? attempt.endTime : now;
          const said = errorLine(errorOf(attempt.data) ?? "");
          const words =
            attempt.status === "expired"
              ? `lease expired ${clockTime(attempt.expirationTime)}`
              : attempt.status === "pending"
                ? `${attempt.progress === null ? "" : `${percent(attempt.progress.done)} done, `}${duration(attempt.expirationTime - now)} left on its lease`
                : attempt.status === "finished"
                  ? attempt.late
                    ? "after its lease had expired"
                    : ""
                  : said;
          return (
            <div className={attempt.active ? "ln on" : "ln"} key={attempt.id} data-row tabIndex={-1}>
              <div className="k">
                <b>{attempt.number}</b>
                <AttemptChip status={attempt.status} />
                {attempt.worker === "" ? (
                  <span className="dim">no worker</span>
                ) : (
                  <Link
                    to={{ ns, page: "units", filters: { worker: attempt.worker } }}
                    title="Units of this worker"
                  >
                    <Name text={attempt.worker} max={16} />
                  </Link>
                )}
              </div>
              <div
                className="pl"
                title={`${exactTime(attempt.startTime)} to ${attempt.endTime > 0 ? exactTime(attempt.endTime) : "now"}`}
              >
                {grid}
                <i
                  className="sg wait"
                  style={{ left: at(waitedFrom), width: wide(waitedFrom, attempt.startTime) }}
                />
                <i
                  className="sg run"
                  style={{ left: at(attempt.startTime), width: wide(attempt.startTime, end) }}
                />
                {attempt.endTime === 0 && (
                  <i
                    className="sg lost"
                    style={{ left: at(now), width: wide(now, attempt.expirationTime) }}
                  />
                )}
                {attempt.endTime > 0 && (
                  <span className="en" style={{ left: at(end) }}>
                    <AttemptGlyph status={attempt.status} />
                  </span>
                )}
                {i === shown.length - 1 && unit.status === "delayed" && (
                  <i
                    className="sg delay"
                    style={{ left: at(Math.max(end, from)), width: wide(end, unit.notBefore) }}
                  />
                )}
              </div>
              <div className="rr">{duration(end - attempt.startTime)}</div>
              <div className="wh">
                <span title={visible(words)}>{visible(words).slice(0, 200)}</span>
                {canRunAs && attempt.data !== null && (
                  <button
                    type="button"
                    className="btn s"
                    title={`Run the unit again with the data of attempt ${attempt.number}`}
                    onClick={() => onRunAs(attempt)}
                  >
                    Rerun {attempt.number}…
                  </button>
                )}
              </div>
            </div>
          );
        })}
        <div className="ax" aria-hidden="true">
          {isCut && <span className="cut">waited {duration(first.startTime - began)}</span>}
          {ticks.map((tick) => (
            <span key={tick} style={{ left: at(tick) }}>
              {stepMs >= 86_400_000 ? dayTime(tick, now) : clockTime(tick, stepMs < 60_000)}
            </span>
          ))}
        </div>
      </div>
    </section>
  );
}
