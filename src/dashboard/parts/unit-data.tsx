/** The data of a unit when it was added and after each attempt, with the differences. */
import { useMemo, useState, type ReactNode } from "react";
import { dataToJson, type AttemptRow, type Data, type WorkUnitRow } from "../../core/index.ts";
import { clockTime, plural, visibleLines } from "../format.ts";
import { around, Diff, diffRows } from "./diff.tsx";
import { CopyButton } from "./text.tsx";

/** Data as lines of JSON to compare; `lossless` tells whether JSON can represent all of it. */
function linesOf(data: Data | null): { lines: string[]; lossless: boolean } {
  if (data === null) return { lines: ["null"], lossless: true };
  const { text, lossless } = dataToJson(data);
  try {
    // parsing would change numbers with more digits than JavaScript has: then the text is shown unformatted
    return {
      lines: /\d{16}/.test(text) ? text.split("\n") : JSON.stringify(JSON.parse(text), null, 2).split("\n"),
      lossless,
    };
  } catch {
    return { lines: text.split("\n"), lossless };
  }
}

const maxLines = 2000;

export function DataCard({
  unit,
  attempts,
}: {
  unit: WorkUnitRow;
  attempts: readonly AttemptRow[];
}): ReactNode {
  const sources = useMemo(
    () => [
      ...attempts.map((attempt) => ({
        key: String(attempt.number),
        title: attempt.endTime > 0 ? `after attempt ${attempt.number}` : `attempt ${attempt.number}, running`,
        time: attempt.endTime > 0 ? attempt.endTime : attempt.startTime,
        data: attempt.data,
      })),
      ...(unit.activeAttempt === null
        ? [{ key: "now", title: "current", time: unit.createdTime, data: unit.data }]
        : []),
    ],
    [unit, attempts],
  );
  const newest = sources.at(-1)!;
  const [from, setFrom] = useState<string | null>(null);
  const [to, setTo] = useState<string | null>(null);
  const [view, setView] = useState<"changes" | "all">("changes");
  const right = sources.find(({ key }) => key === to) ?? newest;
  const left = sources.find(({ key }) => key === from) ?? sources.at(-2);
  const b = useMemo(() => linesOf(right.data), [right.data]);
  const a = useMemo(() => (left === undefined ? null : linesOf(left.data)), [left]);
  const rows = useMemo(() => (a === null ? [] : diffRows(a.lines, b.lines)), [a, b]);
  const isSame = rows.every((row) => row.left?.kind === "same" && row.right?.kind === "same");
  const pick = (label: string, value: string, set: (key: string) => void): ReactNode => (
    <label className="pick">
      <span className="dim">{label}</span>
      <select value={value} onChange={(event) => set(event.target.value)}>
        {sources.map(({ key, title }) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
  const whole = b.lines.join("\n");
  const single = left === undefined || a === null;
  const shown = single ? [] : view === "all" || isSame ? rows : around(rows, 3);
  return (
    <section className="card df" aria-label="Data">
      <header>
        <h2>Data</h2>
        <span className="grow" />
        {!single && (
          <>
            {pick("from", left.key, setFrom)}
            {pick("to", right.key, setTo)}
            <div className="seg sm" role="group" aria-label="Show">
              {(["changes", "all"] as const).map((one) => (
                <button key={one} type="button" aria-pressed={view === one} onClick={() => setView(one)}>
                  {one === "changes" ? "Changes" : "All"}
                </button>
              ))}
            </div>
          </>
        )}
        <CopyButton text={whole} quiet />
      </header>
      {!b.lossless && (
        <p className="note">
          This data is CBOR. Bytes are shown as base64, and values that JSON does not have as the closest JSON
          value.
        </p>
      )}
      {single || isSame ? (
        <>
          {!single && <p className="note">No differences.</p>}
          <pre className="whole" tabIndex={0}>
            {visibleLines(b.lines.slice(0, maxLines).join("\n"))}
            {b.lines.length > maxLines &&
              `\n… ${plural(b.lines.length - maxLines, "more line")}; Copy copies all`}
          </pre>
        </>
      ) : (
        <>
          <div className="dh">
            <span>
              {left.title} <span className="dim">{clockTime(left.time)}</span>
            </span>
            <span>
              {right.title} <span className="dim">{clockTime(right.time)}</span>
            </span>
          </div>
          <Diff rows={shown.slice(0, maxLines)} />
        </>
      )}
    </section>
  );
}
