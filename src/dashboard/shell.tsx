/** The rail, the top bar, and the tabs on a phone. */
import { useEffect, type ReactNode } from "react";
import { useJobQueues } from "./data/jobs.ts";
import { live, useLive } from "./data/live.ts";
import { setToken } from "./data/connection.ts";
import { useNamespaces } from "./data/workers.ts";
import { duration, nsTitle, plural, shortCount } from "./format.ts";
import { useHere } from "./here.ts";
import { Icon, type IconName } from "./parts/icon.tsx";
import { Menu } from "./parts/menu.tsx";
import { Link, Name, useNow } from "./parts/text.tsx";
import { go, type PageName } from "./route.ts";
import { switchTheme } from "./theme.ts";

export interface Entry {
  readonly page: PageName;
  readonly title: string;
  readonly icon: IconName;
}

const groups: readonly { readonly title: string; readonly entries: readonly Entry[] }[] = [
  {
    title: "Work",
    entries: [
      { page: "home", title: "Home", icon: "home" },
      { page: "flow", title: "Flow", icon: "flow" },
      { page: "units", title: "Units", icon: "units" },
    ],
  },
  {
    title: "Control",
    entries: [
      { page: "jobs", title: "Jobs", icon: "jobs" },
      { page: "schedules", title: "Schedules", icon: "sched" },
      { page: "batches", title: "Batches", icon: "batches" },
      { page: "limits", title: "Limits", icon: "limits" },
      { page: "queues", title: "Queues", icon: "queues" },
      { page: "locks", title: "Locks", icon: "lock" },
    ],
  },
  {
    title: "Operations",
    entries: [
      { page: "workers", title: "Workers", icon: "workers" },
      { page: "what-if", title: "What if", icon: "cont" },
      { page: "system", title: "System", icon: "system" },
      { page: "audit", title: "Audit log", icon: "audit" },
      { page: "tokens", title: "Tokens", icon: "key" },
    ],
  },
];

/** Pages that the rail shows as part of another page. */
const parentPage: Partial<Record<PageName, PageName>> = { spec: "home", unit: "units" };

/** Pages for administrators of a daemon with tokens. */
const forAdmins: readonly PageName[] = ["audit", "tokens"];

/** The page of jobs appears only when there is a work spec for jobs. */
export function useGroups(): readonly { readonly title: string; readonly entries: readonly Entry[] }[] {
  const { session } = useHere();
  const queues = useJobQueues();
  const isAdmin = session.secured && session.everywhere.includes("admin");
  return groups.map((group) => ({
    ...group,
    entries: group.entries.filter(
      ({ page }) => (page !== "jobs" || queues.length > 0) && (isAdmin || !forAdmins.includes(page)),
    ),
  }));
}

export function Rail({ onHelp }: { onHelp: () => void }): ReactNode {
  const { ns, route, look, session } = useHere();
  const current = parentPage[route.page] ?? route.page;
  const counts: Partial<Record<PageName, ReactNode>> = {
    home: look.attention.length > 0 && (
      <span
        className="c bad"
        title={`${plural(look.attention.length, "work spec")} need${look.attention.length === 1 ? "s" : ""} attention`}
      >
        {look.attention.length}
      </span>
    ),
    units: look.units > 0 && <span className="c">{shortCount(look.units)}</span>,
    workers: look.workers !== undefined && look.workers > 0 && (
      <span className="c">{shortCount(look.workers)}</span>
    ),
  };
  return (
    <aside className="rail">
      <Namespaces />
      <nav aria-label="Pages">
        {useGroups().map(({ title, entries }) => (
          <div key={title}>
            <h3>{title}</h3>
            {entries.map((entry) => (
              <Link
                key={entry.page}
                to={{ ns, page: entry.page }}
                {...(current === entry.page && { current: true })}
              >
                <Icon name={entry.icon} large />
                <span>{entry.title}</span>
                {counts[entry.page]}
              </Link>
            ))}
          </div>
        ))}
      </nav>
      <div className="foot">
        <div>
          {session.store} · {session.version}
        </div>
        <div>
          {session.secured ? (
            <>
              <span title={`token ${session.token}`}>{session.scopes.at(-1) ?? "no access"}</span>
              <button type="button" className="plain" onClick={() => setToken(null)}>
                Sign out
              </button>
            </>
          ) : (
            "no sign-in required"
          )}
        </div>
        <div>
          <button type="button" className="plain" onClick={onHelp}>
            <kbd>?</kbd> shortcuts
          </button>
        </div>
      </div>
    </aside>
  );
}

function Namespaces({ top }: { top?: boolean }): ReactNode {
  const { ns, route } = useHere();
  const namespaces = useNamespaces();
  const names = namespaces.data?.map(({ name }) => name) ?? [];
  const all = names.includes(ns) ? names : [ns, ...names];
  return (
    <div className={top === true ? "ns-top" : undefined} data-menu="namespaces">
      <Menu
        className="ns"
        label="Namespace"
        button={
          <>
            <span className="sr">Namespace </span>
            <b>
              <Name text={nsTitle(ns)} max={40} />
            </b>
            <Icon name="updown" />
          </>
        }
        items={all.map((name) => ({
          key: name,
          label: <Name text={nsTitle(name)} max={40} />,
          selected: name === ns,
          // the work spec or unit on the screen does not exist in the other namespace
          run: () => go({ ns: name, page: route.spec === undefined ? route.page : "home" }),
        }))}
      />
    </div>
  );
}

export const titles: Readonly<Record<PageName, string>> = {
  home: "Home",
  flow: "Flow",
  spec: "Work specs",
  units: "Units",
  unit: "Units",
  jobs: "Jobs",
  schedules: "Schedules",
  batches: "Batches",
  limits: "Limits",
  queues: "Queues",
  locks: "Locks",
  workers: "Workers",
  "what-if": "What if",
  system: "System",
  audit: "Audit log",
  tokens: "Tokens",
};

export function TopBar({ onFind }: { onFind: () => void }): ReactNode {
  const { ns, route } = useHere();
  const { page, spec, unit } = route;
  return (
    <header className="top">
      <Namespaces top />
      <div className="crumbs">
        {page === "spec" && spec !== undefined ? (
          <>
            <Link to={{ ns, page: "home" }}>Work specs</Link>
            <span>/</span>
            <b>
              <Name text={spec} max={60} />
            </b>
          </>
        ) : page === "unit" && spec !== undefined && unit !== undefined ? (
          <>
            <Link to={{ ns, page: "units", spec }}>Units</Link>
            <span>/</span>
            <Link to={{ ns, page: "spec", spec }}>
              <Name text={spec} max={30} />
            </Link>
            <span>/</span>
            <b>
              <Name text={unit} max={50} mono />
            </b>
          </>
        ) : (
          <b>{titles[page]}</b>
        )}
      </div>
      <div className="grow" />
      <button type="button" className="find" onClick={onFind}>
        <Icon name="search" />
        <span>Search</span>
        <kbd>⌘K</kbd>
      </button>
      <LiveSign />
      <button
        type="button"
        className="icon-btn theme"
        aria-label="Switch between dark and light"
        title="Switch between dark and light (t)"
        onClick={switchTheme}
      >
        <Icon name="theme" large />
      </button>
    </header>
  );
}

/** The dot is full while the stream is live and hollow otherwise; then the text says how old the data is. */
function LiveSign(): ReactNode {
  const { look } = useHere();
  const { state } = useLive();
  useNow();
  const old = Date.now() - look.updatedAt;
  const words =
    state === "held"
      ? "Paused"
      : state === "live" && old < 15_000
        ? "Live"
        : look.updatedAt === 0
          ? "Connecting"
          : old < 15_000
            ? "Polling"
            : `${duration(Math.floor(old / 1000) * 1000)} old`;
  return (
    <button
      type="button"
      className={`live ${words === "Live" ? "" : "off"}`}
      title={
        state === "held"
          ? "Live updates are paused. Press Space to resume."
          : "The page updates live. Press Space to pause."
      }
      onClick={() => live.hold(!live.held)}
    >
      <i />
      <span>{words}</span>
    </button>
  );
}

export function BottomTabs(): ReactNode {
  const { ns, route } = useHere();
  const current = parentPage[route.page] ?? route.page;
  const shown = useGroups().flatMap(({ entries }) => entries);
  const tabs = shown.filter(({ page }) => ["home", "flow", "units", "workers"].includes(page));
  const more = shown.filter((entry) => !tabs.includes(entry));
  useEffect(() => {
    // in braces: scrollTo returns a promise in some browsers, which an effect must not return
    scrollTo(0, 0);
  }, [route.page, route.spec, route.unit]);
  return (
    <nav className="tabs" aria-label="Pages, short">
      {tabs.map((entry) => (
        <Link
          key={entry.page}
          to={{ ns, page: entry.page }}
          {...(current === entry.page && { current: true })}
        >
          <Icon name={entry.icon} large />
          {entry.title}
        </Link>
      ))}
      <Menu
        label="More pages"
        className={more.some(({ page }) => page === current) ? "on" : ""}
        right
        button={
          <>
            <Icon name="more" large />
            More
          </>
        }
        items={[
          ...more.map(({ page, title }) => ({
            key: page,
            label: title,
            selected: page === current,
            run: () => go({ ns, page }),
          })),
          { key: "theme", label: "Dark or light theme", run: switchTheme },
        ]}
      />
    </nav>
  );
}
