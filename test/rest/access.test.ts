/** Access rights: every route, every scope, the right and the wrong namespace. */
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import {
  EventLog,
  eventRoutes,
  HttpError,
  includesScope,
  listen,
  restServer,
  scopes,
  streamRoutes,
  type Access,
  type Identity,
  type Listener,
  type ListenOptions,
  type Route,
  type Scope,
} from "../../src/rest/index.ts";
import { sendAndReset } from "../send-and-reset.ts";

/** The authorization header is `scope@namespace`; there are no tokens. */
const access: Access = {
  identify: (request: FastifyRequest): Identity => {
    const match = /^(\w+)@(.*)$/.exec(request.headers.authorization ?? "");
    if (match === null) throw new HttpError("unauthorized", "This needs a token");
    const [, scope, namespace] = match as unknown as [string, Scope, string];
    return {
      id: `${scope}@${namespace}`,
      may: (wanted, ns) => includesScope([scope], wanted) && (namespace === "*" || ns === namespace),
      somewhere: (wanted) => includesScope([scope], wanted),
    };
  },
};

let app: FastifyInstance;
let engine: Engine;
let routes: readonly Route[];

beforeAll(async () => {
  engine = new Engine(new MemoryStore());
  ({ app, routes } = restServer({
    coordinate: engine,
    access,
    routes: [...streamRoutes(), ...eventRoutes(new EventLog())],
  }));
  await app.ready();
});

afterAll(async () => {
  await app.close();
  await engine.close();
});

/** The status of a request. 401 and 403 mean that access was denied; how the handler treats the empty body does not matter. */
async function passes(route: Route, caller: string | undefined, ns = "mine"): Promise<number> {
  const url = route.path.replace("{namespace}", ns).replace(/\{\w+\}/g, "x");
  const { statusCode } = await app.inject({
    method: route.method,
    url,
    headers: {
      ...(caller !== undefined && { authorization: caller }),
      ...(route.body !== undefined && { "content-type": route.bodyType ?? "application/json" }),
    },
    ...(route.body !== undefined && { payload: "{}" }),
  });
  return statusCode;
}

/** Listed explicitly, not derived from the server's rules, so that an error there is found here. */
const granted: Record<Scope, readonly Route["scope"][]> = {
  read: ["read", "listed", "open"],
  work: ["read", "work", "listed", "open"],
  write: ["read", "write", "listed", "open"],
  admin: ["read", "work", "write", "admin", "listed", "open"],
};

describe("every route", () => {
  test("has a scope, and the tables are not empty", () => {
    expect(routes.length).toBeGreaterThan(75);
    expect(routes.filter(({ scope }) => scope === "open").map(({ id }) => id)).toEqual(["go.root", "calls"]);
  });

  test("refuses a caller without a token, but for the root", async () => {
    for (const route of routes) {
      // each request on such a connection is authorized separately: see calls.test.ts
      if (route.id === "calls") continue;
      expect([route.id, await passes(route, undefined)]).toEqual([
        route.id,
        route.scope === "open" ? 200 : 401,
      ]);
    }
  });

  test.each(scopes)(
    "is open to scope %s exactly where it should be, and not in another namespace",
    async (scope) => {
      for (const route of routes) {
        // streams of events do not end by themselves
        if (route.id === "events") continue;
        const may = granted[scope].includes(route.scope);
        const right = await passes(route, `${scope}@mine`);
        if (route.id === "go.namespace.create") continue; // the namespace is in its body: tested below
        expect([route.id, scope, "right", right !== 403 && right !== 401]).toEqual([
          route.id,
          scope,
          "right",
          may,
        ]);
        const everywhere = await passes(route, `${scope}@*`);
        expect([route.id, scope, "all", everywhere !== 403]).toEqual([route.id, scope, "all", may]);
        if (!route.path.includes("{namespace}")) continue;
        const wrong = await passes(route, `${scope}@mine`, "other");
        expect([route.id, scope, "wrong", wrong]).toEqual([route.id, scope, "wrong", 403]);
      }
    },
  );

  test("the namespace is compared by name, however the path spells it", async () => {
    const tally = routes.find(({ id }) => id === "tally")!;
    expect(await passes(tally, "read@a b", "-YSBi")).toBe(200);
    expect(await passes(tally, "read@a b", "a%20b")).toBe(200);
    expect(await passes(tally, "read@-YSBi", "-YSBi")).toBe(403);
    expect(await passes(tally, "read@", "-")).toBe(200);
  });

  test("a worker reports of itself with scope work, and is not told what to do with it", async () => {
    const update = async (caller: string, change: object): Promise<number> => {
      const { statusCode } = await app.inject({
        method: "POST",
        url: "/v1/namespace/mine/update-workers",
        headers: { authorization: caller, "content-type": "application/json" },
        payload: JSON.stringify({ changes: [{ name: "w", ...change }] }),
      });
      return statusCode;
    };
    expect(await update("work@mine", { mode: "run" })).toBe(200);
    expect(await update("work@mine", { desired: "terminate" })).toBe(403);
    expect((await engine.getWorkers("mine", ["w"]))[0]?.desired).not.toBe("terminate");
    expect(await update("admin@mine", { desired: "terminate" })).toBe(200);
  });

  test("events are for those who may read", async () => {
    const events = routes.find(({ id }) => id === "events")!;
    expect(await passes(events, "read@mine", "other")).toBe(403);
  });
});

describe("what looks at all namespaces", () => {
  test("shows those that the caller may read", async () => {
    for (const ns of ["mine", "other"]) await engine.setNamespace(ns, {});
    const list = async (caller: string): Promise<string[]> => {
      const answer = await app.inject({
        method: "POST",
        url: "/v1/list-namespaces",
        headers: { authorization: caller, "content-type": "application/json" },
        payload: "{}",
      });
      return answer.json<{ name: string }[]>().map(({ name }) => name);
    };
    expect(await list("read@mine")).toEqual(["mine"]);
    expect(await list("read@*")).toEqual(expect.arrayContaining(["mine", "other"]));
    const go = await app.inject({
      method: "GET",
      url: "/namespace",
      headers: { authorization: "work@other" },
    });
    expect(go.json<{ namespaces: { name: string }[] }>().namespaces.map(({ name }) => name)).toEqual([
      "other",
    ]);
  });

  test("creating a namespace needs write there", async () => {
    const create = async (caller: string, name: string): Promise<number> =>
      (
        await app.inject({
          method: "POST",
          url: "/namespace",
          headers: { authorization: caller, "content-type": "application/json" },
          payload: { name },
        })
      ).statusCode;
    expect(await create("write@made", "made")).toBe(201);
    expect(await create("write@made", "else")).toBe(403);
    expect(await create("work@made", "made")).toBe(403);
  });

  test("who may only look creates nothing by looking", async () => {
    await app.inject({ method: "GET", url: "/namespace/unseen", headers: { authorization: "read@unseen" } });
    expect((await engine.listNamespaces()).map(({ name }) => name)).not.toContain("unseen");
    const worker = await app.inject({
      method: "GET",
      url: "/namespace/unseen/worker/w",
      headers: { authorization: "read@unseen" },
    });
    expect(worker.statusCode).toBe(404);
  });
});

describe("browsers", () => {
  const ask = async (headers: Record<string, string>, url = "/v1/list-namespaces"): Promise<number> =>
    (
      await app.inject({
        method: "POST",
        url,
        headers: { authorization: "read@*", "content-type": "application/json", ...headers },
        payload: "{}",
        remoteAddress: "127.0.0.1",
      })
    ).statusCode;

  test.each(["localhost", "localhost:5980", "127.0.0.1:5980", "[::1]:5980", "10.1.2.3"])(
    "host %s is served",
    async (host) => {
      expect(await ask({ host })).toBe(200);
    },
  );

  test.each(["evil.example", "localhost.evil.example:5980", "127.0.0.1.nip.io", "[::1].example"])(
    "host %s is 421",
    async (host) => {
      expect(await ask({ host })).toBe(421);
    },
  );

  describe("over a connection", () => {
    const host = "evil.example";
    const opened: Listener[] = [];
    const open = async (at: ListenOptions["at"]): Promise<Listener> => {
      const listener = await listen(app, { at });
      opened.push(listener);
      return listener;
    };
    afterEach(async () => {
      for (const listener of opened.splice(0)) await listener.stop(0);
    });

    test("a host that was served over a Unix socket is not served over TCP", async () => {
      const socketPath = path.join(mkdtempSync(path.join(tmpdir(), "coordinate-rest-")), "socket");
      await open({ path: socketPath });
      const headers = { host, authorization: "read@*", "content-type": "application/json" };
      const request = httpRequest({ socketPath, method: "POST", path: "/v1/list-namespaces", headers });
      const [answer] = (await once(request.end("{}"), "response")) as [IncomingMessage];
      expect(answer.resume().statusCode).toBe(200);
      expect(await ask({ host })).toBe(421);
    });

    test("a connection without an address is not taken for a Unix socket", async () => {
      const { port } = await open({ host: "127.0.0.1", port: 0 });
      sendAndReset(
        port,
        Buffer.from(
          `POST /v1/namespace/rebound/set-namespace HTTP/1.1\r\nHost: ${host}\r\nAuthorization: admin@*\r\n` +
            "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n" +
            '{"settings":{}}',
        ),
      );
      // accepted after the first one, whose request has been read by the time this one is answered
      expect((await fetch(`http://127.0.0.1:${port}/v1/list-namespaces`)).status).toBe(405);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect((await engine.listNamespaces()).map(({ name }) => name)).not.toContain("rebound");
    });
  });

  test.each([
    [{ origin: "http://evil.example" }, 403],
    [{ origin: "null" }, 403],
    [{ origin: "http://localhost:1" }, 403],
    [{ origin: "http://localhost:5980" }, 200],
    [{ "sec-fetch-site": "cross-site" }, 403],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "same-origin" }, 200],
    [{ "sec-fetch-site": "none" }, 200],
  ] as const)("%j is %i", async (headers, status) => {
    expect(await ask({ host: "localhost:5980", ...headers })).toBe(status);
  });

  test("reads are protected as writes are, and there is no CORS", async () => {
    const get = await app.inject({
      method: "GET",
      url: "/summary",
      headers: { host: "localhost", origin: "http://evil.example", authorization: "read@*" },
    });
    expect(get.statusCode).toBe(403);
    const preflight = await app.inject({
      method: "OPTIONS",
      url: "/summary",
      headers: { host: "localhost" },
    });
    expect(preflight.statusCode).toBe(405);
    expect(preflight.headers["access-control-allow-origin"]).toBeUndefined();
  });
});
