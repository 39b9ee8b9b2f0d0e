/** Why a unit failed: its error, with the lines of the job's own code first. */
import { useState, type ReactNode } from "react";
import type { AttemptRow } from "../../core/index.ts";
import { errorLine } from "../data/units.ts";
import { plural, visible, visibleLines } from "../format.ts";
import { StatusGlyph } from "./status.tsx";
import { CopyButton } from "./text.tsx";

/** Stack lines of Node and the worker framework say nothing about the job. */
const isOwn = (line: string): boolean =>
  !/node_modules|node:internal|\(node:|coordinate\/worker|dist\/worker|src\/worker/.test(line);

export function ErrorCard({ text, attempt }: { text: string; attempt: AttemptRow | null }): ReactNode {
  const headline = errorLine(text);
  const lines = text.split("\n").filter((line) => line.trim() !== "" && line.trim() !== headline);
  const [all, setAll] = useState(false);
  const own = lines.filter(isOwn);
  const shown = all ? lines : own.slice(0, 40);
  const hidden = lines.length - shown.length;
  return (
    <section className="card error" aria-label="Error">
      <header>
        <StatusGlyph status="failed" />
        <h2>{attempt === null ? "Error" : `Error of attempt ${attempt.number}`}</h2>
        <span className="grow" />
        <CopyButton text={text} quiet />
      </header>
      <div className="em">
        <code>{visible(headline)}</code>
      </div>
      {lines.length > 0 && (
        <pre tabIndex={0}>
          {shown.map((line, i) => (
            <span key={i} className={isOwn(line) ? "own" : "dim"}>
              {visibleLines(line)}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
      {hidden > 0 && (
        <p className="fold">
          <button type="button" className="plain l" onClick={() => setAll(true)}>
            {plural(hidden, "more line")}
          </button>
        </p>
      )}
    </section>
  );
}
