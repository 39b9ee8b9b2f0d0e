/** Plots: a sparkline in a row, and lanes over one axis. Lines are SVG; text is HTML, which is never stretched. */
import { useRef, useState, type PointerEvent, type ReactNode } from "react";
import type { Point } from "../data/counts.ts";
import type { Mark } from "../data/history.ts";
import { ago, clockTime, duration, middle, rate, shortCount, visible } from "../format.ts";

/** The minimum top of a rate scale: without it an idle work spec would look as busy as a busy one. */
const minRate = 1.6;

interface Box {
  from: number;
  to: number;
  width: number;
  height: number;
  top: number;
  /** The lowest value of a logarithmic scale; a linear scale begins at zero. */
  bottom?: number;
  gapMs: number;
}

const xOf = ({ from, to, width }: Box, at: number): number => ((at - from) / Math.max(1, to - from)) * width;
const yOf = ({ height, top, bottom }: Box, value: number): number => {
  const share =
    bottom === undefined
      ? value / top
      : Math.log(Math.max(value, bottom) / bottom) / Math.max(0.001, Math.log(top / bottom));
  return height - share * (height - 1) - 0.5;
};

type Value = (point: Point) => number | null;

/** Splits the points into lines: a gap longer than `gapMs` without a value ends a line. */
function runs(box: Box, points: readonly Point[], value: Value): string[][] {
  const all: string[][] = [];
  let before = -Infinity;
  for (const point of points) {
    const known = value(point);
    if (known === null) {
      before = -Infinity;
      continue;
    }
    if (point.at - before > box.gapMs) all.push([]);
    all.at(-1)?.push(`${xOf(box, point.at).toFixed(1)},${yOf(box, known).toFixed(1)}`);
    before = point.at;
  }
  return all;
}

/** An SVG path; a point without neighbours is a short dash. */
const line = (box: Box, points: readonly Point[], value: Value): string =>
  runs(box, points, value)
    .map((run) => `M${run.join("L")}${run.length === 1 ? "h2" : ""}`)
    .join("");

const area = (box: Box, points: readonly Point[], value: Value): string =>
  runs(box, points, value)
    .filter((run) => run.length > 1)
    .map((run) => {
      const left = run[0]?.split(",")[0] ?? "0";
      const right = run.at(-1)?.split(",")[0] ?? "0";
      return `M${left},${box.height}L${run.join("L")}L${right},${box.height}Z`;
    })
    .join("");

/** Reduces to at most `max` points, each the mean of its bin: more points than pixels cost time and do not show. */
function thin(points: readonly Point[], max: number): readonly Point[] {
  if (points.length <= max) return points;
  const size = points.length / max;
  return Array.from({ length: max }, (_, i) => {
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

/** Added units, dashed, and ended units, filled; each sparkline has its own scale, from zero. */
export function Spark({
  points,
  from,
  to,
  gapMs,
}: {
  points: readonly Point[];
  from: number;
  to: number;
  gapMs: number;
}): ReactNode {
  const shown = thin(points, 64);
  const out = (point: Point): number => point.finished + point.failed;
  const top = Math.max(minRate, ...shown.map((point) => Math.max(point.added, out(point)))) * 1.1;
  const box = { from, to, width: 104, height: 20, top, gapMs };
  const last = shown.at(-1);
  const said =
    last === undefined ? "no data yet" : `in ${rate(last.added)} per second, out ${rate(out(last))}`;
  return (
    <svg className="spark" width="104" height="20" viewBox="0 0 104 20" role="img" aria-label={said}>
      <line x1="0" x2="104" y1="19.5" y2="19.5" className="grid" />
      <path d={area(box, shown, out)} className="fill-finished" />
      <path d={line(box, shown, out)} className="ln ln-finished" />
      <path d={line(box, shown, (point) => point.added)} className="ln ln-in" />
    </svg>
  );
}

/** The count of each hour up to now, as bars from zero. */
export function HourBars(props: {
  points: readonly { readonly time: number; readonly count: number }[];
  hours: number;
  now: number;
  label: string;
}): ReactNode {
  const { points, hours, now, label } = props;
  const hour = 3_600_000;
  const last = now - (now % hour);
  const shown = points.filter(({ time }) => time <= last && time > last - hours * hour);
  const top = Math.max(1, ...shown.map(({ count }) => count));
  const width = 96 / hours;
  return (
    <svg className="spark" width="96" height="20" viewBox="0 0 96 20" role="img" aria-label={label}>
      <line x1="0" x2="96" y1="19.5" y2="19.5" className="grid" />
      {shown.map(({ time, count }) => {
        const height = Math.max(1.5, (19 * count) / top);
        const x = 96 - ((last - time) / hour + 1) * width;
        return (
          <rect
            key={time}
            x={x}
            y={19.5 - height}
            width={width * 0.8}
            height={height}
            className="fill-failed"
          />
        );
      })}
    </svg>
  );
}

/** One value over time, for a row of the attention list. */
export function Trend({
  points,
  from,
  to,
  gapMs,
  of,
}: {
  points: readonly Point[];
  from: number;
  to: number;
  gapMs: number;
  of: "waiting" | "pending" | "failed";
}): ReactNode {
  const shown = thin(points, 64);
  const value = (point: Point): number => point[of];
  const box = { from, to, width: 112, height: 28, top: Math.max(1, ...shown.map(value)) * 1.15, gapMs };
  const tone = of === "failed" ? "failed" : of === "pending" ? "blocked" : "available";
  return (
    <svg className="spark" width="112" height="28" viewBox="0 0 112 28" aria-hidden="true">
      <line x1="0" x2="112" y1="27.5" y2="27.5" className="grid" />
      <path d={area(box, shown, value)} className={`fill-${tone}`} />
      <path d={line(box, shown, value)} className={`ln ln-${tone}`} />
    </svg>
  );
}

export interface LaneLine {
  readonly label: string;
  readonly tone: "in" | "finished" | "failed" | "pending" | "available";
  readonly shape: "line" | "area" | "bars" | "dashed";
  readonly value: Value;
  readonly perSecond?: boolean;
}

export interface Lane {
  readonly key: string;
  readonly height: number;
  readonly lines: readonly LaneLine[];
  /** The values are milliseconds, on a logarithmic scale that shows hundredths of a second and hours. */
  readonly times?: boolean;
}

/** A round number at or above the highest value. */
function niceTop(value: number, min: number): number {
  const wanted = Math.max(value, min);
  const size = 10 ** Math.floor(Math.log10(wanted));
  for (const step of [1, 2, 4, 5, 8, 10]) if (step * size >= wanted) return step * size;
  return wanted;
}

const width = 1000;

interface Scale {
  readonly top: number;
  readonly bottom?: number;
}

function scaleOf({ lines, times }: Lane, points: readonly Point[]): Scale {
  const values = points.flatMap((point) => lines.flatMap(({ value }) => value(point) ?? []));
  const highest = Math.max(0, ...values);
  if (times !== true)
    return { top: niceTop(highest, lines.some(({ perSecond }) => perSecond) ? minRate : 4) };
  const lowest = Math.min(highest, ...values);
  const bottom = roundTimes.findLast((one) => one <= lowest) ?? 1;
  return { bottom, top: roundTimes.find((one) => one > Math.max(bottom, highest)) ?? highest };
}

/** The round values, in milliseconds, where a scale may begin and end: 1 ms to 100 days. */
const roundTimes = [
  1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000, 8_640_000_000,
];

/** The newest known value, but none from before `since`. */
const newest = (points: readonly Point[], value: Value, since: number): number | null =>
  points.reduce<number | null>((found, point) => (point.at < since ? null : (value(point) ?? found)), null);

/** The range that the user drags over, as shares of the width. */
interface Drag {
  readonly from: number;
  readonly to: number;
}

/** A drag of less than this share of the width is a click. */
const minDrag = 0.01;

/**
 * Lanes over one time axis, each with its own scale from zero. The keys at the left show the current value, or the one under the
 * pointer. Changes are marks through all lanes. Dragging over a time range zooms in.
 */
export function Lanes(props: {
  title: ReactNode;
  note?: ReactNode;
  points: readonly Point[];
  marks?: readonly Mark[];
  gapMs: number;
  from: number;
  to: number;
  /** Whether the right edge is now. */
  isNow: boolean;
  lanes: readonly Lane[];
  onZoom?: (from: number, to: number) => void;
}): ReactNode {
  const { title, note, from, to, isNow, lanes, gapMs, marks = [], onZoom } = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const plots = useRef<HTMLDivElement>(null);
  const points = thin(props.points, 360);
  const timeAt = (share: number): number => from + share * (to - from);
  const at = cursor === null ? to : timeAt(cursor);
  const under =
    cursor === null
      ? undefined
      : points.reduce<Point | undefined>(
          (best, point) =>
            best === undefined || Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best,
          undefined,
        );
  const near = Math.max(3 * gapMs, 0.02 * (to - from));
  const valueOf = (value: Value): number | null => {
    if (cursor === null) return newest(points, value, to - near);
    return under === undefined || Math.abs(under.at - at) > near ? null : value(under);
  };
  const shareOf = (event: PointerEvent): number | null => {
    const box = plots.current?.getBoundingClientRect();
    return box === undefined ? null : (event.clientX - box.left) / box.width;
  };
  const move = (event: PointerEvent): void => {
    const x = shareOf(event);
    if (x === null) return;
    setCursor(x >= 0 && x <= 1 ? x : null);
    if (drag !== null) setDrag({ ...drag, to: Math.min(1, Math.max(0, x)) });
  };
  const down = (event: PointerEvent): void => {
    const x = shareOf(event);
    // touch scrolls the page and does not zoom
    if (onZoom === undefined || x === null || x < 0 || x > 1 || event.pointerType === "touch") return;
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag({ from: x, to: x });
  };
  const up = (): void => {
    if (drag !== null && Math.abs(drag.to - drag.from) >= minDrag)
      onZoom?.(timeAt(Math.min(drag.from, drag.to)), timeAt(Math.max(drag.from, drag.to)));
    setDrag(null);
  };
  const ticks = Array.from({ length: 7 }, (_, i) => from + ((to - from) * i) / 6);
  const isSelecting = drag !== null && Math.abs(drag.to - drag.from) >= minDrag;
  return (
    <div
      className={onZoom === undefined ? "tl" : "tl zooms"}
      onPointerMove={move}
      onPointerLeave={() => setCursor(null)}
      onPointerDown={down}
      onPointerUp={up}
      onPointerCancel={() => setDrag(null)}
    >
      <div className="tl-top">
        <h2>{title}</h2>
        <span className="dim">
          {cursor === null ? note : `${tickTime(at, to - from)}, ${ago(Date.now() - at)}`}
        </span>
      </div>
      {lanes.map((lane) => {
        const { key, height, lines, times } = lane;
        const scale = scaleOf(lane, points);
        const box = { from, to, width, height, gapMs, ...scale };
        const say = (value: number | null, perSecond: boolean | undefined): string => {
          if (value === null) return "–";
          if (times === true) return duration(value);
          return perSecond === true ? rate(value) : shortCount(Math.round(value));
        };
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
                    {say(valueOf(value), perSecond)}
                    <span className="u">{perSecond === true ? "/s" : ""}</span>
                  </span>
                </div>
              ))}
            </div>
            <div className="plot" style={{ height }}>
              <span className="y">{times === true ? duration(scale.top) : shortCount(scale.top)}</span>
              {scale.bottom !== undefined && <span className="y low">{duration(scale.bottom)}</span>}
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
            {tickTime(tick, to - from)}
            {i === 6 && isNow ? " now" : ""}
          </span>
        ))}
      </div>
      <div className="marks">
        {gathered(marks, from, to).map(({ share, label }) => (
          <div key={share} className={share > 0.7 ? "m left" : "m"} style={{ left: `${share * 100}%` }}>
            <span title={label}>{middle(label, 28)}</span>
          </div>
        ))}
        {isSelecting && (
          <div
            className="brush"
            style={{
              left: `${Math.min(drag.from, drag.to) * 100}%`,
              width: `${Math.abs(drag.to - drag.from) * 100}%`,
            }}
          />
        )}
        {cursor !== null && <div className="cross" style={{ left: `${cursor * 100}%` }} />}
      </div>
    </div>
  );
}

/** Time of day, with seconds in a short range, with the date in a range of several days. */
function tickTime(time: number, span: number): string {
  if (span <= 600_000) return clockTime(time);
  if (span <= 86_400_000) return clockTime(time, false);
  const at = new Date(time);
  return `${at.getDate()} ${at.toLocaleString("en", { month: "short" })} ${clockTime(time, false)}`;
}

/** Combines marks that would overlap. */
function gathered(marks: readonly Mark[], from: number, to: number): { share: number; label: string }[] {
  const all: { share: number; words: string[] }[] = [];
  for (const { at, workSpec, what } of marks) {
    const share = (at - from) / Math.max(1, to - from);
    const words = visible(`${workSpec}: ${what}`);
    const last = all.at(-1);
    if (last !== undefined && share - last.share < 0.012) last.words.push(words);
    else all.push({ share, words: [words] });
  }
  return all.map(({ share, words }) => ({
    share,
    label: words.length > 3 ? `${words[0] ?? ""} and ${words.length - 1} more changes` : words.join("; "),
  }));
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
          const height = value(point) ?? 0;
          if (height <= 0) return null;
          const right = xOf(box, point.at);
          const left = Math.max(xOf(box, points[i - 1]?.at ?? point.at - 1000), right - 12);
          const y = Math.min(yOf(box, height), box.height - 1.5);
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
      {shape === "area" && <path d={area(box, points, value)} className={`fill-${tone}`} />}
      <path d={line(box, points, value)} className={`ln ln-${tone} ${shape === "dashed" ? "dashed" : ""}`} />
    </>
  );
}
