/** A unit: its attempts as lanes over one time line, its error before its data, what changed between attempts, its kin. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactNode } from "react";
import {
  batchOf,
  dataToJson,
  readOutputs,
  type AttemptRow,
  type Data,
  type WorkUnitRow,
} from "../../core/index.ts";
import { client, sayError } from "../data/connection.ts";
import { errorLine, errorOf, everyUnit, unitsNamed, useUnit, type UnitLook } from "../data/units.ts";
import { giveBack } from "../data/workers.ts";
import {
  clockTime,
  count,
  dayTime,
  duration,
  exactTime,
  percent,
  plural,
  visible,
  visibleLines,
} from "../format.ts";
import { useHere } from "../here.ts";
import { Ask } from "../parts/bulk-bar.tsx";
import { Confirm } from "../parts/dialog.tsx";
import { around, Diff, diffRows } from "../parts/diff.tsx";
import { Icon } from "../parts/icon.tsx";
import { LogCard } from "../parts/log-card.tsx";
import { AttemptChip, AttemptGlyph, StatusGlyph } from "../parts/status.tsx";
import { Ago, CopyButton, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import { go } from "../place.ts";
import "./unit.css";

export default function Unit(): ReactNode {
  const { ns, place } = useHere();
  const spec = place.spec ?? "";
  const name = place.unit ?? "";
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
          It was deleted, retired, or never added to <Name text={spec} />.{" "}
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
          <Kin unit={unit} />
          {unit.dependencies.length > 0 && <Dependencies unit={unit} />}
          <Facts unit={unit} attempts={attempts} />
        </div>
      </div>
      {runAs !== null && (
        <Confirm
          title={`Run it as of attempt ${runAs.number}`}
          facts={[
            {
              term: "Does",
              text: `The data of the unit becomes what attempt ${runAs.number} has, of ${clockTime(runAs.endTime > 0 ? runAs.endTime : runAs.startTime)}, and the unit is available. Priority, labels, queues and dependencies stay.`,
            },
            {
              term: "Watch out",
              text: "The data that the unit has now is replaced. Copy it first if no attempt has it.",
            },
            { term: "Way back", text: "Run it as of another attempt: each keeps its own data." },
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
              term: "Does",
              text: "The lease of the running attempt ends now, and another worker may be given the unit.",
            },
            {
              term: "Watch out",
              text: `${visible(last.worker)} is not stopped: what it says at the end is refused if somebody else has the unit by then.`,
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

/** One sentence: where it stands, since when, and what happens next. */
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
          {after}.{status === "failed" && " Nobody will try it again unless you say so."}
        </>
      );
    case "pending":
      return (
        <>
          {strong} in {spec}: <Name text={activeAttempt?.worker ?? ""} max={40} /> runs it since{" "}
          <Ago time={activeAttempt?.startTime ?? 0} />.
          <Progress attempt={activeAttempt} />
        </>
      );
    case "delayed":
      return (
        <>
          {strong} in {spec}: it may run <Ago time={notBefore} />.
        </>
      );
    case "blocked":
      return (
        <>
          {strong} in {spec}: it waits for{" "}
          {plural(dependencies.filter((one) => one.status !== "finished").length, "unit")}.
        </>
      );
    case "available":
      return (
        <>
          {strong} in {spec}
          {after}: it is handed out when a worker asks and its turn comes.
        </>
      );
  }
}

/** How far the task says it is. */
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

const niceSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

/** One lane for each attempt: thin while it waited before, solid while it ran, its outcome at the end. */
function Attempts(props: {
  unit: WorkUnitRow;
  attempts: readonly AttemptRow[];
  onRunAs: (attempt: AttemptRow) => void;
}): ReactNode {
  const { ns, look, may } = useHere();
  const { unit, attempts, onRunAs } = props;
  // a unit that runs goes on with the data it was given
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
  // a unit that waited for days and ran for a second: the wait is cut, so that the run can be seen
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
        {shown.length < attempts.length && <span className="dim">the last {shown.length}</span>}
        <span className="grow" />
        <div className="lgd dim">
          <i className="sg wait" />
          waits <i className="sg run" />
          runs <i className="sg lost" />
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
              ? `lease ended ${clockTime(attempt.expirationTime)}`
              : attempt.status === "pending"
                ? `${attempt.progress === null ? "" : `${percent(attempt.progress.done)} done, `}${duration(attempt.expirationTime - now)} of its lease left`
                : attempt.status === "finished"
                  ? attempt.late
                    ? "after its lease had ended"
                    : ""
                  : said;
          return (
            <div className={attempt.active ? "ln on" : "ln"} key={attempt.id} data-row tabIndex={-1}>
              <div className="k">
                <b>{attempt.number}</b>
                <AttemptChip status={attempt.status} />
                {attempt.worker === "" ? (
                  <span className="dim">nobody</span>
                ) : (
                  <Link
                    to={{ ns, page: "units", filters: { worker: attempt.worker } }}
                    title="The units that it has had"
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
                  <button type="button" className="btn s" onClick={() => onRunAs(attempt)}>
                    Run as of {attempt.number}…
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

/** Lines of the worker's own machinery tell nothing about the job. */
const isOwn = (line: string): boolean =>
  !/node_modules|node:internal|\(node:|coordinate\/worker|dist\/worker|src\/worker/.test(line);

function ErrorCard({ text, attempt }: { text: string; attempt: AttemptRow | null }): ReactNode {
  const headline = errorLine(text);
  const lines = text.split("\n").filter((line) => line.trim() !== "" && line.trim() !== headline);
  const [all, setAll] = useState(false);
  const own = lines.filter(isOwn);
  const shown = all ? lines : own.slice(0, 40);
  const hidden = lines.length - shown.length;
  return (
    <section className="card error" aria-label="Error">
      <header>
        <span className="t-failed">
          <Icon name="failed" />
        </span>
        <h2>{attempt === null ? "Error" : `Error of attempt ${attempt.number}`}</h2>
        <span className="grow" />
        <CopyButton text={text} quiet />
      </header>
      <div className="em">
        <code>{visible(headline)}</code>
      </div>
      {lines.length > 0 && (
        <pre tabIndex={0}>
          {shown.map((line, i) => (
            <span key={i} className={isOwn(line) ? "own" : "dim"}>
              {visibleLines(line)}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
      {hidden > 0 && (
        <p className="fold">
          <button type="button" className="plain l" onClick={() => setAll(true)}>
            {plural(hidden, "line")} more
          </button>
        </p>
      )}
    </section>
  );
}

/** Data as lines to compare; what is no JSON is told beside it. */
function linesOf(data: Data | null): { lines: string[]; lossless: boolean } {
  if (data === null) return { lines: ["null"], lossless: true };
  const { text, lossless } = dataToJson(data);
  try {
    // numbers of more digits than JavaScript has would change: then the text is shown as it is
    return {
      lines: /\d{16}/.test(text) ? text.split("\n") : JSON.stringify(JSON.parse(text), null, 2).split("\n"),
      lossless,
    };
  } catch {
    return { lines: text.split("\n"), lossless };
  }
}

const maxLines = 2000;

function DataCard({ unit, attempts }: { unit: WorkUnitRow; attempts: readonly AttemptRow[] }): ReactNode {
  const sources = useMemo(
    () => [
      ...attempts.map((attempt) => ({
        key: String(attempt.number),
        title: attempt.endTime > 0 ? `after attempt ${attempt.number}` : `of attempt ${attempt.number}, now`,
        time: attempt.endTime > 0 ? attempt.endTime : attempt.startTime,
        data: attempt.data,
      })),
      ...(unit.activeAttempt === null
        ? [{ key: "now", title: "as it waits now", time: unit.createdTime, data: unit.data }]
        : []),
    ],
    [unit, attempts],
  );
  const newest = sources.at(-1)!;
  const [from, setFrom] = useState<string | null>(null);
  const [to, setTo] = useState<string | null>(null);
  const [view, setView] = useState<"changes" | "all">("changes");
  const right = sources.find(({ key }) => key === to) ?? newest;
  const left = sources.find(({ key }) => key === from) ?? sources.at(-2);
  const b = useMemo(() => linesOf(right.data), [right.data]);
  const a = useMemo(() => (left === undefined ? null : linesOf(left.data)), [left]);
  const rows = useMemo(() => (a === null ? [] : diffRows(a.lines, b.lines)), [a, b]);
  const isSame = rows.every((row) => row.left?.kind === "same" && row.right?.kind === "same");
  const pick = (label: string, value: string, set: (key: string) => void): ReactNode => (
    <label className="pick">
      <span className="dim">{label}</span>
      <select value={value} onChange={(event) => set(event.target.value)}>
        {sources.map(({ key, title }) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
  const whole = b.lines.join("\n");
  const single = left === undefined || a === null;
  const shown = single ? [] : view === "all" || isSame ? rows : around(rows, 3);
  return (
    <section className="card df" aria-label="Data">
      <header>
        <h2>Data</h2>
        <span className="grow" />
        {!single && (
          <>
            {pick("from", left.key, setFrom)}
            {pick("to", right.key, setTo)}
            <div className="seg sm" role="group" aria-label="Show">
              {(["changes", "all"] as const).map((one) => (
                <button key={one} type="button" aria-pressed={view === one} onClick={() => setView(one)}>
                  {one === "changes" ? "Changes" : "All"}
                </button>
              ))}
            </div>
          </>
        )}
        <CopyButton text={whole} quiet />
      </header>
      {!b.lossless && (
        <p className="note">
          It came as CBOR: bytes are shown as base64, and what JSON has no form for as the nearest thing.
        </p>
      )}
      {single || isSame ? (
        <>
          {!single && <p className="note">Both are the same.</p>}
          <pre className="whole" tabIndex={0}>
            {visibleLines(b.lines.slice(0, maxLines).join("\n"))}
            {b.lines.length > maxLines &&
              `\n… ${plural(b.lines.length - maxLines, "more line")}; Copy has all`}
          </pre>
        </>
      ) : (
        <>
          <div className="dh">
            <span>
              {left.title} <span className="dim">{clockTime(left.time)}</span>
            </span>
            <span>
              {right.title} <span className="dim">{clockTime(right.time)}</span>
            </span>
          </div>
          <Diff rows={shown.slice(0, maxLines)} />
        </>
      )}
    </section>
  );
}

interface Ancestor {
  readonly attempt: AttemptRow;
}

/** Where it came from, by the attempts that made units, as far up as they are kept; and what its output made. */
function Kin({ unit }: { unit: WorkUnitRow }): ReactNode {
  const { ns, look } = useHere();
  const above = useQuery({
    queryKey: ["unit", ns, "above", unit.id],
    queryFn: async () => {
      const found: Ancestor[] = [];
      for (let origin = unit.origin; origin !== null && found.length < 8;) {
        const [attempt] = await client.getAttempts(ns, [origin]);
        if (attempt === undefined || attempt === null) break;
        found.unshift({ attempt });
        const [parent] = await unitsNamed(ns, attempt.workSpec, [attempt.workUnit]);
        origin = parent?.origin ?? null;
      }
      return found;
    },
    staleTime: 60_000,
  });
  const then = look.byName.get(unit.workSpec)?.meta.nextWorkSpecName ?? "";
  const outputs = useMemo(
    () =>
      unit.status === "finished" && then !== "" ? readOutputs(unit.data).units.map(({ name }) => name) : [],
    [unit.status, unit.data, then],
  );
  const below = useQuery({
    queryKey: ["unit", ns, "below", unit.id, outputs.length],
    queryFn: () => unitsNamed(ns, then, outputs.slice(0, 20)),
    enabled: outputs.length > 0,
  });
  if (unit.origin === null && then === "") return null;
  return (
    <section className="card" aria-label="Where it came from and went">
      <header>
        <h2>Where it came from and went</h2>
      </header>
      <ol className="lin">
        {unit.origin === null ? (
          <li>
            <span className="t-available">
              <Icon name="plus" />
            </span>
            <div>
              <span>Added from outside</span>
              <span className="dim">no attempt made it</span>
            </div>
          </li>
        ) : (
          (above.data ?? []).map(({ attempt }) => (
            <li key={attempt.id}>
              <AttemptGlyph status={attempt.status} />
              <div>
                <Link to={{ ns, page: "unit", spec: attempt.workSpec, unit: attempt.workUnit }} className="l">
                  <Name text={attempt.workUnit} max={40} mono />
                </Link>
                <span className="dim">
                  <Name text={attempt.workSpec} />, attempt {attempt.number}
                </span>
              </div>
            </li>
          ))
        )}
        {unit.origin !== null && above.data?.length === 0 && (
          <li>
            <span className="t-available">
              <Icon name="flow" />
            </span>
            <div>
              <span>Made by attempt {unit.origin}</span>
              <span className="dim">which is not kept any more</span>
            </div>
          </li>
        )}
        <li>
          <StatusGlyph status={unit.status} />
          <div>
            <b>this unit</b>
            <span className="dim">
              <Name text={unit.workSpec} />, {unit.status}
            </span>
          </div>
        </li>
        {then !== "" &&
          (outputs.length === 0 ? (
            <li>
              <span className="t-available">
                <Icon name="available" />
              </span>
              <div>
                <span>
                  nothing in <Name text={then} />
                </span>
                <span className="dim">
                  {unit.status === "finished" ? "it had no outputs" : "outputs come when it finishes"}
                </span>
              </div>
            </li>
          ) : (
            <>
              {outputs.slice(0, 8).map((name, i) => {
                const made = below.data?.[i];
                return (
                  <li key={name}>
                    {made === undefined || made === null ? (
                      <span className="t-available">
                        <Icon name="available" />
                      </span>
                    ) : (
                      <StatusGlyph status={made.status} />
                    )}
                    <div>
                      <Link to={{ ns, page: "unit", spec: then, unit: name }} className="l">
                        <Name text={name} max={40} mono />
                      </Link>
                      <span className="dim">
                        <Name text={then} />,{" "}
                        {made === undefined ? "…" : made === null ? "gone" : made.status}
                      </span>
                    </div>
                  </li>
                );
              })}
              {outputs.length > 8 && (
                <li>
                  <span />
                  <div>
                    <span className="dim">and {count(outputs.length - 8)} more</span>
                  </div>
                </li>
              )}
            </>
          ))}
      </ol>
    </section>
  );
}

function Dependencies({ unit }: { unit: WorkUnitRow }): ReactNode {
  const { ns } = useHere();
  const open = unit.dependencies.filter(({ status }) => status !== "finished").length;
  return (
    <section className="card" aria-label="Waits for">
      <header>
        <h2>Waits for</h2>
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
              {kind === "soft" && ", either way"}
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
    ["Ran, in all", attempts.length > 0 && duration(ran)],
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
      "Tells",
      unit.queues.length > 0 &&
        unit.queues.map((queue) => (
          <span key={queue} className="lab">
            <Name text={queue} max={30} />
          </span>
        )),
    ],
    ["Needs", unit.dependencies.length === 0 && <span className="dim">nothing</span>],
    [
      "Output",
      unit.activeAttempt !== null && unit.activeAttempt.chainingErrors.length > 0 && (
        <span className="t-failed">
          {plural(unit.activeAttempt.chainingErrors.length, "part")} could not be read
        </span>
      ),
    ],
  ];
  return (
    <section className="card" aria-label="Facts">
      <header>
        <h2>Facts</h2>
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
