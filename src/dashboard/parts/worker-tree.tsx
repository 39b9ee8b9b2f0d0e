/** Workers in a tree under their parents, each with the attempts that it holds. */
import { useState, type ReactNode } from "react";
import type { AttemptRow, DesiredState, WorkerRow } from "../../core/index.ts";
import { desire, giveBack, reportOf, rootsOf, type Held } from "../data/workers.ts";
import { bytes, count, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "./dialog.tsx";
import { Holds, Lease } from "./held-attempts.tsx";
import { Icon, type IconName } from "./icon.tsx";
import { Menu, type MenuItem } from "./menu.tsx";
import { Ago, Link, Name, useNow } from "./text.tsx";
import { Heads } from "./table.tsx";

interface Node {
  readonly worker: WorkerRow;
  readonly children: readonly Node[];
}

export function treeOf(workers: readonly WorkerRow[]): Node[] {
  const below = new Map<string | null, WorkerRow[]>();
  for (const worker of workers) {
    const list = below.get(worker.parent) ?? [];
    below.set(worker.parent, list);
    list.push(worker);
  }
  const node = (worker: WorkerRow): Node => ({ worker, children: (below.get(worker.name) ?? []).map(node) });
  return rootsOf(workers).map(node);
}

const heldBelow = ({ worker, children }: Node, held: Held): AttemptRow[] => [
  ...(held.byWorker.get(worker.name) ?? []),
  ...children.flatMap((child) => heldBelow(child, held)),
];

export const desiredWords: Readonly<Record<DesiredState, string>> = {
  run: "run",
  idle: "finish their units and claim no more",
  terminate: "finish their units and stop",
};

export function desireItems(now: DesiredState, set: (next: DesiredState) => void): MenuItem[] {
  return [
    { key: "run", label: "Run", note: "claim units", selected: now === "run", run: () => set("run") },
    {
      key: "idle",
      label: "Drain",
      note: "claim no more units",
      selected: now === "idle",
      run: () => set("idle"),
    },
    {
      key: "terminate",
      label: "Stop",
      note: "finish, then stop",
      danger: true,
      selected: now === "terminate",
      run: () => set("terminate"),
    },
  ];
}

export function Tree(props: {
  tree: readonly Node[];
  held: Held;
  gone: readonly WorkerRow[];
  onChanged: () => void;
}): ReactNode {
  const { tree, held, gone, onChanged } = props;
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  const toggle = (name: string): void => {
    const next = new Set(open);
    if (!next.delete(name)) next.add(name);
    setOpen(next);
  };
  const few = tree.reduce((sum, { children }) => sum + 1 + children.length, 0) <= 24;
  const rows: ReactNode[] = [];
  const add = (node: Node, depth: number, known: boolean): void => {
    const isOpen = open.has(node.worker.name) !== (few && depth === 0 && node.children.length <= 16);
    rows.push(
      <WorkerLine
        key={node.worker.name}
        node={node}
        depth={depth}
        held={held}
        known={known}
        isOpen={isOpen}
        onToggle={() => toggle(node.worker.name)}
        onChanged={onChanged}
      />,
    );
    if (isOpen) for (const child of node.children) add(child, depth + 1, known);
  };
  for (const node of tree) add(node, 0, !held.unread.has(node.worker.name));
  const shownGone = all ? gone.slice(0, 200) : gone.slice(0, 5);
  return (
    <div className="scroll">
      <table>
        <Heads
          of={[
            "Worker",
            "State",
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
              <td className="l9 dim">none</td>
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
      {held.unread.size > 0 && (
        <p className="more-gone dim">
          The page does not read which units the last {plural(held.unread.size, "top-level worker")} and their
          children hold.
        </p>
      )}
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
  active: { icon: "available", tone: "available" },
};

/** A worker that holds attempts and has not checked in for this long is quiet. */
const quietMs = 120_000;

function WorkerLine(props: {
  node: Node;
  depth: number;
  held: Held;
  /** Whether its attempts were read. */
  known: boolean;
  isOpen: boolean;
  onToggle: () => void;
  onChanged: () => void;
}): ReactNode {
  const { ns, may, undo } = useHere();
  const now = useNow();
  const [asked, setAsked] = useState(false);
  const { node, depth, held, known, isOpen, onToggle, onChanged } = props;
  const { worker, children } = node;
  const attempts = heldBelow(node, held);
  const told = reportOf(worker);
  const quiet = now - worker.lastUpdate > quietMs && attempts.length > 0;
  const does = quiet
    ? "quiet"
    : worker.desired !== "run"
      ? "draining"
      : !known
        ? "active"
        : attempts.length > 0
          ? "busy"
          : "idle";
  const { icon, tone } = looks[does]!;
  const shortest =
    attempts.length === 0 ? null : Math.min(...attempts.map(({ expirationTime }) => expirationTime));
  const set = (next: DesiredState): void => {
    const before = worker.desired;
    void undo.run({
      did: `${worker.name} is asked to ${desiredWords[next].replace("their", "its")}`,
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
              aria-label={`${isOpen ? "Collapse" : "Expand"} ${visible(worker.name)}`}
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
            <Link to={{ ns, page: "units", filters: { worker: worker.name } }} title="Units of this worker">
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
        {known && told.slots !== undefined && told.slots > 0 && (
          <Slots used={slotsUsed(node, held)} of={told.slots} />
        )}
      </td>
      <td className="l9">{known && <Holds attempts={attempts} />}</td>
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
              { term: "Effect", text: "The leases end now. Other workers can then claim the units." },
              {
                term: "Warning",
                text: "The worker is not stopped. If it is still running the units, they run twice for a while. Its results are rejected.",
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

/** The number of slots in use. The slots of a process are its children; a slot runs a batch, and is in use while it holds anything. */
const slotsUsed = ({ worker, children }: Node, held: Held): number =>
  (children.length > 0 ? children.map((child) => child.worker.name) : [worker.name]).filter(
    (name) => (held.byWorker.get(name)?.length ?? 0) > 0,
  ).length;

function Slots({ used, of }: { used: number; of: number }): ReactNode {
  const shown = Math.min(used, of);
  return (
    <span className="slots-cell" title={`${used} of ${of} slots in use`}>
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
