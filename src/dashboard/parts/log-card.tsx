/** What the tasks of a unit logged, one attempt at a time; live for a running attempt. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import type { AttemptRow, LogLine } from "../../core/index.ts";
import { useLog } from "../data/units.ts";
import { clockTime, exactTime, plural, visibleLines } from "../format.ts";
import { CopyButton } from "./text.tsx";

export function LogCard({ ns, attempts }: { ns: string; attempts: readonly AttemptRow[] }): ReactNode {
  const [chosen, setChosen] = useState<string | null>(null);
  const attempt = attempts.find(({ id }) => id === chosen) ?? attempts.at(-1)!;
  const { data: log } = useLog(ns, attempt);
  const lines = log?.lines ?? [];
  const runs = attempt.status === "pending";
  // without lines, hide the card: it would be empty for most units
  if (lines.length === 0 && !runs && attempts.length === 1) return null;
  const leftOut = log === null || log === undefined ? 0 : log.total - lines.length;
  return (
    <section className="card log" aria-label="Log">
      <header>
        <h2>Log</h2>
        {runs && <span className="dim">live</span>}
        <span className="grow" />
        {attempts.length > 1 && (
          <label className="pick">
            <span className="dim">of</span>
            <select value={attempt.id} onChange={(event) => setChosen(event.target.value)}>
              {attempts.map(({ id, number }) => (
                <option key={id} value={id}>
                  attempt {number}
                </option>
              ))}
            </select>
          </label>
        )}
        {lines.length > 0 && <CopyButton text={lines.map(({ text }) => text).join("\n")} quiet />}
      </header>
      {lines.length === 0 ? (
        <p className="note">{runs ? "No lines yet. A task writes here with log(…)." : "No log lines."}</p>
      ) : (
        <Lines key={attempt.id} lines={lines} leftOut={leftOut} follows={runs} />
      )}
    </section>
  );
}

/** When scrolled to the end, it stays there as lines arrive. */
function Lines(props: { lines: readonly LogLine[]; leftOut: number; follows: boolean }): ReactNode {
  const { lines, leftOut, follows } = props;
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const { current } = box;
    if (current !== null && follows && atEnd.current) current.scrollTop = current.scrollHeight;
  }, [lines, follows]);
  const onScroll = (): void => {
    const { current } = box;
    if (current === null) return;
    atEnd.current = current.scrollHeight - current.scrollTop - current.clientHeight < 8;
  };
  return (
    <div className="lines" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-label="Lines">
      {leftOut > 0 && <p className="note">{plural(leftOut, "older line")} not shown</p>}
      {lines.map(({ time, level, text }, i) => (
        <div key={leftOut + i} className={`line ${level}`}>
          <time title={exactTime(time)}>{clockTime(time)}</time>
          {level !== "info" && <span className="level">{level}</span>}
          <span className="text" dir="ltr">
            {visibleLines(text)}
          </span>
        </div>
      ))}
    </div>
  );
}
