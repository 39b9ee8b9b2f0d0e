/** The application shell: signs in, chooses the namespace, and renders one page between the rail and the top bar. */
import { useQueryClient } from "@tanstack/react-query";
import {
  lazy,
  memo,
  Suspense,
  useDeferredValue,
  useEffect,
  useMemo,
  useState,
  type ComponentType,
  type ReactNode,
} from "react";
import { isForbidden, isUnauthorized, sayError, useToken } from "./data/connection.ts";
import { takeCounts } from "./data/counts.ts";
import { live, useFollow } from "./data/live.ts";
import { useLook } from "./data/look.ts";
import { useSession, type Session } from "./data/session.ts";
import { useNamespaces } from "./data/workers.ts";
import { nsTitle, visible } from "./format.ts";
import { HereContext, type Here } from "./here.ts";
import { Help } from "./help.tsx";
import { useKeys } from "./keys.ts";
import { Home } from "./pages/home.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { Palette } from "./palette.tsx";
import { ErrorBoundary } from "./parts/error-boundary.tsx";
import { IconShapes } from "./parts/icon.tsx";
import { Trouble } from "./parts/text.tsx";
import { go, useRoute, type PageName, type Route } from "./route.ts";
import { Operations } from "./parts/operations.tsx";
import { UndoBar, useUndo } from "./parts/undo.tsx";
import { BottomTabs, Rail, titles, TopBar } from "./shell.tsx";

const lazyPage = (load: () => Promise<{ default: ComponentType }>): ComponentType => lazy(load);

const pageOf: Readonly<Record<PageName, ComponentType>> = {
  home: Home,
  flow: lazyPage(() => import("./pages/flow.tsx")),
  spec: lazyPage(() => import("./pages/spec.tsx")),
  units: lazyPage(() => import("./pages/units.tsx")),
  unit: lazyPage(() => import("./pages/unit.tsx")),
  jobs: lazyPage(() => import("./pages/jobs.tsx")),
  schedules: lazyPage(() => import("./pages/schedules.tsx")),
  batches: lazyPage(() => import("./pages/batches.tsx")),
  limits: lazyPage(() => import("./pages/limits.tsx")),
  queues: lazyPage(() => import("./pages/queues.tsx")),
  locks: lazyPage(() => import("./pages/locks.tsx")),
  workers: lazyPage(() => import("./pages/workers.tsx")),
  "what-if": lazyPage(() => import("./pages/what-if.tsx")),
  system: lazyPage(() => import("./pages/system.tsx")),
  audit: lazyPage(() => import("./pages/audit.tsx")),
  tokens: lazyPage(() => import("./pages/tokens.tsx")),
};

export function App(): ReactNode {
  const token = useToken();
  const route = useRoute();
  const session = useSession(route.ns, token);
  const needsToken = session.error !== null && (isUnauthorized(session.error) || isForbidden(session.error));
  return (
    <>
      <IconShapes />
      {needsToken || (session.data === undefined && session.isError) ? (
        needsToken ? (
          <SignIn refused={token !== null ? sayError(session.error) : null} />
        ) : (
          <main className="alone">
            <Trouble text={sayError(session.error)} />
          </main>
        )
      ) : session.data === undefined ? null : (
        <Chosen route={route} session={session.data} token={token} key={token} />
      )}
    </>
  );
}

/** The namespace of the URL; without one, the first of the list, else the default one. */
function Chosen({
  route,
  session,
  token,
}: {
  route: Route;
  session: Session;
  token: string | null;
}): ReactNode {
  const namespaces = useNamespaces();
  const first = namespaces.data?.[0]?.name ?? "";
  useEffect(() => {
    if (route.ns === null && namespaces.data !== undefined)
      go({ ns: first, page: "home" }, { replace: true });
  }, [route.ns, namespaces.data, first]);
  if (route.ns === null) return null;
  return <Namespace route={route} ns={route.ns} session={session} token={token} key={route.ns} />;
}

function Namespace(props: { route: Route; ns: string; session: Session; token: string | null }): ReactNode {
  const { route, ns, session, token } = props;
  const cache = useQueryClient();
  // renders new data with low priority, so that the browser can handle keys and clicks in between
  const look = useDeferredValue(useLook(ns));
  const [shown, setShown] = useState<"palette" | "help" | null>(null);
  const undo = useUndo();
  useFollow(ns, cache, token, takeCounts);
  useKeys(route, ns, {
    palette: () => setShown("palette"),
    help: () => setShown("help"),
    hold: () => live.hold(!live.held),
    undo: () => void undo.takeBack(),
  });
  const here = useMemo<Here>(
    () => ({
      ns,
      route,
      session,
      look,
      may: (scope) => session.scopes.includes(scope),
      changed: (...kinds) => {
        for (const kind of kinds) void cache.invalidateQueries({ queryKey: [kind, ns] });
      },
      undo,
    }),
    [ns, route, session, look, cache, undo],
  );
  useEffect(() => {
    const what = route.unit ?? route.spec;
    const title = what === undefined ? titles[route.page] : visible(what).slice(0, 80);
    document.title = `${title} · ${nsTitle(ns)} · Coordinate`;
  }, [route, ns]);
  return (
    <HereContext value={here}>
      <Drawn here={here} show={setShown} />
      <Operations />
      {shown === "palette" && <Palette onClose={() => setShown(null)} onHelp={() => setShown("help")} />}
      {shown === "help" && <Help onClose={() => setShown(null)} />}
    </HereContext>
  );
}

/** Rail, top bar and page: rendered again only when the data has changed, not whenever it was read. */
const Drawn = memo(function Drawn(props: {
  here: Here;
  show: (what: "palette" | "help") => void;
}): ReactNode {
  const { route, ns, session, look, undo } = props.here;
  const Page = pageOf[route.page];
  return (
    <div className="app">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <Rail onHelp={() => props.show("help")} />
      <div className="page">
        <TopBar onFind={() => props.show("palette")} />
        <main id="main" tabIndex={-1}>
          {look.error !== null && <Trouble text={sayError(look.error)} />}
          <UndoBar undo={undo} />
          {session.scopes.includes("read") ? (
            <ErrorBoundary key={`${route.page} ${route.spec ?? ""} ${route.unit ?? ""}`}>
              <Suspense fallback={null}>
                <Page />
              </Suspense>
            </ErrorBoundary>
          ) : (
            <Trouble
              text={`This token may not read ${nsTitle(ns)}. Choose another namespace, or sign in with another token.`}
            />
          )}
        </main>
      </div>
      <BottomTabs />
    </div>
  );
});
