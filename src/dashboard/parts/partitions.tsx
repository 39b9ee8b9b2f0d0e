/** The partitions of a work spec: what waits and runs in each, and what holds it back. */
import type { ReactNode } from "react";
import { hasRate, maxCountedInPartition, type PartitionRow, type WorkSpecMeta } from "../../core/index.ts";
import { sayError } from "../data/connection.ts";
import type { SpecRow } from "../data/look.ts";
import { usePartitions } from "../data/partitions.ts";
import { count, rateWords } from "../format.ts";
import { useHere } from "../here.ts";
import type { Route } from "../route.ts";
import { Table } from "./table.tsx";
import { Icon } from "./icon.tsx";
import { Ago, Link, Name, Trouble, useNow } from "./text.tsx";

export function Partitions({ spec }: { spec: SpecRow }): ReactNode {
  const { ns, route } = useHere();
  const after = route.filters?.partition ?? "";
  const page = usePartitions(ns, spec.name, after);
  const at = (partition: string): Route => ({
    ns,
    page: "spec",
    spec: spec.name,
    filters: { ...route.filters, partition },
  });
  if (page.error !== null && page.data === undefined) return <Trouble text={sayError(page.error)} />;
  if (page.data === undefined) return null;
  const { rows, next } = page.data;
  const held = rows.filter((row) => row.held !== null).length;
  return (
    <section className="card parts" aria-label="Partitions" id="partitions">
      <header>
        <h2>Partitions</h2>
        <span className="count quiet">
          {after === "" && next === null ? count(rows.length) : `${count(rows.length)} shown`}
        </span>
        {held > 0 && <span className="dim">{count(held)} held back</span>}
        <span className="grow" />
        <span className="dim rules">{rulesOf(spec.meta).join(" · ")}</span>
      </header>
      {rows.length === 0 ? (
        <p className="none dim">
          {after === ""
            ? "No units are waiting or running in any partition."
            : "There are no more partitions."}
        </p>
      ) : (
        <Table
          heads={[
            "Partition",
            { text: "Waiting", className: "r" },
            { text: "Running", className: "r" },
            { text: "Next unit", className: "lo" },
            "State",
          ]}
        >
          {rows.map((row) => (
            <Row key={row.partition} row={row} spec={spec.name} />
          ))}
        </Table>
      )}
      {(after !== "" || next !== null) && (
        <nav className="pages" aria-label="Pages of partitions">
          {after !== "" && (
            <Link to={at("")} className="btn s">
              First
            </Link>
          )}
          {next !== null && (
            <Link to={at(next)} className="btn s">
              Next
            </Link>
          )}
          <span className="dim">sorted by name</span>
        </nav>
      )}
    </section>
  );
}

function Row({ row, spec }: { row: PartitionRow; spec: string }): ReactNode {
  const { ns } = useHere();
  const now = useNow();
  const { partition, waiting, running, first, held, until, reason } = row;
  return (
    <tr data-row tabIndex={-1}>
      <td className="strong">
        {partition === "" ? (
          <span className="dim">without a partition</span>
        ) : (
          <Name text={partition} max={40} />
        )}
      </td>
      <td className="r">
        <Counted value={waiting} />
      </td>
      <td className="r">
        <Counted value={running} />
      </td>
      <td className="lo">
        {first === null ? (
          <span className="z">none</span>
        ) : (
          <Link to={{ ns, page: "unit", spec, unit: first }} className="l">
            <Name text={first} max={40} />
          </Link>
        )}
      </td>
      <td className={held === null ? "state dim" : "state"}>
        {held !== null && (
          <span className="t-blocked">
            <Icon name={until > now ? "delayed" : "blocked"} />
          </span>
        )}
        {reason}
        {until > now && (
          <>
            , next <Ago time={until} />
          </>
        )}
      </td>
    </tr>
  );
}

const Counted = ({ value }: { value: number }): ReactNode =>
  value === 0 ? <span className="z">0</span> : `${count(value)}${value >= maxCountedInPartition ? "+" : ""}`;

/** The rules that apply to each partition. */
const rulesOf = ({ maxRunningPerPartition, ratePerPartition, order, fair }: WorkSpecMeta): string[] =>
  [
    maxRunningPerPartition > 0 && `at most ${count(maxRunningPerPartition)} running in each`,
    hasRate(ratePerPartition) && `${rateWords(ratePerPartition)} in each`,
    order !== "" && "in order",
    fair !== "" && "partitions take turns",
  ].filter((rule) => rule !== false);
