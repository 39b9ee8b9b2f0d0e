/** The flow: work specs as nodes, `then` as edges, with the waiting, running and failed units of each, and the rates. */
import { graphlib, layout } from "@dagrejs/dagre";
import {
  BaseEdge,
  EdgeLabelRenderer,
  getBezierPath,
  Handle,
  Position,
  ReactFlow,
  type Edge,
  type EdgeProps,
  type Node,
  type NodeProps,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useMemo, type ReactNode } from "react";
import { drain } from "../data/counts.ts";
import type { SpecRow } from "../data/look.ts";
import { commandLine, count, duration, plural, rate, shortCount } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { StatusGlyph, maxOpen, StatusBar } from "../parts/status.tsx";
import { Command, Link, Name } from "../parts/text.tsx";
import { Sentence } from "../parts/words.tsx";
import "./flow.css";

const nodeWidth = 148;
const nodeHeight = 104;

type SpecNode = Node<{ spec: SpecRow; max: number; ns: string }, "spec">;
type RateEdge = Edge<{ perSecond: number; tone: "" | "failed" | "blocked" }, "rate">;

const nodeTypes = { spec: SpecBox };
const edgeTypes = { rate: RateLine };

/**
 * Positions of the nodes, from left to right. They depend only on names and links, so that they stay while numbers change. The
 * library gets numbers as ids, because it uses ids as keys of plain objects and `__proto__` is a valid name.
 */
function placesOf(
  links: readonly (readonly [string, string])[],
  names: readonly string[],
): Map<string, { x: number; y: number }> {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 24, ranksep: 50, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = new Map(names.map((name, i) => [name, String(i)]));
  for (const id of ids.values()) graph.setNode(id, { width: nodeWidth, height: nodeHeight });
  for (const [from, to] of links) graph.setEdge(ids.get(from)!, ids.get(to)!);
  layout(graph);
  return new Map(
    [...ids].map(([name, id]) => {
      const { x, y } = graph.node(id) as { x: number; y: number };
      return [name, { x: x - nodeWidth / 2, y: y - nodeHeight / 2 }];
    }),
  );
}

export default function Flow(): ReactNode {
  const { ns, look } = useHere();
  const specs = look.specs;
  // the layout is computed again only when names or links change
  const shape = JSON.stringify(
    (specs ?? [])
      .map(({ name, meta }) => [name, look.byName.has(meta.nextWorkSpecName) ? meta.nextWorkSpecName : ""])
      .sort(),
  );
  const { linked, places, links } = useMemo(() => {
    const pairs = JSON.parse(shape) as [string, string][];
    const found = pairs.filter(([, to]) => to !== "");
    const names = new Set(found.flat());
    return { linked: names, links: found, places: placesOf(found, [...names]) };
  }, [shape]);
  if (specs === undefined) return null;
  const inFlow = specs.filter(({ name }) => linked.has(name));
  const alone = specs.filter(({ name }) => !linked.has(name));
  const max = maxOpen(specs);
  const troubled = specs.filter(({ condition }) => condition !== null);
  if (specs.length === 0)
    return (
      <section className="card blank">
        <h1>No work specs yet</h1>
        <p>
          A flow file defines work specs, and links them by <code>then</code>:
        </p>
        <Command text={commandLine(ns, "flow", "flow.yaml")} />
      </section>
    );
  const nodes: SpecNode[] = inFlow.map((spec) => ({
    id: spec.name,
    type: "spec",
    position: places.get(spec.name) ?? { x: 0, y: 0 },
    data: { spec, max, ns },
    width: nodeWidth,
    height: nodeHeight,
    draggable: false,
    connectable: false,
    selectable: false,
    focusable: false,
  }));
  const edges: RateEdge[] = links.map(([from, to]) => {
    const source = look.byName.get(from);
    const stands = source?.condition?.kind === "nobody" || source?.condition?.kind === "stuck";
    return {
      id: `${from} ${to}`,
      source: from,
      target: to,
      type: "rate",
      focusable: false,
      data: {
        perSecond: source?.rates.finished ?? 0,
        tone: stands ? "failed" : source?.meta.paused === true ? "blocked" : "",
      },
    };
  });
  const height = Math.max(220, ...[...places.values()].map(({ y }) => y + nodeHeight + 32));
  const width = Math.max(0, ...[...places.values()].map(({ x }) => x + nodeWidth + 16));
  return (
    <>
      <h1 className="sr">Flow</h1>
      {inFlow.length > 0 && (
        <section className="card flow" aria-label="Flow">
          <header>
            <h2>{plural(inFlow.length, "linked work spec")}</h2>
            <span className="dim">
              {plural(links.length, "link")} by <code>then</code>
            </span>
            <span className="grow" />
            <div className="lg dim">
              <StatusGlyph status="available" />
              waiting <StatusGlyph status="pending" />
              pending <StatusGlyph status="failed" />
              failed <span className="ew" />
              wider: higher rate
            </div>
          </header>
          <div className="canvas" tabIndex={0} role="group" aria-label="Graph of work specs">
            <div className="stage" style={{ width, height }}>
              <ReactFlow
                nodes={nodes}
                edges={edges}
                nodeTypes={nodeTypes}
                edgeTypes={edgeTypes}
                defaultViewport={{ x: 0, y: 0, zoom: 1 }}
                nodesDraggable={false}
                nodesConnectable={false}
                elementsSelectable={false}
                panOnDrag={false}
                zoomOnScroll={false}
                zoomOnPinch={false}
                zoomOnDoubleClick={false}
                panOnScroll={false}
                preventScrolling={false}
                disableKeyboardA11y
                proOptions={{ hideAttribution: true }}
              />
            </div>
          </div>
        </section>
      )}
      {alone.length > 0 && (
        <section className="card" aria-label="Not linked">
          <header>
            <h2>{inFlow.length === 0 ? "Work specs" : "Not linked"}</h2>
            <span className="count quiet">{alone.length}</span>
          </header>
          <div className="lone">
            {alone.map((spec) => (
              <Link key={spec.name} to={{ ns, page: "spec", spec: spec.name }} className="small">
                <span className={toneOf(spec)}>
                  <Icon name={spec.condition?.icon ?? "ok"} label={spec.condition?.title ?? "healthy"} />
                </span>
                <b>
                  <Name text={spec.name} max={36} />
                </b>
                <span className="sb">
                  <StatusBar counts={spec.counts} max={max} />
                </span>
                <span className="r">
                  {count(spec.counts.available + spec.counts.delayed + spec.counts.blocked)}{" "}
                  <span className="dim">waiting</span>
                </span>
                <span className="r">
                  {rate(spec.rates.out)}
                  <span className="dim">/s</span>
                </span>
              </Link>
            ))}
          </div>
        </section>
      )}
      {troubled.length > 0 && (
        <section className="card" aria-label="Needs attention">
          <header>
            <h2>Needs attention</h2>
            <span className="grow" />
            <span className="dim">from explain and the counts</span>
          </header>
          <ul className="explain">
            {troubled.slice(0, 8).map((spec) => (
              <li key={spec.name}>
                <span className={toneOf(spec)}>
                  <Icon name={spec.condition!.icon} />
                </span>
                <span>
                  <b>
                    <Name text={spec.name} max={40} />: {spec.condition!.title.toLowerCase()}.
                  </b>{" "}
                  <Sentence words={spec.condition!.cause} /> {holdsBack(spec, look.byName)}
                </span>
                <Link to={{ ns, page: "spec", spec: spec.name }} className="btn s q">
                  View
                </Link>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

const toneOf = ({ condition }: SpecRow): string =>
  condition === null ? "ok" : condition.level === "critical" ? "t-failed" : "t-blocked";

/** The effect on the next work spec in the chain. */
function holdsBack({ meta, rates }: SpecRow, byName: ReadonlyMap<string, SpecRow>): ReactNode {
  if (rates.finished > 0 || !byName.has(meta.nextWorkSpecName)) return null;
  return (
    <>
      It passes no units on to <Name text={meta.nextWorkSpecName} max={30} />.
    </>
  );
}

function SpecBox({ data: { spec, max, ns } }: NodeProps<SpecNode>): ReactNode {
  const { name, meta, counts, condition, rates } = spec;
  const waiting = counts.available + counts.delayed + counts.blocked;
  const { text, value } = drain(counts, rates, meta.paused);
  const foot =
    text === "time"
      ? `drains in ${duration(value)}`
      : text === "grows"
        ? `waiting +${rate(value)}/s`
        : text === "empty"
          ? "nothing waiting"
          : text === "paused"
            ? "paused"
            : text === "never"
              ? "no progress"
              : "";
  const level = condition === null ? "" : condition.level === "critical" ? "crit" : "warn";
  const number = (status: "available" | "pending" | "failed", label: string, shown: number): ReactNode => (
    <div>
      <dt>
        <StatusGlyph status={status} />
        <span className="sr">{label}</span>
      </dt>
      <dd>
        {shown === 0 ? (
          <span className="z">0</span>
        ) : (
          <Link
            to={{
              ns,
              page: "units",
              spec: name,
              filters: { status: status === "available" ? "available,delayed,blocked" : status },
            }}
            className="n"
          >
            {shortCount(shown)}
          </Link>
        )}
      </dd>
    </div>
  );
  return (
    <div className={`node ${level}`} data-row tabIndex={-1}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <div className="nt">
        <span className={toneOf(spec)}>
          <Icon name={condition?.icon ?? "ok"} label={condition?.title ?? "healthy"} />
        </span>
        <b>
          <Link to={{ ns, page: "spec", spec: name }}>
            <Name text={name} max={18} />
          </Link>
        </b>
        {meta.continuous && (
          <span className="dim cn">
            <Icon name="cont" /> {duration(meta.intervalMs)}
          </span>
        )}
      </div>
      <div className={condition === null ? "cd dim" : `cd ${toneOf(spec)}`}>
        {condition === null ? (
          meta.runtime === "" ? (
            "any worker"
          ) : (
            <Name text={meta.runtime} max={20} />
          )
        ) : (
          condition.title
        )}
      </div>
      <StatusBar counts={counts} max={max} />
      <dl>
        {number("available", "waiting", waiting)}
        {number("pending", "pending", counts.pending)}
        {number("failed", "failed", counts.failed)}
      </dl>
      <div className="ft dim">{foot}</div>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}

function RateLine(props: EdgeProps<RateEdge>): ReactNode {
  const { sourceX, sourceY, targetX, targetY, data } = props;
  const { perSecond = 0, tone = "" } = data ?? {};
  const [path] = getBezierPath({
    sourceX,
    sourceY,
    targetX: targetX - 7,
    targetY,
    sourcePosition: Position.Right,
    targetPosition: Position.Left,
  });
  const wide = Math.max(1.5, Math.min(7, Math.sqrt(perSecond) / 2));
  const half = Math.max(4, wide);
  const stands = perSecond < 0.05;
  const kind = tone === "" ? "edge" : `edge ${tone}`;
  return (
    <>
      <BaseEdge path={path} className={`${kind} ${stands ? "still" : ""}`} style={{ strokeWidth: wide }} />
      <path d={`M${targetX},${targetY} l-8,${-half} v${half * 2}Z`} className={`${kind} head`} />
      <EdgeLabelRenderer>
        <span
          className={`edge-rate ${tone === "" ? "" : `t-${tone}`} ${targetY > sourceY ? "" : "dn"}`}
          style={{ left: sourceX + 5, top: sourceY }}
        >
          {rate(perSecond)}/s
        </span>
      </EdgeLabelRenderer>
    </>
  );
}
