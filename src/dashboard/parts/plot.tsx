/** Plots: a sparkline in a row, and lanes over one axis. Lines are SVG, text is HTML and never stretched. */
import { useRef, useState, type PointerEvent, type ReactNode } from "react";
import type { Point } from "../data/counts.ts";
import { clockTime, duration, rate, shortCount } from "../format.ts";

/** Below this an idle work spec would look as busy as a busy one. */
const leastRate = 1.6;

interface Box {
  from: number;
  to: number;
  width: number;
  height: number;
  top: number;
}

const xOf = ({ from, to, width }: Box, at: number): number => ((at - from) / Math.max(1, to - from)) * width;
const yOf = ({ height, top }: Box, value: number): number => height - (value / top) * (height - 1) - 0.5;

function line(box: Box, points: readonly Point[], value: (point: Point) => number): string {
  return points
    .map((point) => `${xOf(box, point.at).toFixed(1)},${yOf(box, value(point)).toFixed(1)}`)
    .join(" ");
}

function area(box: Box, points: readonly Point[], value: (point: Point) => number): string {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined) return "";
  return `${xOf(box, first.at).toFixed(1)},${box.height} ${line(box, points, value)} ${xOf(box, last.at).toFixed(1)},${box.height}`;
}

/** So many points at most: more than there are pixels cost and do not show. Each stands for the mean of its bin. */
function thin(points: readonly Point[], most: number): readonly Point[] {
  if (points.length <= most) return points;
  const size = points.length / most;
  return Array.from({ length: most }, (_, i) => {
    const bin = points.slice(
      Math.floor(i * size),
      Math.max(Math.floor(i * size) + 1, Math.floor((i + 1) * size)),
    );
    const last = bin.at(-1)!;
    const mean = (key: "added" | "finished" | "failed"): number =>
      bin.reduce((sum, point) => sum + point[key], 0) / bin.length;
    return { ...last, added: mean("added"), finished: mean("finished"), failed: mean("failed") };
  });
}

/** What came in, dashed, and what went out, filled; zero-based, on a scale of its own. */
export function Spark({
  points,
  from,
  to,
}: {
  points: readonly Point[];
  from: number;
  to: number;
}): ReactNode {
  const shown = thin(points, 52);
  const out = (point: Point): number => point.finished + point.failed;
  const top = Math.max(leastRate, ...shown.map((point) => Math.max(point.added, out(point)))) * 1.1;
  const box = { from, to, width: 104, height: 20, top };
  const last = shown.at(-1);
  const said =
    last === undefined ? "nothing seen yet" : `in ${rate(last.added)} per second, out ${rate(out(last))}`;
  return (
    <svg className="spark" width="104" height="20" viewBox="0 0 104 20" role="img" aria-label={said}>
      <line x1="0" x2="104" y1="19.5" y2="19.5" className="grid" />
      <polygon points={area(box, shown, out)} className="fill-finished" />
      <polyline points={line(box, shown, out)} className="ln ln-finished" />
      <polyline points={line(box, shown, (point) => point.added)} className="ln ln-in" />
    </svg>
  );
}

/** One value over time, for a row of attention. */
export function Trend({
  points,
  from,
  to,
  of,
}: {
  points: readonly Point[];
  from: number;
  to: number;
  of: "waiting" | "pending" | "failed";
}): ReactNode {
  const shown = thin(points, 56);
  const value = (point: Point): number => point[of];
  const box = { from, to, width: 112, height: 28, top: Math.max(1, ...shown.map(value)) * 1.15 };
  const tone = of === "failed" ? "failed" : of === "pending" ? "blocked" : "available";
  return (
    <svg className="spark" width="112" height="28" viewBox="0 0 112 28" aria-hidden="true">
      <line x1="0" x2="112" y1="27.5" y2="27.5" className="grid" />
      <polygon points={area(box, shown, value)} className={`fill-${tone}`} />
      <polyline points={line(box, shown, value)} className={`ln ln-${tone}`} />
    </svg>
  );
}

export interface LaneLine {
  readonly label: string;
  readonly tone: "in" | "finished" | "failed" | "pending" | "available";
  readonly shape: "line" | "area" | "bars" | "dashed";
  readonly value: (point: Point) => number;
  readonly perSecond?: boolean;
}

export interface Lane {
  readonly key: string;
  readonly height: number;
  readonly lines: readonly LaneLine[];
}

/** A round number at or above the highest value. */
function niceTop(value: number, least: number): number {
  const wanted = Math.max(value, least);
  const size = 10 ** Math.floor(Math.log10(wanted));
  for (const step of [1, 2, 4, 5, 8, 10]) if (step * size >= wanted) return step * size;
  return wanted;
}

const width = 1000;

/**
 * Lanes over one axis, each with its own honest scale, from zero. The keys at the left carry the value now, or the one
 * under the pointer.
 */
export function Lanes(props: {
  title: ReactNode;
  note?: ReactNode;
  points: readonly Point[];
  from: number;
  to: number;
  lanes: readonly Lane[];
}): ReactNode {
  const { title, note, from, to, lanes } = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const plots = useRef<HTMLDivElement>(null);
  const points = thin(props.points, 360);
  const at = cursor === null ? to : from + cursor * (to - from);
  const under =
    cursor === null
      ? points.at(-1)
      : points.reduce<Point | undefined>(
          (best, point) =>
            best === undefined || Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best,
          undefined,
        );
  const move = (event: PointerEvent): void => {
    const box = plots.current?.getBoundingClientRect();
    if (box === undefined) return;
    const x = (event.clientX - box.left) / box.width;
    setCursor(x >= 0 && x <= 1 ? x : null);
  };
  const ticks = Array.from({ length: 7 }, (_, i) => from + ((to - from) * i) / 6);
  const fine = to - from <= 600_000;
  return (
    <div className="tl" onPointerMove={move} onPointerLeave={() => setCursor(null)}>
      <div className="tl-top">
        <h2>{title}</h2>
        <span className="dim">{cursor === null ? note : `${clockTime(at)}, ${duration(to - at)} ago`}</span>
      </div>
      {lanes.map(({ key, height, lines }) => {
        const highest = Math.max(0, ...points.flatMap((point) => lines.map(({ value }) => value(point))));
        const top = niceTop(highest, lines.some(({ perSecond }) => perSecond) ? leastRate : 4);
        const box = { from, to, width, height, top };
        return (
          <div className="lane" key={key}>
            <div className="keys">
              {lines.map(({ label, tone, shape, value, perSecond }) => (
                <div key={label}>
                  <span
                    className={`sw sw-${tone} ${shape === "line" || shape === "dashed" ? "" : "a"} ${shape === "dashed" ? "dash" : ""}`}
                  />
                  <span>{label}</span>
                  <span className="v">
                    {under === undefined
                      ? "–"
                      : perSecond === true
                        ? rate(value(under))
                        : shortCount(Math.round(value(under)))}
                    <span className="u">{perSecond === true ? "/s" : ""}</span>
                  </span>
                </div>
              ))}
            </div>
            <div className="plot" style={{ height }}>
              <span className="y">{shortCount(top)}</span>
              <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
                <line x1="0" x2={width} y1="0.5" y2="0.5" className="grid" />
                <line x1="0" x2={width} y1={height / 2} y2={height / 2} className="grid" />
                {lines.map((one) => (
                  <Shape key={one.label} line={one} box={box} points={points} />
                ))}
              </svg>
            </div>
          </div>
        );
      })}
      <div className="axis" ref={plots}>
        {ticks.map((tick, i) => (
          <span key={i} style={{ left: `${(i / 6) * 100}%` }}>
            {clockTime(tick, fine)}
            {i === 6 ? " now" : ""}
          </span>
        ))}
      </div>
      <div className="marks">
        {cursor !== null && <div className="cross" style={{ left: `${cursor * 100}%` }} />}
      </div>
    </div>
  );
}

function Shape({
  line: { tone, shape, value },
  box,
  points,
}: {
  line: LaneLine;
  box: Box;
  points: readonly Point[];
}): ReactNode {
  if (shape === "bars") {
    return (
      <>
        {points.map((point, i) => {
          if (value(point) <= 0) return null;
          const right = xOf(box, point.at);
          const left = Math.max(xOf(box, points[i - 1]?.at ?? point.at - 1000), right - 12);
          const y = Math.min(yOf(box, value(point)), box.height - 1.5);
          return (
            <rect
              key={point.at}
              x={left}
              y={y}
              width={Math.max(1, right - left - 0.6)}
              height={box.height - y}
              className={`bar-${tone}`}
            />
          );
        })}
      </>
    );
  }
  return (
    <>
      {shape === "area" && <polygon points={area(box, points, value)} className={`fill-${tone}`} />}
      <polyline
        points={line(box, points, value)}
        className={`ln ln-${tone} ${shape === "dashed" ? "dashed" : ""}`}
      />
    </>
  );
}
