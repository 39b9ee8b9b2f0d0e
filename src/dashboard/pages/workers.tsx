/** Workers: parents with their children, the attempts and remaining leases of each; and which worker can run what. */
import type { ReactNode } from "react";
import { client, sayError } from "../data/connection.ts";
import { reportOf, useGone, useHeld, useNamespace, useWorkers, type Held } from "../data/workers.ts";
import { commandLine, count } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { Menu } from "../parts/menu.tsx";
import { StatusGlyph } from "../parts/status.tsx";
import { Command, Link, Trouble, useNow } from "../parts/text.tsx";
import "./workers.css";
import { WhoCanRun } from "../parts/who-can-run.tsx";
import { shortMs, HeldList } from "../parts/held-attempts.tsx";
import { Tree, treeOf, desiredWords, desireItems } from "../parts/worker-tree.tsx";

const nothing: Held = { byWorker: new Map(), all: [], unread: new Set() };

const dayMs = 86_400_000;

export default function Workers(): ReactNode {
  const { ns, route, look, may, undo } = useHere();
  const workers = useWorkers(ns);
  const held = useHeld(ns, workers.data);
  const gone = useGone(ns, true);
  const namespace = useNamespace(ns);
  const now = useNow();
  if (workers.error !== null && workers.data === undefined) return <Trouble text={sayError(workers.error)} />;
  if (workers.data === undefined) return null;
  const recent = (gone.data ?? []).filter(({ lastUpdate }) => now - lastUpdate < dayMs);
  if (workers.data.length === 0 && recent.length === 0)
    return (
      <section className="card blank">
        <h1>No worker is active</h1>
        <p>
          A worker claims units, runs them and reports the results. Start one on a machine that has its tasks:
        </p>
        <Command text={commandLine(ns, "worker", "--tasks", "./tasks.mjs")} />
        <p className="dim">It appears here as soon as it checks in.</p>
      </section>
    );
  const view =
    route.filters?.view === "longest" || route.filters?.view === "expiring" ? route.filters.view : "tree";
  const all = held.data ?? nothing;
  const ending = all.all.filter(({ expirationTime }) => expirationTime - now < shortMs);
  const tree = treeOf(workers.data);
  // the counts are complete, the attempts may not be
  const heldUnits =
    all.unread.size === 0
      ? all.all.length
      : (look.specs ?? []).reduce((sum, { counts }) => sum + counts.pending, 0);
  const slots = workers.data.reduce((sum, worker) => sum + (reportOf(worker).slots ?? 0), 0);
  const versions = new Map<string, number>();
  for (const worker of workers.data) {
    const { version } = reportOf(worker);
    if (version !== undefined) versions.set(version, (versions.get(version) ?? 0) + 1);
  }
  const common = [...versions].sort((a, b) => b[1] - a[1]).map(([version]) => version);
  const roots = tree.length;
  const desired = namespace.data?.settings.desired ?? "run";
  return (
    <>
      <h1 className="sr">Workers</h1>
      <section className="card" aria-label="Workers in figures">
        <dl className="stats wst">
          <div>
            <dt>Active workers</dt>
            <dd>
              {count(workers.data.length)} <small>{count(roots)} top-level</small>
            </dd>
          </div>
          <div>
            <dt>
              <StatusGlyph status="pending" />
              Units held
            </dt>
            <dd>
              {count(heldUnits)} {slots > 0 && <small>in {count(slots)} slots</small>}
            </dd>
          </div>
          <div>
            <dt>
              <span className="t-blocked">
                <Icon name="lease" />
              </span>
              Leases &lt; 1 min
            </dt>
            <dd className={ending.length > 0 ? "t-blocked" : ""}>
              {ending.length === 0 ? (
                <span className="z">0</span>
              ) : (
                <Link to={{ ns, page: "workers", filters: { view: "expiring" } }} className="n">
                  {count(ending.length)}
                </Link>
              )}
            </dd>
          </div>
          <div>
            <dt>
              <span className="t-failed">
                <Icon name="nobody" />
              </span>
              Gone, last 24 h
            </dt>
            <dd>{recent.length === 0 ? <span className="z">0</span> : count(recent.length)}</dd>
          </div>
          {common.length > 0 && (
            <div>
              <dt>Versions</dt>
              <dd>
                {common[0]} {common.length > 1 && <small>and {common.slice(1).join(", ")}</small>}
              </dd>
            </div>
          )}
        </dl>
      </section>
      {desired !== "run" && (
        <p className="banner">
          <Icon name="paused" />
          All workers of this namespace are asked to {desiredWords[desired]}.
        </p>
      )}
      <section className="card wt" aria-label="Workers">
        <header>
          <h2>Workers</h2>
          <span className="grow" />
          <div className="seg sm" role="group" aria-label="View">
            {(["tree", "longest", "expiring"] as const).map((one) => (
              <Link
                key={one}
                to={{ ns, page: "workers", filters: { view: one === "tree" ? "" : one } }}
                {...(view === one && { current: true })}
              >
                {one === "tree" ? "Tree" : one === "longest" ? "Longest running" : "About to expire"}
              </Link>
            ))}
          </div>
          {may("admin") && (
            <Menu
              className="btn s"
              label="Ask all workers"
              right
              button={
                <>
                  Ask all to…
                  <Icon name="chev" />
                </>
              }
              items={desireItems(desired, (next) => {
                const before = desired;
                void undo.run({
                  did: `All workers of the namespace are asked to ${desiredWords[next]}`,
                  act: () => client.setNamespace(ns, { desired: next }),
                  back: () => client.setNamespace(ns, { desired: before }),
                  after: () => void namespace.refetch(),
                });
              })}
            />
          )}
        </header>
        {view === "tree" ? (
          <Tree tree={tree} held={all} gone={recent} onChanged={() => void workers.refetch()} />
        ) : (
          <HeldList
            attempts={
              view === "longest"
                ? [...all.all].sort((a, b) => a.startTime - b.startTime)
                : [...all.all].sort((a, b) => a.expirationTime - b.expirationTime)
            }
          />
        )}
      </section>
      <WhoCanRun workers={workers.data} />
    </>
  );
}
