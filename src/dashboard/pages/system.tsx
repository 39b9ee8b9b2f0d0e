/** System: the daemon's health and resource use, the speed of its verbs, and the user's rights. */
import type { ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { useFigures, useHealth } from "../data/system.ts";
import { useNamespaces } from "../data/workers.ts";
import { bytes, count, nsTitle, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { Age, Link, Name, Trouble } from "../parts/text.tsx";
import { Table } from "../parts/table.tsx";

const ms = (value: number): string =>
  value === Infinity
    ? "above the largest bucket"
    : value < 1
      ? `${Math.round(value * 1000)} µs`
      : value < 100
        ? `${value.toFixed(1)} ms`
        : `${count(Math.round(value))} ms`;

export default function System(): ReactNode {
  const { ns, session } = useHere();
  const mayRead = session.metrics && session.everywhere.includes("read");
  const health = useHealth();
  const figures = useFigures(mayRead);
  const namespaces = useNamespaces();
  const ready = health.data?.ready;
  return (
    <>
      <h1 className="sr">System</h1>
      <section className="card" aria-label="The daemon">
        <dl className="stats">
          <div>
            <dt>
              {ready !== undefined && (
                <span className={ready ? "t-finished" : "t-failed"}>
                  <Icon name={ready ? "finished" : "failed"} />
                </span>
              )}
              Health
            </dt>
            <dd className={ready === false ? "t-failed" : ""} title={health.data?.message}>
              {ready === undefined ? "…" : ready ? "ready" : "not ready"}{" "}
              {health.data !== undefined && <small>in {ms(health.data.ms)}</small>}
            </dd>
          </div>
          <div>
            <dt>Store</dt>
            <dd>{visible(session.store)}</dd>
          </div>
          <div>
            <dt>Version</dt>
            <dd>{visible(session.version)}</dd>
          </div>
          <div>
            <dt>Uptime</dt>
            <dd>
              <Age since={session.started} />
            </dd>
          </div>
          {figures.data !== undefined && (
            <>
              <div>
                <dt>Memory</dt>
                <dd>
                  {bytes(figures.data.residentBytes)} <small>heap {bytes(figures.data.heapBytes)}</small>
                </dd>
              </div>
              <div>
                <dt>Loop lag, p99</dt>
                <dd>
                  {ms(figures.data.loopP99Ms)} <small>mean {ms(figures.data.loopMeanMs)}</small>
                </dd>
              </div>
              <div>
                <dt>Long polls</dt>
                <dd>
                  {count(figures.data.waitingRequests)}{" "}
                  <small>{plural(figures.data.watchers, "watcher")}</small>
                </dd>
              </div>
            </>
          )}
        </dl>
      </section>
      {ready === false && (
        <Trouble text={`${health.data?.message ?? ""} Check the log of the daemon, and the store.`} />
      )}
      <div className="cols">
        <section className="card" aria-label="Verbs">
          <header>
            <h2>Verbs</h2>
            <span className="grow" />
            <span className="dim">since the daemon started, without time spent waiting for work</span>
          </header>
          {!mayRead && (
            <p className="blank dim">
              {session.metrics
                ? "Metrics need a token that can read all namespaces."
                : "This daemon was started without metrics."}
            </p>
          )}
          {figures.error !== null && <Trouble text={sayError(figures.error)} />}
          {figures.data !== undefined && (
            <Table
              heads={[
                "Verb",
                { text: "Calls", className: "r" },
                { text: "Mean", className: "r" },
                { text: "p99 below", className: "r" },
                { text: "Errors", className: "r" },
              ]}
            >
              {figures.data.verbs.map(({ verb, calls, meanMs, p99Ms, errors }) => (
                <tr key={verb} data-row tabIndex={-1}>
                  <td>
                    <code>{visible(verb)}</code>
                  </td>
                  <td className="r">{count(calls)}</td>
                  <td className="r">{calls === 0 ? <span className="z">–</span> : ms(meanMs)}</td>
                  <td className="r">{calls === 0 ? <span className="z">–</span> : ms(p99Ms)}</td>
                  <td className="r">
                    {errors === 0 ? (
                      <span className="z">0</span>
                    ) : (
                      <span className="t-failed">{count(errors)}</span>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </section>
        <div className="stack">
          <section className="card" aria-label="Your access">
            <header>
              <h2>Your access</h2>
            </header>
            <dl className="fx">
              <div>
                <dt>Token</dt>
                <dd>
                  {session.secured ? (
                    <code>{visible(session.token)}</code>
                  ) : (
                    <span className="dim">not required</span>
                  )}
                </dd>
              </div>
              <div>
                <dt>Here</dt>
                <dd>{session.scopes.join(", ") || "none"}</dd>
              </div>
              <div>
                <dt>Everywhere</dt>
                <dd>{session.everywhere.join(", ") || "none"}</dd>
              </div>
            </dl>
          </section>
          <section className="card" aria-label="Namespaces">
            <header>
              <h2>Namespaces</h2>
              <span className="count quiet">{namespaces.data?.length ?? 0}</span>
            </header>
            <ul className="list">
              {(namespaces.data ?? []).map(({ name, settings }) => (
                <li key={name}>
                  <Link to={{ ns: name, page: "home" }} className="l">
                    <Name text={nsTitle(name)} max={36} />
                  </Link>
                  <span className="dim">
                    {settings.policy}
                    {settings.share === "time" && ", shares of worker time"}
                    {settings.desired !== "run" && `, workers asked to ${settings.desired}`}
                  </span>
                  {name === ns && <span className="lab">here</span>}
                </li>
              ))}
            </ul>
          </section>
          <p className="dim">
            The API of this daemon is described at{" "}
            <a className="l" href="/docs">
              /docs
            </a>
            .
          </p>
        </div>
      </div>
    </>
  );
}
