/** Limits that work specs share: what runs under each, when its rate allows more, and which work specs it applies to. */
import { useState, type ReactNode } from "react";
import { hasRate, type SharedLimitRow } from "../../core/index.ts";
import { sayError } from "../data/connection.ts";
import { setLimit, useLimits } from "../data/limits.ts";
import { count, plural, rateWords, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Table } from "../parts/table.tsx";
import { Ago, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import "./limits.css";

/** How many work specs a row names. */
const shownSpecs = 6;

/** Full limits are listed first: they hold work back. */
const isFull = ({ maxRunning, running }: SharedLimitRow): boolean => maxRunning > 0 && running >= maxRunning;

export default function Limits(): ReactNode {
  const { ns } = useHere();
  const limits = useLimits(ns);
  if (limits.error !== null && limits.data === undefined) return <Trouble text={sayError(limits.error)} />;
  if (limits.data === undefined) return null;
  const rows = [...limits.data].sort(
    (a, b) => Number(isFull(b)) - Number(isFull(a)) || (a.name < b.name ? -1 : 1),
  );
  if (rows.length === 0)
    return (
      <section className="card blank">
        <h1>There are no shared limits</h1>
        <p>
          Work specs can share a limit, for example for a service that all of them call. Define it on the
          namespace, and name it in their key <code>limits</code>. In a flow file:
        </p>
        <pre className="sample">{`flows:
  fetch: { min_gb: 1, limits: [api.example] }
limits:
  api.example: { max_running: 5, rate: { limit: 100, period: 60 } }`}</pre>
      </section>
    );
  const full = rows.filter(isFull).length;
  return (
    <>
      <h1 className="sr">Limits</h1>
      <section className="card shared" aria-label="Limits">
        <header>
          <h2>Limits</h2>
          <span className="count quiet">{count(rows.length)}</span>
          <span className="grow" />
          <span className="dim">{full === 0 ? "none full" : `${count(full)} full`}</span>
        </header>
        <Table
          heads={[
            "Limit",
            "Running",
            { text: "Rate", className: "l12" },
            { text: "Next start", className: "l12" },
            "Work specs",
            { text: "Max. running", className: "r" },
          ]}
        >
          {rows.map((row) => (
            <Row key={row.name} limit={row} />
          ))}
        </Table>
      </section>
    </>
  );
}

function Row({ limit }: { limit: SharedLimitRow }): ReactNode {
  const { ns } = useHere();
  const now = useNow();
  const { name, maxRunning, running, rate, nextTime, workSpecs } = limit;
  const said = maxRunning === 0 ? `${count(running)} running` : `${count(running)} of ${count(maxRunning)}`;
  return (
    <tr data-row tabIndex={-1}>
      <td className="strong">
        <Name text={name} max={40} />
      </td>
      <td>
        {maxRunning > 0 && (
          <span className="prog" role="img" aria-label={said}>
            <i className="r" style={{ width: `${Math.min(1, running / maxRunning) * 100}%` }} />
          </span>
        )}
        <span className={isFull(limit) ? "strong" : "dim"}>{said}</span>
      </td>
      <td className="l12">{hasRate(rate) ? rateWords(rate) : <span className="z">no limit</span>}</td>
      <td className="mid l12">
        {isFull(limit) ? (
          "when one ends"
        ) : nextTime > now ? (
          <Ago time={nextTime} />
        ) : (
          <span className="z">now</span>
        )}
      </td>
      <td className="specs">
        {workSpecs.length === 0 && <span className="z">none</span>}
        {workSpecs.slice(0, shownSpecs).map((spec) => (
          <Link key={spec} to={{ ns, page: "spec", spec }} className="l">
            <Name text={spec} max={24} />
          </Link>
        ))}
        {workSpecs.length > shownSpecs && (
          <span className="dim">and {plural(workSpecs.length - shownSpecs, "other")}</span>
        )}
      </td>
      <td className="r">
        <AtMost limit={limit} />
      </td>
    </tr>
  );
}

/** The maximum number of running units, editable in place. */
function AtMost({ limit }: { limit: SharedLimitRow }): ReactNode {
  const { ns, may, changed, undo } = useHere();
  const [text, setText] = useState<string | null>(null);
  const { name, maxRunning, rate } = limit;
  const words = (value: number): string => (value === 0 ? "unlimited" : count(value));
  if (!may("write")) return maxRunning === 0 ? <span className="z">no limit</span> : count(maxRunning);
  const store = (): void => {
    const value = Number(text ?? maxRunning);
    setText(null);
    if (!Number.isSafeInteger(value) || value < 0 || value === maxRunning) return;
    void undo.run({
      did: `max_running of ${visible(name)} set to ${words(value)} (was ${words(maxRunning)})`,
      act: () => setLimit(ns, { name, maxRunning: value, rate }),
      back: () => setLimit(ns, { name, maxRunning, rate }),
      after: () => changed("limits", "explain"),
    });
  };
  return (
    <input
      type="number"
      min={0}
      aria-label={`Maximum running units under ${visible(name)}; 0 is unlimited`}
      title="0 is unlimited"
      value={text ?? String(maxRunning)}
      onChange={(event) => setText(event.target.value)}
      onBlur={store}
      onKeyDown={(event) => {
        if (event.key === "Enter") event.currentTarget.blur();
        if (event.key === "Escape") setText(null);
      }}
    />
  );
}
