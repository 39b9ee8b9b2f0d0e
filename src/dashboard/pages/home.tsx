/** Home: what needs attention, then the whole namespace over time, then every work spec by need. */
import { useMemo, useState, type ReactNode } from "react";
import type { WorkUnitStatus } from "../../core/index.ts";
import { withError, type Condition } from "../attention.ts";
import { drain, seenPoints, type Drain, type Point } from "../data/counts.ts";
import { useFailures } from "../data/failures.ts";
import { useSparks, type Sparks } from "../data/history.ts";
import type { SpecRow } from "../data/look.ts";
import { maxSpecs } from "../data/specs.ts";
import { count, duration, plural, rate, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { usePausing } from "../parts/pausing.ts";
import { Spark, Trend } from "../parts/plot.tsx";
import { StatusGlyph, maxOpen, StatusBar } from "../parts/status.tsx";
import { Age, Link, Name, UnitCount } from "../parts/text.tsx";
import { TimeLine } from "../parts/time-line.tsx";
import { Sentence } from "../parts/words.tsx";
import { go, type Route } from "../route.ts";
import { Start } from "./start.tsx";
import "./home.css";

export function Home(): ReactNode {
  const { ns, look } = useHere();
  const { specs, attention } = look;
  const shown = useShown(specs ?? []);
  // one response has the history of at most a thousand work specs
  const names = useMemo(
    () => [...new Set([...attention.slice(0, maxAttention), ...shown].map(({ name }) => name))].slice(0, 500),
    [attention, shown],
  );
  const sparks = useSparks(ns, (specs?.length ?? 0) > 1000 ? names : undefined);
  if (specs === undefined) return null;
  if (!specs.some(({ isUsed }) => isUsed)) return <Start ns={ns} />;
  return (
    <>
      <h1 className="sr">Home</h1>
      {attention.length > 0 && (
        <section className="card" aria-label="Needs attention">
          <header>
            <h2>Needs attention</h2>
            <span className="count">{attention.length}</span>
            <span className="grow" />
            <span className="dim">
              {attention.length === specs.length
                ? "no other work specs"
                : `${plural(specs.length - attention.length, "other work spec")} ${specs.length - attention.length === 1 ? "is" : "are"} healthy`}
            </span>
          </header>
          <ul className="att">
            {attention.slice(0, maxAttention).map((spec) => (
              <AttentionRow key={spec.name} spec={spec} condition={spec.condition!} sparks={sparks} />
            ))}
          </ul>
          {attention.length > maxAttention && (
            <p className="blank dim">
              {plural(attention.length - maxAttention, "more work spec")}, at the top of the list below.
            </p>
          )}
        </section>
      )}
      <WholeNamespace />
      <WorkSpecs specs={specs} shown={shown} sparks={sparks} />
    </>
  );
}

const maxAttention = 12;
/** How many rows are shown at first: thousands are slow to render and too many to read. */
const maxRows = 200;

/** The work specs on the screen: those whose name contains the typed text, in the chosen order. */
function useShown(specs: readonly SpecRow[]): readonly SpecRow[] {
  const { route } = useHere();
  const { find = "", sort = "need", rows } = route.filters ?? {};
  return useMemo(() => {
    const wanted = find.toLowerCase();
    const found = wanted === "" ? specs : specs.filter(({ name }) => name.toLowerCase().includes(wanted));
    const inOrder = sorted(found, sort as SortKey);
    return rows === "all" ? inOrder : inOrder.slice(0, maxRows);
  }, [specs, find, sort, rows]);
}

/** The daemon's records of the last hour; without them the samples of this tab, at most five minutes. */
function lastHour(
  ns: string,
  spec: string,
  { from, to, gapMs, bySpec }: Sparks,
): { points: readonly Point[]; from: number; to: number; gapMs: number } {
  const points = bySpec.get(spec);
  if (points !== undefined) return { points, from, to, gapMs };
  const now = Date.now();
  const seen = seenPoints(ns, spec, now - 300_000);
  return { points: seen, from: Math.min(seen[0]?.at ?? now, now - 60_000), to: now, gapMs: 60_000 };
}

function AttentionRow(props: { spec: SpecRow; condition: Condition; sparks: Sparks }): ReactNode {
  const { ns, may } = useHere();
  const { spec, condition, sparks } = props;
  const failures = useFailures(ns, spec.name, condition.kind === "failing" || condition.kind === "failed");
  const tone = condition.level === "critical" ? "t-failed" : "t-blocked";
  const status: WorkUnitStatus | undefined = condition.status === "waiting" ? undefined : condition.status;
  const units: Route = {
    ns,
    page: "units",
    spec: spec.name,
    filters: { status: status ?? "available,delayed,blocked" },
  };
  const pause = usePausing();
  const trend =
    condition.status === "failed" ? "failed" : condition.status === "pending" ? "pending" : "waiting";
  return (
    <li data-row tabIndex={-1}>
      <span className={tone}>
        <Icon name={condition.icon} large />
      </span>
      <div className="what">
        <Link to={{ ns, page: "spec", spec: spec.name }}>
          <b>
            <Name text={spec.name} max={28} />
          </b>
        </Link>
        <span className={tone}>{condition.title}</span>
      </div>
      <div className="why">
        <Sentence words={withError(condition, failures.data ?? [])} />
      </div>
      <Trend {...lastHour(ns, spec.name, sparks)} of={trend} />
      <div className="num">
        <b>
          {condition.number > 0 ? (
            <Link to={units} className="n">
              {condition.number.toLocaleString("en-US")}
            </Link>
          ) : (
            <span className="z">0</span>
          )}
        </b>
        <span>{condition.of}</span>
      </div>
      <div className="go">
        {(condition.kind === "paused" || condition.kind === "breaker") && may("write") ? (
          <button type="button" className="btn s" onClick={() => pause(spec, false)}>
            {spec.name.length < 14 ? `Resume ${visible(spec.name)}` : "Resume"}
          </button>
        ) : (
          <button type="button" className="btn s" onClick={() => go(nextOf(ns, spec.name, condition))}>
            {nextWords[condition.kind]}
          </button>
        )}
      </div>
    </li>
  );
}

const nextWords: Readonly<Record<Condition["kind"], string>> = {
  nobody: "View workers",
  breaker: "View details",
  failing: "Failure groups",
  failed: "Failure groups",
  stuck: "View details",
  leases: "View workers",
  behind: "View details",
  paused: "View details",
  no_weight: "Set weight",
  late: "View details",
};

function nextOf(ns: string, spec: string, { kind }: Condition): Route {
  if (kind === "nobody" || kind === "leases") return { ns, page: "workers" };
  return { ns, page: "spec", spec };
}

function WholeNamespace(): ReactNode {
  return <TimeLine spec={null} title="All work specs" />;
}

type SortKey =
  | "need"
  | "name"
  | "available"
  | "delayed"
  | "blocked"
  | "pending"
  | "failed"
  | "finished"
  | "in"
  | "out"
  | "oldest";

function sorted(specs: readonly SpecRow[], key: SortKey): readonly SpecRow[] {
  if (key === "need") return specs;
  if (key === "name") return [...specs].sort((a, b) => (a.name < b.name ? -1 : 1));
  const value = (spec: SpecRow): number => {
    if (key === "in") return spec.rates.added;
    if (key === "out") return spec.rates.out;
    if (key === "oldest") return spec.waitingSince === 0 ? -Infinity : -spec.waitingSince;
    return spec.counts[key];
  };
  return [...specs].sort((a, b) => value(b) - value(a));
}

/** Keeps the order of rows while the pointer is over them: they are sorted again 5 s after it has left, or by another column. */
function useStableOrder(
  specs: readonly SpecRow[],
  sort: SortKey,
): {
  rows: readonly SpecRow[];
  pointing: (inside: boolean) => void;
} {
  const [calm, setCalm] = useState<{ sort: SortKey; order: readonly string[]; until: number } | null>(null);
  if (calm !== null && calm.sort !== sort) setCalm({ ...calm, sort, order: specs.map(({ name }) => name) });
  const rows = useMemo(() => {
    if (calm === null || Date.now() > calm.until) return specs;
    const byName = new Map(specs.map((spec) => [spec.name, spec]));
    const kept = calm.order.flatMap((name) => byName.get(name) ?? []);
    const names = new Set(calm.order);
    return [...kept, ...specs.filter(({ name }) => !names.has(name))];
  }, [specs, calm]);
  return {
    rows,
    pointing: (inside) =>
      setCalm({ sort, order: rows.map(({ name }) => name), until: inside ? Infinity : Date.now() + 5000 }),
  };
}

function WorkSpecs(props: {
  specs: readonly SpecRow[];
  shown: readonly SpecRow[];
  sparks: Sparks;
}): ReactNode {
  const { route } = useHere();
  const { specs, shown, sparks } = props;
  const sort = (route.filters?.sort ?? "need") as SortKey;
  const { rows, pointing } = useStableOrder(shown, sort);
  const find = route.filters?.find ?? "";
  const max = maxOpen(specs);
  const head = (key: SortKey, title: ReactNode, className = ""): ReactNode => (
    <th
      className={className}
      aria-sort={sort === key ? (key === "name" ? "ascending" : "descending") : undefined}
      scope="col"
    >
      <Link to={{ ...route, filters: { ...route.filters, sort: key === "need" ? "" : key } }}>
        {title}
        {sort === key ? " ↓" : ""}
      </Link>
    </th>
  );
  const status = (key: WorkUnitStatus, title: string): ReactNode =>
    head(
      key,
      <>
        <StatusGlyph status={key} />
        {title}
      </>,
      `r c-${key}`,
    );
  return (
    <section className="card specs" aria-label="Work specs">
      <header>
        <h2>Work specs</h2>
        <span className="count quiet">{count(specs.length)}</span>
        {(specs.length > 30 || find !== "") && (
          <input
            className="find-in"
            type="search"
            aria-label="Find a work spec"
            placeholder="Find a work spec"
            spellCheck={false}
            value={find}
            onChange={(event) =>
              go({ ...route, filters: { ...route.filters, find: event.target.value } }, { replace: true })
            }
          />
        )}
        <span className="grow" />
        <span className="legend dim">
          <i className="sw sw-in dash" /> in <i className="sw sw-finished" /> out
          {sparks.bySpec.size > 0 && ", last hour"}
        </span>
      </header>
      <div className="scroll">
        <table onPointerEnter={() => pointing(true)} onPointerLeave={() => pointing(false)}>
          <thead>
            <tr>
              {sort === "need"
                ? head(
                    "name",
                    <>
                      Work spec <span className="dim">by urgency</span>
                    </>,
                  )
                : head("need", "Work spec")}
              <th className="w-bar" scope="col">
                Open units
              </th>
              {status("available", "Available")}
              {status("delayed", "Delayed")}
              {status("blocked", "Blocked")}
              {status("pending", "Pending")}
              {status("failed", "Failed")}
              {status("finished", "Finished")}
              <th className="w-sp" scope="col">
                In and out
              </th>
              {head("in", "In /s", "r c-in")}
              {head("out", "Out /s", "r c-out")}
              {head("oldest", "Oldest", "r c-old")}
              <th className="r c-drain" scope="col">
                Drains in
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((spec) => (
              <WorkSpecRow key={spec.name} spec={spec} max={max} sparks={sparks} />
            ))}
          </tbody>
        </table>
      </div>
      {find === "" && rows.length < specs.length && (
        <p className="blank dim">
          Showing {count(rows.length)} of {count(specs.length)}
          {sort === "need" && ", most urgent first"}.{" "}
          <Link to={{ ...route, filters: { ...route.filters, rows: "all" } }} className="l">
            Show all
          </Link>
        </p>
      )}
      {find !== "" && rows.length === 0 && <p className="blank">No work spec name contains this text.</p>}
      {specs.length >= maxSpecs && (
        <p className="blank dim">Only the first {count(maxSpecs)} work specs by name are shown.</p>
      )}
    </section>
  );
}

/** What keeps a healthy work spec from starting more units, by the rule of the scheduler. */
const heldWords: Readonly<Record<string, string>> = {
  max_running: "at its max_running",
  rate: "at its rate",
  limit: "at a shared limit",
  partitions: "partitions are full",
  not_before: "starts later",
};

function WorkSpecRow({ spec, max, sparks }: { spec: SpecRow; max: number; sparks: Sparks }): ReactNode {
  const { ns } = useHere();
  const { name, counts, condition, meta, rates } = spec;
  const tone = condition === null ? "ok" : condition.level === "critical" ? "t-failed" : "t-blocked";
  const number = (status: WorkUnitStatus, className = ""): ReactNode => (
    <td className={`r c-${status}`}>
      <UnitCount ns={ns} spec={name} status={status} value={counts[status]} className={className} />
    </td>
  );
  const waits = counts.available + counts.delayed + counts.blocked;
  const held = counts.available > 0 ? heldWords[spec.explained?.excluded ?? ""] : undefined;
  const isFailing = condition !== null && (condition.kind === "failing" || condition.kind === "failed");
  return (
    <tr data-row tabIndex={-1}>
      <td className="c-name">
        <span className="nm">
          <span className={tone}>
            <Icon name={condition?.icon ?? "ok"} label={condition?.title ?? "healthy"} />
          </span>
          <Link to={{ ns, page: "spec", spec: name }} className="name">
            <Name text={name} max={32} />
          </Link>
          {condition !== null && <span className={`cond ${tone}`}>{condition.title}</span>}
          {condition === null && held !== undefined && <span className="unit-s">{held}</span>}
          {condition === null && meta.continuous && (
            <span className="unit-s" title="continuous: creates its own units">
              <Icon name="cont" /> {duration(meta.intervalMs)}
            </span>
          )}
        </span>
      </td>
      <td className="c-mob">
        {waits.toLocaleString("en-US")} waiting
        {counts.failed > 0 && ` · ${counts.failed.toLocaleString("en-US")} failed`}
      </td>
      <td className="c-bar">
        <StatusBar counts={counts} max={max} />
      </td>
      {number("available")}
      {number("delayed")}
      {number("blocked")}
      {number("pending")}
      {number("failed", isFailing ? "t-failed strong" : "")}
      {number("finished")}
      <td className="c-spark">
        <Spark {...lastHour(ns, name, sparks)} />
      </td>
      <td className="r c-in">
        {rate(rates.added) === "0" ? <span className="z">0</span> : rate(rates.added)}
      </td>
      <td className="r c-out">{rate(rates.out) === "0" ? <span className="z">0</span> : rate(rates.out)}</td>
      <td className="r c-old">
        {spec.waitingSince === 0 ? (
          <span className="z">none</span>
        ) : (
          <Link to={{ ns, page: "units", spec: name, filters: { status: "available" } }} className="n">
            <Age since={spec.waitingSince} />
          </Link>
        )}
      </td>
      <td className="r c-drain">
        <DrainWords drain={drain(counts, rates, meta.paused)} />
      </td>
    </tr>
  );
}

export function DrainWords({ drain: { text, value } }: { drain: Drain }): ReactNode {
  switch (text) {
    case "empty":
    case "unknown":
      return <span className="z">{text === "empty" ? "empty" : "–"}</span>;
    case "never":
      return <span className="t-failed">never</span>;
    case "paused":
      return <span className="t-blocked">paused</span>;
    case "grows":
      return <span className="t-blocked">grows +{rate(value)}/s</span>;
    case "time":
      return duration(value);
  }
}
