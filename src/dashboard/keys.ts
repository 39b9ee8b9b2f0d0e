/** Keyboard shortcuts, the same on every page. They are ignored while the user types or a dialog is open. */
import { useEffect, useRef } from "react";
import { switchTheme } from "./theme.ts";
import { go, type PageName, type Route } from "./route.ts";
import { stepRange } from "./range.ts";

export const keys: readonly { readonly keys: string; readonly does: string }[] = [
  { keys: "/", does: "Search" },
  { keys: "⌘K or Ctrl K", does: "Search or run a command" },
  { keys: "g h", does: "Go to Home" },
  { keys: "g f", does: "Go to Flow" },
  { keys: "g u", does: "Go to Units" },
  { keys: "g w", does: "Go to Workers" },
  { keys: "g j · g c · g b · g m", does: "Jobs, schedules (clock), batches, limits (maximum)" },
  { keys: "g q · g l · g i · g s", does: "Queues, locks, what if, system" },
  { keys: "n", does: "Switch namespace" },
  { keys: "j k", does: "Next row, previous row" },
  { keys: "x", does: "Select the row" },
  { keys: "Enter", does: "Open the row" },
  { keys: "u", does: "Undo, while it is offered" },
  { keys: "Space", does: "Pause or resume live updates" },
  { keys: "[ ]", does: "Shorter or longer time range" },
  { keys: "t", does: "Switch between dark and light" },
  { keys: "?", does: "Show keyboard shortcuts" },
  { keys: "Esc", does: "Close" },
];

const places: Readonly<Record<string, PageName>> = {
  h: "home",
  f: "flow",
  u: "units",
  w: "workers",
  j: "jobs",
  c: "schedules",
  b: "batches",
  m: "limits",
  q: "queues",
  l: "locks",
  i: "what-if",
  s: "system",
};

interface Does {
  palette(): void;
  help(): void;
  hold(): void;
  undo(): void;
}

const isWriting = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
  !(target instanceof HTMLInputElement && /^(checkbox|radio|button)$/.test(target.type));

/** j and k move the focus through the rows marked with data-row. */
function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next =
    rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  next?.focus();
}

export function useKeys(route: Route, ns: string, does: Does): void {
  // when "g" was pressed; a ref, to survive renders between the two keys
  const goes = useRef(0);
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        does.palette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isWriting(event.target)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      const page = Date.now() - goes.current < 1500 ? places[event.key] : undefined;
      goes.current = 0;
      if (page !== undefined) {
        go({ ns, page, ...(page === "units" && route.spec !== undefined && { spec: route.spec }) });
        return;
      }
      switch (event.key) {
        case "g":
          goes.current = Date.now();
          return;
        case "/": {
          const search = document.querySelector<HTMLElement>("[data-search]");
          if (search === null) does.palette();
          else search.focus();
          break;
        }
        case "?":
          does.help();
          break;
        case "n":
          // the menu in the rail or in the top bar, whichever is visible
          [...document.querySelectorAll<HTMLElement>("[data-menu=namespaces] > .menu > button")]
            .find((button) => button.offsetParent !== null)
            ?.click();
          break;
        case "u":
          does.undo();
          break;
        case "t":
          switchTheme();
          break;
        case "[":
        case "]":
          stepRange(route, event.key === "]" ? 1 : -1);
          break;
        case "j":
          moveRow(1);
          break;
        case "k":
          moveRow(-1);
          break;
        case "x":
          document.activeElement
            ?.closest("[data-row]")
            ?.querySelector<HTMLInputElement>("input[type=checkbox]")
            ?.click();
          return;
        case "Enter": {
          const row =
            event.target instanceof HTMLElement && event.target.matches("[data-row]") ? event.target : null;
          row?.querySelector<HTMLAnchorElement>("a[href]")?.click();
          return;
        }
        case " ":
          if (event.target instanceof HTMLElement && /^(BUTTON|A|INPUT|SUMMARY)$/.test(event.target.tagName))
            return;
          does.hold();
          break;
        default:
          return;
      }
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
