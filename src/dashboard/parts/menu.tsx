/** A button that opens a short list of actions or choices. */
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface MenuItem {
  readonly key: string;
  readonly label: ReactNode;
  readonly note?: ReactNode;
  readonly danger?: boolean;
  readonly selected?: boolean;
  readonly run: () => void;
}

export function Menu(props: {
  button: ReactNode;
  /** What the list is for; also the label of a button that shows only an icon. */
  label: string;
  iconOnly?: boolean;
  className?: string;
  items: readonly MenuItem[];
  right?: boolean;
  onOpen?: () => void;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const typed = useRef({ text: "", at: 0 });
  useEffect(() => {
    if (!isOpen) return undefined;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (event: Event): void => {
      if (event.target instanceof Node && box.current?.contains(event.target) === false) setOpen(false);
    };
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [isOpen]);
  const onKey = (event: KeyboardEvent): void => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.findIndex((item) => item === document.activeElement);
    if (event.key === "Escape") {
      setOpen(false);
      button.current?.focus();
    } else if (event.key === "Tab") {
      // the focus leaves the list
      setOpen(false);
      return;
    } else if (event.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
    else if (event.key === "ArrowUp") items[(at - 1 + items.length) % items.length]?.focus();
    else if (event.key === "Home") items[0]?.focus();
    else if (event.key === "End") items.at(-1)?.focus();
    else if (
      event.key.length === 1 &&
      event.key !== " " &&
      !event.ctrlKey &&
      !event.metaKey &&
      !event.altKey
    ) {
      // the first item that begins with the letters typed in quick succession
      const now = Date.now();
      const before = now - typed.current.at < 1000 ? typed.current.text : "";
      typed.current = { text: before + event.key.toLowerCase(), at: now };
      items.find((item) => item.textContent.trim().toLowerCase().startsWith(typed.current.text))?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="menu" ref={box} onKeyDown={isOpen ? onKey : undefined}>
      <button
        ref={button}
        type="button"
        className={props.className}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        aria-label={props.iconOnly === true ? props.label : undefined}
        title={props.label}
        onClick={() => {
          if (!isOpen) props.onOpen?.();
          setOpen(!isOpen);
        }}
      >
        {props.button}
      </button>
      {isOpen && (
        <div
          className={props.right === true ? "menu-list right" : "menu-list"}
          role="menu"
          id={id}
          aria-label={props.label}
        >
          {props.items.map(({ key, label, note, danger, selected, run }) => (
            <button
              key={key}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={`${danger === true ? "t-failed" : ""} ${selected === true ? "on" : ""}`}
              onClick={() => {
                setOpen(false);
                button.current?.focus();
                run();
              }}
            >
              <span>{label}</span>
              {note !== undefined && <span className="dim">{note}</span>}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
