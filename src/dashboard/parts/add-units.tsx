/** Adds units from pasted lines or a dropped file. Lines that cannot be parsed are listed before anything is added. */
import { useEffect, useMemo, useRef, useState, type DragEvent, type ReactNode } from "react";
import { addUnits, readFile, readUnits, type AddProgress, type LineError } from "../data/adding.ts";
import { sayError } from "../data/connection.ts";
import { count, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Dialog } from "./dialog.tsx";
import { Name, Trouble } from "./text.tsx";

const example = '{"name": "a", "data": {"url": "https://example.org"}, "priority": 5}';

export function AddUnits({
  ns,
  spec,
  onClose,
}: {
  ns: string;
  spec: string;
  onClose: () => void;
}): ReactNode {
  const { changed } = useHere();
  const [text, setText] = useState("");
  const [source, setSource] = useState("");
  const [over, setOver] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [progress, setProgress] = useState<AddProgress | null>(null);
  const [state, setState] = useState<"writing" | "adding" | "done">("writing");
  const stop = useRef<AbortController | null>(null);
  // nobody would see how far it gets, or what fails
  useEffect(() => () => stop.current?.abort(), []);
  const read = useMemo(() => readUnits(text), [text]);
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    try {
      setText(await readFile(file));
      setSource(file.name);
      setError(null);
    } catch (failed) {
      setError(`${file.name} cannot be read: ${sayError(failed)}`);
    }
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer.files[0]);
  };
  const add = async (): Promise<void> => {
    stop.current = new AbortController();
    setState("adding");
    setError(null);
    try {
      setProgress(await addUnits(ns, spec, read.units, setProgress, stop.current.signal));
      setState("done");
    } catch (failed) {
      setError(sayError(failed));
      setState("writing");
    }
    changed("units", "counts", "explain");
  };
  const errors: readonly LineError[] = [...read.errors, ...(progress?.errors ?? [])];
  const isPart = read.errors.length > 0 && read.units.length > 0;
  return (
    <Dialog
      title={
        <>
          Add units to <Name text={spec} max={40} />
        </>
      }
      onClose={onClose}
      className="wide"
    >
      {state === "done" && progress !== null ? (
        <>
          <p className="added" role="status">
            <b>{plural(progress.done - progress.errors.length, "unit")} stored</b>, {count(progress.created)}{" "}
            of them new
            {progress.done < read.units.length && `; ${count(read.units.length - progress.done)} not added`}.
          </p>
          <Errors errors={errors} />
          <footer>
            <span className="grow" />
            <button type="button" className="btn p" onClick={onClose} autoFocus>
              Close
            </button>
          </footer>
        </>
      ) : (
        <>
          <p className="mid">
            One unit per line: a name, or JSON such as <code>{example}</code>. A unit that exists gets the new
            data.
          </p>
          <div
            className={over ? "drop over" : "drop"}
            onDragOver={(event) => {
              event.preventDefault();
              setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={drop}
          >
            <textarea
              aria-label="Units, one per line"
              className="mono"
              rows={10}
              spellCheck={false}
              placeholder={"Paste lines here, or drop a file (.jsonl, .txt, .gz)"}
              // a large file is not shown in full: a summary is below
              value={text.length > 200_000 ? `${text.slice(0, 2000)}\n…` : text}
              readOnly={text.length > 200_000 || state === "adding"}
              onChange={(event) => {
                setText(event.target.value);
                setSource("");
              }}
            />
          </div>
          <p className="dim" aria-live="polite">
            <label className="l file">
              Choose a file
              <input type="file" className="sr" onChange={(event) => void take(event.target.files?.[0])} />
            </label>{" "}
            {source !== "" && `${visible(source)}: `}
            {text !== "" &&
              `${plural(read.units.length, read.asNames ? "name" : "unit")} read${read.errors.length > 0 ? `, ${plural(read.errors.length, "invalid line")}` : ""}`}
          </p>
          <Errors errors={errors} />
          {state === "adding" && (
            <div className="adding">
              <span
                className="pg"
                role="progressbar"
                aria-label="Adding"
                aria-valuemin={0}
                aria-valuemax={read.units.length}
                aria-valuenow={progress?.done ?? 0}
              >
                <i style={{ width: `${((progress?.done ?? 0) / Math.max(1, read.units.length)) * 100}%` }} />
              </span>
              {count(progress?.done ?? 0)} of {count(read.units.length)}
            </div>
          )}
          {error !== null && <Trouble text={error} />}
          <footer>
            <button type="button" className="btn q" onClick={onClose}>
              Cancel <kbd>esc</kbd>
            </button>
            <span className="grow" />
            {state === "adding" ? (
              <button type="button" className="btn" onClick={() => stop.current?.abort()}>
                Stop
              </button>
            ) : (
              <button
                type="button"
                className="btn p"
                disabled={read.units.length === 0}
                onClick={() => void add()}
              >
                Add {plural(read.units.length, isPart ? "valid unit" : "unit")}
              </button>
            )}
          </footer>
        </>
      )}
    </Dialog>
  );
}

const max = 100;

function Errors({ errors }: { errors: readonly LineError[] }): ReactNode {
  if (errors.length === 0) return null;
  return (
    <ul className="line-errors" aria-label="Lines with errors" tabIndex={0}>
      {errors.slice(0, max).map(({ line, message }, i) => (
        <li key={i}>
          <b>Line {count(line)}</b> <span>{visible(message)}</span>
        </li>
      ))}
      {errors.length > max && <li>and {count(errors.length - max)} more</li>}
    </ul>
  );
}
