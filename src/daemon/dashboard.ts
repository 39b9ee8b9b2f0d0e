/**
 * Serves the dashboard: the files of the build, and a route with facts about the caller and the daemon. File names have a
 * hash of the content, so browsers cache the files; the page itself is always revalidated.
 */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { nameFromUrl } from "../rest/client.ts";
import { shape } from "../core/index.ts";
import { HttpError, scopes, type Route, type Scope } from "../rest/index.ts";
import { version } from "./version.ts";

/** The same folder, whether this runs from the sources or from the build. */
const folder = fileURLToPath(new URL("../../dist/dashboard/", import.meta.url));

const types: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

const notBuilt = `<!doctype html>
<html lang="en">
<title>Coordinate</title>
<h1>The dashboard was not built</h1>
<p>Run <code>npm run build</code> in the source tree, and start the daemon again. The interface is at <a href="/docs">/docs</a>.</p>
</html>
`;

export interface Dashboard {
  page: string;
  route: Route;
}

interface Served {
  type: string;
  plain: Buffer;
  gzip: Buffer;
}

/** Reads the page. Its files are read and compressed on first request, so that they do not slow down the start of a daemon. */
export function readDashboard(): Dashboard {
  const index = path.join(folder, "index.html");
  const page = existsSync(index)
    ? // the page is served at `/`, its files below `/dashboard/`
      readFileSync(index, "utf8").replaceAll('"./dashboard/', '"/dashboard/')
    : notBuilt;
  return { page, route: filesRoute(new Map()) };
}

const fileName = /^[\w-]+(\.\w+)$/;

function readServed(name: string): Served | null {
  const type = types[fileName.exec(name)?.[1] ?? ""];
  const file = path.join(folder, "dashboard", name);
  if (type === undefined || !existsSync(file)) return null;
  const plain = readFileSync(file);
  return { type, plain, gzip: gzipSync(plain) };
}

const filesRoute = (files: Map<string, Served>): Route => ({
  id: "dashboard",
  method: "GET",
  path: "/dashboard/{file}",
  scope: "open",
  family: "daemon",
  summary: "A file of the dashboard.",
  answerType: "application/octet-stream",
  handle: async ({ request, reply }) => {
    const { file: name } = request.params as { file: string };
    const file = files.get(name) ?? readServed(name);
    if (file === null) throw new HttpError("not_found", "The dashboard has no such file");
    files.set(name, file);
    const packed = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
    await reply
      .headers({
        ...fileHeaders,
        "content-type": file.type,
        ...(packed && { "content-encoding": "gzip" }),
      })
      .send(packed ? file.gzip : file.plain);
    return undefined;
  },
});

/** The name changes with the content, so a browser may cache a file forever. */
const fileHeaders = {
  "cache-control": "public, max-age=31536000, immutable",
  vary: "accept-encoding",
  "x-content-type-options": "nosniff",
  "cross-origin-resource-policy": "same-origin",
};

interface Session {
  version: string;
  store: string;
  started: number;
  now: number;
  secured: boolean;
  token: string;
  /** The caller's scopes in the requested namespace, and in all namespaces. */
  scopes: readonly Scope[];
  everywhere: readonly Scope[];
  metrics: boolean;
}

export interface SessionSources {
  store: string;
  secured(): boolean;
  now(): number;
  metrics: boolean;
}

/** The caller's identity and scopes, so that a page offers only what is allowed; and facts about the daemon. */
export function sessionRoute(sources: SessionSources): Route {
  const started = sources.now();
  return {
    id: "session",
    method: "GET",
    path: "/v1/session",
    scope: "listed",
    family: "daemon",
    summary: "The caller's rights in a namespace and in all namespaces, and facts about this daemon.",
    query: { namespace: shape.text({ description: "A namespace, encoded as in paths" }) },
    answer: shape.object<Session>({
      version: shape.text(),
      store: shape.text({
        description: "memory, sqlite, postgres, or http for a daemon in front of another",
      }),
      started: shape.number(),
      now: shape.number(),
      secured: shape.boolean("Whether tokens are required"),
      token: shape.text({ description: "The id of the caller's token; empty without one" }),
      scopes: shape.list(shape.oneOf(scopes)),
      everywhere: shape.list(shape.oneOf(scopes)),
      metrics: shape.boolean("Whether /metrics is served"),
    }),
    handle: async (call) => {
      const { identity } = call;
      const [asked] = call.query("namespace");
      const ns = asked === undefined ? null : nameFromUrl(asked);
      const session: Session = {
        version,
        store: sources.store,
        started,
        now: sources.now(),
        secured: sources.secured(),
        token: sources.secured() ? identity.id : "",
        scopes: scopes.filter((one) => identity.may(one, ns)),
        everywhere: scopes.filter((one) => identity.may(one, null)),
        metrics: sources.metrics,
      };
      return JSON.stringify(session);
    },
  };
}
