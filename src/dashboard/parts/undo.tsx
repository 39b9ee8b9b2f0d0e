/** An action is done at once, and most can be undone for ten seconds. There is one at a time, on whatever page it was done. */
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { middle, visible } from "../format.ts";
import { Icon } from "./icon.tsx";
import { Trouble } from "./text.tsx";

export interface Reversible {
  readonly did: string;
  readonly act: () => Promise<unknown>;
  /** Null when there is no way back. */
  readonly back: (() => Promise<unknown>) | null;
  readonly after: () => void;
}

export interface Undo {
  readonly done: Reversible | null;
  readonly error: string | null;
  readonly run: (action: Reversible) => Promise<void>;
  readonly takeBack: () => Promise<void>;
  /** Hides the error. */
  readonly dismiss: () => void;
}

const waysBackMs = 10_000;

export function useUndo(): Undo {
  const [done, setDone] = useState<Reversible | null>(null);
  const [error, setError] = useState<string | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const attempt = useCallback(
    async (work: () => Promise<unknown>, next: Reversible | null, after: () => void): Promise<void> => {
      clearTimeout(timer.current);
      setError(null);
      try {
        await work();
        setDone(next);
        if (next !== null) timer.current = setTimeout(() => setDone(null), waysBackMs);
      } catch (failed) {
        setDone(null);
        setError(sayError(failed));
      }
      after();
    },
    [],
  );
  return useMemo(
    () => ({
      done,
      error,
      run: (action) => attempt(action.act, action, action.after),
      takeBack: async () => {
        const { back = null, after } = done ?? {};
        if (back !== null && after !== undefined) await attempt(back, null, after);
      },
      dismiss: () => setError(null),
    }),
    [done, error, attempt],
  );
}

/** Floats over the page: what the user has just clicked stays where it is. */
export function UndoBar({ undo: { done, error, takeBack, dismiss } }: { undo: Undo }): ReactNode {
  if (error !== null)
    return (
      <div className="undo">
        <Trouble text={error} />
        <button type="button" className="icon-btn" aria-label="Dismiss" onClick={dismiss}>
          <Icon name="x" />
        </button>
      </div>
    );
  if (done === null) return null;
  return (
    <p className="undo" role="status">
      <Icon name="tick" />
      <span>{middle(visible(done.did), 240)}</span>
      {done.back !== null && (
        <button type="button" className="btn s" onClick={() => void takeBack()}>
          Undo <kbd>u</kbd>
        </button>
      )}
    </p>
  );
}
