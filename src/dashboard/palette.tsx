/** The command palette: finds pages, work specs, namespaces and actions by a few letters; any other text is searched among units. */
import { useMemo, useState, type KeyboardEvent, type ReactNode } from "react";
import { setToken } from "./data/connection.ts";
import { live } from "./data/live.ts";
import { useNamespaces } from "./data/workers.ts";
import { nsTitle, visible } from "./format.ts";
import { useHere } from "./here.ts";
import { Dialog } from "./parts/dialog.tsx";
import { Icon, type IconName } from "./parts/icon.tsx";
import { isHeld, usePausing } from "./parts/pausing.ts";
import { Name } from "./parts/text.tsx";
import { go } from "./route.ts";
import { useGroups } from "./shell.tsx";
import { switchTheme } from "./theme.ts";

interface Choice {
  readonly key: string;
  readonly icon: IconName;
  readonly text: string;
  readonly note: string;
  readonly run: () => void;
}

/** Matches letters in order, anywhere; words that begin with the typed text score highest. */
function score(text: string, typed: string): number {
  const within = text.toLowerCase();
  const wanted = typed.toLowerCase();
  if (wanted === "") return 1;
  const at = within.indexOf(wanted);
  if (at >= 0) return at === 0 ? 4 : /[\s._/-]/.test(within[at - 1] ?? "") ? 3 : 2;
  let from = 0;
  for (const letter of wanted) {
    from = within.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 1;
}

const max = 12;

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }): ReactNode {
  const { ns, route, look, may, session } = useHere();
  const pause = usePausing();
  const namespaces = useNamespaces();
  const groups = useGroups();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const all = useMemo<Choice[]>(() => {
    const specs = look.specs ?? [];
    return [
      ...groups
        .flatMap(({ entries }) => entries)
        .map(({ page, title, icon }): Choice => ({
          key: `page ${page}`,
          icon,
          text: title,
          note: "page",
          run: () => go({ ns, page }),
        })),
      ...specs.map(({ name }): Choice => ({
        key: `spec ${name}`,
        icon: "flow",
        text: name,
        note: "work spec",
        run: () => go({ ns, page: "spec", spec: name }),
      })),
      ...(may("write")
        ? specs.flatMap((spec): Choice[] => [
            {
              key: `pause ${spec.name}`,
              icon: "paused",
              text: `${isHeld(spec) ? "Resume" : "Pause"} ${spec.name}`,
              note: "action",
              run: () => pause(spec, !isHeld(spec)),
            },
            {
              key: `add ${spec.name}`,
              icon: "plus",
              text: `Add units to ${spec.name}`,
              note: "action",
              run: () => go({ ns, page: "units", spec: spec.name, filters: { add: "1" } }),
            },
          ])
        : []),
      ...(namespaces.data ?? []).map(({ name }): Choice => ({
        key: `namespace ${name}`,
        icon: "updown",
        text: nsTitle(name),
        note: "namespace",
        run: () => go({ ns: name, page: "home" }),
      })),
      {
        key: "theme",
        icon: "theme",
        text: "Switch between dark and light",
        note: "action",
        run: switchTheme,
      },
      {
        key: "hold",
        icon: "paused",
        text: live.held ? "Resume live updates" : "Pause live updates",
        note: "action",
        run: () => live.hold(!live.held),
      },
      { key: "keys", icon: "more", text: "Keyboard shortcuts", note: "help", run: onHelp },
      ...(session.secured
        ? [{ key: "out", icon: "x", text: "Sign out", note: "action", run: () => setToken(null) } as const]
        : []),
    ];
  }, [ns, groups, look.specs, namespaces.data, may, session.secured, pause, onHelp]);
  const found = all
    .map((choice) => ({ choice, score: score(choice.text, typed) }))
    .filter((one) => one.score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ choice }) => choice)
    .slice(0, max);
  const spec = route.spec ?? look.specs?.[0]?.name;
  const choices: Choice[] =
    typed === "" || spec === undefined
      ? found
      : [
          ...found,
          {
            key: "units",
            icon: "search",
            text: `Units of ${spec} with names that begin with ${typed}`,
            note: "search",
            run: () => go({ ns, page: "units", spec, filters: { prefix: typed } }),
          },
        ];
  const chosen = Math.min(at, choices.length - 1);
  const run = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    onClose();
    choice.run();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt((chosen + 1) % choices.length);
    else if (event.key === "ArrowUp") setAt((chosen - 1 + choices.length) % choices.length);
    else if (event.key === "Enter") run(choices[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search or run a command" hideTitle onClose={onClose} className="palette">
      <div className="pal-in" onKeyDown={onKey}>
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Search or run a command"
          aria-expanded
          aria-controls="palette-list"
          aria-activedescendant={`choice-${chosen}`}
          autoFocus
          placeholder="Search pages, work specs, namespaces and actions"
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setAt(0);
          }}
        />
        <kbd>esc</kbd>
      </div>
      <ul id="palette-list" role="listbox" aria-label="Results">
        {choices.map((choice, i) => (
          <li
            key={choice.key}
            id={`choice-${i}`}
            role="option"
            aria-selected={i === chosen}
            onClick={() => run(choice)}
            onPointerMove={() => setAt(i)}
          >
            <Icon name={choice.icon} />
            <Name text={choice.text} max={70} />
            <span className="dim">{visible(choice.note)}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
