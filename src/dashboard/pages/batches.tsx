/** Batches: their progress, their units, and what follows; nested batches are below their parent. */
import { useMemo, useState, type ReactNode } from "react";
import type { BatchAction, BatchRow } from "../../core/index.ts";
import { nameToUrl } from "../../rest/client.ts";
import { changeBatch, useBatches, useBatchUnits } from "../data/batches.ts";
import { sayError } from "../data/connection.ts";
import { total } from "../data/units.ts";
import { count, percent, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { StatusGlyph, statusOrder } from "../parts/status.tsx";
import { Ago, Command, Link, Name, Trouble } from "../parts/text.tsx";
import type { Route } from "../route.ts";
import "./batches.css";
import { Table } from "../parts/table.tsx";

interface Placed {
  readonly batch: BatchRow;
  readonly depth: number;
  /** The batch and all batches nested in it: an action applies to all of them. */
  readonly whole: readonly BatchRow[];
}

const open = ({ total, finished, failed }: BatchRow): number => total - finished - failed;

/**
 * How many units an action would change. A nested batch counts as one unit of its parent, so the sum is only meaningful for a
 * single batch.
 */
const counted = (whole: readonly BatchRow[], action: BatchAction): number =>
  whole.reduce((sum, row) => sum + (action === "cancel" ? open(row) : row.failed), 0);

/** Open batches first, then newest first; nested batches below their parent. */
function asTree(rows: readonly BatchRow[]): Placed[] {
  const names = new Set(rows.map(({ name }) => name));
  const below = new Map<string | null, BatchRow[]>();
  for (const row of rows) {
    const parent = row.parent !== null && names.has(row.parent) ? row.parent : null;
    below.set(parent, [...(below.get(parent) ?? []), row]);
  }
  const placed: Placed[] = [];
  const within = (batch: BatchRow): BatchRow[] => [batch, ...(below.get(batch.name) ?? []).flatMap(within)];
  const place = (parent: string | null, depth: number): void => {
    const level = (below.get(parent) ?? []).sort(
      (a, b) =>
        Number(a.doneTime > 0) - Number(b.doneTime > 0) ||
        b.createdTime - a.createdTime ||
        (a.name < b.name ? -1 : 1),
    );
    for (const batch of level) {
      placed.push({ batch, depth, whole: within(batch) });
      place(batch.name, depth + 1);
    }
  };
  place(null, 0);
  return placed;
}

export default function Batches(): ReactNode {
  const { ns, route } = useHere();
  const batches = useBatches(ns);
  const [asked, setAsked] = useState<{ whole: readonly BatchRow[]; action: BatchAction } | null>(null);
  const placed = useMemo(() => asTree(batches.data?.rows ?? []), [batches.data]);
  if (batches.error !== null && batches.data === undefined) return <Trouble text={sayError(batches.error)} />;
  if (batches.data === undefined) return null;
  if (placed.length === 0)
    return (
      <section className="card blank">
        <h1>There are no batches</h1>
        <p>
          A batch counts the units that are added with its name, and can create a unit when all of them have
          ended. Adding the first unit creates the batch:
        </p>
        <Command
          text={`curl -d '{"workSpec":"hello","units":[{"name":"a","batch":"monday"}]}' -H 'content-type: application/json' ${location.origin}/v1/namespace/${nameToUrl(ns)}/add-work-units`}
        />
      </section>
    );
  const running = placed.filter(({ batch }) => batch.doneTime === 0).length;
  const chosen = route.filters?.batch;
  return (
    <>
      <h1 className="sr">Batches</h1>
      <section className="card batches" aria-label="Batches">
        <header>
          <h2>Batches</h2>
          <span className="count quiet">{count(placed.length)}</span>
          <span className="grow" />
          <span className="dim">
            {batches.data.more ? "the first thousand by name" : `${count(running)} open`}
          </span>
        </header>
        <Table
          heads={[
            "Batch",
            "Progress",
            { text: "Open", className: "r lo" },
            { text: "Failed", className: "r" },
            { text: "Finished", className: "r lo" },
            { text: "Then", className: "lo" },
            { text: "Ended", className: "r lo" },
            { text: "Actions", className: "r", hidden: true },
          ]}
        >
          {placed.map(({ batch, depth, whole }) => (
            <Row
              key={batch.name}
              batch={batch}
              depth={depth}
              whole={whole}
              chosen={chosen === batch.name}
              onAsk={(action) => setAsked({ whole, action })}
            />
          ))}
        </Table>
      </section>
      {asked !== null && <Ask {...asked} onClose={() => setAsked(null)} />}
    </>
  );
}

function Row(props: {
  batch: BatchRow;
  depth: number;
  whole: readonly BatchRow[];
  chosen: boolean;
  onAsk: (action: BatchAction) => void;
}): ReactNode {
  const { ns, may } = useHere();
  const { batch, depth, whole, chosen, onAsk } = props;
  const { name, total, finished, failed, then, sealed, doneTime } = batch;
  const share = (part: number): string => (total === 0 ? "0" : `${(part / total) * 100}%`);
  const to: Route = { ns, page: "batches", filters: { batch: chosen ? "" : name } };
  const done = percent((finished + failed) / Math.max(1, total));
  const of = total === 0 ? "" : ` of ${plural(total, "unit")}`;
  const said = total > 0 ? done : sealed ? "empty" : "no units yet";
  const number = (value: number, className = ""): ReactNode =>
    value === 0 ? <span className="z">0</span> : <span className={className}>{count(value)}</span>;
  return (
    <>
      <tr data-row tabIndex={-1} className={chosen ? "chosen" : ""}>
        <td className="strong">
          <span className="nm" style={{ paddingLeft: Math.min(depth, 6) * 16 }}>
            <Link to={to} title={chosen ? "Hide its units" : "Show its units"}>
              <span className={chosen ? "turn on" : "turn"}>
                <Icon name="right" />
              </span>
              <Name text={name} max={40} />
            </Link>
          </span>
        </td>
        <td>
          <span className="prog" role="img" aria-label={`${said}${of}, ${count(failed)} failed`}>
            <i className="f" style={{ width: share(finished) }} />
            <i className="x" style={{ width: share(failed) }} />
          </span>
          <span className="dim said">
            {said}
            <span className="no-phone">{of}</span>
          </span>
        </td>
        <td className="r lo">{number(open(batch))}</td>
        <td className="r">{number(failed, "t-failed strong")}</td>
        <td className="r lo">{number(finished)}</td>
        <td className="lo">
          {then === null ? (
            <span className="z">none</span>
          ) : (
            <>
              <Link
                to={
                  doneTime > 0
                    ? { ns, page: "unit", spec: then.workSpec, unit: then.workUnit }
                    : { ns, page: "spec", spec: then.workSpec }
                }
                className="l"
              >
                <Name text={then.workSpec} max={24} />
              </Link>
              {then.on === "finished" && <span className="dim"> if all finish</span>}
            </>
          )}
        </td>
        <td className="r mid lo">
          {doneTime > 0 ? (
            <Ago time={doneTime} />
          ) : (
            <span className="dim">{sealed ? "not yet" : "not sealed"}</span>
          )}
        </td>
        <td className="r do">
          {may("write") && counted(whole, "retry") > 0 && (
            <button type="button" className="btn s" onClick={() => onAsk("retry")}>
              Retry…
            </button>
          )}
          {may("write") && counted(whole, "cancel") > 0 && (
            <button type="button" className="btn s d" onClick={() => onAsk("cancel")}>
              Cancel…
            </button>
          )}
        </td>
      </tr>
      {chosen && (
        <tr className="inside">
          <td colSpan={8}>
            <Inside batch={batch} />
          </td>
        </tr>
      )}
    </>
  );
}

function Inside({ batch }: { batch: BatchRow }): ReactNode {
  const { ns, look } = useHere();
  const specs = (look.specs ?? [])
    .filter(({ counts }) => total(counts) > 0)
    .map(({ name }) => name)
    .sort();
  const units = useBatchUnits(ns, batch.name, specs);
  if (units.error !== null) return <Trouble text={sayError(units.error)} />;
  if (units.data === undefined) return <span className="dim">counting…</span>;
  if (units.data.length === 0) return <span className="dim">No units have its label.</span>;
  return (
    <ul>
      {units.data.map(({ spec, counts }) => (
        <li key={spec}>
          <Link to={{ ns, page: "spec", spec }} className="l">
            <Name text={spec} max={32} />
          </Link>
          {statusOrder
            .filter((status) => counts[status] > 0)
            .map((status) => (
              <Link
                key={status}
                to={{ ns, page: "units", spec, filters: { status, label: `batch:${batch.name}` } }}
                className="of"
              >
                <StatusGlyph status={status} /> <span className="n">{count(counts[status])}</span> {status}
              </Link>
            ))}
        </li>
      ))}
    </ul>
  );
}

function Ask(props: { whole: readonly BatchRow[]; action: BatchAction; onClose: () => void }): ReactNode {
  const { ns, changed } = useHere();
  const { whole, action, onClose } = props;
  const batch = whole[0]!;
  const inside = whole.length - 1;
  const name = visible(batch.name).slice(0, 32);
  const what =
    inside === 0
      ? `${plural(counted(whole, action), "unit")} of ${name}`
      : `${action === "cancel" ? "open" : "failed"} units of ${name} and ${inside === 1 ? "1 nested batch" : `${count(inside)} nested batches`}`;
  return (
    <Confirm
      title={`${action === "cancel" ? "Cancel" : "Retry"} ${what}`}
      danger={action === "cancel"}
      facts={
        action === "cancel"
          ? [
              {
                term: "Affects",
                text: "All units of this batch and its nested batches that have not ended. They fail; running tasks are asked to stop.",
              },
              {
                term: "Warning",
                text:
                  batch.then === null
                    ? "The batch ends."
                    : batch.then.on === "finished"
                      ? "The batch ends. Its follow-up unit is created only when all units have finished."
                      : "The batch ends, and its follow-up unit is created.",
              },
              { term: "Undo", text: "Retry the batch: its failed units run again." },
            ]
          : [
              {
                term: "Affects",
                text: "All failed units of this batch and its nested batches. They become available.",
              },
              {
                term: "Warning",
                text:
                  batch.doneTime > 0
                    ? "The batch has ended: its follow-up unit is not created again."
                    : "They fail again if the cause is not fixed.",
              },
            ]
      }
      run={async () => {
        for (const { name: one } of whole) await changeBatch(ns, one, action);
        changed("batches", "counts", "units");
      }}
      onClose={onClose}
    />
  );
}
