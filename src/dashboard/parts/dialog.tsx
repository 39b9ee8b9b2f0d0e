/** A native dialog: it keeps the focus, and Escape closes it. */
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { visible } from "../format.ts";
import { Trouble } from "./text.tsx";

export function Dialog(props: {
  title: ReactNode;
  onClose: () => void;
  className?: string;
  children: ReactNode;
  hideTitle?: boolean;
}): ReactNode {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const { onClose } = props;
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dlg ${props.className ?? ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <div className="dlg-in">
        <h2 id={id} className={props.hideTitle === true ? "sr" : undefined}>
          {props.title}
        </h2>
        {props.children}
      </div>
    </dialog>
  );
}

export interface Fact {
  readonly term: string;
  readonly text: ReactNode;
}

/**
 * A confirmation: the title says verb, count and object, the facts say what it affects, what it costs and how to undo it, and the
 * button repeats the title.
 */
export function Confirm(props: {
  title: string;
  lead?: ReactNode;
  facts: readonly Fact[];
  fields?: ReactNode;
  /** The text to type before the button is enabled. */
  typed?: string;
  danger?: boolean;
  also?: { label: string; run: () => Promise<void> | void } | undefined;
  run: () => Promise<void> | void;
  onClose: () => void;
}): ReactNode {
  const [words, setWords] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const start = async (work: () => Promise<void> | void): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await work();
      props.onClose();
    } catch (failed) {
      setError(sayError(failed));
      setBusy(false);
    }
  };
  // escaped, because characters that are not shown cannot be typed
  const typed = props.typed === undefined ? undefined : visible(props.typed);
  const isReady = typed === undefined || words === typed;
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      {props.lead}
      <dl>
        {props.facts.map(({ term, text }) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {props.fields}
      {typed !== undefined && (
        <label className="pace">
          Type <code>{typed}</code> to confirm
          <input value={words} onChange={(event) => setWords(event.target.value)} className="wide" />
        </label>
      )}
      {error !== null && <Trouble text={error} />}
      <footer>
        <button type="button" className="btn q" onClick={props.onClose}>
          Cancel <kbd>esc</kbd>
        </button>
        <span className="grow" />
        {props.also !== undefined && (
          <button
            type="button"
            className="btn"
            disabled={busy || !isReady}
            onClick={() => void start(props.also!.run)}
          >
            {props.also.label}
          </button>
        )}
        <button
          type="button"
          className={props.danger === true ? "btn p danger" : "btn p"}
          disabled={busy || !isReady}
          onClick={() => void start(props.run)}
        >
          {props.title}
        </button>
      </footer>
    </Dialog>
  );
}
