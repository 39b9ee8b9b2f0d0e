/** The audit log: who changed what, and which requests were refused; newest first. For administrators. */
import { useMemo, type ReactNode } from "react";
import { useAudit, useTokens } from "../data/admin.ts";
import { sayError } from "../data/connection.ts";
import { count, dayTime, exactTime, nsTitle, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { Link, Name, Trouble, useNow } from "../parts/text.tsx";
import type { Route } from "../route.ts";
import { LoadOlder, Table } from "../parts/table.tsx";

const isRefused = (status: number): boolean => status === 401 || status === 403 || status === 429;

export default function Audit(): ReactNode {
  const { ns, route } = useHere();
  const audit = useAudit();
  const tokens = useTokens();
  const now = useNow();
  const names = useMemo(() => new Map(tokens.data?.map(({ id, name }) => [id, name])), [tokens.data]);
  const { token = "", of = "", only = "" } = route.filters ?? {};
  const at = (filters: Record<string, string>): Route => ({
    ns,
    page: "audit",
    filters: { ...route.filters, ...filters },
  });
  if (audit.error !== null && audit.data === undefined) return <Trouble text={sayError(audit.error)} />;
  if (audit.data === undefined) return null;
  const all = audit.data.pages.flatMap(({ rows }) => rows);
  const rows = all.filter(
    (row) =>
      (token === "" || row.token === token) &&
      (of === "" || row.namespace === of) &&
      (only !== "refused" || isRefused(row.status)),
  );
  return (
    <>
      <h1 className="sr">Audit log</h1>
      <section className="card audit" aria-label="Audit log">
        <header className="fac">
          <Link to={at({ only: "" })} {...(only === "" && { current: true })}>
            All
          </Link>
          <Link to={at({ only: "refused" })} {...(only === "refused" && { current: true })}>
            <span className="t-failed">
              <Icon name="nobody" />
            </span>
            Refused <span className="fn">{count(all.filter(({ status }) => isRefused(status)).length)}</span>
          </Link>
          <span className="grow" />
          <span className="dim">
            {count(rows.length)} of the newest {count(all.length)} entries of this daemon
          </span>
        </header>
        {(token !== "" || of !== "") && (
          <div className="selbar">
            Only {token !== "" && <b>{visible(names.get(token) ?? token)}</b>}
            {token !== "" && of !== "" && " in "}
            {of !== "" && <Name text={of} max={40} />}.{" "}
            <Link to={at({ token: "", of: "" })} className="l">
              Show all
            </Link>
          </div>
        )}
        <Table
          heads={[
            "Time",
            "Token",
            "Action",
            { text: "Namespace", className: "no-phone" },
            { text: "Address", className: "lo" },
            { text: "Status", className: "r" },
          ]}
        >
          {rows.map((row, i) => {
            const time = Date.parse(row.time);
            return (
              <tr key={`${row.request ?? ""} ${row.time} ${i}`} data-row tabIndex={-1}>
                <td className="mid">
                  <time dateTime={row.time} title={exactTime(time)}>
                    {dayTime(time, now)}
                  </time>
                </td>
                <td>
                  {row.token === null ? (
                    <span className="dim">no token</span>
                  ) : (
                    <Link to={at({ token: row.token })} className="l">
                      <Name text={names.get(row.token) ?? row.token} max={32} />
                    </Link>
                  )}
                </td>
                <td className="did" title={visible(row.path ?? "")}>
                  <code>{visible(row.action ?? row.path ?? "")}</code>
                  {row.count !== undefined && <> × {count(row.count)}</>}
                </td>
                <td className="no-phone">
                  {row.namespace === "" ? (
                    <span className="z">–</span>
                  ) : (
                    <Link to={at({ of: row.namespace })} className="l">
                      <Name text={nsTitle(row.namespace)} max={32} />
                    </Link>
                  )}
                </td>
                <td className="mid lo">{visible(row.address)}</td>
                <td className={row.status >= 400 ? "r t-failed" : "r mid"}>
                  {isRefused(row.status) && <Icon name="nobody" label="refused" />} {row.status}
                </td>
              </tr>
            );
          })}
        </Table>
        {rows.length === 0 && (
          <p className="blank">
            {all.length === 0
              ? "No entries yet, or the daemon was started with --audit off."
              : "No loaded entry matches. Load older entries, or show all."}
          </p>
        )}
        <LoadOlder query={audit} />
      </section>
    </>
  );
}
