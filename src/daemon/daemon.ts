/**
 * The daemon: a store, an engine, the protocols and the housekeeping. Only this file knows every part. `startDaemon` puts
 * them together; a request passes them from the outside in:
 *
 *   listener -> server (guard, identity, scope, schema) -> measured -> observed -> traced -> coalesced -> engine -> store
 */
import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import path from "node:path";
import { listenCborRpc, type CborRpcListener } from "../cbor/index.ts";
import { isMapping, readDocument, redactUrl, starred, withoutSecrets } from "../config/index.ts";
import {
  breakerWord,
  CoordinateError,
  ManualClock,
  shape,
  stuckText,
  type Coordinate,
} from "../core/index.ts";
import {
  anybody,
  coalesce,
  EventLog,
  eventRoutes,
  HttpError,
  listen,
  observe,
  openApi,
  restServer,
  streamRoutes,
  type Access,
  type Identity,
  type Listener,
  type Answered,
  type Route,
} from "../rest/index.ts";
import { LargeRequests, type ConnectionCaps } from "../traffic/index.ts";
import { adminRoutes } from "./admin.ts";
import { Audit } from "./audit.ts";
import { openBackend, type Backend } from "./backend.ts";
import { readTls, watchTls, type Tls } from "./certificates.ts";
import { ConfigError, type Config } from "./config.ts";
import { readDashboard, sessionRoute } from "./dashboard.ts";
import { docsRoutes } from "./docs-page.ts";
import { Housekeeping } from "./housekeeping.ts";
import { makeLog, type Logger } from "./log.ts";
import { makeDirectory } from "./make-directory.ts";
import { Metrics } from "./metrics.ts";
import { listenStep, openStep } from "./start-error.ts";
import { rpcTokens } from "./rpc-tokens.ts";
import { RateLimit, TokenAccess } from "./tokens.ts";
import { trace } from "./traces.ts";
import { version } from "./version.ts";

export interface Daemon {
  /** The URLs that the daemon listens on. */
  urls: readonly string[];
  coordinate: Coordinate;
  /** Refuses new connections, answers accepted requests, and releases everything. Idempotent. */
  stop(): Promise<void>;
}

export async function startDaemon(
  config: Config,
  log: Logger = makeLog(config.logLevel, config.logFormat),
): Promise<Daemon> {
  const file = tokensFileOf(config);
  const onError = (error: unknown): void =>
    log.error({ err: error }, "the token file cannot be used: no token is valid until it is repaired");
  const tokens = await openStep(`--tokens ${file}`, async () => new TokenAccess(file, { onError }));
  const addresses = config.http.map((text) => readAddress("--http", text));
  checkExposure(config, addresses, tokens);
  const where =
    config.backend === "" ? `--data-dir ${config.dataDir}` : `--backend ${redactUrl(config.backend)}`;
  const backend = await openStep(where, () =>
    openBackend(config, config.clock === "manual" ? new ManualClock(Date.now()) : null),
  );
  const undo: (() => Promise<void>)[] = [() => backend.coordinate.close()];
  try {
    return await serve(config, log, { backend, tokens, addresses, undo });
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

interface Parts {
  backend: Backend;
  tokens: TokenAccess;
  addresses: readonly { host: string; port: number }[];
  undo: (() => Promise<void>)[];
}

async function serve(config: Config, log: Logger, parts: Parts): Promise<Daemon> {
  const { backend, tokens, undo } = parts;
  const { clock } = backend;
  const stopping = new AbortController();
  const events = new EventLog();
  const metrics = new Metrics();
  const merge = config.coalesce === "on" || (config.coalesce === "auto" && backend.durable);
  const merged = merge ? coalesce(backend.coordinate) : backend.coordinate;
  const traced = config.traces ? await trace(merged) : merged;
  const coordinate = metrics.measure(observe(traced, events, () => clock.now()));
  metrics.watch({
    coordinate: backend.coordinate,
    now: () => backend.clock.now(),
    waiting: () => backend.engine?.waiting ?? 0,
    late: () => backend.engine?.late ?? 0,
    watchers: () => events.watchers,
  });

  let lastStuck = 0;
  const housekeeping = new Housekeeping(backend.engine, config.sweepMs, {
    onSwept: (swept) => {
      metrics.swept(swept);
      const { more: _more, stuck, ...counts } = swept;
      if (stuck > 0 && stuck !== lastStuck) log.error({ units: stuck }, stuckText);
      lastStuck = stuck;
      if (Object.values(counts).some((count) => count > 0)) {
        for (const ns of events.watched())
          events.add(ns, { type: "swept", verb: "sweep", time: clock.now(), items: () => [counts] });
      }
    },
    onError: (error) => log.error({ err: error }, "housekeeping failed and will be retried"),
  });

  const large = new LargeRequests();
  const audit = await openStep(`--data-dir ${config.dataDir}`, async () => openAudit(config, tokens, log));
  if (audit !== null) undo.push(() => audit.close());
  backend.engine?.watchBreakers((event) => {
    const { namespace, workSpec, time, state } = event;
    metrics.breaker(event);
    audit?.breaker(event);
    if (events.wanted(namespace))
      events.add(namespace, {
        type: "workSpecs",
        verb: "breaker",
        time,
        workSpec,
        count: 1,
        items: () => [state],
      });
    log.warn({ namespace, workSpec, ...state }, breakerWord(state));
  });
  const dashboard = config.page ? readDashboard() : null;
  let document = "";
  const daemonRoutes = [
    ...healthRoutes(backend.coordinate, stopping.signal),
    ...(config.metrics ? [metricsRoute(metrics)] : []),
    ...(clock instanceof ManualClock ? clockRoutes(clock, housekeeping) : []),
    ...(dashboard === null ? [] : [dashboard.route, ...docsRoutes]),
    sessionRoute({
      store: backend.kind,
      secured: () => tokens.required,
      now: () => clock.now(),
      metrics: config.metrics,
    }),
    configRoute(config),
    ...adminRoutes({ tokensFile: tokensFileOf(config), auditFile: auditFileOf(config) }),
    documentRoute(() => document),
  ];
  const { app, routes } = restServer({
    coordinate,
    access: accessOf(config, tokens),
    allowHosts: config.allowHost,
    maxBodyBytes: config.maxBodyBytes,
    maxItems: config.maxItems,
    large,
    dataLimits: { maxBytes: config.maxDataBytes },
    stopping: stopping.signal,
    newRequestId: requestIds(),
    routes: [...streamRoutes({ maxBytes: config.maxDataBytes }), ...eventRoutes(events), ...daemonRoutes],
    ...(dashboard !== null && { page: dashboard.page }),
    onAnswer: (answered) => {
      metrics.answered(answered);
      audit?.answered(answered);
      if (config.logRequests) logRequest(log, answered);
    },
    onBug: (error, request) =>
      log.error({ request: request.id, err: error }, "a request failed: this is a bug"),
  });
  document = JSON.stringify(openApi(routes, { version, secured: tokens.required }));
  undo.push(() => app.close());

  const listeners: Listener[] = [];
  undo.push(async () => {
    await Promise.all(listeners.map((listener) => listener.stop(0)));
  });
  const tls = readTls(config);
  const limits = { ...limitsOf(config), onConnection: () => large.connected() };
  for (const at of parts.addresses)
    listeners.push(
      await listenStep(`--http ${addressText(at)}`, () =>
        listen(app, { at, ...limits, ...(tls !== null && { tls }) }),
      ),
    );
  if (config.socket !== "")
    listeners.push(
      await listenStep(`--socket ${config.socket}`, () =>
        listen(app, { at: { path: config.socket }, ...limits }),
      ),
    );
  const rpc =
    config.cborrpc === ""
      ? null
      : await listenStep(`--cborrpc ${config.cborrpc}`, () =>
          listenRpc(config, coordinate, backend, { tls, large, log, audit, tokens }),
        );
  if (rpc !== null) undo.push(() => rpc.close());
  const distinguished = config.cborrpcTokens || (config.cborrpcTls && config.tlsClientCa !== "");
  if (rpc !== null && tokens.required && !distinguished)
    log.warn(
      { cborrpc: rpc.address },
      "CBOR-RPC requires no tokens: anyone who can connect has full access; see --cborrpc-tokens, --cborrpc-allow and --tls-client-ca",
    );
  if (tls !== null) {
    const unwatch = watchTls(config, tls, {
      onRenewed: (renewed) => {
        for (const listener of [...listeners, ...(rpc === null ? [] : [rpc])]) listener.renew(renewed);
        log.info("new TLS connections get the certificate that was renewed");
      },
      onError: (error) => log.error({ err: error }, "the renewed TLS certificate cannot be used"),
    });
    undo.push(async () => unwatch());
  }
  housekeeping.start();
  undo.push(() => housekeeping.stop());
  const upkeep = setInterval(() => {
    backend
      .upkeep?.()
      .catch((error: unknown) =>
        log.warn({ err: error }, "maintenance of the store failed and will be retried"),
      );
  }, 60_000);
  undo.push(async () => clearInterval(upkeep));

  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    log.info("stopping: no new connections are accepted; open requests are answered");
    stopping.abort();
    await Promise.all([...listeners.map((listener) => listener.stop(config.graceMs)), rpc?.close()]);
    for (const step of undo.reverse()) await step();
    log.info("stopped");
  };
  const urls = [...listeners.map(({ url }) => url), ...(rpc === null ? [] : [`cbor-rpc://${rpc.address}`])];
  return { urls, coordinate, stop: () => (stopped ??= stop()) };
}

/** Serves CBOR-RPC, the interface of the Python clients. */
async function listenRpc(
  config: Config,
  coordinate: Coordinate,
  { clock, engine }: Backend,
  {
    tls,
    large,
    log,
    audit,
    tokens,
  }: {
    tls: Tls | null;
    large: LargeRequests;
    log: Logger;
    audit: Audit | null;
    tokens: TokenAccess;
  },
): Promise<CborRpcListener> {
  const listening = listenCborRpc(coordinate, {
    at: readAddress("--cborrpc", config.cborrpc),
    insecure: config.insecure,
    ...(config.cborrpcTls && tls !== null && { tls }),
    limits: {
      maxDataBytes: config.maxDataBytes,
      maxItems: config.maxItems,
      ...limitsOf(config),
    },
    large,
    legacyFencing: config.legacyFencing === "lenient" ? "lenient" : "strict",
    namespace: config.cborrpcNamespace,
    allow: config.cborrpcAllow,
    ...(config.cborrpcTokens && { tokens: rpcTokens(tokens) }),
    ...(config.cborrpcConfig !== "" && { config: readPublicConfig(config.cborrpcConfig) }),
    clock,
    graceMs: config.graceMs,
    ...(engine !== null && { archive: () => engine.sweep() }),
    ...(audit !== null && { watch: audit.watch.bind(audit), onRefused: audit.refused.bind(audit) }),
    onBug: (error, method) => log.error({ method, err: error }, "a CBOR-RPC request failed: this is a bug"),
    onMalformed: (error) =>
      log.warn({ reason: error.message }, "closed a CBOR-RPC connection that sent no message"),
  });
  return listening.catch((error: unknown) => {
    if (error instanceof CoordinateError && error.code === "bad_argument")
      throw new ConfigError(`--cborrpc: ${error.value}`, { cause: error });
    throw error;
  });
}

/** The answer of `get_config`: the operator's file, without values that look like secrets. */
function readPublicConfig(file: string): Readonly<Record<string, unknown>> {
  const { value } = readDocument(file);
  if (!isMapping(value)) throw new ConfigError(`--cborrpc-config ${file}: expected a mapping`);
  return withoutSecrets(value).value as Readonly<Record<string, unknown>>;
}

/** Request ids are a random prefix and a counter, so that they are unique among daemons that share a log. */
function requestIds(): () => string {
  const prefix = randomBytes(5).toString("base64url");
  let serial = 0;
  return () => `${prefix}-${(serial += 1).toString(36)}`;
}

// ---- authorisation and exposure

function accessOf(config: Config, tokens: TokenAccess): Access {
  const limit = config.requestsPerSecond > 0 ? new RateLimit(config.requestsPerSecond) : null;
  // checked each time: as soon as the first token is created, every caller needs one
  const isOpen = (): boolean => !tokens.required;
  const anybodyYet: Identity = { ...anybody, may: isOpen, somewhere: isOpen };
  return {
    identify: (request) => {
      const { required } = tokens;
      const identity = required ? tokens.identify(request) : anybodyYet;
      limit?.take(required ? identity.id : request.ip);
      return identity;
    },
  };
}

const tokensFileOf = ({ tokens, dataDir }: Config): string =>
  tokens === "" ? path.join(dataDir, "tokens.json") : tokens;
const auditFileOf = ({ dataDir }: Config): string => path.join(dataDir, "audit.log");

function openAudit(config: Config, tokens: TokenAccess, log: Logger): Audit | null {
  if (config.audit === "off") return null;
  // fails at the start, not at the first line, if the directory cannot be made
  if (tokens.required) makeDirectory(config.dataDir);
  return new Audit(auditFileOf(config), {
    all: config.audit === "all",
    wanted: () => tokens.required,
    onError: (error) => log.error({ err: error }, "the audit log cannot be written"),
  });
}

function readAddress(option: string, text: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(text);
  if (match === null || Number(match[3]) > 65_535)
    throw new ConfigError(`${option} ${text}: expected HOST:PORT`);
  // like Go: a port alone means all addresses of this machine
  return { host: match[1] ?? (match[2] === "" ? "::" : (match[2] ?? "")), port: Number(match[3]) };
}

const addressText = ({ host, port }: { host: string; port: number }): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`;

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Whoever reaches the daemon can run work. So access from other machines needs tokens, and TLS to keep them secret. */
function checkExposure(
  config: Config,
  addresses: readonly { host: string; port: number }[],
  tokens: TokenAccess,
): void {
  if ((config.tlsCert === "") !== (config.tlsKey === ""))
    throw new ConfigError("--tls-cert and --tls-key must be used together");
  if (config.tlsClientCa !== "" && config.tlsCert === "")
    throw new ConfigError("--tls-client-ca needs --tls-cert");
  if (config.cborrpc !== "") checkRpcExposure(config, tokens);
  const exposed = addresses.filter(({ host }) => !isLoopback(host));
  if (exposed.length === 0 || config.insecure) return;
  const missing = [
    ...(tokens.required ? [] : ["tokens (coordinate token create)"]),
    ...(config.tlsCert === "" ? ["--tls-cert and --tls-key"] : []),
  ];
  if (missing.length === 0) return;
  const where = exposed.map(addressText).join(", ");
  throw new ConfigError(
    `--http ${where} is reachable from other machines: this needs ${missing.join(", and ")}; or --insecure`,
  );
}

/** The old CBOR-RPC clients have no tokens: only client certificates can identify them. */
function checkRpcExposure(config: Config, tokens: TokenAccess): void {
  if (config.cborrpcTls && config.tlsCert === "")
    throw new ConfigError("--cborrpc-tls needs --tls-cert and --tls-key");
  const { host } = readAddress("--cborrpc", config.cborrpc);
  const distinguished = config.tlsClientCa !== "" || (config.cborrpcTokens && tokens.required);
  if (isLoopback(host) || config.insecure || (config.cborrpcTls && distinguished)) return;
  throw new ConfigError(
    `--cborrpc ${config.cborrpc} is reachable from other machines: this needs --cborrpc-tls, and --tls-client-ca or --cborrpc-tokens with tokens (coordinate token create); or --insecure`,
  );
}

const limitsOf = ({ maxConnections, maxConnectionsPerAddress }: Config): ConnectionCaps => ({
  maxConnections,
  maxConnectionsPerAddress,
});

// ---- routes about the daemon itself

const route = (
  id: string,
  method: "GET" | "POST",
  at: string,
  rest: Omit<Route, "id" | "method" | "path" | "family">,
): Route => ({
  id,
  method,
  path: at,
  family: "daemon",
  ...rest,
});

function healthRoutes(coordinate: Coordinate, stopping: AbortSignal): Route[] {
  return [
    route("healthz", "GET", "/healthz", {
      scope: "open",
      summary: "Answers while the process is alive.",
      handle: async () => '{"status":"ok"}',
    }),
    route("readyz", "GET", "/readyz", {
      scope: "open",
      summary: "Answers while the store is available and the daemon is not stopping.",
      handle: async () => {
        if (stopping.aborted) throw new HttpError("stopping", "The daemon is stopping");
        await within(2000, coordinate.getNamespace(""));
        return '{"status":"ready"}';
      },
    }),
  ];
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new CoordinateError("unavailable", `the store did not answer within ${ms} ms`)),
      ms,
    );
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const metricsRoute = (metrics: Metrics): Route =>
  route("metrics", "GET", "/metrics", {
    scope: "read",
    summary: "Metrics for Prometheus. Needs scope read in all namespaces.",
    answerType: "text/plain; version=0.0.4; charset=utf-8",
    handle: () => metrics.text(),
  });

const configRoute = (config: Config): Route =>
  route("config", "GET", "/config", {
    scope: "admin",
    summary: "The settings of the daemon, with secrets masked. Needs scope admin in all namespaces.",
    handle: async () => JSON.stringify(starred(config)),
  });

const documentRoute = (text: () => string): Route =>
  route("openapi", "GET", "/openapi.json", {
    scope: "open",
    summary: "This document.",
    handle: async () => text(),
  });

/** Only in a daemon that was started with `--clock manual`. */
function clockRoutes(clock: ManualClock, housekeeping: Housekeeping): Route[] {
  const now = shape.object<{ now: number }>({
    now: shape.number({ description: "Milliseconds since 1970" }),
  });
  return [
    route("clock", "GET", "/clock", {
      scope: "read",
      summary: "The time of the daemon's clock.",
      answer: now,
      handle: async () => JSON.stringify({ now: clock.now() }),
    }),
    route("clock.advance", "POST", "/clock", {
      scope: "admin",
      summary: "Advances the clock and runs the housekeeping that is then due.",
      body: shape.input<{ ms: number; housekeeping?: boolean }>({
        ms: { type: "number", minimum: 0, maximum: 1e14 },
        housekeeping: shape.maybe(
          shape.boolean("False: run no housekeeping; what is due takes effect when it is read"),
        ),
      }),
      answer: now,
      handle: async (call) => {
        const next = clock.now() + (call.body.ms as number);
        if (next > 8e15)
          throw new CoordinateError("bad_argument", "ms: the time would be too far in the future");
        clock.set(next);
        if (call.body.housekeeping !== false) await housekeeping.once();
        return JSON.stringify({ now: clock.now() });
      },
    }),
  ];
}

function logRequest(log: Logger, { id, method, path, route, status, ms, address, identity }: Answered): void {
  log.info(
    {
      request: id,
      method,
      // truncated, and without the query, which may have more than names
      path: path.split("?")[0]?.slice(0, 200),
      route: route?.id,
      status,
      ms: Math.round(ms * 100) / 100,
      address,
      token: identity?.id,
    },
    "request",
  );
}
