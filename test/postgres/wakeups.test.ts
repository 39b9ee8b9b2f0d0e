/**
 * Acknowledged work reaches an idle worker within 2 s, whichever other daemon, connection or listener dies; the same holds for
 * messages and ends of units. Real daemons on a real server: daemon A acknowledges the work and dies, the caller waits at B.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresOptions } from "../../src/postgres/index.ts";
import { RestClient } from "../../src/rest/index.ts";
import { executable, startProcess, type Started } from "../daemon/built.ts";
import { Proxy } from "./proxy.ts";
import { query, startServer, type OwnServer } from "./server.ts";

/** The guaranteed maximum. */
const promisedMs = 2000;

let server: OwnServer;
let proxy: Proxy;
beforeAll(async () => {
  server = await startServer();
  proxy = new Proxy(server.port);
  await proxy.listen();
  executable("coordinated");
}, 120_000);
afterAll(async () => {
  await proxy.close();
  await server.stop();
});

/** The data directories of the daemons. */
const directory = mkdtempSync(path.join(tmpdir(), "wakeups-"));
afterAll(() => rmSync(directory, { recursive: true }));

const started = new Set<Started>();
afterEach(async () => {
  for (const { child, ended } of started) {
    child.kill("SIGKILL");
    await ended;
  }
  started.clear();
});

interface Daemon {
  process: Started;
  client: RestClient;
  kill(): Promise<void>;
}

/** `name` is the application name of its connections. */
async function startDaemon(url: string, name: string): Promise<Daemon> {
  const backend = new URL(url);
  backend.searchParams.set("application_name", name);
  const process = await startProcess([
    ...["--backend", backend.href],
    ...["--http", "127.0.0.1:0"],
    ...["--data-dir", path.join(directory, name)],
  ]);
  if (process.url === "") throw new Error(process.output());
  started.add(process);
  const kill = async (): Promise<void> => {
    process.child.kill("SIGKILL");
    await process.ended;
    started.delete(process);
  };
  return { process, client: new RestClient(process.url), kill };
}

const throughProxy = (url: string): string => {
  const parsed = new URL(url);
  parsed.port = String(proxy.port);
  return parsed.href;
};

/** A way to wait at one daemon for an action of another. */
interface Way {
  name: string;
  /** Returns the action that is waited for. The action is acknowledged when its promise resolves. */
  prepare: (a: RestClient) => Promise<() => Promise<unknown>>;
  /** Resolves with true if the awaited event has arrived. */
  wait: (b: RestClient, signal: AbortSignal) => Promise<boolean>;
}

const waitMs = 20_000;
const finish = async (a: RestClient, ns: string): Promise<() => Promise<unknown>> => {
  await a.addWorkUnits(ns, "s", [{ name: "u", queues: ["q"] }]);
  const [attempt] = await a.requestAttempts(ns, { worker: "a" });
  return () => a.settleAttempts(ns, [{ attempt: attempt!.id, action: "finish" }]);
};
const work: Way = {
  name: "request for work",
  prepare: async (a) => () => a.addWorkUnits(work.name, "s", [{ name: "u" }]),
  wait: async (b, signal) =>
    (await b.requestAttempts(work.name, { worker: "b", waitMs, signal })).length === 1,
};
const message: Way = {
  name: "taker of messages",
  prepare: (a) => finish(a, message.name),
  wait: async (b, signal) => (await b.takeMessages(message.name, "q", { waitMs, signal })).length === 1,
};
const end: Way = {
  name: "wait for a unit's end",
  prepare: (a) => finish(a, end.name),
  wait: async (b, signal) =>
    (await b.awaitWorkUnits(end.name, "s", ["u"], { waitMs, signal }))[0]?.status === "finished",
};
/** Each uses a separate namespace. */
const ways = [work, message, end];

interface Both {
  url: string;
  a: Daemon;
  b: Daemon;
}

async function both(bThroughProxy = false): Promise<Both> {
  const url = await server.createDatabase();
  const [a, b] = await Promise.all([
    startDaemon(url, "a"),
    startDaemon(bThroughProxy ? throughProxy(url) : url, "b"),
  ]);
  for (const { name } of ways) await a.client.setWorkSpecs(name, [{ data: encodeData({ name: "s" }) }]);
  return { url, a, b };
}

/** For each way to wait, the time from A's acknowledgement to B's response, with a fault before or after the acknowledgement. */
async function timed(
  { a, b }: Both,
  before: () => unknown,
  after: () => unknown,
): Promise<Record<string, number>> {
  const acts = await Promise.all(ways.map(({ prepare }) => prepare(a.client)));
  const never = new AbortController().signal;
  const waits = ways.map(async ({ wait }) => {
    expect(await wait(b.client, never)).toBe(true);
    return performance.now();
  });
  await delay(1500);
  await before();
  await Promise.all(acts.map((act) => act()));
  const acknowledged = performance.now();
  await after();
  const answered = await Promise.all(waits);
  return Object.fromEntries(ways.map(({ name }, i) => [name, Math.round(answered[i]! - acknowledged)]));
}

/** All three responses came in time. */
const expectSoon = (took: Record<string, number>): void => {
  for (const [name, ms] of Object.entries(took)) expect(ms, name).toBeLessThan(promisedMs);
};

const nothing = (): void => undefined;
const signal = (daemon: Daemon, name: "SIGKILL" | "SIGSTOP") => () => daemon.process.child.kill(name);

const endListeners = async (url: string): Promise<unknown[]> =>
  query(
    url,
    `SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
     WHERE application_name = 'coordinate listener' AND datname = current_database()`,
  );

describe("who waits for work, messages or ends is answered within 2 s", () => {
  test.each(["SIGKILL", "SIGSTOP"] as const)(
    "when the daemon that acknowledged gets %s before it could tell",
    async (name) => {
      const daemons = await both();
      expectSoon(await timed(daemons, nothing, signal(daemons.a, name)));
    },
    60_000,
  );

  test("when the listener's connection was ended, in namespaces not heard of before", async () => {
    const daemons = await both();
    const ended = async (): Promise<void> =>
      expect(await endListeners(daemons.url)).toEqual([{ ended: true }]);
    // A sends its notices while no daemon listens
    expectSoon(await timed(daemons, ended, nothing));
  }, 60_000);

  test("when the listener's connection falls silent, and that is replaced", async () => {
    const daemons = await both(true);
    const silence = (): void => {
      expect(proxy.listening).toBe(1);
      proxy.blackhole("listening");
    };
    expectSoon(await timed(daemons, silence, nothing));
    await expect.poll(() => proxy.listening, { timeout: 10_000 }).toBe(1);
  }, 60_000);

  test("when all connections of its daemon fall silent", async () => {
    expectSoon(await timed(await both(true), () => proxy.blackhole(), nothing));
  }, 60_000);
});

test("a unit that a stopped daemon holds locked in a transaction is handed out by another", async () => {
  const { url, a, b } = await both();
  await b.client.addWorkUnits(work.name, "s", [{ name: "u" }]);
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  await locker.query("BEGIN; LOCK TABLE coordinate.tally IN EXCLUSIVE MODE");
  void a.client.setWorkUnitPriorities(work.name, "s", { names: ["u"] }, { set: 5 }).catch(nothing);
  const sessions = (state: string): Promise<unknown[]> =>
    query(url, `SELECT pid FROM pg_stat_activity WHERE application_name = 'a' AND ${state}`);
  // A has locked the unit and waits for the table lock of this test to write the counts
  await expect.poll(() => sessions("wait_event_type = 'Lock'")).toHaveLength(1);
  signal(a, "SIGSTOP")();
  await locker.query("COMMIT");
  await locker.end();
  const released = performance.now();
  await expect.poll(() => sessions("state = 'idle in transaction'")).toHaveLength(1);
  expect(await work.wait(b.client, new AbortController().signal)).toBe(true);
  expect(performance.now() - released).toBeLessThan(promisedMs);
}, 60_000);

test("a statement whose connection falls silent under it is tried again on another", async () => {
  const url = await server.createDatabase();
  const engine = new Engine(await openPostgres({ url: throughProxy(url) }));
  const waiting = engine.requestAttempts("", { worker: "w", waitMs });
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  await expect.poll(() => engine.waiting).toBe(1);
  await locker.query("BEGIN; LOCK TABLE coordinate.worker");
  const workers = engine.getWorkers("", ["w"]);
  await expect
    .poll(() => query(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    .toHaveLength(1);
  proxy.blackhole();
  const silent = performance.now();
  await locker.query("COMMIT");
  await locker.end();
  expect(await workers).toHaveLength(1);
  expect(performance.now() - silent).toBeLessThan(10_000);
  await engine.close();
  await waiting;
}, 60_000);

test("a delay and a lease that another daemon made shorter are noticed, though it says nothing", async () => {
  const url = await server.createDatabase();
  const [one, two] = await Promise.all([
    openPostgres({ url, notify: false }),
    openPostgres({ url, notify: false }),
  ]);
  const clock = await one.clock();
  const [a, b] = [new Engine(one, { clock }), new Engine(two, { clock })];
  await a.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  const claimed = async (): Promise<string | undefined> =>
    (await b.requestAttempts("", { worker: "b", waitMs }))[0]?.workUnit;
  await a.addWorkUnits("", "s", [{ name: "delayed", delayMs: 3_600_000 }]);
  const afterDelay = claimed();
  await delay(2500);
  await a.setWorkUnitDelays("", "s", { names: ["delayed"] }, clock.now() + 200);
  const moved = performance.now();
  expect(await afterDelay).toBe("delayed");
  expect(performance.now() - moved).toBeLessThan(200 + promisedMs);
  await a.addWorkUnits("", "s", [{ name: "leased" }]);
  const [attempt] = await a.requestAttempts("", { worker: "a", lifetimeMs: 3_600_000 });
  const afterLease = claimed();
  await delay(2500);
  await a.settleAttempts("", [{ attempt: attempt!.id, action: "renew", lifetimeMs: 200 }]);
  const shortened = performance.now();
  expect(await afterLease).toBe("leased");
  expect(performance.now() - shortened).toBeLessThan(200 + promisedMs);
  await Promise.all([a.close(), b.close()]);
}, 60_000);

describe("what the extra looking costs", () => {
  const workers = 100;
  const seconds = 3;

  /** Statements per second while 100 workers wait, each in the namespace and for the work spec that `ask` returns. */
  async function measured(
    options: PostgresOptions,
    ask: (i: number) => { ns: string; workSpecs?: string[] },
  ): Promise<number> {
    const store = await openPostgres({ url: await server.createDatabase(), ...options });
    const engine = new Engine(store, { clock: await store.clock() });
    for (let i = 0; i < workers; i++)
      await engine.setWorkSpecs(ask(i).ns, [{ data: encodeData({ name: `s${i}` }) }]);
    const waits = Array.from({ length: workers }, (_, i) => {
      const { ns, ...request } = ask(i);
      return engine.requestAttempts(ns, { worker: `w${i}`, waitMs: 60_000, ...request });
    });
    await expect.poll(() => engine.waiting).toBe(workers);
    await delay(2500);
    const before = store.counters.statements;
    await delay(seconds * 1000);
    const rate = (store.counters.statements - before) / seconds;
    await engine.close();
    await Promise.all(waits);
    return rate;
  }

  test.each([
    ["one namespace", () => ({ ns: "n" })],
    ["one namespace, each for another work spec", (i: number) => ({ ns: "n", workSpecs: [`s${i}`] })],
    ["a namespace each", (i: number) => ({ ns: `n${i}` })],
  ])(
    "a statement a second for 100 who wait in %s",
    async (_name, ask) => {
      expect(await measured({}, ask)).toBeLessThanOrEqual(1.2);
      expect(await measured({ notify: false }, ask)).toBeLessThanOrEqual(1.2);
    },
    60_000,
  );

  test("nothing while nobody waits", async () => {
    const store = await openPostgres({ url: await server.createDatabase() });
    const engine = new Engine(store);
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await engine.requestAttempts("", { worker: "w", waitMs: 1200 });
    await delay(1200);
    const before = store.counters.statements;
    await delay(2500);
    expect(store.counters.statements).toBe(before);
    await engine.close();
  });
});

/**
 * Repeatedly kills, stops or disconnects one of two daemons at a random moment around an acknowledgement. KILLS sets how often,
 * SEED the random seed.
 */
test("random kills: the longest that acknowledged work waited beside an idle worker", async () => {
  const kills = Number(process.env.KILLS ?? 4);
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  const random = seededRandom(seed);
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!;
  const { url, a, b } = await both();
  const daemons: [Daemon, Daemon] = [a, b];
  const faults = {
    killed: (victim: Daemon) => victim.process.child.kill("SIGKILL"),
    stopped: (victim: Daemon) => victim.process.child.kill("SIGSTOP"),
    "killed, and no listener": async (victim: Daemon) => {
      victim.process.child.kill("SIGKILL");
      await endListeners(url);
    },
  };
  const waits: { ms: number; what: string }[] = [];
  let unacknowledged = 0;
  for (let kill = 0; kill < kills; kill++) {
    const at = pick([0, 1] as const);
    const victim = daemons[at];
    const survivor = daemons[at === 0 ? 1 : 0];
    const fault = pick(Object.keys(faults) as (keyof typeof faults)[]);
    const { name: ns, prepare, wait } = pick(ways);
    const act = await prepare(victim.client);
    const stop = new AbortController();
    const waiting = wait(survivor.client, stop.signal).then(
      (came) => ({ came, at: performance.now() }),
      (error: unknown) => ({ came: error, at: performance.now() }),
    );
    await delay(200 + random() * 1500);
    // one fault in five happens during the request, the others up to 60 ms after its response
    const isEarly = random() < 0.2;
    const strike = async (): Promise<unknown> => {
      await delay(random() * (isEarly ? 10 : 60));
      return faults[fault](victim);
    };
    const early = isEarly ? strike() : null;
    const answered = act().then(
      () => performance.now(),
      () => null,
    );
    // a daemon that is stopped too early never responds
    const acknowledged = await Promise.race([answered, delay(3000, null)]);
    await (early ?? strike());
    const what = `${ns}, ${fault}, kill ${kill} of seed ${seed}`;
    if (acknowledged === null) unacknowledged++;
    else {
      const answer = await waiting;
      expect(answer.came, what).toBe(true);
      waits.push({ ms: answer.at - acknowledged, what });
      if (waits.length % 20 === 0)
        console.log(`${kill + 1} kills: longest ${Math.max(...waits.map(({ ms }) => ms)).toFixed(0)} ms`);
    }
    await victim.kill();
    daemons[at] = await startDaemon(url, String(at));
    await daemons[at].client.deleteWorkUnits(ns, "s", { all: true });
    await daemons[at].client.clearQueue(ns, "q");
    stop.abort();
    await waiting;
  }
  waits.sort((a, b) => b.ms - a.ms);
  const [longest] = waits;
  console.log(
    `${kills} kills, seed ${seed}: longest wait ${longest?.ms.toFixed(0)} ms (${longest?.what}), ` +
      `median ${waits[Math.floor(waits.length / 2)]?.ms.toFixed(0)} ms; ${unacknowledged} were not acknowledged`,
  );
  expect(longest?.ms, longest?.what).toBeLessThan(promisedMs);
}, 1_800_000);
