/** Small pieces of text: names, counts with links, times, copy buttons. */
import { useState, useSyncExternalStore, type ReactNode } from "react";
import type { WorkUnitStatus } from "../../core/index.ts";
import { daemonNow } from "../data/session.ts";
import { ago, count, duration, exactTime, middle, visible } from "../format.ts";
import { hrefOf, type Route } from "../route.ts";
import { Icon } from "./icon.tsx";

export function Link(props: {
  to: Route;
  className?: string;
  title?: string;
  label?: string;
  /** The link leads to the current page. */
  current?: boolean;
  children: ReactNode;
}): ReactNode {
  return (
    <a
      href={hrefOf(props.to)}
      className={props.className}
      title={props.title}
      aria-label={props.label}
      aria-current={props.current === true ? "page" : undefined}
    >
      {props.children}
    </a>
  );
}

/** Text of users: invisible characters are escaped, and long text is cut in the middle. */
export function Name({ text, max = 64, mono }: { text: string; max?: number; mono?: boolean }): ReactNode {
  const whole = visible(text);
  const shown = whole === "" ? "(empty name)" : middle(whole, max);
  return (
    <span
      className={mono === true ? "mono" : undefined}
      title={shown === whole ? undefined : whole.slice(0, 4096)}
      dir="ltr"
    >
      {shown}
    </span>
  );
}

/** A count of units, with a link to them; zero has no link. */
export function UnitCount(props: {
  ns: string;
  spec: string;
  status: WorkUnitStatus;
  value: number;
  className?: string;
}): ReactNode {
  const { ns, spec, status, value, className = "" } = props;
  if (value === 0) return <span className="z">0</span>;
  return (
    <Link to={{ ns, page: "units", spec, filters: { status } }} className={`n ${className}`}>
      {count(value)}
    </Link>
  );
}

let ticks = 0;
const tickListeners = new Set<() => void>();
let ticker: ReturnType<typeof setInterval> | undefined;

function onTick(listener: () => void): () => void {
  tickListeners.add(listener);
  ticker ??= setInterval(() => {
    ticks += 1;
    if (!document.hidden) for (const one of tickListeners) one();
  }, 1000);
  return () => {
    tickListeners.delete(listener);
    if (tickListeners.size > 0) return;
    clearInterval(ticker);
    ticker = undefined;
  };
}

/** The current time; renders again every second, for ages. */
export function useNow(): number {
  useSyncExternalStore(onTick, () => ticks);
  return daemonNow();
}

/** How long ago; the exact time is the tooltip. */
export function Ago({ time, none = "never" }: { time: number; none?: string }): ReactNode {
  const now = useNow();
  if (time === 0) return <span className="z">{none}</span>;
  return (
    <time dateTime={exactTime(time)} title={exactTime(time)}>
      {time > now + 1000 ? `in ${duration(time - now)}` : ago(now - time)}
    </time>
  );
}

/** Only the age: 2 h 14 m. */
export function Age({ since }: { since: number }): ReactNode {
  const now = useNow();
  return (
    <time dateTime={exactTime(since)} title={exactTime(since)}>
      {duration(Math.floor(Math.max(0, now - since) / 1000) * 1000)}
    </time>
  );
}

export function CopyButton({
  text,
  label = "Copy",
  quiet,
}: {
  text: string;
  label?: string;
  quiet?: boolean;
}): ReactNode {
  const [copied, setCopied] = useState(false);
  // browsers have it only on pages of HTTPS or localhost; on others the text can be selected
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard === undefined) return null;
  const copy = (): void => {
    clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button type="button" className={`btn s ${quiet === true ? "q" : ""}`} onClick={copy} aria-live="polite">
      <Icon name={copied ? "tick" : "copy"} />
      {copied ? "Copied" : label}
    </button>
  );
}

/** A command for the terminal, ready to copy. */
export function Command({ text, later }: { text: string; later?: boolean }): ReactNode {
  return (
    <div className={later === true ? "cmd later" : "cmd"}>
      <code>
        <span className="dim">$</span> {visible(text)}
      </code>
      <CopyButton text={text} />
    </div>
  );
}

/** An error message, in the place of the data that could not be read. */
export function Trouble({ text }: { text: string }): ReactNode {
  return (
    <p className="trouble" role="alert">
      <Icon name="failed" />
      {text}
    </p>
  );
}
