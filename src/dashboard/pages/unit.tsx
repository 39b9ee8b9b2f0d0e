/**
 * A unit: its attempts as lanes over one time line, its error before its data, changes between attempts, its ancestors and
 * descendants.
 */
import { useState, type ReactNode } from "react";
import { batchOf, type AttemptRow, type WorkUnitRow } from "../../core/index.ts";
import { client, sayError } from "../data/connection.ts";
import { errorOf, everyUnit, useUnit, type UnitLook } from "../data/units.ts";
import { giveBack } from "../data/workers.ts";
import { clockTime, count, dayTime, duration, percent, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Ask } from "../parts/bulk-bar.tsx";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { LogCard } from "../parts/log-card.tsx";
import { StatusGlyph } from "../parts/status.tsx";
import { Ago, CopyButton, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import { go } from "../route.ts";
import "./unit.css";
import { Attempts } from "../parts/attempt-lanes.tsx";
import { ErrorCard } from "../parts/error-card.tsx";
import { DataCard } from "../parts/unit-data.tsx";
import { Lineage } from "../parts/lineage.tsx";

export default function Unit(): ReactNode {
  const { ns, route } = useHere();
  const spec = route.spec ?? "";
  const name = route.unit ?? "";
  const look = useUnit(ns, spec, name);
  if (look.error !== null && look.data === undefined) return <Trouble text={sayError(look.error)} />;
  if (look.data === undefined) return null;
  if (look.data === null)
    return (
      <section className="card blank">
        <h1>
          There is no unit <Name text={name} mono />
        </h1>
        <p>
          It was deleted, removed by retention, or never added to <Name text={spec} />.{" "}
          <Link to={{ ns, page: "units", spec }} className="l">
            Units of <Name text={spec} />
          </Link>
        </p>
      </section>
    );
  return <Shown look={look.data} />;
}

type Asked = "retry" | "prioritise" | "delay" | "cancel" | "delete" | "give back";

function Shown({ look }: { look: UnitLook }): ReactNode {
  const { ns, may, changed } = useHere();
  const { unit, attempts } = look;
  const [asked, setAsked] = useState<Asked | null>(null);
  const [runAs, setRunAs] = useState<AttemptRow | null>(null);
  const last = attempts.at(-1);
  const failed = unit.status === "failed" ? errorOf(unit.data) : null;
  const close = (): void => {
    setAsked(null);
    setTimeout(() => changed("unit", "units", "counts"), 300);
  };
  const ended = unit.status === "finished" || unit.status === "failed";
  return (
    <>
      <div className="head">
        <div className="grow">
          <h1>
            <StatusGlyph status={unit.status} />
            <span className="nm mono">
              <Name text={unit.name} max={400} />
            </span>
            <CopyButton text={unit.name} label="Copy name" quiet />
          </h1>
          <p>
            <Standing unit={unit} attempts={attempts} />
          </p>
        </div>
        {may("write") && (
          <div className="acts">
            {(ended || unit.status === "pending") && (
              <button
                type="button"
                className={unit.status === "failed" ? "btn p" : "btn"}
                onClick={() => setAsked("retry")}
              >
                Run again…
              </button>
            )}
            {unit.status === "pending" && may("work") && (
              <button type="button" className="btn" onClick={() => setAsked("give back")}>
                Give back…
              </button>
            )}
            {!ended && (
              <>
                <button type="button" className="btn" onClick={() => setAsked("prioritise")}>
                  Prioritise…
                </button>
                <button type="button" className="btn" onClick={() => setAsked("delay")}>
                  Delay…
                </button>
              </>
            )}
            {!ended && (
              <button type="button" className="btn d" onClick={() => setAsked("cancel")}>
                Cancel…
              </button>
            )}
            <button type="button" className="btn d" onClick={() => setAsked("delete")}>
              Delete…
            </button>
          </div>
        )}
      </div>
      {attempts.length > 0 && <Attempts unit={unit} attempts={attempts} onRunAs={setRunAs} />}
      <div className="cols">
        <div className="stack">
          {failed !== null && <ErrorCard text={failed} attempt={unit.activeAttempt} />}
          {attempts.length > 0 && <LogCard ns={ns} attempts={attempts} />}
          <DataCard unit={unit} attempts={attempts} />
        </div>
        <div className="stack">
          <Lineage unit={unit} />
          {unit.dependencies.length > 0 && <Dependencies unit={unit} />}
          <Facts unit={unit} attempts={attempts} />
        </div>
      </div>
      {runAs !== null && (
        <Confirm
          title={`Run again with the data of attempt ${runAs.number}`}
          facts={[
            {
              term: "Effect",
              text: `Replaces the unit's data with the data of attempt ${runAs.number}, from ${clockTime(runAs.endTime > 0 ? runAs.endTime : runAs.startTime)}, and makes the unit available. Priority, labels, queues and dependencies do not change.`,
            },
            {
              term: "Warning",
              text: "The current data is lost unless an attempt has it. Copy it first if you may need it.",
            },
            {
              term: "Undo",
              text: "Run it again with the data of another attempt: each attempt keeps its data.",
            },
          ]}
          run={async () => {
            await client.addWorkUnits(ns, unit.workSpec, [
              { name: unit.name, data: runAs.data, onConflict: "data" },
            ]);
          }}
          onClose={() => {
            setRunAs(null);
            changed("unit", "units", "counts");
          }}
        />
      )}
      {asked === "give back" && last !== undefined ? (
        <Confirm
          title="Give the unit back"
          facts={[
            {
              term: "Effect",
              text: "The lease of the running attempt ends now. Another worker can then claim the unit.",
            },
            {
              term: "Warning",
              text: `${visible(last.worker)} is not stopped. Its result is rejected if another worker has claimed the unit by then.`,
            },
          ]}
          run={async () => {
            await giveBack(ns, [last.id]);
          }}
          onClose={close}
        />
      ) : (
        asked !== null &&
        asked !== "give back" && (
          <Ask
            asked={asked}
            target={{ ns, spec: unit.workSpec, names: [unit.name] }}
            filter={everyUnit}
            onClose={close}
            onStarted={() => {
              if (asked === "delete") setTimeout(() => go({ ns, page: "units", spec: unit.workSpec }), 300);
            }}
          />
        )
      )}
    </>
  );
}

/** One sentence: the status, since when, and what happens next. */
function Standing({ unit, attempts }: { unit: WorkUnitRow; attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  const { status, activeAttempt, notBefore, dependencies } = unit;
  const spec = (
    <Link to={{ ns, page: "spec", spec: unit.workSpec }} className="l">
      <Name text={unit.workSpec} />
    </Link>
  );
  const workers = new Set(attempts.map(({ worker }) => worker)).size;
  const after =
    attempts.length === 0
      ? ""
      : `, after ${plural(attempts.length, "attempt")}${workers > 1 ? ` on ${workers} workers` : ""}`;
  const strong = <span className={`t-${status} strong`}>{status[0]!.toUpperCase() + status.slice(1)}</span>;
  switch (status) {
    case "failed":
    case "finished":
      return (
        <>
          {strong} <Ago time={activeAttempt?.endTime ?? 0} /> in {spec}
          {after}.{status === "failed" && " It is not retried automatically."}
        </>
      );
    case "pending":
      return (
        <>
          {strong} in {spec}: claimed by <Name text={activeAttempt?.worker ?? ""} max={40} />{" "}
          <Ago time={activeAttempt?.startTime ?? 0} />.
          <Progress attempt={activeAttempt} />
        </>
      );
    case "delayed":
      return (
        <>
          {strong} in {spec}: available <Ago time={notBefore} />.
        </>
      );
    case "blocked":
      return (
        <>
          {strong} in {spec}: waiting for{" "}
          {plural(dependencies.filter((one) => one.status !== "finished").length, "unit")}.
        </>
      );
    case "available":
      return (
        <>
          {strong} in {spec}
          {after}: waiting for a worker.
        </>
      );
  }
}

/** The progress that the task reports. */
function Progress({ attempt }: { attempt: AttemptRow | null }): ReactNode {
  const progress = attempt?.progress ?? null;
  if (progress === null) return null;
  const { done, note } = progress;
  const share = Math.max(0, Math.min(1, done));
  return (
    <span className="progress">
      <span
        className="prog"
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
      >
        <i className="r" style={{ width: `${share * 100}%` }} />
      </span>
      <b>{percent(share)}</b>
      {note !== "" && <Name text={note} max={120} />}
    </span>
  );
}

function Dependencies({ unit }: { unit: WorkUnitRow }): ReactNode {
  const { ns } = useHere();
  const open = unit.dependencies.filter(({ status }) => status !== "finished").length;
  return (
    <section className="card" aria-label="Dependencies">
      <header>
        <h2>Dependencies</h2>
        <span className="count quiet">{count(unit.dependencies.length)}</span>
        <span className="grow" />
        <span className="dim">{open === 0 ? "all met" : `${count(open)} open`}</span>
      </header>
      <ul className="deps">
        {unit.dependencies.slice(0, 50).map(({ workSpec, workUnit, kind, status }) => (
          <li key={`${workSpec} ${workUnit}`}>
            {status === null ? <Icon name="x" label="deleted" /> : <StatusGlyph status={status} />}
            <Link to={{ ns, page: "unit", spec: workSpec, unit: workUnit }} className="l">
              <Name text={workUnit} max={36} mono />
            </Link>
            <span className="dim">
              {status ?? "deleted"}
              {kind === "soft" && ", soft"}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Facts({ unit, attempts }: { unit: WorkUnitRow; attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  const now = useNow();
  const batch = batchOf(unit.labels);
  const ran = attempts.reduce(
    (sum, { startTime, endTime }) => sum + (endTime > 0 ? endTime : now) - startTime,
    0,
  );
  const facts: readonly (readonly [string, ReactNode])[] = [
    [
      "Added",
      <>
        {dayTime(unit.createdTime, now)}{" "}
        <span className="dim">
          <Ago time={unit.createdTime} />
        </span>
      </>,
    ],
    [
      "Ended",
      unit.activeAttempt !== null && unit.activeAttempt.endTime > 0 && (
        <>
          {dayTime(unit.activeAttempt.endTime, now)}{" "}
          <span className="dim">
            <Ago time={unit.activeAttempt.endTime} />
          </span>
        </>
      ),
    ],
    ["Not before", unit.notBefore > 0 && unit.status === "delayed" && dayTime(unit.notBefore, now)],
    ["Deadline", unit.deadline !== undefined && dayTime(unit.deadline, now)],
    ["Expires", unit.expires !== undefined && dayTime(unit.expires, now)],
    ["Run time", attempts.length > 0 && duration(ran)],
    ["Priority", unit.priority],
    [
      "Batch",
      batch !== null && (
        <Link to={{ ns, page: "batches", filters: { batch } }} className="l">
          <Name text={batch} max={40} />
        </Link>
      ),
    ],
    [
      "Labels",
      unit.labels.length > 0 &&
        unit.labels.map((label) => (
          <Link
            key={label}
            to={{ ns, page: "units", spec: unit.workSpec, filters: { label } }}
            className="lab"
          >
            <Name text={label} max={30} />
          </Link>
        )),
    ],
    [
      "Queues",
      unit.queues.length > 0 &&
        unit.queues.map((queue) => (
          <span key={queue} className="lab">
            <Name text={queue} max={30} />
          </span>
        )),
    ],
    ["Dependencies", unit.dependencies.length === 0 && <span className="dim">none</span>],
    [
      "Output",
      unit.activeAttempt !== null && unit.activeAttempt.chainingErrors.length > 0 && (
        <span className="t-failed">{plural(unit.activeAttempt.chainingErrors.length, "invalid output")}</span>
      ),
    ],
  ];
  return (
    <section className="card" aria-label="Details">
      <header>
        <h2>Details</h2>
      </header>
      <dl className="fx">
        {facts.map(([term, value]) =>
          value === false ? null : (
            <div key={term}>
              <dt>{term}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
      {unit.activeAttempt !== null && unit.activeAttempt.chainingErrors.length > 0 && (
        <ul className="line-errors">
          {unit.activeAttempt.chainingErrors.slice(0, 20).map((one, i) => (
            <li key={i}>{visible(one)}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
