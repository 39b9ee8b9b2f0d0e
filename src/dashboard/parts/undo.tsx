/** A reversible action is done at once, and can be undone for ten seconds. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { visible } from "../format.ts";
import { Icon } from "./icon.tsx";
import { Trouble } from "./text.tsx";

interface Reversible {
  readonly did: string;
  readonly act: () => Promise<unknown>;
  readonly back: () => Promise<unknown>;
  readonly after: () => void;
}

export interface Undo {
  readonly done: Reversible | null;
  readonly error: string | null;
  readonly run: (action: Reversible) => Promise<void>;
  readonly takeBack: () => Promise<void>;
}

const waysBackMs = 10_000;

export function useUndo(): Undo {
  const [done, setDone] = useState<Reversible | null>(null);
  const [error, setError] = useState<string | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const attempt = async (
    work: () => Promise<unknown>,
    next: Reversible | null,
    after: () => void,
  ): Promise<void> => {
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
  };
  return {
    done,
    error,
    run: (action) => attempt(action.act, action, action.after),
    takeBack: () => (done === null ? Promise.resolve() : attempt(done.back, null, done.after)),
  };
}

export function UndoBar({ undo: { done, error, takeBack } }: { undo: Undo }): ReactNode {
  if (error !== null) return <Trouble text={error} />;
  if (done === null) return null;
  return (
    <p className="undo" role="status">
      <Icon name="tick" />
      <span>{visible(done.did)}</span>
      <button type="button" className="btn s" onClick={() => void takeBack()}>
        Undo
      </button>
    </p>
  );
}
