/** Acknowledged work survives broken connections and server crashes. */
import { chmodSync, chownSync, cpSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine, isCoordinateError } from "../../src/core/index.ts";
import { isBroken } from "../../src/postgres/connection.ts";
import { openPostgres, type PostgresOptions, type PostgresStore } from "../../src/postgres/index.ts";
import { check, emptyLedger, type Ledger } from "./check.ts";
import { Proxy } from "./proxy.ts";
import { query, startServer, type OwnServer } from "./server.ts";

const through = (proxy: Proxy, url: string): string => {
  const parsed = new URL(url);
  parsed.port = String(proxy.port);
  return parsed.href;
};

async function prepared(store: PostgresStore): Promise<Engine> {
  const engine = new Engine(store, { clock: await store.clock() });
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", then: "next" }) },
    { data: encodeData({ name: "next", disabled: true }) },
  ]);
  return engine;
}

test("a mistake of the program is not taken for a broken connection, which is retried for long", () => {
  const coded = (error: Error, code: string): Error => Object.assign(error, { code });
  for (const code of ["ECONNRESET", "ENOTFOUND", "ERR_STREAM_PREMATURE_CLOSE", "57P01"])
    expect(isBroken(coded(new Error("gone"), code)), code).toBe(true);
  expect(isBroken(coded(new RangeError("out of range"), "ERR_OUT_OF_RANGE"))).toBe(false);
  expect(isBroken(coded(new TypeError("not a string"), "ERR_INVALID_ARG_TYPE"))).toBe(false);
  expect(isBroken(new TypeError("undefined has no 'connection'"))).toBe(false);
});

describe("one server", () => {
  let server: OwnServer;
  let proxy: Proxy;
  beforeAll(async () => {
    server = await startServer();
    proxy = new Proxy(server.port);
    await proxy.listen();
  }, 60_000);
  afterAll(async () => {
    await proxy.close();
    await server.stop();
  });

  const open = async (
    options: PostgresOptions = {},
  ): Promise<{ store: PostgresStore; engine: Engine; url: string }> => {
    const url = await server.createDatabase();
    const store = await openPostgres({ url: through(proxy, url), poolSize: 1, notify: false, ...options });
    return { store, engine: await prepared(store), url };
  };

  test("cut at every message of an add, a claim and a settle: carried out once when it has a request id", async () => {
    const { engine, url } = await open();
    const ledger = emptyLedger();
    let cuts = 0;
    for (const direction of ["to server", "to client"] as const)
      for (let messages = 0; messages < 12; messages++) {
        const name = `${direction} ${messages}`;
        const step = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
          proxy.cutAfter(direction, messages);
          const answer = await work();
          if (!proxy.armed) cuts++;
          proxy.disarm();
          return answer;
        };
        const queues = messages % 2 === 0 ? ["ends", "all"] : [];
        await step(() => engine.addWorkUnits("", "s", [{ name, queues }], { requestId: `add ${name}` }));
        ledger.added.add(name);
        const attempts = await step(() =>
          engine.requestAttempts("", { worker: "w", requestId: `claim ${name}`, workSpecs: ["s"] }),
        );
        expect(attempts.map(({ workUnit, number }) => [workUnit, number])).toEqual([[name, 1]]);
        const { id } = attempts[0]!;
        const data = encodeData({ output: [`out ${name}`] });
        const [answer] = await step(() =>
          engine.settleAttempts("", [{ attempt: id, action: "finish", data }]),
        );
        expect(answer?.error).toBeNull();
        ledger.finished.set(id, `out ${name}`);
      }
    expect(cuts).toBeGreaterThan(40);
    expect(await check(url, ledger)).toEqual([]);
    await engine.close();
  }, 120_000);

  test.each([
    ["a few units: carried out once", 1, "s"],
    ["a few units, to a work spec it has not seen: carried out once", 1, null],
    ["many units: success, or unknown, or nothing happened", 21, "s"],
  ])("cut at every message of an add of %s", { timeout: 120_000 }, async (_, count, known) => {
    const { engine, store, url } = await open();
    const outcomes = { done: 0, unknown: 0, refused: 0 };
    for (const direction of ["to server", "to client"] as const)
      for (let messages = 0; messages < 14; messages++) {
        const names = Array.from({ length: count }, (_, i) => `${direction} ${messages} ${i}`);
        const spec = known ?? `${direction} ${messages}`;
        if (known === null) await engine.setWorkSpecs("", [{ data: encodeData({ name: spec }) }]);
        proxy.cutAfter(direction, messages);
        const error: unknown = await engine
          .addWorkUnits(
            "",
            spec,
            names.map((name) => ({ name })),
          )
          .then(
            () => null,
            (reason: unknown) => reason,
          );
        proxy.disarm();
        const there = (await engine.getWorkUnits("", spec, names)).filter((unit) => unit !== null).length;
        if (error === null) {
          outcomes.done++;
          expect(there).toBe(count);
        } else if (isCoordinateError(error, "unknown_outcome")) {
          outcomes.unknown++;
          expect([0, count]).toContain(there);
        } else {
          outcomes.refused++;
          expect(there).toBe(0);
        }
      }
    expect(outcomes.unknown > 0).toBe(count > 1);
    expect(outcomes.refused).toBe(0);
    expect(store.counters.unknown).toBe(outcomes.unknown);
    expect(await query(url, "SELECT count(*)::int AS n FROM coordinate.unit")).toEqual([
      {
        n: Object.values(await engine.tally("")).reduce((sum, { counts }) => sum + counts.available, 0),
      },
    ]);
    await engine.close();
  });

  test("a connection that falls silent is given up, and the request carried out on another", async () => {
    const { engine } = await open({ answerTimeoutMs: 700, statementTimeoutMs: 500 });
    await engine.addWorkUnits("", "s", [{ name: "a" }]);
    proxy.blackhole();
    const started = performance.now();
    const attempts = await engine.requestAttempts("", { worker: "w", requestId: "r" });
    expect(attempts).toHaveLength(1);
    expect(performance.now() - started).toBeLessThan(5000);
    proxy.blackhole();
    const [answer] = await engine.settleAttempts("", [{ attempt: attempts[0]!.id, action: "finish" }]);
    expect(answer?.error).toBeNull();
    await engine.close();
  }, 60_000);

  test("a server that cannot be reached is said to be unavailable, and a pool that is used up too", async () => {
    const { engine } = await open({ patienceMs: 300 });
    proxy.refuse(true);
    await expect(engine.addWorkUnits("", "s", [{ name: "b" }])).rejects.toMatchObject({
      code: "unavailable",
    });
    proxy.refuse(false);
    await engine.addWorkUnits("", "s", [{ name: "b" }]);
    await engine.close();
    const url = await server.createDatabase();
    const store = await openPostgres({ url, poolSize: 1, connectTimeoutMs: 200, notify: false });
    const crowded = await prepared(store);
    const blocker = new pg.Client({ connectionString: url });
    await blocker.connect();
    await blocker.query("BEGIN; LOCK coordinate.lease");
    const first = crowded.addWorkUnits("", "s", [{ name: "c" }]);
    await expect(crowded.getWorkSpecs("", ["s"])).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/timeout/) as string,
    });
    await blocker.query("ROLLBACK");
    await blocker.end();
    await first;
    await crowded.close();
  }, 60_000);

  test("every connection ended by the server: the next request has another", async () => {
    const { engine, url } = await open({ poolSize: 5 });
    for (let i = 0; i < 20; i++) {
      await query(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'coordinate'",
      );
      await engine.addWorkUnits("", "s", [{ name: String(i) }], { requestId: String(i) });
    }
    expect((await engine.tally(""))[1]?.counts.available).toBe(20);
    await engine.close();
  }, 60_000);

  test.each(["fast", "immediate", "kill"] as const)(
    "the server is ended (%s) under load and comes back: nothing acknowledged is lost",
    async (how) => {
      const url = await server.createDatabase();
      const ledger = emptyLedger();
      const store = await openPostgres({ url, poolSize: 4, patienceMs: 30_000 });
      const engine = await prepared(store);
      await underLoad(engine, ledger, async () => {
        for (let i = 0; i < 2; i++) {
          await finishedMore(ledger, 10);
          await server.halt(how);
          await server.start();
        }
        await finishedMore(ledger, 10);
      });
      expect(await check(url, ledger)).toEqual([]);
      await engine.close();
    },
    120_000,
  );
});

/** Waits until `count` more attempts are finished: work goes on after a fault. */
async function finishedMore(ledger: Ledger, count: number): Promise<void> {
  const enough = ledger.finished.size + count;
  while (ledger.finished.size < enough) await delay(10);
}

let serial = 0;

/** Four workers add, claim and finish with request ids, and record the responses in the ledger. */
async function underLoad(engine: Engine, ledger: Ledger, meanwhile: () => Promise<void>): Promise<void> {
  let over = false;
  const worker = async (w: number): Promise<void> => {
    while (!over) {
      const id = serial++;
      const name = `u${id}`;
      ledger.maybeAdded.add(name);
      try {
        await engine.addWorkUnits("", "s", [{ name }], { requestId: `a${id}` });
        ledger.added.add(name);
        const attempts = await engine.requestAttempts("", {
          worker: `w${w}`,
          requestId: `c${id}`,
          number: 2,
        });
        const changes = attempts.map(({ id: attempt, workUnit }) => {
          const data = encodeData({ output: [`out ${workUnit}`] });
          return { attempt, action: "finish" as const, data };
        });
        const answers = await engine.settleAttempts("", changes);
        answers.forEach(({ error }, i) => {
          expect(error).toBeNull();
          ledger.finished.set(changes[i]!.attempt, `out ${attempts[i]!.workUnit}`);
        });
      } catch (error) {
        // unknown outcome or unavailable: the ledger records nothing
        if (!isCoordinateError(error)) throw error;
        await delay(20);
      }
    }
  };
  const workers = Array.from({ length: 4 }, (_, w) => worker(w));
  // if the workers stop with an error, the test must end: `meanwhile` would wait forever for finished work
  await Promise.race([meanwhile(), Promise.all(workers)]);
  over = true;
  await Promise.all(workers);
}

/** Waits until commits wait for the standby: the server applies the setting some time after the reload. */
async function settled(url: string): Promise<void> {
  const states = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
  while ((await query(url, states)).length === 0) await delay(20);
  // commits use a flag that the checkpointer sets; the checkpointer reads the setting before a checkpoint
  await query(url, "CHECKPOINT");
}

describe("fail-over", () => {
  test("a standby that is promoted has everything that was acknowledged, and connections to a standby are thrown away", async () => {
    const settings = [
      "max_connections = 50",
      "fsync = off",
      "wal_level = replica",
      "max_wal_senders = 5",
      "hot_standby = on",
    ];
    const primary = await startServer({ settings });
    const standby = await startServer(
      {
        settings: [
          `primary_conninfo = 'host=127.0.0.1 port=${primary.port} user=postgres application_name=standby'`,
        ],
      },
      async (directory) => {
        // copy the files while the server is stopped: pg_basebackup is not part of every installation
        await primary.halt("fast");
        cpSync(primary.directory, directory, { recursive: true, preserveTimestamps: true });
        writeFileSync(path.join(directory, "standby.signal"), "");
        const { uid, gid } = statSync(primary.directory);
        for (const name of ["", ...readdirSync(directory, { recursive: true, encoding: "utf8" })])
          chownSync(path.join(directory, name), uid, gid);
        chmodSync(directory, 0o700);
        await primary.start();
      },
    );
    const proxy = new Proxy(primary.port);
    await proxy.listen();
    try {
      // a commit is acknowledged when both servers have it: an asynchronous standby may lose the last commits
      await query(primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
      await query(primary.url(), "SELECT pg_reload_conf()");
      await settled(primary.url());
      const url = await primary.createDatabase();
      const ledger = emptyLedger();
      const store = await openPostgres({ url: through(proxy, url), poolSize: 4, patienceMs: 30_000 });
      const engine = await prepared(store);
      const promoted = new URL(url);
      promoted.port = String(standby.port);
      await underLoad(engine, ledger, async () => {
        await finishedMore(ledger, 10);
        await primary.halt("kill");
        // for a while the address already leads to the standby, which refuses writes
        proxy.retarget(standby.port);
        await delay(500);
        await query(standby.url(), "SELECT pg_promote()");
        await finishedMore(ledger, 10);
      });
      expect(await check(promoted.href, ledger)).toEqual([]);
      expect(store.counters.discarded).toBeGreaterThan(0);
      await engine.close();
    } finally {
      await proxy.close();
      await standby.stop();
      await primary.stop();
    }
  }, 120_000);
});
