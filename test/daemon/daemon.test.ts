import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import {
  copyFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect as connectTls } from "node:tls";
import { pino } from "pino";
import { afterEach, describe, expect, test, vi } from "vitest";
import { connectCbor } from "../../src/cbor/index.ts";
import { encodeData, Engine, type Data } from "../../src/core/index.ts";
import { readAudit, type AuditPage } from "../../src/daemon/admin.ts";
import {
  ConfigError,
  configOf,
  createToken,
  listTokens,
  revokeToken,
  startDaemon,
  TokenAccess,
  type Config,
  type Daemon,
  type Grant,
} from "../../src/daemon/index.ts";
import { RateLimit } from "../../src/daemon/tokens.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import {
  EventLog,
  eventRoutes,
  listen,
  RestClient,
  RestError,
  restServer,
  streamRoutes,
} from "../../src/rest/index.ts";
import { selfSigned } from "../cbor/certificates.ts";
import { WireClient } from "../cbor/wire.ts";
import { whySkipped } from "../skipped-reporter.ts";

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

const fresh = (): string => mkdtempSync(path.join(tmpdir(), "daemon-"));

async function start(given: Partial<Config> = {}): Promise<Daemon> {
  const daemon = await startDaemon(
    configOf({ backend: "memory:", dataDir: fresh(), http: ["127.0.0.1:0"], logLevel: "silent", ...given }),
  );
  undo.push(() => daemon.stop());
  return daemon;
}

function clientOf(daemon: Daemon, token?: string): RestClient {
  const client = new RestClient(daemon.urls[0]!, token === undefined ? {} : { token });
  undo.push(() => client.close());
  return client;
}

const fetchTally = async (daemon: Daemon): Promise<void> => {
  await clientOf(daemon).tally("n");
};

const all: Grant[] = [{ namespace: "*", scopes: ["admin"] }];

const status = async (work: Promise<unknown>): Promise<number> => {
  try {
    await work;
    return 200;
  } catch (error) {
    return error instanceof RestError ? error.status : 0;
  }
};

describe("tokens", () => {
  test("are made, listed and revoked; the file does not hold them and is its owner's only", () => {
    const file = path.join(fresh(), "sub", "tokens.json");
    const { token, row } = createToken(file, { name: "ci", grants: all });
    expect(token).toMatch(/^cjt_[A-Za-z0-9]{12}_[A-Za-z0-9_-]{43}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, "utf8")).not.toContain(token.split("_")[2]);
    createToken(file, { name: "other", grants: [{ namespace: "n", scopes: ["read"] }] });
    expect(listTokens(file).map(({ name }) => name)).toEqual(["ci", "other"]);
    expect(revokeToken(file, row.id)).toBe(true);
    expect(revokeToken(file, row.id)).toBe(false);
    expect(listTokens(file)).toHaveLength(1);
    expect(() =>
      createToken(file, { name: "x", grants: [{ namespace: "n", scopes: ["root" as never] }] }),
    ).toThrow(/scope/);
  });

  test("a file that others may read is refused", async () => {
    const file = path.join(fresh(), "tokens.json");
    writeFileSync(file, '{"version":1,"tokens":[]}', { mode: 0o644 });
    await expect(start({ tokens: file })).rejects.toThrow(/chmod 600/);
  });

  const notRoot = process.getuid?.() === 0 ? "" : "only root can give files away";

  test.skipIf(notRoot !== "")(
    `a mounted secret, of root and for its group, is read${whySkipped(notRoot)}`,
    async () => {
      const file = path.join(fresh(), "tokens.json");
      createToken(file, { name: "a", grants: all });
      chmodSync(file, 0o440);
      const asPod = vi.spyOn(process, "getuid").mockReturnValue(1000);
      undo.push(() => {
        asPod.mockRestore();
        return Promise.resolve();
      });
      const daemon = await start({ tokens: file });
      await expect(fetchTally(daemon)).rejects.toThrow(/token/);
      chmodSync(file, 0o444);
      await expect(start({ tokens: file })).rejects.toThrow(/chmod 600/);
    },
  );

  test.skipIf(notRoot !== "")(`root makes tokens for the owner of the folder${whySkipped(notRoot)}`, () => {
    const folder = fresh();
    chownSync(folder, 1000, 1000);
    const file = path.join(folder, "tokens.json");
    createToken(file, { name: "a", grants: all });
    expect(statSync(file)).toMatchObject({ uid: 1000, gid: 1000 });
  });

  test("a token file that may exist does not count as absent", async () => {
    const file = path.join(fresh(), "tokens.json");
    symlinkSync(file, file);
    await expect(start({ tokens: file })).rejects.toThrow(/ELOOP/);
  });

  test("open what they grant and nothing else, as bearer or as the password of a URL", async () => {
    const tokens = path.join(fresh(), "tokens.json");
    const { token } = createToken(tokens, { name: "w", grants: [{ namespace: "n", scopes: ["work"] }] });
    const { token: admin } = createToken(tokens, { name: "a", grants: all });
    const daemon = await start({ tokens });
    await clientOf(daemon, admin).setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    const worker = clientOf(daemon, token);
    expect(await status(worker.requestAttempts("n", { worker: "w" }))).toBe(200);
    expect(await status(worker.addWorkUnits("n", "s", []))).toBe(403);
    expect(await status(worker.tally("other"))).toBe(403);
    expect(await status(clientOf(daemon).tally("n"))).toBe(401);
    const basic = { authorization: `Basic ${Buffer.from(`go:${token}`).toString("base64")}` };
    expect((await fetch(`${daemon.urls[0]}/namespace/n`, { headers: basic })).status).toBe(200);
    expect((await fetch(`${daemon.urls[0]}/metrics`, { headers: basic })).status).toBe(403);
    expect((await fetch(`${daemon.urls[0]}/healthz`)).status).toBe(200);
  });

  test("wrong ones are told apart from none by nobody, and guessing is slowed down", async () => {
    const tokens = path.join(fresh(), "tokens.json");
    const { token } = createToken(tokens, { name: "a", grants: all });
    const { token: late } = createToken(tokens, { name: "late", grants: all, expires: Date.now() - 1 });
    const daemon = await start({ tokens });
    const wrong = token.slice(0, -1) + (token.endsWith("A") ? "B" : "A");
    const answers: number[] = [];
    for (const given of [undefined, "", "nonsense", wrong, `cjt_${"A".repeat(12)}_${"A".repeat(43)}`, late]) {
      answers.push(await status(clientOf(daemon, given).tally("n")));
    }
    expect(answers).toEqual([401, 401, 401, 401, 401, 401]);
    for (let i = 0; i < 6; i++) answers.push(await status(clientOf(daemon, wrong).tally("n")));
    expect(answers.at(-1)).toBe(429);
    // a valid token is not slowed down
    expect(await status(clientOf(daemon, token).tally("n"))).toBe(200);
  });

  test("a revoked one ends within seconds, and the first one that is made closes an open daemon", async () => {
    const dataDir = fresh();
    const daemon = await start({ dataDir });
    expect(await status(clientOf(daemon).tally("n"))).toBe(200);
    const file = path.join(dataDir, "tokens.json");
    const { token, row } = createToken(file, { name: "a", grants: all });
    createToken(file, { name: "b", grants: all });
    await expect.poll(() => status(clientOf(daemon).tally("n")), { timeout: 4000 }).toBe(401);
    expect(await status(clientOf(daemon, token).tally("n"))).toBe(200);
    revokeToken(file, row.id);
    await expect.poll(() => status(clientOf(daemon, token).tally("n")), { timeout: 4000 }).toBe(401);
  });

  test.each<[string, (file: string, content: string) => void]>([
    ["is deleted", () => undefined],
    ["is replaced by a directory", (file) => mkdirSync(file, { mode: 0o700 })],
    ["is emptied", (file) => writeFileSync(file, "", { mode: 0o600 })],
    ["has no more tokens", (file) => writeFileSync(file, '{"version":1,"tokens":[]}', { mode: 0o600 })],
    [
      "has a broken token",
      (file, content) => writeFileSync(file, content.replace(/"hash": "\w\w/, '"hash": "'), { mode: 0o600 }),
    ],
    ["becomes a loop of links", (file) => symlinkSync(file, file)],
  ])("a daemon whose token file %s stays closed, and opens when the token is back", async (what, spoil) => {
    const file = path.join(fresh(), "tokens.json");
    const { token } = createToken(file, { name: "a", grants: all });
    const content = readFileSync(file, "utf8");
    let now = 0;
    const problems: unknown[] = [];
    const access = new TokenAccess(file, { now: () => now, onError: (error) => problems.push(error) });
    const admits = (): boolean => {
      now += 1000;
      if (!access.required) return true;
      try {
        return access.identityOf(token, "").id !== "";
      } catch (error) {
        expect(error).toMatchObject({ status: 401 });
        return false;
      }
    };
    expect(admits()).toBe(true);
    rmSync(file);
    spoil(file, content);
    expect([admits(), admits()]).toEqual([false, false]);
    // reported once; a file without tokens is no problem
    expect(problems).toHaveLength(what === "has no more tokens" ? 0 : 1);
    rmSync(file, { recursive: true, force: true });
    writeFileSync(file, content, { mode: 0o600 });
    expect(admits()).toBe(true);
  });

  test("a caller that was identified has its rights as long as its token is valid", () => {
    const file = path.join(fresh(), "tokens.json");
    let now = 1000;
    const { token, row } = createToken(file, { name: "a", grants: all });
    const { token: short } = createToken(file, { name: "b", grants: all, expires: 5000 });
    const access = new TokenAccess(file, { now: () => now });
    const identities = [token, short].map((one) => access.identityOf(one, ""));
    const rights = (): boolean[] => identities.map((one) => one.may("read", "n") && one.somewhere("read"));
    expect(rights()).toEqual([true, true]);
    now = 5000;
    expect(rights()).toEqual([true, false]);
    revokeToken(file, row.id);
    now = 6000;
    expect(rights()).toEqual([false, false]);
  });

  test("a token that is revoked after the clock was set back has no rights", () => {
    const file = path.join(fresh(), "tokens.json");
    let now = 1e12;
    const { token, row } = createToken(file, { name: "a", grants: all });
    createToken(file, { name: "b", grants: all });
    const access = new TokenAccess(file, { now: () => now });
    const identity = access.identityOf(token, "");
    now -= 3_600_000;
    expect(identity.may("read", "n")).toBe(true);
    revokeToken(file, row.id);
    now += 1000;
    expect(identity.may("read", "n")).toBe(false);
  });

  test("a clock that is set back refuses no caller", () => {
    const limit = new RateLimit(10);
    limit.take("a");
    vi.spyOn(Date, "now").mockReturnValue(Date.now() - 3_600_000);
    undo.push(async () => void vi.restoreAllMocks());
    limit.take("a");
  });

  test.each(["REST", "CBOR-RPC"])(
    "a token that is revoked during a wait gets no work over %s",
    async (over) => {
      const dataDir = fresh();
      const file = path.join(dataDir, "tokens.json");
      const admin = createToken(file, { name: "a", grants: all });
      const worker = createToken(file, { name: "w", grants: [{ namespace: "n", scopes: ["work"] }] });
      const daemon = await start({ dataDir, cborrpc: "127.0.0.1:0", cborrpcTokens: true });
      const operator = clientOf(daemon, admin.token);
      await operator.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
      const rpc = await connectCbor(daemon.urls[1]!.slice("cbor-rpc://".length), { token: worker.token });
      undo.push(() => rpc.close());
      const rest = clientOf(daemon, worker.token);
      const waiting = (over === "REST" ? rest : rpc).requestAttempts("n", { worker: "w", waitMs: 60_000 });
      const refused = expect(waiting).rejects.toThrow(/needs a token/);
      const headers = { authorization: `Bearer ${admin.token}` };
      const metrics = async () => (await fetch(`${daemon.urls[0]}/metrics`, { headers })).text();
      await expect.poll(metrics).toMatch(/^coordinate_waiting_requests 1$/m);
      revokeToken(file, worker.row.id);
      await expect.poll(() => status(rest.tally("n")), { timeout: 4000 }).toBe(401);
      await operator.addWorkUnits("n", "s", [{ name: "u" }]);
      await refused;
      expect(await operator.getWorkUnits("n", "s", ["u"])).toMatchObject([{ status: "available" }]);
    },
  );

  test.each(["REST", "HTTP", "CBOR-RPC"])(
    "a wait for messages or for room ends over %s when its token is revoked, and takes and adds nothing",
    async (over) => {
      const dataDir = fresh();
      const file = path.join(dataDir, "tokens.json");
      const admin = createToken(file, { name: "a", grants: all });
      const { token, row } = createToken(file, {
        name: "w",
        grants: [{ namespace: "n", scopes: ["work", "write"] }],
      });
      const daemon = await start({ dataDir, cborrpc: "127.0.0.1:0", cborrpcTokens: true });
      const operator = clientOf(daemon, admin.token);
      await operator.setWorkSpecs("n", [{ data: encodeData({ name: "s", max_waiting: 1 }) }]);
      await operator.addWorkUnits("n", "s", [{ name: "u", queues: ["q"] }]);
      const caller =
        over === "CBOR-RPC"
          ? await connectCbor(daemon.urls[1]!.slice("cbor-rpc://".length), { token })
          : new RestClient(daemon.urls[0]!, { token, oneConnection: over === "REST" });
      undo.push(() => caller.close());
      const refused = Promise.all([
        expect(caller.takeMessages("n", "q", { waitMs: 60_000 })).rejects.toThrow(/needs a token/),
        expect(caller.addWorkUnits("n", "s", [{ name: "v" }], { waitMs: 60_000 })).rejects.toThrow(
          /needs a token/,
        ),
      ]);
      const headers = { authorization: `Bearer ${admin.token}` };
      const metrics = async () => (await fetch(`${daemon.urls[0]}/metrics`, { headers })).text();
      await expect.poll(metrics).toMatch(/^coordinate_waiting_requests 2$/m);
      revokeToken(file, row.id);
      await expect.poll(metrics, { timeout: 4000 }).toMatch(/^coordinate_waiting_requests 0$/m);
      await refused;
      const [attempt] = await operator.requestAttempts("n", { worker: "w" });
      await operator.settleAttempts("n", [{ attempt: attempt!.id, action: "finish" }]);
      expect(await operator.takeMessages("n", "q")).toHaveLength(1);
      expect(await operator.getWorkUnits("n", "s", ["v"])).toEqual([null]);
    },
  );

  test("a stream of a token that is revoked ends: of events, of an export, and of a load", async () => {
    const file = path.join(fresh(), "tokens.json");
    const { token, row } = createToken(file, { name: "a", grants: all });
    createToken(file, { name: "b", grants: all });
    const engine = new Engine(new MemoryStore());
    const events = new EventLog();
    const routes = [...streamRoutes(), ...eventRoutes(events, 50)];
    const { app } = restServer({ coordinate: engine, access: new TokenAccess(file), routes });
    const listener = await listen(app, { at: { host: "127.0.0.1", port: 0 } });
    const client = new RestClient(listener.url, { token });
    undo.push(
      () => engine.close(),
      () => listener.stop(0),
      () => client.close(),
    );
    const unitsOf = (from: number, length = 1000): { name: string; data: Data }[] =>
      Array.from({ length }, (_, i) => ({
        name: `u${from + i}`,
        data: encodeData({ filler: "x".repeat(3000) }),
      }));
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    for (let i = 0; i < 10; i++) await client.addWorkUnits("n", "s", unitsOf(i * 1000));
    const readAll = async (stream: AsyncIterable<unknown>): Promise<void> => {
      for await (const _row of stream) continue;
    };
    const watching = expect(readAll(client.events("n"))).rejects.toThrow(/connection|aborted/);
    const exported = client.exportWorkUnits("n", "s");
    await exported.next();
    let goOn = (): void => undefined;
    const revoked = new Promise<void>((resolve) => (goOn = resolve));
    const loading = client.loadWorkUnits(
      "n",
      "s",
      (async function* () {
        // the server stores a thousand at a time, and the client keeps back the last 64 kB
        yield* unitsOf(20_000, 1100);
        await revoked;
        yield* unitsOf(30_000);
      })(),
    );
    await vi.waitUntil(() => events.watchers === 1);
    await expect.poll(async () => (await engine.getWorkUnits("n", "s", ["u20999"]))[0] !== null).toBe(true);
    revokeToken(file, row.id);
    await expect.poll(() => status(client.tally("n")), { timeout: 4000 }).toBe(401);
    goOn();
    expect(await status(loading)).toBe(401);
    await watching;
    await expect(readAll(exported)).rejects.toThrow(/connection|aborted/);
    expect(await engine.getWorkUnits("n", "s", ["u30999"])).toEqual([null]);
  });

  test("a token file that cannot be used closes a daemon that had none, and is logged", async () => {
    const dataDir = fresh();
    const file = path.join(dataDir, "tokens.json");
    const logged: string[] = [];
    const daemon = await startDaemon(
      configOf({ backend: "memory:", dataDir, http: ["127.0.0.1:0"] }),
      pino({ level: "error" }, { write: (line: string) => void logged.push(line) }),
    );
    undo.push(() => daemon.stop());
    expect(await status(fetchTally(daemon))).toBe(200);
    writeFileSync(file, "no tokens", { mode: 0o600 });
    await expect.poll(() => status(fetchTally(daemon)), { timeout: 4000 }).toBe(401);
    expect(logged.join()).toContain("the token file cannot be used");
  });

  test("the audit log begins with the first token, also one that is made while the daemon runs", async () => {
    const dataDir = fresh();
    const file = path.join(dataDir, "audit.log");
    const daemon = await start({ dataDir });
    await clientOf(daemon).setWorkSpecs("n", [{ data: encodeData({ name: "before" }) }]);
    expect(existsSync(file)).toBe(false);
    const { token, row } = createToken(path.join(dataDir, "tokens.json"), { name: "a", grants: all });
    await expect.poll(() => status(clientOf(daemon).tally("n")), { timeout: 20_000 }).toBe(401);
    await clientOf(daemon, token).setWorkSpecs("n", [{ data: encodeData({ name: "after" }) }]);
    await daemon.stop();
    const lines = readFileSync(file, "utf8").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { action: "tally", token: null, status: 401 },
      { action: "setWorkSpecs", token: row.id, status: 200 },
    ]);
  });

  test("late units are counted in the metrics: those that go first, and those that expire", async () => {
    const daemon = await start({ dataDir: fresh(), metrics: true });
    const client = clientOf(daemon);
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    await client.addWorkUnits("n", "s", [
      { name: "first", deadlineMs: 1 },
      { name: "dropped", expiresMs: 1 },
      { name: "in time", deadlineMs: 3_600_000 },
    ]);
    const metrics = async (): Promise<string> => (await fetch(`${daemon.urls[0]}/metrics`)).text();
    await expect.poll(metrics, { timeout: 20_000 }).toContain("coordinate_late_work_units_total 2\n");
    await daemon.stop();
  });

  test("a breaker that trips is in the events, the metrics and the audit log", async () => {
    const dataDir = fresh();
    const { token } = createToken(path.join(dataDir, "tokens.json"), { name: "a", grants: all });
    const daemon = await start({ dataDir, metrics: true });
    const client = clientOf(daemon, token);
    const data = encodeData({ name: "s", breaker: { failures: 1, min: 1 } });
    await client.setWorkSpecs("n", [{ data }]);
    await client.addWorkUnits("n", "s", [{ name: "u" }]);
    const stop = new AbortController();
    const told = (async () => {
      for await (const event of client.events("n", { signal: stop.signal }))
        if (event.verb === "breaker") return event;
      return undefined;
    })();
    // the event stream has started when the metrics count a watcher
    const [attempt] = await client.requestAttempts("n", { worker: "w" });
    const metricsText = async (): Promise<string> => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${daemon.urls[0]}/metrics`, { headers })).text();
    };
    await expect.poll(metricsText, { timeout: 20_000 }).toContain("coordinate_event_watchers 1");
    await client.settleAttempts("n", [{ attempt: attempt?.id ?? "", action: "fail" }]);
    expect(await told).toMatchObject({ type: "workSpecs", workSpec: "s", items: [{ failed: 1, ended: 1 }] });
    stop.abort();
    const metrics = await metricsText();
    expect(metrics).toContain('coordinate_breaker_tripped{namespace="n",work_spec="s"} 1');
    expect(metrics).toContain('coordinate_breaker_changes_total{what="tripped"} 1');
    await daemon.stop();
    const lines = readFileSync(path.join(dataDir, "audit.log"), "utf8").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { action: "setWorkSpecs" },
      { action: "addWorkUnits" },
      { action: "breaker.tripped", namespace: "n", path: "work_spec/s" },
    ]);
  });

  test("changes and refusals are in the audit log, data and secrets are not", async () => {
    const dataDir = fresh();
    const tokens = path.join(dataDir, "tokens.json");
    const { token, row } = createToken(tokens, { name: "a", grants: all });
    const daemon = await start({ dataDir });
    const client = clientOf(daemon, token);
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s", password: "hunter2" }) }]);
    await client.requestAttempts("n", { worker: "w" });
    await client.tally("n");
    await status(clientOf(daemon, "wrong").deleteNamespace("n"));
    const url = `${daemon.urls[0]}/v1/namespace/n/delete-namespace?access_token=${token}`;
    expect((await fetch(url, { method: "POST" })).status).toBe(401);
    // the dashboard asks whether it must sign in: the audit log has such a request only if its token is wrong
    const session = `${daemon.urls[0]}/v1/session`;
    expect((await fetch(session)).status).toBe(401);
    expect((await fetch(session, { headers: { authorization: "Bearer wrong" } })).status).toBe(401);
    await daemon.stop();
    const lines = readFileSync(path.join(dataDir, "audit.log"), "utf8").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { action: "setWorkSpecs", token: row.id, namespace: "n", status: 200, address: "127.0.0.1" },
      { action: "deleteNamespace", token: null, status: 401 },
      { action: "deleteNamespace", status: 401, path: "/v1/namespace/n/delete-namespace" },
      { action: "session", status: 401 },
    ]);
    expect(lines.join("")).not.toContain(token);
    expect(lines.join("")).not.toContain("hunter2");
    expect(statSync(path.join(dataDir, "audit.log")).mode & 0o777).toBe(0o600);
  });
});

test("a daemon tells an administrator its settings, without secrets", async () => {
  const dataDir = fresh();
  const tokens = path.join(dataDir, "tokens.json");
  const { token } = createToken(tokens, { name: "a", grants: all });
  const { token: other } = createToken(tokens, { name: "b", grants: [{ namespace: "*", scopes: ["work"] }] });
  const daemon = await start({ dataDir, maxItems: 1234 });
  expect(await clientOf(daemon, token).daemonConfig()).toMatchObject({ dataDir, maxItems: 1234 });
  expect(await status(clientOf(daemon, other).daemonConfig())).toBe(403);
  await daemon.stop();
});

describe("what administrators are told", () => {
  const opened = async () => {
    const dataDir = fresh();
    const tokens = path.join(dataDir, "tokens.json");
    const admin = createToken(tokens, { name: "admin", grants: all });
    const work = createToken(tokens, { name: "work", grants: [{ namespace: "*", scopes: ["write"] }] });
    const local = createToken(tokens, { name: "local", grants: [{ namespace: "n", scopes: ["admin"] }] });
    const daemon = await start({ dataDir });
    const ask = (token: string, at: string, method = "GET") =>
      fetch(`${daemon.urls[0]}${at}`, { method, headers: { authorization: `Bearer ${token}` } });
    return { daemon, dataDir, admin, work, local, ask };
  };

  test("tokens without their secrets, and an end to one, but not to the last administrator", async () => {
    const { daemon, admin, work, local, ask } = await opened();
    for (const { token } of [work, local]) {
      expect((await ask(token, "/v1/tokens")).status).toBe(403);
      expect((await ask(token, "/v1/audit")).status).toBe(403);
      expect((await ask(token, `/v1/tokens/${admin.row.id}`, "DELETE")).status).toBe(403);
    }
    const listed = await (await ask(admin.token, "/v1/tokens")).text();
    expect(JSON.parse(listed)).toEqual([admin.row, work.row, local.row]);
    expect(listed).not.toContain("hash");
    expect((await ask(admin.token, "/v1/tokens/nobody", "DELETE")).status).toBe(404);
    // the last token with admin rights in all namespaces cannot be revoked
    expect((await ask(admin.token, `/v1/tokens/${admin.row.id}`, "DELETE")).status).toBe(403);
    expect((await ask(admin.token, `/v1/tokens/${work.row.id}`, "DELETE")).status).toBe(200);
    await expect.poll(() => status(clientOf(daemon, work.token).tally("n")), { timeout: 10_000 }).toBe(401);
    await daemon.stop();
  });

  test("the audit log from its end, a page at a time; looking is not in it", async () => {
    const { daemon, admin, work, ask } = await opened();
    const client = clientOf(daemon, work.token);
    for (let i = 0; i < 5; i++) await client.setWorkSpecs(`n${i}`, [{ data: encodeData({ name: "s" }) }]);
    const read = async (query: string) =>
      (await (await ask(admin.token, `/v1/audit?${query}`)).json()) as {
        rows: { namespace: string; token: string; status: number }[];
        next: string | null;
      };
    await expect.poll(async () => (await read("")).rows.length, { timeout: 10_000 }).toBe(5);
    const first = await read("limit=2");
    expect(first.rows).toMatchObject([
      { namespace: "n4", token: work.row.id, status: 200 },
      { namespace: "n3", token: work.row.id },
    ]);
    const second = await read(`limit=2&before=${first.next}`);
    const third = await read(`limit=2&before=${second.next}`);
    expect([...second.rows, ...third.rows].map(({ namespace }) => namespace)).toEqual(["n2", "n1", "n0"]);
    expect(third.next).toBeNull();
    expect((await ask(admin.token, "/v1/audit?before=x")).status).toBe(400);
    await daemon.stop();
  });

  test("a long audit log is read in pieces, and none of its lines is lost", async () => {
    const file = path.join(fresh(), "audit.log");
    const lines = Array.from({ length: 5000 }, (_, i) =>
      JSON.stringify({ namespace: `n${i}`, path: "é".repeat(50) }),
    );
    // a truncated line in the middle, and an incomplete line at the end
    lines.splice(2500, 0, '{"namespace":');
    writeFileSync(file, `${lines.join("\n")}\n{"namesp`);
    const seen: string[] = [];
    for (let next: string | null = ""; next !== null;) {
      const page: AuditPage = await readAudit(file, 1000, next === "" ? undefined : Number(next));
      seen.push(...page.rows.map(({ namespace }) => namespace));
      next = page.next;
    }
    expect(seen).toEqual(Array.from({ length: 5000 }, (_, i) => `n${4999 - i}`));
    expect(await readAudit(`${file}.none`, 10)).toEqual({ rows: [], next: null });
  });
});

test("what CBOR-RPC changes is in the audit log", async () => {
  const dataDir = fresh();
  createToken(path.join(dataDir, "tokens.json"), { name: "a", grants: all });
  const daemon = await start({ dataDir, cborrpc: "127.0.0.1:0" });
  const address = daemon.urls.find((url) => url.startsWith("cbor-rpc://"))?.slice("cbor-rpc://".length) ?? "";
  const client = await connectCbor(address);
  await client.setWorkSpecs("n", [{ data: encodeData({ name: "s", password: "hunter2" }) }]);
  await client.requestAttempts("n", { worker: "w" });
  await client.tally("n");
  expect(await status(client.addWorkUnits("n", "none", [{ name: "u" }]))).not.toBe(200);
  await client.close();
  await daemon.stop();
  const lines = readFileSync(path.join(dataDir, "audit.log"), "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { action: "setWorkSpecs", token: null, namespace: "n", status: 200, address: "127.0.0.1" },
    { action: "addWorkUnits", token: null, namespace: "n", status: 404, address: "127.0.0.1" },
  ]);
  expect(lines.join("")).not.toContain("hunter2");
});

describe("what is reachable by others", () => {
  const hosts = ["127.0.0.1:0", "localhost:0", "[::1]:0", "0.0.0.0:0", ":0", "[::]:0"];
  const cases = hosts.flatMap((host) =>
    [false, true].flatMap((withToken) =>
      [false, true].flatMap((withTls) =>
        [false, true].map((insecure) => ({ host, withToken, withTls, insecure })),
      ),
    ),
  );

  test("needs tokens and TLS, or --insecure: all combinations", async () => {
    const pem = selfSigned(fresh());
    for (const { host, withToken, withTls, insecure } of cases) {
      const dataDir = fresh();
      if (withToken)
        createToken(path.join(dataDir, "tokens.json"), {
          name: "a",
          grants: [{ namespace: "*", scopes: ["read"] }],
        });
      const local = host.startsWith("127.") || host.startsWith("localhost") || host.startsWith("[::1]");
      const may = local || insecure || (withToken && withTls);
      let started = true;
      try {
        const tls = withTls ? { tlsCert: pem.cert, tlsKey: pem.key } : {};
        await (
          await startDaemon(
            configOf({ backend: "memory:", dataDir, http: [host], insecure, logLevel: "silent", ...tls }),
          )
        ).stop();
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
        started = false;
      }
      expect({ host, withToken, withTls, insecure, started }).toEqual({
        host,
        withToken,
        withTls,
        insecure,
        started: may,
      });
    }
  }, 120_000);

  test("TLS, and certificates of clients", async () => {
    const { cert, key } = selfSigned(fresh());
    const daemon = await start({ tlsCert: cert, tlsKey: key, tlsClientCa: cert });
    expect(daemon.urls[0]).toMatch(/^https:/);
    const pem = { ca: readFileSync(cert), cert: readFileSync(cert), key: readFileSync(key) };
    const known = new RestClient(daemon.urls[0]!, { tls: pem });
    expect(await known.tally()).toEqual([]);
    const unknown = new RestClient(daemon.urls[0]!, { tls: { ca: pem.ca }, retries: 0 });
    await expect(unknown.tally()).rejects.toThrow();
    await known.close();
    await unknown.close();
  });

  test("a renewed certificate is used within a minute, when it and its key are there", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    undo.push(async () => void vi.useRealTimers());
    const [{ cert, key }, next] = [selfSigned(fresh()), selfSigned(fresh())];
    const given = { tlsCert: cert, tlsKey: key, cborrpcTls: true, cborrpc: "127.0.0.1:0" };
    const daemon = await start({ ...given, tlsClientCa: cert });
    const client = { cert: readFileSync(cert), key: readFileSync(key) };
    const shown = async (): Promise<string[]> =>
      Promise.all(
        daemon.urls.map(async (url) => {
          const port = Number(url.slice(url.lastIndexOf(":") + 1));
          const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false, ...client });
          socket.on("error", () => undefined);
          await once(socket, "secureConnect");
          const { fingerprint } = socket.getPeerCertificate();
          socket.destroy();
          return fingerprint;
        }),
      );
    const fingerprintOf = (file: string): string => new X509Certificate(readFileSync(file)).fingerprint;
    const [before, after] = [fingerprintOf(cert), fingerprintOf(next.cert)];
    expect(await shown()).toEqual([before, before]);
    copyFileSync(next.cert, cert);
    vi.advanceTimersByTime(60_000);
    expect(await shown()).toEqual([before, before]);
    copyFileSync(next.key, key);
    vi.advanceTimersByTime(60_000);
    expect(await shown()).toEqual([after, after]);
    const known = new RestClient(daemon.urls[0]!, { tls: { ca: readFileSync(cert), ...client }, retries: 0 });
    // the certificate of the authority is replaced, too: it was the same file
    await expect(known.tally()).rejects.toThrow();
    await known.close();
  });
});

describe("the daemon", () => {
  test("serves a file by default, and what was stored is there the next time", async () => {
    const dataDir = fresh();
    const first = await start({ backend: "", dataDir });
    await clientOf(first).setWorkSpecs("n", [{ data: encodeData({ name: "s", x: 1 }) }]);
    await first.stop();
    const second = await start({ backend: "", dataDir });
    expect((await clientOf(second).getWorkSpecs("n", ["s"]))[0]?.data).toBe('{"name":"s","x":1}');
  });

  test("in front of a daemon", async () => {
    const back = await start();
    const front = await start({ backend: back.urls[0]! });
    const client = clientOf(front);
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    await client.addWorkUnits("n", "s", [{ name: "u" }]);
    expect(await clientOf(back).requestAttempts("n", { worker: "w" })).toHaveLength(1);
    await expect(start({ backend: "http://127.0.0.1:1/" })).rejects.toThrow();
  });

  test("on a socket beside TCP, or alone", async () => {
    const socket = path.join(fresh(), "c.sock");
    const daemon = await start({ socket, http: [] });
    expect(daemon.urls).toEqual([`unix:${socket}`]);
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(await clientOf(daemon).tally()).toEqual([]);
    await expect(start({ socket })).rejects.toThrow(/another process uses this address/);
  });

  test("with a manual clock: time moves when told, and only then is there such a path", async () => {
    const daemon = await start({ clock: "manual", sweepMs: 3_600_000 });
    const client = clientOf(daemon);
    const advance = async (ms: number, housekeeping?: boolean): Promise<number> => {
      const answer = await fetch(`${daemon.urls[0]}/clock`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ms, housekeeping }),
      });
      return ((await answer.json()) as { now: number }).now;
    };
    const before = await advance(0);
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    await client.addWorkUnits("n", "s", [{ name: "u", delayMs: 60_000 }]);
    expect(await client.requestAttempts("n", { worker: "w" })).toEqual([]);
    const waiting = client.requestAttempts("n", { worker: "w", waitMs: 120_000 });
    expect(await advance(60_000)).toBe(before + 60_000);
    expect(await waiting).toHaveLength(1);
    await advance(15 * 60_000);
    expect((await client.tally("n"))[0]?.counts.available).toBe(1);
    // a unit that has used all its retries stays available until a request or the housekeeping fails it
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "once", max_retries: 1 }) }]);
    await client.addWorkUnits("n", "once", [{ name: "u" }]);
    expect(await client.requestAttempts("n", { worker: "w", workSpecs: ["once"] })).toHaveLength(1);
    const statusOf = async () => (await client.getWorkUnits("n", "once", ["u"]))[0]?.status;
    await advance(16 * 60_000, false);
    expect(await statusOf()).toBe("available");
    await advance(0);
    expect(await statusOf()).toBe("failed");
    expect((await fetch(`${(await start()).urls[0]}/clock`, { method: "POST" })).status).toBe(404);
  });

  test("what Python clients are told and where they work are settings", async () => {
    const dataDir = fresh();
    const file = path.join(dataDir, "public.yaml");
    writeFileSync(file, "coordinate:\n  port: 5932\n  password: hunter2\n");
    const daemon = await start({
      cborrpc: "127.0.0.1:0",
      cborrpcConfig: file,
      cborrpcNamespace: "old",
      cborrpcAllow: ["127.0.0.0/8"],
    });
    const { port } = new URL(daemon.urls[1]!.replace("cbor-rpc:", "http:"));
    const python = await WireClient.connect(Number(port));
    undo.push(async () => python.close());
    expect(await python.shown("get_config")).toBe("[{u'coordinate': {u'port': 5932}}, None]");
    await python.call("set_work_spec", { name: "s" });
    expect((await clientOf(daemon).listWorkSpecs("old")).rows.map(({ name }) => name)).toEqual(["s"]);
    writeFileSync(file, "- a list\n");
    await expect(start({ cborrpc: "127.0.0.1:0", cborrpcConfig: file })).rejects.toThrow(
      /expected a mapping/,
    );
    await expect(start({ cborrpc: "127.0.0.1:0", cborrpcAllow: ["nowhere"] })).rejects.toThrow(ConfigError);
  });

  test("where there are tokens, a start with CBOR-RPC warns that it takes none", async () => {
    const dataDir = fresh();
    createToken(path.join(dataDir, "tokens.json"), {
      name: "a",
      grants: [{ namespace: "*", scopes: ["admin"] }],
    });
    const warned: string[] = [];
    const daemon = await startDaemon(
      configOf({ backend: "memory:", dataDir, http: [], cborrpc: "127.0.0.1:0" }),
      pino({ level: "warn" }, { write: (line: string) => void warned.push(line) }),
    );
    undo.push(() => daemon.stop());
    expect(warned.join()).toContain("CBOR-RPC requires no tokens");
  });

  test("CBOR-RPC wants a token where that is switched on, with the scopes that it has over REST", async () => {
    const dataDir = fresh();
    const file = path.join(dataDir, "tokens.json");
    const daemon = await start({ dataDir, cborrpc: "127.0.0.1:0", cborrpcTokens: true });
    const address = daemon.urls[1]!.slice("cbor-rpc://".length);
    const dial = async (token?: string) => {
      const client = await connectCbor(address, token === undefined ? {} : { token });
      undo.push(() => client.close());
      return client;
    };
    // as over REST, a daemon without any tokens admits everyone
    const early = await dial("not a token");
    await early.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    const admin = createToken(file, { name: "a", grants: all });
    const reader = createToken(file, { name: "r", grants: [{ namespace: "n", scopes: ["read"] }] });
    const worker = createToken(file, { name: "w", grants: [{ namespace: "n", scopes: ["work"] }] });
    // the daemon checks the file once a second
    await expect.poll(() => status(fetchTally(daemon)), { timeout: 20_000 }).toBe(401);

    await expect(early.tally("n")).rejects.toThrow(/token: required by this server/);
    await expect((await dial()).tally("n")).rejects.toThrow(/token: required by this server/);
    const python = await WireClient.connect(Number(address.split(":")[1]));
    undo.push(async () => python.close());
    await expect(python.call("list_work_specs", {})).rejects.toThrow(/token: required by this server/);
    await expect(dial("cjt_wrong")).rejects.toThrow(/token: This needs a token/);
    await expect(python.call("coordinate.authenticate", "cjt_wrong")).rejects.toThrow(/This needs a token/);

    const read = await dial(reader.token);
    expect((await read.listWorkSpecs("n")).rows).toHaveLength(1);
    await expect(read.addWorkUnits("n", "s", [{ name: "u" }])).rejects.toThrow(/it needs scope write/);
    await expect(read.listWorkSpecs("other")).rejects.toThrow(/it needs scope read in that namespace/);
    await expect(read.listNamespaces()).rejects.toThrow(/it needs scope read in all namespaces/);
    const work = await dial(worker.token);
    await work.updateWorkers("n", [{ name: "w" }]);
    await expect(work.updateWorkers("n", [{ name: "w", desired: "idle" }])).rejects.toThrow(/scope write/);
    const everything = await dial(admin.token);
    await everything.addWorkUnits("n", "s", [{ name: "u" }]);
    expect(await everything.listNamespaces()).not.toEqual([]);
    await python.call("coordinate.authenticate", admin.token);
    expect(await python.shown("list_work_specs", {})).toBe("[[], None]");
    const logged = () =>
      readFileSync(path.join(dataDir, "audit.log"), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as { request: string | null })
        .filter(({ request }) => request === null);
    await expect.poll(logged).toMatchObject([
      { action: "coordinate.tally", token: null, status: 401, address: "127.0.0.1" },
      { action: "coordinate.tally", token: null, status: 401 },
      { action: "list_work_specs", token: null, status: 401 },
      { action: "coordinate.authenticate", token: null, status: 401 },
      { action: "coordinate.authenticate", token: null, status: 401 },
      { action: "addWorkUnits", token: reader.row.id, namespace: "n", status: 403 },
      { action: "listWorkSpecs", token: reader.row.id, namespace: "other", status: 403 },
      { action: "listNamespaces", token: reader.row.id, status: 403 },
      { action: "updateWorkers", token: worker.row.id, status: 403 },
      { action: "addWorkUnits", token: admin.row.id, status: 200 },
    ]);

    // revoking a token also affects open connections
    revokeToken(file, reader.row.id);
    const again = async (): Promise<string> =>
      read.listWorkSpecs("n").then(
        () => "",
        (error: unknown) => String(error),
      );
    await expect.poll(again, { timeout: 20_000 }).toMatch(/This needs a token/);
  });

  test("tells the truth about itself", async () => {
    const daemon = await start();
    const client = clientOf(daemon);
    const get = async (at: string): Promise<string> => (await fetch(daemon.urls[0]! + at)).text();
    await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
    await client.addWorkUnits("n", "s", [{ name: "u" }, { name: "v" }]);
    const [attempt] = await client.requestAttempts("n", { worker: "w" });
    await client.settleAttempts("n", [{ attempt: attempt!.id, action: "finish" }]);
    const metrics = await get("/metrics");
    expect(metrics).toContain('coordinate_work_units{namespace="n",work_spec="s",status="available"} 1');
    expect(metrics).toContain('coordinate_work_units{namespace="n",work_spec="s",status="finished"} 1');
    expect(metrics).toMatch(/coordinate_queue_age_seconds\{namespace="n",work_spec="s"\} \d/);
    expect(metrics).toContain("coordinate_work_units_added_total 2");
    expect(metrics).toContain("coordinate_attempts_claimed_total 1");
    expect(metrics).toContain('coordinate_attempts_settled_total{status="finished"} 1');
    expect(metrics).toMatch(/coordinate_verb_seconds_count\{verb="addWorkUnits"\} 1/);
    expect(metrics).toMatch(/coordinate_http_request_seconds_count\{route="settleAttempts",status="2xx"\} 1/);
    expect(metrics).toContain("nodejs_eventloop_lag_seconds");
    await client.deleteNamespace("n");
    expect(await get("/metrics")).not.toContain("coordinate_work_units{");
    expect(await get("/readyz")).toBe('{"status":"ready"}');
    expect((JSON.parse(await get("/openapi.json")) as { paths: object }).paths).toHaveProperty("/metrics");
    await daemon.coordinate.close();
    expect((await fetch(daemon.urls[0]! + "/readyz")).status).toBe(503);
    expect((await fetch(daemon.urls[0]! + "/healthz")).status).toBe(200);
  });

  test("more requests a second than allowed are 429", async () => {
    const daemon = await start({ requestsPerSecond: 5 });
    const client = clientOf(daemon);
    const answers = await Promise.all(Array.from({ length: 30 }, () => status(client.tally("n"))));
    expect(answers.filter((one) => one === 429).length).toBeGreaterThan(10);
    expect(answers.filter((one) => one === 200).length).toBeGreaterThanOrEqual(10);
  });

  test("pages for browsers have a strict policy, and programs get the document", async () => {
    const daemon = await start();
    const page = await fetch(daemon.urls[0]!, { headers: { accept: "text/html,*/*;q=0.8" } });
    expect(await page.text()).toContain("<title>Coordinate</title>");
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    expect(await (await fetch(daemon.urls[0]!)).text()).toContain("namespaces_url");
  });

  test("serves Python clients beside the others, on the same store, and says where", async () => {
    const daemon = await start({ cborrpc: "127.0.0.1:0" });
    const rpc = daemon.urls.find((url) => url.startsWith("cbor-rpc://"))!.slice("cbor-rpc://".length);
    const python = await connectCbor(rpc);
    undo.push(() => python.close());
    await python.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await python.addWorkUnits("", "s", [{ name: "u" }]);
    const [attempt] = await clientOf(daemon).requestAttempts("", { worker: "w" });
    expect(attempt?.workUnit).toBe("u");
  });

  test.each([
    [{ http: ["nonsense"] }, /HOST:PORT/],
    [{ http: ["127.0.0.1:99999"] }, /HOST:PORT/],
    [{ backend: "mongodb://x" }, /unknown store/],
    [{ tlsCert: "x" }, /must be used together/],
    [{ tlsCert: "/nowhere", tlsKey: "/nowhere" }, /no such file/],
    [{ cborrpc: "0.0.0.0:0" }, /insecure|loopback|machine/],
    [{ cborrpc: "nonsense" }, /--cborrpc.*HOST:PORT/],
    [{ cborrpc: "127.0.0.1:0", cborrpcTls: true }, /tls-cert/],
  ])("does not start with %j", async (given, message) => {
    await expect(start(given)).rejects.toThrow(message);
  });
});
