/** Workers: parents with their children, what each holds and how long its lease lasts; and who can run what. */
import { useQueries } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import type { AttemptRow, DesiredState, ScheduleRequest, WorkerRow } from "../../core/index.ts";
import { client, sayError } from "../data/connection.ts";
import { every } from "../data/live.ts";
import {
  desire,
  giveBack,
  toldOf,
  useGone,
  useHeld,
  useNamespace,
  useWorkers,
  type Held,
} from "../data/workers.ts";
import { bytes, count, duration, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { Menu, type MenuItem } from "../parts/menu.tsx";
import { Ago, Command, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import { UndoBar, useUndo, type Undo } from "../parts/undo.tsx";
import "./workers.css";
import { Heads } from "../parts/heads.tsx";

/** Not renewed, when less than this is left of it. */
const shortMs = 60_000;
const nothing: Held = { byWorker: new Map(), all: [] };
const dayMs = 86_400_000;

interface Node {
  readonly worker: WorkerRow;
  readonly children: readonly Node[];
}

function treeOf(workers: readonly WorkerRow[]): Node[] {
  const names = new Set(workers.map(({ name }) => name));
  const below = new Map<string, WorkerRow[]>();
  for (const worker of workers) {
    if (worker.parent === null || !names.has(worker.parent)) continue;
    below.set(worker.parent, [...(below.get(worker.parent) ?? []), worker]);
  }
  const node = (worker: WorkerRow): Node => ({ worker, children: (below.get(worker.name) ?? []).map(node) });
  return workers.filter(({ parent }) => parent === null || !names.has(parent)).map(node);
}

const heldBelow = ({ worker, children }: Node, held: Held): AttemptRow[] => [
  ...(held.byWorker.get(worker.name) ?? []),
  ...children.flatMap((child) => heldBelow(child, held)),
];

export default function Workers(): ReactNode {
  const { ns, place, may } = useHere();
  const workers = useWorkers(ns);
  const held = useHeld(ns, workers.data);
  const gone = useGone(ns, true);
  const namespace = useNamespace(ns);
  const undo = useUndo();
  const now = useNow();
  if (workers.error !== null && workers.data === undefined) return <Trouble text={sayError(workers.error)} />;
  if (workers.data === undefined) return null;
  const recent = (gone.data ?? []).filter(({ lastUpdate }) => now - lastUpdate < dayMs);
  if (workers.data.length === 0 && recent.length === 0)
    return (
      <section className="card blank">
        <h1>No worker is active</h1>
        <p>A worker asks for units, runs them, and says how they ended. Start one where its code is:</p>
        <Command
          text={`coordinate${ns === "" ? "" : ` --namespace ${visible(ns)}`} worker --tasks ./tasks.js`}
        />
        <p className="dim">It is shown here as soon as it checks in.</p>
      </section>
    );
  const view =
    place.filters?.view === "longest" || place.filters?.view === "expiring" ? place.filters.view : "tree";
  const all = held.data ?? nothing;
  const ending = all.all.filter(({ expirationTime }) => expirationTime - now < shortMs);
  const tree = treeOf(workers.data);
  const slots = workers.data.reduce((sum, worker) => sum + (toldOf(worker).slots ?? 0), 0);
  const versions = new Map<string, number>();
  for (const worker of workers.data) {
    const { version } = toldOf(worker);
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
              {count(workers.data.length)}{" "}
              <small>
                {plural(roots, "parent")}, {count(workers.data.length - roots)} below
              </small>
            </dd>
          </div>
          <div>
            <dt>
              <span className="t-pending">
                <Icon name="pending" />
              </span>
              Units held
            </dt>
            <dd>
              {count(all.all.length)} {slots > 0 && <small>in {count(slots)} slots</small>}
            </dd>
          </div>
          <div>
            <dt>
              <span className="t-blocked">
                <Icon name="lease" />
              </span>
              Leases under a minute
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
              Gone in the last day
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
          All workers of this namespace are asked to {desired === "idle" ? "take nothing more" : "stop"}.
        </p>
      )}
      <UndoBar undo={undo} />
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
                  did: `All workers of the namespace are asked to ${words[next]}`,
                  act: () => client.setNamespace(ns, { desired: next }),
                  back: () => client.setNamespace(ns, { desired: before }),
                  after: () => void namespace.refetch(),
                });
              })}
            />
          )}
        </header>
        {view === "tree" ? (
          <Tree tree={tree} held={all} gone={recent} undo={undo} onChanged={() => void workers.refetch()} />
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

const words: Readonly<Record<DesiredState, string>> = {
  run: "run",
  idle: "finish what they hold and take nothing more",
  terminate: "finish what they hold and stop",
};

function desireItems(now: DesiredState, set: (next: DesiredState) => void): MenuItem[] {
  return [
    { key: "run", label: "Run", note: "take work", selected: now === "run", run: () => set("run") },
    {
      key: "idle",
      label: "Drain",
      note: "take nothing more",
      selected: now === "idle",
      run: () => set("idle"),
    },
    {
      key: "terminate",
      label: "Stop",
      note: "finish, then end",
      danger: true,
      selected: now === "terminate",
      run: () => set("terminate"),
    },
  ];
}

function Tree(props: {
  tree: readonly Node[];
  held: Held;
  gone: readonly WorkerRow[];
  undo: Undo;
  onChanged: () => void;
}): ReactNode {
  const { tree, held, gone, undo, onChanged } = props;
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  const toggle = (name: string): void => {
    const next = new Set(open);
    if (!next.delete(name)) next.add(name);
    setOpen(next);
  };
  const few = tree.reduce((sum, { children }) => sum + 1 + children.length, 0) <= 24;
  const rows: ReactNode[] = [];
  const add = (node: Node, depth: number): void => {
    const isOpen = open.has(node.worker.name) !== (few && depth === 0 && node.children.length <= 16);
    rows.push(
      <WorkerLine
        key={node.worker.name}
        node={node}
        depth={depth}
        held={held}
        isOpen={isOpen}
        onToggle={() => toggle(node.worker.name)}
        undo={undo}
        onChanged={onChanged}
      />,
    );
    if (isOpen) for (const child of node.children) add(child, depth + 1);
  };
  for (const node of tree) add(node, 0);
  const shownGone = all ? gone.slice(0, 200) : gone.slice(0, 5);
  return (
    <div className="scroll">
      <table>
        <Heads
          of={[
            "Worker",
            "Does",
            { text: "Runtime · version", className: "lo" },
            { text: "Slots", className: "l9" },
            { text: "Holds", className: "l9" },
            "Lease left",
            { text: "Memory", className: "l12" },
            { text: "Checked in", className: "r" },
            { text: "Actions", className: "l9", hidden: true },
          ]}
        />
        <tbody>
          {rows}
          {shownGone.map((worker) => (
            <tr key={worker.name} className="gone" data-row tabIndex={-1}>
              <td>
                <span className="tn">
                  <span className="tw" />
                  <Name text={worker.name} max={36} />
                </span>
              </td>
              <td>
                <span className="chip t-failed">
                  <Icon name="nobody" />
                  {worker.mode === "stopped" ? "stopped" : "gone"}
                </span>
              </td>
              <td className="mid lo" />
              <td className="l9" />
              <td className="l9 dim">nothing</td>
              <td />
              <td className="l12" />
              <td className="r">
                <Ago time={worker.lastUpdate} />
              </td>
              <td className="l9" />
            </tr>
          ))}
        </tbody>
      </table>
      {gone.length > shownGone.length && (
        <p className="more-gone">
          <button type="button" className="plain l" onClick={() => setAll(true)}>
            {plural(gone.length - shownGone.length, "more worker")} gone in the last day
          </button>
        </p>
      )}
    </div>
  );
}

const looks: Readonly<Record<string, { icon: IconName; tone: string }>> = {
  busy: { icon: "pending", tone: "pending" },
  idle: { icon: "available", tone: "available" },
  draining: { icon: "paused", tone: "blocked" },
  quiet: { icon: "lease", tone: "blocked" },
};

/** A worker that holds something and has not checked in for a while. */
const quietMs = 120_000;

function WorkerLine(props: {
  node: Node;
  depth: number;
  held: Held;
  isOpen: boolean;
  onToggle: () => void;
  undo: Undo;
  onChanged: () => void;
}): ReactNode {
  const { ns, may } = useHere();
  const now = useNow();
  const [asked, setAsked] = useState(false);
  const { node, depth, held, isOpen, onToggle, undo, onChanged } = props;
  const { worker, children } = node;
  const attempts = heldBelow(node, held);
  const told = toldOf(worker);
  const quiet = now - worker.lastUpdate > quietMs && attempts.length > 0;
  const does = quiet
    ? "quiet"
    : worker.desired !== "run"
      ? "draining"
      : attempts.length > 0
        ? "busy"
        : "idle";
  const { icon, tone } = looks[does]!;
  const shortest =
    attempts.length === 0 ? null : Math.min(...attempts.map(({ expirationTime }) => expirationTime));
  const set = (next: DesiredState): void => {
    const before = worker.desired;
    void undo.run({
      did: `${worker.name} is asked to ${words[next].replace("they hold", "it holds")}`,
      act: () => desire(ns, [worker.name, ...children.map((child) => child.worker.name)], next),
      back: () =>
        desire(
          ns,
          [worker.name, ...children.map((child) => child.worker.name)],
          before === "run" ? null : before,
        ),
      after: onChanged,
    });
  };
  const canSteer = may("work") && may("write");
  return (
    <tr className={`${children.length > 0 ? "par" : ""} ${quiet ? "warn" : ""}`} data-row tabIndex={-1}>
      <td>
        <span className="tn" style={{ paddingLeft: depth * 20 }}>
          {children.length > 0 ? (
            <button
              type="button"
              className="tw"
              aria-expanded={isOpen}
              aria-label={`${isOpen ? "Close" : "Open"} ${visible(worker.name)}`}
              onClick={onToggle}
            >
              <Icon name={isOpen ? "chev" : "right"} />
            </button>
          ) : (
            <span className={depth > 0 ? "tw ln" : "tw"} />
          )}
          <span
            className={depth === 0 ? "name" : ""}
            title={
              told.host === undefined
                ? undefined
                : `${told.host}${told.pid === undefined ? "" : `, process ${told.pid}`}`
            }
          >
            <Link
              to={{ ns, page: "units", filters: { worker: worker.name } }}
              title="The units that it has had"
            >
              <Name text={worker.name} max={36} />
            </Link>
          </span>
          {children.length > 0 && (
            <span className="unit-s">{plural(children.length, "child").replace("childs", "children")}</span>
          )}
        </span>
      </td>
      <td>
        <span className={`chip t-${tone}`} title={visible(worker.mode)}>
          <Icon name={icon} />
          <span className="mid">{does}</span>
        </span>
      </td>
      <td className="mid lo">
        {[
          [...new Set(told.asks?.flatMap(({ runtimes = [] }) => runtimes))]
            .filter((one) => one !== "")
            .map(visible)
            .join(", "),
          [...new Set(told.asks?.flatMap(({ labels = [] }) => labels))].map(visible).join(", "),
          told.version,
        ]
          .filter((one) => one !== undefined && one !== "")
          .join(" · ")}
      </td>
      <td className="l9 sl">
        {told.slots !== undefined && told.slots > 0 && <Slots used={slotsUsed(node, held)} of={told.slots} />}
      </td>
      <td className="l9">
        <Holds attempts={attempts} />
      </td>
      <td>
        {shortest !== null && (
          <Lease
            left={shortest - now}
            of={Math.max(...attempts.map(({ startTime, expirationTime }) => expirationTime - startTime))}
            many={attempts.length > 1}
          />
        )}
      </td>
      <td className="l12">
        {told.rss !== undefined && (
          <span className="mem">
            {bytes(told.rss)}
            {told.totalMemory !== undefined && <span className="dim"> of {bytes(told.totalMemory)}</span>}
          </span>
        )}
      </td>
      <td className="r mid">
        <Ago time={worker.lastUpdate} />
      </td>
      <td className="r act l9">
        {(canSteer || (may("work") && attempts.length > 0)) && (
          <Menu
            className="icon-btn"
            label={`Ask ${visible(worker.name)}`}
            iconOnly
            right
            button={<Icon name="more" />}
            items={[
              ...(canSteer ? desireItems(worker.desired, set) : []),
              ...(may("work") && attempts.length > 0
                ? [
                    {
                      key: "give",
                      label: `Give back ${count(attempts.length)}…`,
                      note: "end its leases",
                      run: () => setAsked(true),
                    },
                  ]
                : []),
            ]}
          />
        )}
        {asked && (
          <Confirm
            title={`Give back ${plural(attempts.length, "unit")} of ${visible(worker.name).slice(0, 40)}`}
            facts={[
              { term: "Does", text: "The leases end now. Other workers are given the units when they ask." },
              {
                term: "Watch out",
                text: "The worker is not stopped: if it still runs them, they run twice for a while. What it says at the end is refused.",
              },
            ]}
            run={async () => {
              await giveBack(
                ns,
                attempts.map(({ id }) => id),
              );
              onChanged();
            }}
            onClose={() => setAsked(false)}
          />
        )}
      </td>
    </tr>
  );
}

/** A slot runs a batch: it is used while it holds anything. Slots are the children of a process. */
const slotsUsed = ({ worker, children }: Node, held: Held): number =>
  (children.length > 0 ? children.map((child) => child.worker.name) : [worker.name]).filter(
    (name) => (held.byWorker.get(name)?.length ?? 0) > 0,
  ).length;

function Slots({ used, of }: { used: number; of: number }): ReactNode {
  const shown = Math.min(used, of);
  return (
    <span className="slots-cell" title={`${used} of ${of} slots hold something`}>
      {of <= 18 ? (
        <span className="slots">
          {Array.from({ length: of }, (_, i) => (
            <i key={i} className={i < shown ? "u" : ""} />
          ))}
        </span>
      ) : (
        <span className="tot">
          <i style={{ width: `${(shown / of) * 100}%` }} />
        </span>
      )}
      <span>
        {used} / {of}
      </span>
    </span>
  );
}

function Holds({ attempts }: { attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  if (attempts.length === 0) return <span className="dim">nothing</span>;
  const bySpec = new Map<string, number>();
  for (const { workSpec } of attempts) bySpec.set(workSpec, (bySpec.get(workSpec) ?? 0) + 1);
  const sorted = [...bySpec].sort((a, b) => b[1] - a[1]);
  const only = attempts.length === 1 ? attempts[0] : undefined;
  if (only !== undefined)
    return (
      <Link to={{ ns, page: "unit", spec: only.workSpec, unit: only.workUnit }} className="l">
        <Name text={only.workUnit} max={28} mono />
      </Link>
    );
  return (
    <>
      {sorted.slice(0, 2).map(([spec, number], i) => (
        <span key={spec}>
          {i > 0 && " · "}
          <Link to={{ ns, page: "units", spec, filters: { status: "pending" } }} className="n">
            {number}
          </Link>{" "}
          <span className="dim">
            <Name text={spec} max={20} />
          </span>
        </span>
      ))}
      {sorted.length > 2 && <span className="dim"> and {sorted.length - 2} others</span>}
    </>
  );
}

function Lease({ left, of, many }: { left: number; of: number; many: boolean }): ReactNode {
  const isShort = left < shortMs && left < of * 0.25;
  return (
    <span className={isShort ? "ls bad" : "ls"}>
      <span className="lb">
        <i style={{ width: `${Math.max(0, Math.min(100, (left / Math.max(1, of)) * 100))}%` }} />
      </span>
      {left <= 0 ? "over" : `${many ? "shortest " : ""}${duration(Math.floor(left / 1000) * 1000)}`}
    </span>
  );
}

function HeldList({ attempts }: { attempts: readonly AttemptRow[] }): ReactNode {
  const { ns } = useHere();
  const now = useNow();
  if (attempts.length === 0) return <p className="blank">No worker holds anything now.</p>;
  return (
    <div className="scroll">
      <table>
        <Heads
          of={[
            "Unit",
            "Work spec",
            { text: "Worker", className: "l9" },
            { text: "Runs for", className: "r" },
            "Lease left",
          ]}
        />
        <tbody>
          {attempts.slice(0, 200).map((attempt) => (
            <tr key={attempt.id} data-row tabIndex={-1}>
              <td>
                <Link to={{ ns, page: "unit", spec: attempt.workSpec, unit: attempt.workUnit }} className="l">
                  <Name text={attempt.workUnit} max={48} mono />
                </Link>
              </td>
              <td>
                <Name text={attempt.workSpec} max={28} />
              </td>
              <td className="l9">
                <Name text={attempt.worker} max={28} />
              </td>
              <td className="r">{duration(now - attempt.startTime)}</td>
              <td>
                <Lease
                  left={attempt.expirationTime - now}
                  of={attempt.expirationTime - attempt.startTime}
                  many={false}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** For each kind of worker that says what it asks for: what the scheduler would give it, and why not. */
function WhoCanRun({ workers }: { workers: readonly WorkerRow[] }): ReactNode {
  const { ns, look } = useHere();
  const kinds = new Map<string, { request: ScheduleRequest; workers: number; title: string }>();
  for (const worker of workers) {
    for (const request of toldOf(worker).asks ?? []) {
      const key = JSON.stringify(request);
      const runtimes = (request.runtimes ?? []).map((one) => (one === "" ? "(none)" : visible(one)));
      const title = [runtimes.join(", "), ...(request.labels ?? []).map(visible)].join(" · ");
      const kind = kinds.get(key) ?? { request, workers: 0, title };
      kinds.set(key, { ...kind, workers: kind.workers + 1 });
    }
  }
  const columns = [...kinds.values()].slice(0, 4);
  const answers = useQueries({
    queries: columns.map(({ request }) => ({
      queryKey: ["explain", ns, request],
      queryFn: () => client.explain(ns, request),
      refetchInterval: every(15_000),
    })),
  });
  if (columns.length === 0 || look.specs === undefined || look.specs.length === 0) return null;
  return (
    <section className="card cm" aria-label="Who can run what">
      <header>
        <h2>Who can run what</h2>
        <span className="grow" />
        <span className="dim">explain, for each kind of worker that exists</span>
      </header>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Work spec</th>
              <th scope="col">Needs runtime</th>
              <th className="r lo" scope="col">
                Needs GB
              </th>
              {columns.map(({ title, workers: number }) => (
                <th key={title} className="r" scope="col">
                  {title} · {plural(number, "worker")}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {look.specs.map(({ name, meta }) => (
              <tr key={name} data-row tabIndex={-1}>
                <td>
                  <Link to={{ ns, page: "spec", spec: name }} className="name">
                    <Name text={name} max={32} />
                  </Link>
                </td>
                <td>
                  <code>{meta.runtime === "" ? "" : visible(meta.runtime)}</code>
                </td>
                <td className="r lo">{meta.minGb === 0 ? <span className="z">0</span> : meta.minGb}</td>
                {answers.map(({ data }, i) => {
                  const one = data?.find(({ workSpec }) => workSpec === name);
                  return (
                    <td key={i} className="r">
                      {one === undefined ? (
                        ""
                      ) : one.excluded === null ||
                        one.excluded === "no_work" ||
                        one.excluded === "enough_running" ||
                        one.excluded === "continuous_not_due" ||
                        one.excluded === "schedule_not_due" ||
                        one.excluded === "continuous_pending" ? (
                        <span className="yes" title={one.reason}>
                          <Icon name="tick" label="can" />{" "}
                          {one.excluded === null ? "" : <span className="dim">{short[one.excluded]}</span>}
                        </span>
                      ) : (
                        <span
                          className={
                            one.excluded === "other_runtime" ||
                            one.excluded === "no_task" ||
                            one.excluded === "needs_memory"
                              ? "no"
                              : "lim"
                          }
                          title={visible(one.reason)}
                        >
                          {short[one.excluded] ?? visible(one.reason)}
                        </span>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const short: Readonly<Record<string, string>> = {
  no_work: "no work now",
  enough_running: "has its share",
  continuous_not_due: "not due",
  schedule_not_due: "not due",
  continuous_pending: "runs",
  paused: "paused",
  no_weight: "no weight",
  other_runtime: "other runtime",
  needs_memory: "needs more memory",
  no_task: "has no such task",
  other_work_spec: "takes other work specs",
  max_running: "at its max_running",
  lower_priority: "lower priority",
  preempted: "successors first",
};
