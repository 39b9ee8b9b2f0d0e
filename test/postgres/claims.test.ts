/**
 * Concurrent claims of several workers are one statement, and a claim soon after another reuses its look at the candidates.
 * Both affect only the speed: every worker gets its own units, and changes by another daemon count at once.
 */
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  encodeData,
  Engine,
  ManualClock,
  type AttemptRow,
  type Claim,
  type Store,
  type WorkSpecMetaChange,
} from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, query, type Server } from "./server.ts";
import { WrappedPool } from "./wrapped-pool.ts";

let server: Server;
let url: string;
let store: PostgresStore;
let elsewhere: PostgresStore;
let clock: ManualClock;
/** The daemon under test, and another one on the same database. */
let engine: Engine;
let other: Engine;
let ns: string;
let serial = 0;

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  store = await openPostgres({ url, notify: false });
  elsewhere = await openPostgres({ url, notify: false });
}, 60_000);
afterAll(async () => {
  await store.close();
  await elsewhere.close();
  await server.stop();
});

beforeEach(() => {
  ns = `test ${serial++}`;
  clock = new ManualClock(1_000_000);
  engine = new Engine(store, { clock, random: () => 0, pollMs: 60_000 });
  other = new Engine(elsewhere, { clock, random: () => 0 });
});

const times = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));
const specs = (...all: { name: string; [key: string]: unknown }[]) =>
  engine.setWorkSpecs(
    ns,
    all.map((spec) => ({ data: encodeData(spec) })),
  );
const name = (i: number): string => `u${String(i).padStart(3, "0")}`;
const add = (spec: string, count: number, from = 0, on: Engine = engine) =>
  on.addWorkUnits(
    ns,
    spec,
    times(count, (i) => ({ name: name(from + i), data: encodeData({ i }) })),
  );
const unitsOf = (attempts: readonly AttemptRow[]): string[] => attempts.map(({ workUnit }) => workUnit);
const specsOf = (attempts: readonly AttemptRow[]): string[] => attempts.map(({ workSpec }) => workSpec);

async function trips<Answer>(work: () => Promise<Answer>): Promise<{ answer: Answer; trips: number }> {
  const before = store.counters.statements;
  const answer = await work();
  return { answer, trips: store.counters.statements - before };
}

describe("workers that ask at the same moment", () => {
  const workers = times(16, (i) => `w${i}`);
  const all = (lifetimeMs = (i: number) => 1000 * (i + 1), extra: (i: number) => object = () => ({})) =>
    Promise.all(
      workers.map((worker, i) =>
        engine.requestAttempts(ns, { worker, lifetimeMs: lifetimeMs(i), ...extra(i) }),
      ),
    );

  test("are each given a unit of their own, with their own lease and log, in a few round trips", async () => {
    await specs({ name: "s" });
    await add("s", 60);
    await all();
    const { answer, trips: made } = await trips(() => all());
    // the first claim runs alone, before the others arrive; the others are one statement
    expect(made).toBeLessThanOrEqual(8);
    expect(unitsOf(answer.flat()).sort()).toEqual(times(16, (i) => name(16 + i)));
    for (const [i, attempts] of answer.entries()) {
      expect(attempts).toHaveLength(1);
      expect(attempts[0]).toMatchObject({
        worker: workers[i],
        number: 1,
        status: "pending",
        startTime: clock.now(),
        expirationTime: clock.now() + 1000 * (i + 1),
      });
      // the response matches the stored rows
      expect(
        await engine.getAttempts(
          ns,
          attempts.map(({ id }) => id),
        ),
      ).toEqual(attempts);
      const { rows: logged } = await engine.listWorkerAttempts(ns, workers[i] ?? "", { which: "all" });
      expect(logged).toHaveLength(2);
      expect(logged[0]).toEqual(attempts[0]);
    }
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 28, pending: 32 });
    expect((await engine.listWorkers(ns)).rows.map((worker) => worker.name)).toEqual([...workers].sort());
  });

  test("each lease ends by itself", async () => {
    await specs({ name: "s" });
    await add("s", 16);
    await all();
    clock.advance(5500);
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 5, pending: 11 });
  });

  test("may ask for different numbers, and are served in the order of units", async () => {
    await specs({ name: "s" });
    await add("s", 40);
    const answer = await all(undefined, (i) => ({ number: (i % 3) + 1 }));
    expect(answer.map((attempts) => attempts.length)).toEqual(times(16, (i) => (i % 3) + 1));
    expect(unitsOf(answer.flat())).toEqual(times(31, name));
  });

  test("when there are fewer units than places, who stands first is served and the others get none", async () => {
    await specs({ name: "s" });
    await add("s", 5);
    const answer = await all();
    expect(answer.map((attempts) => attempts.length)).toEqual(times(16, (i) => (i < 5 ? 1 : 0)));
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 0, pending: 5 });
  });

  test("when there are fewer units than places, who waits is served as units come", async () => {
    await specs({ name: "s" });
    await add("s", 5);
    const asked = workers.map((worker) => engine.requestAttempts(ns, { worker, waitMs: 3_600_000 }));
    await expect.poll(() => engine.waiting, { timeout: 20_000 }).toBe(11);
    await add("s", 11, 100);
    const answer = await Promise.all(asked);
    expect(answer.map((attempts) => attempts.length)).toEqual(times(16, () => 1));
    expect(new Set(unitsOf(answer.flat())).size).toBe(16);
    expect(unitsOf(answer.slice(0, 5).flat())).toEqual(times(5, name));
  });

  test("with request ids: each id once, a repeated one gets what it got, the others go on", async () => {
    await specs({ name: "s" });
    await add("s", 60);
    const ids = (from: number) => (i: number) => ({ requestId: `r${from + i}` });
    const first = await all(undefined, ids(0));
    expect(new Set(unitsOf(first.flat())).size).toBe(16);
    // half of the ids are repeated
    const second = await all(undefined, ids(8));
    expect(second.slice(0, 8)).toEqual(first.slice(8));
    expect(unitsOf(second.slice(8).flat())).toEqual(times(8, (i) => name(16 + i)));
    // a repeated id whose attempt has ended gets nothing; the others claim as usual
    await engine.settleAttempts(ns, [{ attempt: first[0]?.[0]?.id ?? "", action: "finish" }]);
    const third = await all(undefined, (i) => ({ requestId: i === 3 ? "r0" : `s${i}` }));
    expect(third.map((attempts) => attempts.length)).toEqual(times(16, (i) => (i === 3 ? 0 : 1)));
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 21, pending: 38, finished: 1 });
  });

  test("the same request id several times at the same moment, on one daemon and on two", async () => {
    await specs({ name: "s" });
    await add("s", 60);
    // the first claim runs alone; among the others, which run together, each id occurs twice
    const same = await all(undefined, (i) => ({ requestId: `twice ${Math.ceil(i / 2)}` }));
    for (let i = 1; i < 15; i += 2) expect(unitsOf(same[i] ?? [])).toEqual(unitsOf(same[i + 1] ?? []));
    expect(new Set(unitsOf(same.flat())).size).toBe(9);
    const both = await Promise.all(
      times(16, (i) =>
        (i % 2 === 0 ? engine : other).requestAttempts(ns, {
          worker: `w${i}`,
          requestId: `both ${Math.floor(i / 2)}`,
        }),
      ),
    );
    for (let i = 0; i < 16; i += 2) expect(unitsOf(both[i] ?? [])).toEqual(unitsOf(both[i + 1] ?? []));
    expect(new Set(unitsOf(both.flat())).size).toBe(8);
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 43, pending: 17 });
  });

  test("max_retries: units that were tried too often are failed, the others are handed out", async () => {
    await specs({ name: "s", max_retries: 1 });
    await add("s", 40);
    const tried = await engine.requestAttempts(ns, { worker: "w", number: 10 });
    await engine.settleAttempts(
      ns,
      tried.map(({ id }) => ({ attempt: id, action: "retry" as const })),
    );
    const answer = await all();
    expect(answer.map((attempts) => attempts.length)).toEqual(times(16, () => 1));
    expect(unitsOf(answer.flat()).sort()).toEqual(times(16, (i) => name(10 + i)));
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ available: 14, pending: 16, failed: 10 });
  });

  test("units that were tried before keep their history", async () => {
    await specs({ name: "s" });
    await add("s", 16);
    const tried = (await all()).flat();
    await engine.settleAttempts(
      ns,
      tried.map(({ id }) => ({ attempt: id, action: "retry" as const })),
    );
    const again = (await all()).flat();
    expect(again.map(({ number }) => number)).toEqual(times(16, () => 2));
    for (const { workUnit, worker } of again) {
      const history = await engine.listUnitAttempts(ns, "s", workUnit);
      expect(history.map(({ status }) => status)).toEqual(["retryable", "pending"]);
      expect(history[1]?.worker).toBe(worker);
    }
  });

  test("max_running holds, and who stands first is served", async () => {
    await specs({ name: "s", max_running: 7 });
    await add("s", 40);
    const first = await all();
    expect(first.flat()).toHaveLength(7);
    await engine.settleAttempts(
      ns,
      first
        .flat()
        .slice(0, 3)
        .map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
    expect((await all()).flat()).toHaveLength(3);
    expect((await engine.tally(ns))[0]?.counts).toMatchObject({ pending: 7 });
  });

  test("a continuous work spec makes one unit, for one of them", async () => {
    await specs({ name: "s", continuous: true, interval: 60 });
    expect((await all()).flat()).toHaveLength(1);
    expect((await all()).flat()).toHaveLength(0);
    await add("s", 3);
    expect((await all()).flat()).toHaveLength(3);
  });

  test("a paused work spec gives nothing to anybody, and one that is paused meanwhile nothing more", async () => {
    await specs({ name: "s" });
    await add("s", 60);
    expect((await all()).flat()).toHaveLength(16);
    await other.setWorkSpecMeta(ns, "s", { paused: true });
    expect((await all()).flat()).toHaveLength(0);
    await other.setWorkSpecMeta(ns, "s", { paused: false });
    expect((await all()).flat()).toHaveLength(16);
  });
});

describe("a claim right after another", () => {
  const claim = (more: object = {}) => engine.requestAttempts(ns, { worker: "w", ...more });

  /** Claims until a claim reuses the cached look: for a moment, further claims do so too. */
  async function warm(more: object = {}): Promise<void> {
    for (let tries = 0; tries < 10; tries++) {
      const { answer, trips: made } = await trips(() => claim(more));
      expect(answer).not.toEqual([]);
      if (made === 1) return;
    }
    expect.fail("every claim looked for itself");
  }

  test("is one statement while only one work spec has anything", async () => {
    await specs({ name: "a" }, { name: "b", priority: 10 });
    await add("a", 40);
    await warm();
    const { answer, trips: made } = await trips(async () => {
      const units: string[] = [];
      for (let i = 0; i < 20; i++) units.push(...unitsOf(await claim()));
      return units;
    });
    expect([...answer]).toEqual([...answer].sort());
    expect(new Set(answer).size).toBe(20);
    // on a slow machine there is a new look every second
    expect(made).toBeLessThan(35);
  });

  interface Change {
    /** Work specs in addition to `a`, which has units 0 to 39. */
    specs?: { name: string; [key: string]: unknown }[];
    a?: object;
    before?: () => Promise<unknown>;
    /** The change by the other daemon. */
    change: () => Promise<unknown>;
    request?: object;
    /** Checks the attempts of the next claim. */
    then: (attempts: readonly AttemptRow[]) => void;
    /** With several candidates or a limit, every claim needs its own look. */
    looks?: true;
  }
  const urgent = { name: "b", priority: 10 };
  const from = (spec: string) => (attempts: readonly AttemptRow[]) =>
    expect(specsOf(attempts)).toEqual([spec]);
  const unit = (i: number) => (attempts: readonly AttemptRow[]) =>
    expect(unitsOf(attempts)).toEqual([name(i)]);
  const none = (attempts: readonly AttemptRow[]) => expect(attempts).toEqual([]);
  const meta = (spec: string, change: WorkSpecMetaChange) => other.setWorkSpecMeta(ns, spec, change);
  const delayed = () => other.addWorkUnits(ns, "b", [{ name: "later", delayMs: 1000 }]);
  const leased = async () => {
    await add("b", 1, 0, other);
    await other.requestAttempts(ns, { worker: "elsewhere", workSpecs: ["b"], lifetimeMs: 1000 });
  };
  const finish = async (spec: string, output: string[] = []) => {
    const { rows } = await other.listWorkerAttempts(ns, "elsewhere", { which: "active" });
    const attempt = rows.find(({ workSpec }) => workSpec === spec);
    return other.settleAttempts(ns, [
      { attempt: attempt?.id ?? "", action: "finish", data: encodeData({ output }) },
    ]);
  };

  const changes: Record<string, Change> = {
    "work of a more urgent spec is added": {
      specs: [urgent],
      change: () => add("b", 1, 0, other),
      then: from("b"),
    },
    "a more urgent spec is made, and work for it": {
      change: async () => {
        await other.setWorkSpecs(ns, [{ data: encodeData({ name: "new", priority: 10 }) }]);
        await add("new", 1, 0, other);
      },
      then: from("new"),
    },
    "a spec is deleted, and another is made that had as much": {
      specs: [urgent],
      before: async () => {
        await add("b", 3, 0, other);
        const rows = await other.requestAttempts(ns, { worker: "elsewhere", number: 3, workSpecs: ["b"] });
        await other.settleAttempts(
          ns,
          rows.map(({ id }) => ({ attempt: id, action: "finish" as const })),
        );
      },
      change: async () => {
        await other.deleteWorkSpecs(ns, ["b"]);
        await other.setWorkSpecs(ns, [{ data: encodeData({ name: "c", priority: 10 }) }]);
        await add("c", 3, 0, other);
      },
      then: from("c"),
    },
    "the spec is paused": { change: () => meta("a", { paused: true }), then: none },
    "another is unpaused": {
      specs: [urgent],
      before: async () => {
        await add("b", 1, 0, other);
        await meta("b", { paused: true });
      },
      change: () => meta("b", { paused: false }),
      then: from("b"),
      looks: true,
    },
    "the spec's weight becomes 0": { change: () => meta("a", { weight: 0 }), then: none },
    "the spec gets max_running": { change: () => meta("a", { maxRunning: 1 }), then: none },
    "the spec gets max_getwork": {
      change: () => meta("a", { maxGetwork: 2 }),
      request: { number: 5 },
      then: (attempts) => expect(attempts).toHaveLength(2),
    },
    "the spec gets max_retries": {
      before: async () => {
        const rows = await other.requestAttempts(ns, { worker: "elsewhere", number: 20, workSpecs: ["a"] });
        await other.settleAttempts(
          ns,
          rows.map(({ id }) => ({ attempt: id, action: "retry" as const })),
        );
      },
      change: () => meta("a", { maxRetries: 1 }),
      then: unit(20),
    },
    "the spec's runtime changes": {
      a: { runtime: "x" },
      change: () => other.setWorkSpecs(ns, [{ data: encodeData({ name: "a", runtime: "y" }) }]),
      request: { runtimes: ["x"] },
      then: none,
    },
    "a delayed unit of another spec is due": {
      specs: [urgent],
      before: delayed,
      change: async () => clock.advance(1000),
      then: from("b"),
    },
    "a delayed unit of another spec may run at once": {
      specs: [urgent],
      before: delayed,
      change: () => other.setWorkUnitDelays(ns, "b", { all: true }, 0),
      then: from("b"),
    },
    "a lease of another spec ends": {
      specs: [urgent],
      before: leased,
      change: async () => clock.advance(1000),
      then: from("b"),
    },
    "an attempt of another spec is to be made again": {
      specs: [urgent],
      before: leased,
      change: () => other.resetWorkUnits(ns, "b", { all: true }),
      then: from("b"),
    },
    "another spec becomes continuous": {
      specs: [{ ...urgent, continuous: true }],
      before: () => meta("b", { continuous: false }),
      change: () => meta("b", { continuous: true }),
      then: from("b"),
    },
    "a finished unit's output is work of a more urgent spec": {
      specs: [
        { name: "b", then: "c" },
        { name: "c", priority: 10 },
      ],
      before: leased,
      change: () => finish("b", ["made"]),
      then: from("c"),
    },
    "a unit of a more urgent spec waited for one that is finished": {
      specs: [{ name: "b" }, { name: "c", priority: 10 }],
      before: async () => {
        await leased();
        await other.addWorkUnits(ns, "c", [
          { name: "waits", dependencies: [{ workSpec: "b", workUnit: name(0) }] },
        ]);
      },
      change: () => finish("b"),
      then: from("c"),
    },
    "a unit of the spec becomes more urgent": {
      change: () => other.setWorkUnitPriorities(ns, "a", { names: [name(33)] }, { set: 5 }),
      then: unit(33),
    },
    "a unit is added that comes first": { change: () => add("a", 1, -1, other), then: unit(-1) },
    "a unit is added that is more urgent": {
      change: () => other.addWorkUnits(ns, "a", [{ name: name(99), priority: 1 }]),
      then: unit(99),
    },
    "a unit that was handed out is taken back": {
      change: () => other.resetWorkUnits(ns, "a", { names: [name(0)] }),
      then: unit(0),
    },
    "the next unit is deleted": {
      change: async () => {
        const { rows } = await other.listWorkUnits(ns, "a", { statuses: ["available"], limit: 1 });
        return other.deleteWorkUnits(ns, "a", { names: rows.map((row) => row.name) });
      },
      then: (attempts) => expect(attempts).toHaveLength(1),
    },
    "the spec is deleted": { change: () => other.deleteWorkSpecs(ns, ["a"]), then: none },
    "the namespace is deleted": { change: () => other.deleteNamespace(ns), then: none },
    "the namespace is deleted and made again": {
      change: async () => {
        await other.deleteNamespace(ns);
        await other.setWorkSpecs(ns, [{ data: encodeData({ name: "a" }) }]);
        await add("a", 1, 77, other);
      },
      then: unit(77),
    },
  };

  test.each(Object.keys(changes))("obeys when, on another daemon: %s", async (what) => {
    const { specs: more = [], a = {}, before, change, request = {}, then, looks } = changes[what]!;
    await specs({ name: "a", ...a }, ...more);
    await add("a", 40);
    await before?.();
    if (looks !== true) await warm(request);
    else expect(specsOf(await claim())).toEqual(["a"]);
    await change();
    then(await claim(request));
  });

  test("of one work spec finds what came there at once, though another was seen", async () => {
    await specs({ name: "a" }, { name: "b" }, { name: "c" });
    await add("a", 40);
    await warm();
    expect(await claim({ workSpecs: ["b"] })).toEqual([]);
    await warm();
    await add("b", 1, 0, other);
    expect(specsOf(await claim({ workSpecs: ["b", "c"] }))).toEqual(["b"]);
  });

  test("explain and tally are never from memory", async () => {
    await specs({ name: "a" }, { name: "b", priority: 10 });
    await add("a", 40);
    await warm();
    await add("b", 2, 0, other);
    await other.requestAttempts(ns, { worker: "elsewhere", number: 5, workSpecs: ["a"] });
    const [a, b] = await engine.explain(ns, {});
    const pending = 40 - (a?.available ?? 0);
    expect(a).toMatchObject({ workSpec: "a", excluded: "lower_priority", pending });
    expect(b).toMatchObject({ workSpec: "b", excluded: null, available: 2 });
    expect(await other.explain(ns, {})).toEqual([a, b]);
    await warm();
    await other.requestAttempts(ns, { worker: "elsewhere", workSpecs: ["a"] });
    const [counted] = await engine.tally(ns);
    const { rows } = await other.listWorkUnits(ns, "a", { statuses: ["available"] });
    expect(counted?.counts).toMatchObject({ available: rows.length, pending: 40 - rows.length });
    expect(await other.tally(ns)).toEqual(await engine.tally(ns));
  });

  test("a look that was forgotten meanwhile is good for nothing", async () => {
    await specs({ name: "a" }, { name: "b", priority: 10 });
    await add("a", 40);
    await warm();
    const look = await (store as Store).candidates(ns, { requestId: null, fresh: false }, clock.now());
    expect(look.look).toBeTypeOf("number");
    const a = look.candidates.find((one) => one.name === "a");
    await add("b", 5, 0, other);
    // another request looks, and its look replaces the cached one
    await engine.requestAttempts(ns, { worker: "w", workSpecs: ["b"] });
    const old: Claim = {
      workSpec: { name: "a", id: a?.id ?? 0 },
      worker: "w",
      limit: 1,
      lifetimeMs: 1000,
      maxRetries: 0,
      requestId: null,
      look: look.look ?? 0,
    };
    expect((await store.claim(ns, old, clock.now())).attempts).toEqual([]);
    const { look: _earlier, ...fresh } = old;
    expect((await store.claim(ns, fresh, clock.now())).attempts).toHaveLength(1);
  });

  test("who asks beside somebody that repeats a request obeys too", async () => {
    await specs({ name: "a" }, { name: "b", priority: 10 });
    await add("a", 40);
    const given = await claim({ requestId: "r" });
    // a claim with a request id never uses the plain statement, but it can also reuse a look
    for (let tries = 0, made = 0; made !== 1; tries++) {
      expect(tries).toBeLessThan(10);
      ({ trips: made } = await trips(() => claim({ requestId: `warm ${tries}` })));
    }
    await add("b", 5, 0, other);
    const answers = await Promise.all(
      ["x", "r", "y", "z"].map((requestId) => engine.requestAttempts(ns, { worker: "w", requestId })),
    );
    expect(answers.map(specsOf)).toEqual([["b"], ["a"], ["b"], ["b"]]);
    expect(answers[1]).toEqual(given);
  });
});

test("what a claim gave is noted in the order it was given, whatever joins the planner uses", async () => {
  const fresh = await server.createDatabase();
  const setting = await openPostgres({ url: fresh, notify: false });
  const setter = new Engine(setting, { clock });
  await setter.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
  // ids ascend while names descend: for a small table, the planner reads all rows in the order of ids
  await setter.addWorkUnits(
    ns,
    "s",
    times(6, (i) => ({ name: name(5 - i) })),
  );
  await query(fresh, "ANALYZE");
  const claiming = await openPostgres({ url: fresh, notify: false });
  const claimer = new Engine(claiming, { clock });
  const request = { worker: "w", number: 3, requestId: "r" };
  const first = await claimer.requestAttempts(ns, request);
  expect(unitsOf(first)).toEqual(times(3, name));
  expect(await claimer.requestAttempts(ns, request)).toEqual(first);
  await claimer.requestAttempts(ns, { worker: "w", number: 2 });
  const { rows } = await claimer.listWorkerAttempts(ns, "w", { which: "all" });
  expect(unitsOf(rows)).toEqual(times(5, (i) => name(4 - i)));
  await claimer.close();
  await setter.close();
});

describe("a request that is repeated while it is looked up", () => {
  /** Called once, after the next look at the candidates has been read. */
  let meanwhile: (() => Promise<unknown>) | null = null;
  let pool: WrappedPool;
  let pausing: PostgresStore;
  beforeEach(async () => {
    pool = new WrappedPool(url, async (client, config) => {
      const answer = await client.query(config);
      const act = config.text.includes("n.policy, n.desired, s.id") ? meanwhile : null;
      if (act !== null) meanwhile = null;
      await act?.();
      return answer;
    });
    pausing = await openPostgres({ pool, notify: false });
  });
  afterEach(async () => {
    await pausing.close();
    await pool.end();
  });

  test("gets what it was given, though that holds its partition", async () => {
    await specs({ name: "s", order: "partition" });
    await add("s", 2);
    let given: AttemptRow[] = [];
    meanwhile = async () => (given = await other.requestAttempts(ns, { worker: "w", requestId: "r" }));
    const { repeated } = await pausing.candidates(ns, { requestId: "r", fresh: true }, clock.now());
    expect(unitsOf(given)).toEqual([name(0)]);
    expect(repeated).toEqual(given);
  });
});

describe("units that another transaction has locked", () => {
  const count = 600;
  let at: string;
  let holder: pg.Client;

  beforeEach(async () => {
    at = await server.createDatabase();
    holder = new pg.Client({ connectionString: at });
    await holder.connect();
  });
  afterEach(() => holder.end());

  /** Claims on a store of its own; the second claim is of a known worker, and so optimistic. */
  async function claims(lock: string): Promise<string[]> {
    const claiming = await openPostgres({ url: at, notify: false });
    const claimer = new Engine(claiming, { clock });
    await claimer.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await claimer.addWorkUnits(
      "",
      "s",
      times(count, (i) => ({ name: name(i) })),
    );
    await query(at, "SELECT pg_stat_reset()");
    const given = await claimer.requestAttempts("", { worker: "w" });
    await holder.query("BEGIN");
    await holder.query(
      `SELECT 1 FROM coordinate.unit u JOIN coordinate.waiting w ON w.unit = u.id WHERE u.key < '${name(500)}' FOR UPDATE OF ${lock}`,
    );
    for (const number of [1, 3]) given.push(...(await claimer.requestAttempts("", { worker: "w", number })));
    await claimer.close();
    return unitsOf(given);
  }

  test("for a change are passed by", async () => {
    expect(await claims("u")).toEqual([name(0), ...times(4, (i) => name(500 + i))]);
  });

  test("for a claim are passed by without being read", async () => {
    expect(await claims("u, w")).toEqual([name(0), ...times(4, (i) => name(500 + i))]);
    const sessions =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'coordinate'";
    await expect.poll(() => query(at, sessions), { timeout: 10_000 }).toEqual([]);
    const reads = "SELECT idx_tup_fetch::int AS n FROM pg_stat_user_tables WHERE relname = 'unit'";
    const [unit] = (await query(at, reads)) as { n: number }[];
    expect(unit!.n).toBeGreaterThan(0);
    // fewer than are locked
    expect(unit!.n).toBeLessThan(500);
  });
});

test("16 workers, while another daemon adds and settles: nothing is given twice, and nothing is left", async () => {
  await specs({ name: "a" }, { name: "b", priority: 10 });
  const given: string[] = [];
  let adding = true;
  const adder = async (): Promise<void> => {
    for (let i = 0; i < 20; i++) {
      await add("a", 20, i * 20, other);
      if (i % 5 === 0) await add("b", 2, i, other);
    }
    adding = false;
  };
  const worker = async (w: number): Promise<void> => {
    for (;;) {
      const last = !adding;
      const attempts = await engine.requestAttempts(ns, { worker: `w${w}`, number: 1 + (w % 3) });
      given.push(...attempts.map(({ id }) => id));
      await (w % 2 === 0 ? engine : other).settleAttempts(
        ns,
        attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
      );
      if (last && attempts.length === 0) return;
    }
  };
  await Promise.all([adder(), ...times(16, worker)]);
  expect(new Set(given).size).toBe(given.length);
  expect(given).toHaveLength(408);
  const [a, b] = await engine.tally(ns);
  expect([a?.counts.finished, b?.counts.finished]).toEqual([400, 8]);
  // recount the rows
  expect(
    await query(
      url,
      `SELECT count(*)::int AS n FROM coordinate.unit u JOIN coordinate.spec s ON s.id = u.spec
       JOIN coordinate.namespace n ON n.id = s.namespace WHERE n.name = convert_to($1, 'UTF8') AND u.status = 4`,
      [ns],
    ),
  ).toEqual([{ n: 408 }]);
}, 60_000);
