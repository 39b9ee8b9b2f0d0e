/** What if there were more workers, or other weights: replays the recorded arrivals and durations. */
import { useMemo, useState, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { daemonNow } from "../data/session.ts";
import { setMeta } from "../data/specs.ts";
import { readRecord, slotsNow, useRecord } from "../data/what-if.ts";
import { useWorkers } from "../data/workers.ts";
import { clockTime, count, duration, plural, rate, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Table } from "../parts/table.tsx";
import { Link, Name, Trouble } from "../parts/text.tsx";
import { go, type Route } from "../route.ts";
import { ranges, type Range } from "../range.ts";
import { simulate, type LoadSpec, type Outcome, type Plan, type Waits } from "../what-if.ts";
import "./what-if.css";

const shownRanges: readonly Range[] = ["1h", "6h", "24h", "7d"];

/** The changes of the plan, from the URL; anything but numbers by name is ignored. */
function readPlan(text: string | undefined): Plan {
  const numbers = (given: unknown): Record<string, number> =>
    Object.fromEntries(
      Object.entries(typeof given === "object" && given !== null ? given : {}).filter(
        (entry): entry is [string, number] =>
          typeof entry[1] === "number" && entry[1] >= 0 && entry[1] <= 1e6,
      ),
    );
  try {
    const { slots, weights } = JSON.parse(text ?? "{}") as { slots?: unknown; weights?: unknown };
    return { slots: numbers(slots), weights: numbers(weights) };
  } catch {
    return { slots: {}, weights: {} };
  }
}

export default function WhatIf(): ReactNode {
  const { ns, route, look, may, changed } = useHere();
  const range = shownRanges.find((one) => one === route.filters?.range) ?? "1h";
  const record = useRecord(ns, range);
  const workers = useWorkers(ns);
  const [applying, setApplying] = useState(false);
  const specs = look.specs;
  // counts change all the time; the settings that the replay uses change seldom
  const settings = JSON.stringify(
    specs?.map(({ name, meta }) => [name, meta.weight, meta.priority, meta.maxRunning, meta.paused]),
  );
  const recorded = useMemo(
    () => (record.data === undefined || specs === undefined ? undefined : readRecord(record.data, specs)),
    [record.data, settings],
  );
  const plan = useMemo(() => readPlan(route.filters?.plan), [route.filters?.plan]);
  const runtimes = useMemo(
    () => [...new Set(recorded?.load.specs.map(({ runtime }) => runtime))].sort(),
    [recorded],
  );
  const slots = useMemo(
    () => slotsNow(runtimes, workers.data ?? [], recorded?.ran ?? {}),
    [runtimes, workers.data, recorded],
  );
  const now = useMemo(
    () => (recorded === undefined ? null : simulate(recorded.load, { slots, weights: {} })),
    [recorded, slots],
  );
  const then = useMemo(
    () =>
      recorded === undefined
        ? null
        : simulate(recorded.load, { slots: { ...slots, ...plan.slots }, weights: plan.weights }),
    [recorded, slots, plan],
  );
  if (record.error !== null && record.data === undefined) return <Trouble text={sayError(record.error)} />;
  if (recorded === undefined || now === null || then === null || workers.data === undefined) return null;
  if (recorded.load.specs.length === 0)
    return (
      <section className="card blank">
        <h1>There is no history to simulate yet</h1>
        <p>
          The daemon records how many units arrive, how long they wait and how long they run. Run some work,
          then come back.
        </p>
      </section>
    );
  const set = (next: Plan): void => {
    const isEmpty = Object.keys(next.slots).length === 0 && Object.keys(next.weights).length === 0;
    go(
      { ns, page: "what-if", filters: { ...route.filters, plan: isEmpty ? "" : JSON.stringify(next) } },
      { replace: true },
    );
  };
  const without = (given: Readonly<Record<string, number>>, key: string): Record<string, number> =>
    Object.fromEntries(Object.entries(given).filter(([one]) => one !== key));
  const isChanged = Object.keys(plan.slots).length + Object.keys(plan.weights).length > 0;
  const at = (one: Range): Route => ({
    ...route,
    filters: { ...route.filters, range: one === "1h" ? "" : one },
  });
  const weights = Object.entries(plan.weights).filter(([name]) => look.byName.has(name));
  return (
    <>
      <div className="head">
        <div className="grow">
          <h1>What if</h1>
          <p>
            {isChanged ? (
              <ChangeSummary load={recorded.load.specs} now={now} then={then} />
            ) : (
              "Change the number of slots or a weight to simulate the recorded load with it."
            )}
          </p>
        </div>
        <div className="acts">
          {isChanged && (
            <button type="button" className="btn" onClick={() => set({ slots: {}, weights: {} })}>
              Reset
            </button>
          )}
          {weights.length > 0 && may("write") && (
            <button type="button" className="btn p" onClick={() => setApplying(true)}>
              Set {plural(weights.length, "weight")}…
            </button>
          )}
        </div>
      </div>
      <section className="card" aria-label="Slots">
        <header>
          <h2>Slots</h2>
          <span className="dim">units that workers run at once, by runtime</span>
          <span className="grow" />
          <div className="seg sm" role="group" aria-label="Recorded range">
            {shownRanges.map((one) => (
              <Link key={one} to={at(one)} {...(one === range && { current: true })}>
                {one.replace(/([mhd])/, " $1")}
              </Link>
            ))}
          </div>
        </header>
        <div className="wi-slots">
          {runtimes.map((runtime) => (
            <label key={runtime} className={plan.slots[runtime] === undefined ? "" : "chg"}>
              <b>{runtime === "" ? "no runtime" : <Name text={runtime} max={24} />}</b>
              <input
                type="number"
                min="0"
                aria-label={`Slots of ${runtime === "" ? "no runtime" : visible(runtime)}`}
                value={plan.slots[runtime] ?? slots[runtime] ?? 0}
                onChange={(event) => {
                  const value = Math.floor(Number(event.target.value));
                  set({
                    ...plan,
                    slots:
                      value === slots[runtime] || !(value >= 0)
                        ? without(plan.slots, runtime)
                        : { ...plan.slots, [runtime]: value },
                  });
                }}
              />
              <span className="dim">now {count(slots[runtime] ?? 0)}</span>
            </label>
          ))}
        </div>
      </section>
      <section className="card wi" aria-label="Work specs">
        <header>
          <h2>Waiting times</h2>
          <span className="grow" />
          <span className="legend dim">
            <i className="sw sw-available" /> without the change <i className="sw sw-in dash" /> with the
            change
          </span>
        </header>
        <Table
          heads={[
            "Work spec",
            { text: "Weight", className: "r" },
            { text: "In /s", className: "r lo" },
            { text: "Run time", className: "r lo" },
            { text: "Waiting", className: "lo" },
            {
              text: "Measured p50, p90",
              className: "r lo",
              title: "50 % and 90 % of the units waited at most this long",
            },
            { text: "Model p50, p90", className: "r lo" },
            { text: "With the change", className: "r" },
            { text: "Waiting at the end", className: "r" },
          ]}
        >
          {recorded.load.specs.map((spec) => {
            const before = now.get(spec.name)!;
            const after = then.get(spec.name)!;
            const weight = plan.weights[spec.name];
            return (
              <tr key={spec.name} data-row tabIndex={-1}>
                <td className="strong">
                  <Link to={{ ns, page: "spec", spec: spec.name }}>
                    <Name text={spec.name} max={28} />
                  </Link>
                  {spec.paused && <span className="t-blocked"> paused</span>}
                </td>
                <td className="r">
                  <input
                    type="number"
                    min="0"
                    step="any"
                    className={weight === undefined ? "num-in" : "num-in chg"}
                    aria-label={`Weight of ${visible(spec.name).slice(0, 60)}`}
                    value={weight ?? spec.weight}
                    onChange={(event) => {
                      const value = Number(event.target.value);
                      set({
                        ...plan,
                        weights:
                          value === spec.weight || !(value >= 0)
                            ? without(plan.weights, spec.name)
                            : { ...plan.weights, [spec.name]: value },
                      });
                    }}
                  />
                </td>
                <td className="r mid lo">
                  {rate((spec.arrivals.reduce((sum, one) => sum + one, 0) / ranges[range]) * 1000)}
                </td>
                <td className="r mid lo">{spec.durationMs > 0 ? duration(spec.durationMs) : "–"}</td>
                <td className="lo">
                  <Backlogs before={before.backlog} after={after.backlog} />
                </td>
                <td className="r mid lo">
                  <WaitWords waits={recorded.measured.get(spec.name) ?? null} />
                </td>
                <td className="r mid lo">
                  <WaitWords waits={before.waits} />
                </td>
                <td className={isChanged ? `r strong ${toneOf(before, after)}` : "r dim"}>
                  <WaitWords waits={after.waits} />
                </td>
                <td className="r">
                  {count(after.left)}
                  {after.left !== before.left && (
                    <span className="dim"> instead of {count(before.left)}</span>
                  )}
                </td>
              </tr>
            );
          })}
        </Table>
        <footer className="limits">
          The model uses averages over steps of {duration(recorded.load.stepMs)}: shorter waits count as 0.
          Slots go to the highest priority first, then by weight, within <code>max_running</code>. Run times
          are as recorded, and units created by other units arrive when they did in the record. If{" "}
          <i>model</i> and <i>measured</i> differ a lot, do not rely on the simulation: workers were idle,
          started or stopped, or waited for something else.
        </footer>
      </section>
      {applying && (
        <Confirm
          title={`Set ${plural(weights.length, "weight")}`}
          facts={[
            {
              term: "Affects",
              text: weights
                .map(
                  ([name, weight]) =>
                    `${visible(name).slice(0, 40)} ${look.byName.get(name)?.meta.weight ?? ""} → ${weight}`,
                )
                .join(", "),
            },
            {
              term: "Effect",
              text: `From ${clockTime(daemonNow())} on, work is handed out by these weights.`,
            },
            { term: "Undo", text: "Set the old weights on the page of each work spec." },
          ]}
          run={async () => {
            for (const [name, weight] of weights) await setMeta(ns, name, { weight });
            changed("specs", "explain");
            set({ ...plan, weights: {} });
          }}
          onClose={() => setApplying(false)}
        />
      )}
    </>
  );
}

const p90 = ({ waits }: Outcome): number => waits?.p90 ?? Infinity;

const toneOf = (before: Outcome, after: Outcome): string =>
  p90(after) < p90(before) ? "t-finished" : p90(after) > p90(before) ? "t-failed" : "";

function WaitWords({ waits }: { waits: Waits | null }): ReactNode {
  if (waits === null) return <span className="z">none started</span>;
  const word = (ms: number): string => (ms === 0 ? "0" : duration(ms));
  return `${word(waits.p50)}, ${word(waits.p90)}`;
}

/** One sentence about the work spec whose backlog at the end changes the most. */
function ChangeSummary(props: {
  load: readonly LoadSpec[];
  now: ReadonlyMap<string, Outcome>;
  then: ReadonlyMap<string, Outcome>;
}): ReactNode {
  const { load, now, then } = props;
  const changes = load
    .map(({ name }) => ({ name, before: now.get(name)!, after: then.get(name)! }))
    .filter(({ before, after }) => p90(before) !== p90(after) || before.left !== after.left)
    .sort((a, b) => Math.abs(b.after.left - b.before.left) - Math.abs(a.after.left - a.before.left));
  const [first] = changes;
  if (first === undefined) return "This change would have had no effect on the recorded load.";
  const { name, before, after } = first;
  const words = (waits: Waits | null): string =>
    waits === null ? "unknown, as none started," : duration(waits.p90);
  return (
    <>
      Largest change: the p90 wait of <b>{visible(name).slice(0, 60)}</b> would have been{" "}
      <b>{words(after.waits)}</b> instead of <b>{words(before.waits)}</b>, with{" "}
      <b>{plural(after.left, "unit")}</b> waiting at the end instead of <b>{count(before.left)}</b>.
      {changes.length > 1 && ` ${plural(changes.length - 1, "other work spec")} would change too.`}
    </>
  );
}

/** The waiting units over the time of the record, with and without the change, on one scale from zero. */
function Backlogs({ before, after }: { before: readonly number[]; after: readonly number[] }): ReactNode {
  const width = 120;
  const height = 24;
  const top = Math.max(1, ...before, ...after) * 1.1;
  const line = (values: readonly number[]): string => {
    const size = Math.max(1, Math.ceil(values.length / width));
    const thinned = values.filter((_, i) => i % size === 0);
    return thinned
      .map(
        (value, i) =>
          `${i === 0 ? "M" : "L"}${((i / Math.max(1, thinned.length - 1)) * width).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`,
      )
      .join("");
  };
  return (
    <svg
      className="spark"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      aria-hidden="true"
    >
      <line x1="0" x2={width} y1={height - 0.5} y2={height - 0.5} className="grid" />
      <path d={line(before)} className="ln ln-available" />
      <path d={line(after)} className="ln ln-in" />
    </svg>
  );
}
