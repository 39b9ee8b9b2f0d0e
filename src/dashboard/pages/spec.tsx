/** A work spec: its state in words, its share, its errors, its rates over time, and its definition beside the current settings. */
import { useState, type ReactNode } from "react";
import { hasLanes } from "../../core/index.ts";
import { client } from "../data/connection.ts";
import { drain } from "../data/counts.ts";
import { useSparks } from "../data/history.ts";
import type { NamespaceLook, SpecRow } from "../data/look.ts";
import { definitionOf } from "../data/specs.ts";
import { count, percent, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { Menu } from "../parts/menu.tsx";
import { isHeld, usePausing } from "../parts/pausing.ts";
import { StatusGlyph, statusOrder } from "../parts/status.tsx";
import { Age, Link, Name, UnitCount } from "../parts/text.tsx";
import { TimeLine } from "../parts/time-line.tsx";
import { go } from "../route.ts";
import { DrainWords } from "./home.tsx";
import "./spec.css";
import { FailureGroups } from "../parts/failure-groups.tsx";
import { Definition } from "../parts/definition.tsx";
import { Partitions } from "../parts/partitions.tsx";
import { WhatGoesOn } from "../parts/what-goes-on.tsx";

export default function Spec(): ReactNode {
  const { ns, route, look } = useHere();
  const name = route.spec ?? "";
  const spec = look.byName.get(name);
  if (look.specs === undefined) return null;
  if (spec === undefined)
    return (
      <section className="card blank">
        <h1>
          There is no work spec <Name text={name} />
        </h1>
        <p>
          It was deleted, or never created.{" "}
          <Link to={{ ns, page: "home" }} className="l">
            All work specs
          </Link>
        </p>
      </section>
    );
  return <Shown spec={spec} />;
}

function Shown({ spec }: { spec: SpecRow }): ReactNode {
  const { ns, look, may } = useHere();
  const [asked, setAsked] = useState<"delete" | null>(null);
  const { name, meta, counts, condition, rates } = spec;
  const definition = definitionOf(spec.row);
  const description = typeof definition?.data.desc === "string" ? definition.data.desc : "";
  const tone = condition === null ? "ok" : condition.level === "critical" ? "t-failed" : "t-blocked";
  const held = isHeld(spec);
  const pause = usePausing();
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
              description === "" && "No next work spec."
            ) : (
              <>
                Next:{" "}
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
            <button type="button" className="btn" onClick={() => pause(spec, !held)}>
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
      <section className="card" aria-label="Counts">
        <dl className="stats">
          {statusOrder.map((status) => (
            <div key={status}>
              <dt>
                <StatusGlyph status={status} />
                {status[0]!.toUpperCase() + status.slice(1)}
              </dt>
              <dd className={status === "failed" && counts.failed > 0 ? "t-failed" : ""}>
                <UnitCount ns={ns} spec={name} status={status} value={counts[status]} />
              </dd>
            </div>
          ))}
          <div>
            <dt>Oldest wait</dt>
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
      {hasLanes(meta) && <Partitions spec={spec} />}
      <div className="cols">
        <TimeLine spec={name} title="Over time" />
        <Definition spec={spec} />
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
          term: "Affects",
          text: (
            <>
              The work spec, its <b>{count(all)}</b> units and all their attempts.{" "}
              {counts.pending > 0 &&
                `${count(counts.pending)} of them are running: their results will be rejected.`}
            </>
          ),
        },
        { term: "Undo", text: "Not possible. Export the units first if you may need them." },
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

/**
 * The share of each work spec of the same priority, of units or of worker time, compared with the share that its weight would
 * give it.
 */
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
  // the claims of the last hour tell more than the few units that run now
  const claimed = rivals.reduce((sum, { name }) => sum + (started.get(name) ?? 0), 0);
  const words = spec.explained?.share === "time" ? timeWords : claimed > 0 ? claimWords : runningWords;
  const measuredOf = ({ name, counts, explained }: SpecRow): number => {
    if (words === timeWords) return explained?.measuredShare ?? 0;
    return words === claimWords ? (started.get(name) ?? 0) : counts.pending;
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
      {rows.length === 0 && (
        <p className="blank dim">No work spec of priority {priority} is scheduled now.</p>
      )}
      <div className="shb" hidden={rows.length === 0}>
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
const claimWords = { what: "claims", when: "last hour", column: "claims" };
const runningWords = { what: "running units", when: "now", column: "running" };
