/** A work spec: what goes on in words, its share, its errors, how it goes, and its definition beside what holds now. */
import { useState, type KeyboardEvent, type ReactNode } from "react";
import {
  hasSchedule,
  isTripped,
  type FailureRow,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkUnitStatus,
  hasRate,
} from "../../core/index.ts";
import { withError, type Words } from "../attention.ts";
import { client, sayError } from "../data/connection.ts";
import { drain } from "../data/counts.ts";
import { useFailures, type FailureGroup } from "../data/failures.ts";
import { useSparks } from "../data/history.ts";
import type { NamespaceLook, SpecRow } from "../data/look.ts";
import { daemonNow } from "../data/session.ts";
import { definitionOf, setMeta } from "../data/specs.ts";
import { everyUnit } from "../data/units.ts";
import { count, duration, percent, plural, rate, rateWords, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Ask } from "../parts/bulk-bar.tsx";
import { Confirm } from "../parts/dialog.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { Menu } from "../parts/menu.tsx";
import { HourBars } from "../parts/plot.tsx";
import { statusOrder } from "../parts/status.tsx";
import { Ago, Age, CopyButton, Link, Name, Trouble, UnitCount, useNow } from "../parts/text.tsx";
import { TimeLine } from "../parts/time-line.tsx";
import { UndoBar, useUndo, type Undo } from "../parts/undo.tsx";
import { Sentence } from "../parts/words.tsx";
import { go, type Place } from "../place.ts";
import { DrainWords } from "./home.tsx";
import { scheduleWords } from "./schedules.tsx";
import "./spec.css";
import { Heads } from "../parts/heads.tsx";

export default function Spec(): ReactNode {
  const { ns, place, look } = useHere();
  const name = place.spec ?? "";
  const spec = look.byName.get(name);
  if (look.specs === undefined) return null;
  if (spec === undefined)
    return (
      <section className="card blank">
        <h1>
          There is no work spec <Name text={name} />
        </h1>
        <p>
          It was deleted, or never set.{" "}
          <Link to={{ ns, page: "home" }} className="l">
            All work specs
          </Link>
        </p>
      </section>
    );
  return <Shown spec={spec} />;
}

function Shown({ spec }: { spec: SpecRow }): ReactNode {
  const { ns, look, may, changed } = useHere();
  const [asked, setAsked] = useState<"delete" | null>(null);
  const undo = useUndo();
  const { name, meta, counts, condition, rates } = spec;
  const definition = definitionOf(spec.row);
  const description = typeof definition?.data.desc === "string" ? definition.data.desc : "";
  const tone = condition === null ? "ok" : condition.level === "critical" ? "t-failed" : "t-blocked";
  const held = meta.paused || isTripped(meta);
  const pause = (paused: boolean): void => {
    void undo.run({
      did: paused ? `${name} is paused: what runs goes on, nothing more is handed out` : `${name} runs again`,
      act: () => setMeta(ns, name, { paused }),
      back: () => setMeta(ns, name, { paused: !paused }),
      after: () => changed("specs", "counts", "explain"),
    });
  };
  return (
    <>
      <div className="head">
        <div className="grow">
          <h1>
            <span className={tone}>
              <Icon name={condition?.icon ?? "ok"} large />
            </span>
            <span className="nm">
              <Name text={name} max={100} />
            </span>
            {condition !== null && <span className={`cond ${tone}`}>{condition.title}</span>}
          </h1>
          <p>
            {description !== "" && `${visible(description)} `}
            {meta.nextWorkSpecName === "" ? (
              description === "" && "Nothing follows it."
            ) : (
              <>
                Then{" "}
                <Link to={{ ns, page: "spec", spec: meta.nextWorkSpecName }} className="l">
                  <Name text={meta.nextWorkSpecName} />
                </Link>
                .
              </>
            )}
          </p>
        </div>
        {may("write") && (
          <div className="acts">
            <button
              type="button"
              className="btn"
              onClick={() => go({ ns, page: "units", spec: name, filters: { add: "1" } })}
            >
              <Icon name="plus" />
              Add units
            </button>
            <button type="button" className="btn" onClick={() => pause(!held)}>
              <Icon name={held ? "pending" : "paused"} />
              {held ? "Resume" : "Pause"}
            </button>
            <Menu
              className="icon-btn"
              label="More actions"
              iconOnly
              right
              button={<Icon name="more" />}
              items={[
                {
                  key: "delete",
                  label: "Delete the work spec…",
                  danger: true,
                  run: () => setAsked("delete"),
                },
              ]}
            />
          </div>
        )}
      </div>
      <UndoBar undo={undo} />
      <section className="card" aria-label="Counts">
        <dl className="stats">
          {statusOrder.map((status) => (
            <div key={status}>
              <dt>
                <span className={`t-${status}`}>
                  <Icon name={status} />
                </span>
                {status[0]!.toUpperCase() + status.slice(1)}
              </dt>
              <dd className={status === "failed" && counts.failed > 0 ? "t-failed" : ""}>
                <UnitCount ns={ns} spec={name} status={status} value={counts[status]} />
              </dd>
            </div>
          ))}
          <div>
            <dt>Oldest waiting</dt>
            <dd>
              {spec.waitingSince === 0 ? <span className="z">none</span> : <Age since={spec.waitingSince} />}
            </dd>
          </div>
          <div>
            <dt>Drains in</dt>
            <dd>
              <DrainWords drain={drain(counts, rates, meta.paused)} />
            </dd>
          </div>
        </dl>
      </section>
      <div className="cols eq">
        <WhatGoesOn spec={spec} look={look} />
        <Share spec={spec} look={look} />
      </div>
      {counts.failed > 0 && <FailureGroups spec={spec} />}
      <div className="cols">
        <TimeLine spec={name} title="Over time" />
        <Definition spec={spec} undo={undo} />
      </div>
      {asked === "delete" && <DeleteSpec spec={spec} onClose={() => setAsked(null)} />}
    </>
  );
}

function DeleteSpec({ spec, onClose }: { spec: SpecRow; onClose: () => void }): ReactNode {
  const { ns, changed } = useHere();
  const { name, counts } = spec;
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  return (
    <Confirm
      title={`Delete ${visible(name).slice(0, 60)} with ${plural(all, "unit")}`}
      danger
      {...(all > 1000 && { typed: name })}
      facts={[
        {
          term: "Touches",
          text: (
            <>
              The work spec, its <b>{count(all)}</b> units and all their attempts.{" "}
              {counts.pending > 0 &&
                `${count(counts.pending)} of them run now: what their workers say at the end is refused.`}
            </>
          ),
        },
        { term: "Way back", text: "None. Export the units first if you may need them." },
      ]}
      run={async () => {
        await client.deleteWorkSpecs(ns, [name]);
        changed("specs", "counts", "explain");
        go({ ns, page: "home" });
      }}
      onClose={onClose}
    />
  );
}

interface Said {
  readonly icon: IconName;
  readonly tone: string;
  readonly head: string;
  readonly words: Words;
  readonly act?: { readonly label: string; readonly to: Place };
}

/** `explain` in words: what is so, on what evidence, and where to act on it. */
function sayings(
  ns: string,
  { name, condition, counts, meta, explained, rates, held }: SpecRow,
  look: NamespaceLook,
  failures: readonly FailureRow[],
): Said[] {
  const said: Said[] = [];
  if (condition !== null && condition.kind !== "paused") {
    said.push({
      icon: condition.icon,
      tone: condition.level === "critical" ? "failed" : "blocked",
      head: `${condition.title}.`,
      words: withError(condition, failures),
      ...(condition.kind === "nobody" && {
        act: { label: "See the workers", to: { ns, page: "workers" } as const },
      }),
    });
  }
  if (counts.pending > 0) {
    const workers = new Set(held.map(({ worker }) => worker)).size;
    said.push({
      icon: "pending",
      tone: "pending",
      head: `It is being run: ${count(counts.pending)} at once${workers > 0 ? `, by ${plural(workers, "worker")}` : ""}.`,
      words: rates.out > 0 ? [`${rate(rates.out)}/s end.`] : [],
      act: { label: "See them", to: { ns, page: "units", spec: name, filters: { status: "pending" } } },
    });
  }
  if (explained !== undefined) {
    const excluded = explained.excluded;
    said.push(
      excluded === null
        ? {
            icon: "finished",
            tone: "finished",
            head: `A worker that asks now is given it with a chance of ${percent(explained.chance)}.`,
            words: [
              "Weight ",
              { strong: String(explained.weight) },
              ", priority ",
              { strong: String(explained.priority) },
              ".",
            ],
          }
        : {
            icon: excluded === "paused" ? "paused" : excluded === "no_work" ? "available" : "blocked",
            tone: excluded === "no_work" ? "available" : "blocked",
            head: `A worker that asks now is not given it: ${explained.reason}.`,
            words: [advice[excluded] ?? ""],
          },
    );
  }
  if (counts.available === 0 && (counts.delayed > 0 || counts.blocked > 0)) {
    const status: WorkUnitStatus = counts.delayed > 0 ? "delayed" : "blocked";
    said.push({
      icon: status,
      tone: status,
      head: `${plural(counts.delayed + counts.blocked, "unit")} cannot run yet.`,
      words: [
        counts.delayed > 0 ? `${count(counts.delayed)} wait for a time. ` : "",
        counts.blocked > 0 ? `${count(counts.blocked)} wait for other units.` : "",
      ],
      act: { label: "See them", to: { ns, page: "units", spec: name, filters: { status } } },
    });
  }
  if (look.workers === 0 && condition?.kind !== "nobody")
    said.push({
      icon: "workers",
      tone: "blocked",
      head: "No worker is active.",
      words: ["Nobody asks for work in this namespace."],
      act: { label: "Workers", to: { ns, page: "workers" } },
    });
  if (hasSchedule(meta.schedule))
    said.push({
      icon: "sched",
      tone: "available",
      head: meta.paused
        ? "It makes no units by its schedule while it is paused."
        : meta.nextRun === 0
          ? "Its schedule is over."
          : meta.nextRun > daemonNow()
            ? `It makes its next unit in ${duration(meta.nextRun - daemonNow())}.`
            : "It makes its next unit now.",
      words: [{ code: scheduleWords(meta.schedule) }],
      act: { label: "Schedules", to: { ns, page: "schedules" } },
    });
  if (meta.continuous)
    said.push({
      icon: "cont",
      tone: "available",
      head: `It makes a unit of its own every ${duration(meta.intervalMs)}.`,
      words: [
        meta.nextContinuous > daemonNow()
          ? `The next in ${duration(meta.nextContinuous - daemonNow())}.`
          : "The next when a worker asks.",
      ],
    });
  return said;
}

const advice: Readonly<Record<string, string>> = {
  paused: "Resume it, and what waits is handed out by its share.",
  breaker: "It goes on by itself when a probe finishes. Resume it, and it goes on at once.",
  no_weight: "Give it a weight above zero.",
  max_running: "More may run when one of them ends, or after raising max_running.",
  lower_priority: "Its turn comes when those have no work, or with a higher priority.",
  enough_running:
    "It has its share: its turn comes when others have caught up, or when some of its units end.",
  other_runtime: "No worker that was asked about has its runtime.",
  no_work: "Units that are added are handed out at once.",
};

function WhatGoesOn({ spec, look }: { spec: SpecRow; look: NamespaceLook }): ReactNode {
  const { ns } = useHere();
  const failures = useFailures(ns, spec.name, spec.counts.failed > 0);
  return (
    <section className="card" aria-label="What goes on">
      <header>
        <h2>What goes on</h2>
        <span className="grow" />
        <span className="dim">from explain, for any worker</span>
      </header>
      <ul className="explain">
        {sayings(ns, spec, look, failures.data ?? []).map(({ icon, tone, head, words, act }) => (
          <li key={head}>
            <span className={`t-${tone}`}>
              <Icon name={icon} />
            </span>
            <span>
              <b>{visible(head)}</b> <Sentence words={words} />
            </span>
            {act === undefined ? (
              <span />
            ) : (
              <Link to={act.to} className="btn s q">
                {act.label}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Of what runs at the same priority, or of the time it takes: what each has, against what the weights of those with work would give it. */
function Share({ spec, look }: { spec: SpecRow; look: NamespaceLook }): ReactNode {
  const { ns } = useHere();
  const { priority } = spec.meta;
  const rivals = (look.specs ?? []).filter(
    ({ meta, counts, name }) =>
      meta.priority === priority &&
      meta.weight > 0 &&
      !meta.paused &&
      (counts.available + counts.pending > 0 || name === spec.name),
  );
  const { started } = useSparks(ns);
  // what was handed out in the last hour says more than the few that happen to run now
  const handed = rivals.reduce((sum, { name }) => sum + (started.get(name) ?? 0), 0);
  const words = spec.explained?.share === "time" ? timeWords : handed > 0 ? handedWords : runningWords;
  const measuredOf = ({ name, counts, explained }: SpecRow): number => {
    if (words === timeWords) return explained?.measuredShare ?? 0;
    return words === handedWords ? (started.get(name) ?? 0) : counts.pending;
  };
  const measured = rivals.reduce((sum, rival) => sum + measuredOf(rival), 0);
  const weight = rivals.reduce((sum, { meta }) => sum + meta.weight, 0);
  const rows = rivals
    .map((rival) => ({
      name: rival.name,
      runs: measured === 0 ? 0 : measuredOf(rival) / measured,
      target: weight === 0 ? 0 : rival.meta.weight / weight,
    }))
    .sort((a, b) => Number(b.name === spec.name) - Number(a.name === spec.name) || b.target - a.target)
    .slice(0, 6);
  const scale = Math.max(0.2, ...rows.flatMap(({ runs, target }) => [runs, target])) * 1.15;
  return (
    <section className="card share" aria-label={`Share of ${words.what}`}>
      <header>
        <h2>Share of {words.what}</h2>
        <span className="grow" />
        <span className="dim">
          priority {priority}, {words.when}
        </span>
      </header>
      <div className="shb">
        {rows.map(({ name, runs, target }) => (
          <div key={name} className={name === spec.name ? "row me" : "row"}>
            <Link to={{ ns, page: "spec", spec: name }} className="nm">
              <Name text={name} max={12} />
            </Link>
            <span className="trk">
              <i style={{ width: `${(runs / scale) * 100}%` }} />
              <b style={{ left: `${(target / scale) * 100}%` }} />
            </span>
            <span className="r">{percent(runs)}</span>
            <span className="r dim">{percent(target)}</span>
          </div>
        ))}
        <div className="row lg dim">
          <span />
          <span>
            <i className="mk" /> measured <b className="tk" /> target
          </span>
          <span className="r">{words.column}</span>
          <span className="r">target</span>
        </div>
      </div>
    </section>
  );
}

const timeWords = { what: "worker time", when: "last minutes", column: "time" };
const handedWords = { what: "what was handed out", when: "last hour", column: "handed" };
const runningWords = { what: "what runs", when: "now", column: "runs" };

/** The groups that are shown at first; the others are few units each, as a rule. */
const firstGroups = 10;
const hour = 3_600_000;

function trendText({ trend }: FailureGroup, now: number): string {
  const within = (hours: number): number =>
    trend.reduce((sum, { time, count: failed }) => (time > now - (hours + 1) * hour ? sum + failed : sum), 0);
  return `${count(within(1))} in the last two hours, ${count(within(48))} in the last 48`;
}

function FailureGroups({ spec }: { spec: SpecRow }): ReactNode {
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
        <span className="dim">{plural(units, "failed unit")}, by what the error says</span>
      </header>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Error</th>
              <th className="r" scope="col">
                <span className="t-failed">
                  <Icon name="failed" />
                </span>
                Units
              </th>
              <th className="lo" scope="col">
                Share
              </th>
              <th className="lo" scope="col">
                Last 48 hours
              </th>
              <th className="r lo" scope="col">
                First
              </th>
              <th className="r lo" scope="col">
                Last
              </th>
              <th className="r lo" scope="col">
                Most tries
              </th>
              <th className="r" scope="col">
                <span className="sr">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {(all ? groups : groups.slice(0, firstGroups)).map((group) => (
              <tr key={group.fingerprint} data-row tabIndex={-1}>
                <td className="err">
                  <code title={visible(group.error)}>{visible(group.error)}</code>
                  <span className="sub">
                    <Link to={{ ns, page: "unit", spec: spec.name, unit: group.example }} className="l">
                      An example
                    </Link>
                    {now - group.firstTime < hour && <span className="t-failed"> · new</span>}
                    {group.perMinute >= 0.5 && (
                      <span className="t-blocked"> · rising, {rate(group.perMinute)} a minute</span>
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
                <td className="lo">
                  <div className="sh" title={percent(group.count / units)}>
                    <i style={{ width: `${(group.count / units) * 100}%` }} />
                  </div>
                </td>
                <td className="lo">
                  <HourBars points={group.trend} hours={48} now={now} label={trendText(group, now)} />
                </td>
                <td className="r mid lo">
                  <Ago time={group.firstTime} />
                </td>
                <td className="r mid lo">
                  <Ago time={group.lastTime} />
                </td>
                <td className="r mid lo">{count(group.tries)}</td>
                <td className="r">
                  {may("write") && (
                    <button type="button" className="btn s" onClick={() => setAsked(group)}>
                      Retry {count(group.count)}…
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
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

interface Field {
  readonly key: string;
  readonly meta: keyof WorkSpecMetaChange;
  readonly show: (meta: WorkSpecMeta) => string;
  /** What is typed, as the change; null for what is no such value. */
  readonly read: (text: string) => WorkSpecMetaChange | null;
  readonly edit: (meta: WorkSpecMeta) => string;
}

const limit = (value: number): string => (value === 0 ? "none" : count(value));
const readNumber = (text: string, min = -Infinity): number | null => {
  const value = text.trim() === "none" ? 0 : Number(text);
  return text.trim() !== "" && Number.isFinite(value) && value >= min ? value : null;
};

function numberField(key: string, meta: "priority" | "weight" | "minGb", min?: number): Field {
  return {
    key,
    meta,
    show: (values) => String(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => {
      const value = readNumber(text, min);
      return value === null ? null : { [meta]: value };
    },
  };
}

function limitField(key: string, meta: "maxRunning" | "maxGetwork" | "maxRetries"): Field {
  return {
    key,
    meta,
    show: (values) => limit(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => {
      const value = readNumber(text, 0);
      return value === null || !Number.isInteger(value) ? null : { [meta]: value };
    },
  };
}

function switchField(key: string, meta: "paused" | "continuous"): Field {
  return {
    key,
    meta,
    show: (values) => String(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => (text === "true" || text === "false" ? { [meta]: text === "true" } : null),
  };
}

const fields: readonly Field[] = [
  numberField("weight", "weight"),
  numberField("priority", "priority"),
  limitField("max_running", "maxRunning"),
  limitField("max_getwork", "maxGetwork"),
  limitField("max_retries", "maxRetries"),
  numberField("min_gb", "minGb", 0),
  switchField("paused", "paused"),
];

const continuousFields: readonly Field[] = [
  switchField("continuous", "continuous"),
  {
    key: "interval",
    meta: "intervalMs",
    show: ({ intervalMs }) => duration(intervalMs),
    edit: ({ intervalMs }) => String(intervalMs / 1000),
    read: (text) => {
      const seconds = readNumber(text, 0);
      return seconds === null ? null : { intervalMs: seconds * 1000 };
    },
  },
];

/** ", 3 units a turn for large and 1 other with a weight". */
function weightWords({ partitionWeights }: WorkSpecMeta): string {
  const weights = Object.entries(partitionWeights).sort((a, b) => b[1] - a[1]);
  const [first] = weights;
  if (first === undefined) return "";
  const rest = weights.length === 1 ? "" : ` and ${plural(weights.length - 1, "other")} with a weight`;
  return `, ${plural(first[1], "unit")} a turn for ${visible(first[0]).slice(0, 40)}${rest}`;
}

function Definition({ spec, undo }: { spec: SpecRow; undo: Undo }): ReactNode {
  const { ns, may, changed } = useHere();
  const { row, meta, name } = spec;
  const definition = definitionOf(row);
  const shown = meta.canBeContinuous ? [...fields, ...continuousFields] : fields;
  const differs = ({ show }: Field): boolean => definition !== null && show(definition.meta) !== show(meta);
  const different = shown.filter(differs).length;
  const set = (field: Field, change: WorkSpecMetaChange): void => {
    const before = { [field.meta]: meta[field.meta] } as WorkSpecMetaChange;
    void undo.run({
      did: `${field.key} of ${name} is ${field.show({ ...meta, ...change })}; it was ${field.show(meta)}`,
      act: () => setMeta(ns, name, change),
      back: () => setMeta(ns, name, before),
      after: () => changed("specs", "counts", "explain"),
    });
  };
  const fixed: readonly (readonly [string, ReactNode])[] = [
    [
      "then",
      meta.nextWorkSpecName !== "" && (
        <Link to={{ ns, page: "spec", spec: meta.nextWorkSpecName }} className="l">
          <Name text={meta.nextWorkSpecName} max={28} />
        </Link>
      ),
    ],
    ["max_running_per_partition", meta.maxRunningPerPartition > 0 && count(meta.maxRunningPerPartition)],
    ["rate", hasRate(meta.rate) && rateWords(meta.rate)],
    ["rate_per_partition", hasRate(meta.ratePerPartition) && rateWords(meta.ratePerPartition)],
    ["order", meta.order !== "" && "one unit of a partition at a time"],
    ["fair", meta.fair !== "" && `partitions take turns${weightWords(meta)}`],
    [
      "limits",
      meta.limits.length > 0 && (
        <Link to={{ ns, page: "limits" }} className="l">
          <Name text={meta.limits.join(", ")} max={40} />
        </Link>
      ),
    ],
    ["runtime", meta.runtime !== "" && <Name text={meta.runtime} max={28} />],
    ["retention", retentionWords(meta)],
  ];
  const text = definition === null ? "" : JSON.stringify(definition.data, printable, 2);
  return (
    <section className="card def" aria-label="Definition and live">
      <header>
        <h2>Definition and live</h2>
      </header>
      <table>
        <Heads of={["Key", { text: "Defined", className: "r" }, { text: "Live", className: "r" }]} />
        <tbody>
          {shown.map((field) => (
            <tr key={field.key} className={differs(field) ? "chg" : ""}>
              <td>
                <code>{field.key}</code>
                {differs(field) && may("write") && definition !== null && (
                  <button
                    type="button"
                    className="by plain"
                    onClick={() => set(field, { [field.meta]: definition.meta[field.meta] })}
                  >
                    back to {field.show(definition.meta)}
                  </button>
                )}
              </td>
              <td className="r mid">{definition === null ? "–" : field.show(definition.meta)}</td>
              <td className="r">
                {may("write") ? (
                  <Editable field={field} meta={meta} onSet={(change) => set(field, change)} />
                ) : (
                  field.show(meta)
                )}
              </td>
            </tr>
          ))}
          {fixed.map(([key, value]) =>
            value === false || value === null ? null : (
              <tr key={key}>
                <td>
                  <code>{key}</code>
                </td>
                <td className="r" colSpan={2}>
                  {value}
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
      <footer>
        {different > 0
          ? `${plural(different, "live value")} ${different === 1 ? "differs" : "differ"}. Setting the work spec again resets them, unless it says keepMeta.`
          : "Live values are as they are defined."}
      </footer>
      <details>
        <summary>
          <Icon name="right" />
          All of the definition
        </summary>
        <div className="raw">
          <CopyButton text={text} />
          <pre>{visibleJson(text)}</pre>
        </div>
      </details>
    </section>
  );
}

const visibleJson = (text: string): string => text.split("\n").map(visible).join("\n");

/** What JSON has no form for, of data that came as CBOR. */
function printable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  return value instanceof Uint8Array ? `${value.length} bytes` : value;
}

function retentionWords({ retention }: WorkSpecMeta): string | null {
  const words = (["finished", "failed"] as const).flatMap((status) => {
    const kept = retention[status];
    if (kept === undefined) return [];
    const parts = [
      kept.maxAgeMs !== undefined && duration(kept.maxAgeMs),
      kept.maxCount !== undefined && `the newest ${count(kept.maxCount)}`,
    ].filter((part) => part !== false);
    return [`${status} ${parts.join(", ")}`];
  });
  return words.length === 0 ? null : words.join(", ");
}

/** Click, type, Enter. Escape leaves it as it is. */
function Editable({
  field,
  meta,
  onSet,
}: {
  field: Field;
  meta: WorkSpecMeta;
  onSet: (change: WorkSpecMetaChange) => void;
}): ReactNode {
  const [text, setText] = useState<string | null>(null);
  const isSwitch = typeof meta[field.meta] === "boolean";
  if (isSwitch) {
    return (
      <button
        type="button"
        className="ed"
        aria-label={`${field.key}: ${field.show(meta)}; switch`}
        onClick={() => onSet({ [field.meta]: meta[field.meta] !== true })}
      >
        {field.show(meta)}
        <Icon name="edit" />
      </button>
    );
  }
  if (text === null) {
    return (
      <button
        type="button"
        className="ed"
        aria-label={`${field.key}: ${field.show(meta)}; change`}
        onClick={() => setText(field.edit(meta))}
      >
        {field.show(meta)}
        <Icon name="edit" />
      </button>
    );
  }
  const change = field.read(text);
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") setText(null);
    if (event.key !== "Enter" || change === null) return;
    if (text !== field.edit(meta)) onSet(change);
    setText(null);
  };
  return (
    <input
      className={change === null ? "edit bad" : "edit"}
      aria-label={field.key}
      aria-invalid={change === null}
      autoFocus
      value={text}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={onKey}
      onBlur={() => setText(null)}
    />
  );
}
