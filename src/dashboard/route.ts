/**
 * The route: what is on the screen, as the URL states it. The URL is the only state of a page: namespace, page, work spec, unit
 * and filters are in the fragment, so that a link shows the same and Back works. Names are encoded as in the paths of the REST
 * interface: any bytes, and no character that has a meaning in a URL.
 */
import { useSyncExternalStore } from "react";
import { nameFromUrl, nameToUrl } from "../rest/client.ts";

const pages = [
  "home",
  "flow",
  "spec",
  "units",
  "unit",
  "jobs",
  "schedules",
  "batches",
  "limits",
  "queues",
  "locks",
  "workers",
  "what-if",
  "system",
  "audit",
  "tokens",
] as const;
export type PageName = (typeof pages)[number];

export interface Route {
  /** Null before a namespace is chosen. */
  readonly ns: string | null;
  readonly page: PageName;
  /** The work spec of the pages `spec`, `units` and `unit`. */
  readonly spec?: string | undefined;
  readonly unit?: string | undefined;
  /** Filters; a value is a name or a word. */
  readonly filters?: Readonly<Record<string, string | undefined>>;
}

export function hrefOf({ ns, page, spec, unit, filters = {} }: Route): string {
  const path = [ns, ...(page === "home" ? [] : [page]), spec, unit].flatMap((part, i) =>
    part === undefined || part === null ? [] : [i === 1 ? part : nameToUrl(part)],
  );
  const query = Object.entries(filters).flatMap(([key, value]) =>
    value === undefined || value === "" ? [] : [`${key}=${nameToUrl(value)}`],
  );
  return `#/${path.join("/")}${query.length === 0 ? "" : `?${query.join("&")}`}`;
}

/** A fragment that is no route, from an old or mistyped link, leads to the first page. */
function readRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?");
  const parts = path === "" ? [] : path.split("/");
  try {
    const [ns, page = "home", spec, unit] = parts;
    if (ns === undefined || !isPage(page)) return { ns: null, page: "home" };
    return {
      ns: nameFromUrl(decodeURIComponent(ns)),
      page,
      ...(spec !== undefined && { spec: nameFromUrl(decodeURIComponent(spec)) }),
      ...(unit !== undefined && { unit: nameFromUrl(decodeURIComponent(unit)) }),
      filters: readFilters(query),
    };
  } catch {
    return { ns: null, page: "home" };
  }
}

const isPage = (text: string): text is PageName => (pages as readonly string[]).includes(text);

function readFilters(query: string): Record<string, string> {
  const filters: Record<string, string> = {};
  for (const pair of query.split("&")) {
    const at = pair.indexOf("=");
    if (at > 0) filters[pair.slice(0, at)] = nameFromUrl(decodeURIComponent(pair.slice(at + 1)));
  }
  return filters;
}

let last = { fragment: "", route: readRoute("") };

/** Returns the same object while the URL does not change. */
function current(): Route {
  const { hash } = location;
  if (hash !== last.fragment) last = { fragment: hash, route: readRoute(hash) };
  return last.route;
}

function watch(changed: () => void): () => void {
  addEventListener("hashchange", changed);
  addEventListener("popstate", changed);
  return () => {
    removeEventListener("hashchange", changed);
    removeEventListener("popstate", changed);
  };
}

export const useRoute = (): Route => useSyncExternalStore(watch, current);

export function go(route: Route, options: { replace?: boolean } = {}): void {
  const href = hrefOf(route);
  if (href === location.hash) return;
  if (options.replace === true) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  dispatchEvent(new PopStateEvent("popstate"));
}
