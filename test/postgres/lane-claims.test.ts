/**
 * Claims by partition: the same random histories on the memory store, which has no fast path for them, and on PostgreSQL, where most
 * of them are one statement.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  encodeData,
  Engine,
  ManualClock,
  seededRandom,
  type AttemptAction,
  type AttemptRow,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, type Server } from "./server.ts";
import { checkStanding } from "./standing.ts";

let server: Server;
let url: string;
let store: PostgresStore;

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  store = await openPostgres({ url, notify: false });
}, 60_000);
afterAll(async () => {
  await store.close();
  await server.stop();
});

/** Partitions whose names are empty, not ASCII, beyond the first plane, and longer than a key. */
const odd = ["", "ä", "\u{1f600}", "\uffff", "long ".repeat(50), `${"long ".repeat(50)}2`];

const actions: readonly AttemptAction[] = ["finish", "finish", "finish", "finish", "fail", "retry"];

type Below = (count: number) => number;

/** Each rule is there or not; with few partitions a claim visits each of them several times. */
const rulesOf = (below: Below): Record<string, unknown> => ({
  ...(below(2) === 0 && { fair: "partition" }),
  ...(below(2) === 0 && { max_running_per_partition: 1 + below(4) }),
  ...(below(3) === 0 && { rate_per_partition: { limit: 1 + below(7), period: 3, burst: 1 + below(4) } }),
  ...(below(4) === 0 && { order: "partition" }),
  ...(below(4) === 0 && { rate: { limit: 5, burst: 10 } }),
  ...(below(4) === 0 && { max_running: 5 }),
  ...(below(8) === 0 && { fair: "partition", partition_weights: { p1: 3 } }),
});

/** What a caller sees of an attempt, but for its id. */
const seen = ({ workUnit, worker, number, startTime, expirationTime, data }: AttemptRow): unknown[] => [
  workUnit,
  worker,
  number,
  startTime,
  expirationTime,
  data,
];

async function compare(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const below: Below = (count) => Math.floor(random() * count);
  const ns = `seed ${seed}`;
  const clock = new ManualClock(1_000_000);
  const engines = [new MemoryStore(), store].map((one) => new Engine(one, { clock, random: () => 0 }));
  const both = async <Answer>(ask: (engine: Engine, which: number) => Promise<Answer>): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (const [which, engine] of engines.entries()) answers.push(await ask(engine, which));
    return answers;
  };
  const same = (what: string, [memory, postgres]: readonly unknown[]): void =>
    expect(postgres, `${what}, seed ${seed}`).toEqual(memory);
  const spec = { data: encodeData({ name: "s", ...rulesOf(below) }) };
  await both((engine) => engine.setWorkSpecs(ns, [spec]));
  const few = below(2) === 0;
  const mixed = below(3) === 0;
  const named = Array.from({ length: 1 + below(few ? 3 : 12) }, (_, i) => `p${i}`);
  const partitions = [...odd.slice(0, few ? 0 : below(7)), ...named];
  /** Running attempts by unit, with the ids of both stores. */
  const running: string[][] = [];
  let added = 0;
  for (let step = 0; step < 14; step++) {
    const units = Array.from({ length: step === 0 ? 40 : below(3) === 0 ? 0 : below(25) }, () => ({
      name: `u${below(9)}-${added++}`,
      partition: partitions[below(partitions.length)]!,
      data: encodeData({ n: added }),
      ...(below(3) === 0 && mixed && { priority: below(3) }),
      ...(below(20) === 0 && { delayMs: below(4000) }),
    }));
    if (units.length > 0) await both((engine) => engine.addWorkUnits(ns, "s", units));
    const requestId = below(3) === 0 ? `${ns} ${step}` : undefined;
    const request = {
      worker: `w${below(2)}`,
      number: 1 + below(step % 2 === 0 ? 12 : 4),
      lifetimeMs: 1000 + below(9000),
      ...(requestId !== undefined && { requestId }),
    };
    for (let again = requestId === undefined ? 1 : 2; again > 0; again--) {
      const claimed = await both((engine) => engine.requestAttempts(ns, request));
      same(
        `step ${step}: claim of ${request.number}`,
        claimed.map((attempts) => attempts.map(seen)),
      );
      if (again === 1) for (const i of claimed[0]!.keys()) running.push(claimed.map((one) => one[i]!.id));
    }
    const ended = running.filter(() => below(4) > 0);
    for (const ids of ended) running.splice(running.indexOf(ids), 1);
    const action = actions[below(actions.length)]!;
    const settled = await both((engine, which) =>
      engine.settleAttempts(
        ns,
        ended.map((ids) => ({ attempt: ids[which]!, action })),
      ),
    );
    same(
      `step ${step}: ${action}`,
      settled.map((rows) => rows.map(({ status, changed, error }) => [status, changed, error])),
    );
    clock.advance(below(4) === 0 ? below(8000) : below(300));
    same(`step ${step}: counts`, await both((engine) => engine.tally(ns)));
    const listed = await both((engine) => engine.listPartitions(ns, "s", { limit: 100 }));
    same(
      `step ${step}: partitions`,
      listed.map(({ rows }) => rows.filter(({ partition }) => !partition.startsWith("long"))),
    );
  }
  expect(await checkStanding(url)).toEqual([]);
}

/** `LANE_CLAIMS_RUNS` is the number of histories with fresh seeds; `LANE_CLAIMS_SEED` is one of them to run again. */
const { LANE_CLAIMS_RUNS: runs = "20", LANE_CLAIMS_SEED: again } = process.env;

test.skipIf(again !== undefined)(
  "fixed histories: PostgreSQL hands out what the rules do",
  async () => {
    for (let seed = 1; seed <= 40; seed++) await compare(seed);
  },
  300_000,
);

test("fresh histories: PostgreSQL hands out what the rules do", async () => {
  if (again !== undefined) return compare(Number(again));
  const first = Math.floor(Math.random() * 2 ** 31);
  for (let i = 0; i < Number(runs); i++)
    await compare(first + i).catch((error: unknown) => {
      throw new Error(`LANE_CLAIMS_SEED=${first + i} npx vitest run test/postgres/lane-claims.test.ts`, {
        cause: error,
      });
    });
}, 3_600_000);

test("max_running holds among claims by partition that several daemons make at the same time", async () => {
  const other = await openPostgres({ url, notify: false });
  const clock = new ManualClock(1_000_000);
  const engines = [store, other].map((one) => new Engine(one, { clock, random: () => 0 }));
  const spec = { name: "s", fair: "partition", max_running: 6 };
  await engines[0]!.setWorkSpecs("both", [{ data: encodeData(spec) }]);
  const units = Array.from({ length: 200 }, (_, i) => ({ name: `${i}`, partition: `p${i % 20}` }));
  await engines[0]!.addWorkUnits("both", "s", units);
  for (let round = 0; round < 20; round++) {
    const claims = engines.flatMap((engine) =>
      ["a", "b"].map((worker) => engine.requestAttempts("both", { worker, number: 4 })),
    );
    const attempts = (await Promise.all(claims)).flat();
    expect(attempts.length).toBe(6);
    await engines[0]!.settleAttempts(
      "both",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
    );
  }
  await other.close();
}, 60_000);

test("an attempt begins no earlier than the one whose place it takes ended, by whatever clock", async () => {
  const [ahead, behind] = [1_000_050, 1_000_000].map(
    (now) => new Engine(store, { clock: new ManualClock(now), random: () => 0 }),
  );
  const spec = { name: "s", max_running_per_partition: 1 };
  await ahead!.setWorkSpecs("clocks", [{ data: encodeData(spec) }]);
  const units = ["1", "2"].map((name) => ({ name, partition: "p", notBefore: 1 }));
  await ahead!.addWorkUnits("clocks", "s", units);
  const [first] = await ahead!.requestAttempts("clocks", { worker: "w" });
  await ahead!.settleAttempts("clocks", [{ attempt: first!.id, action: "finish" }]);
  const [second] = await behind!.requestAttempts("clocks", { worker: "w" });
  expect(second).toMatchObject({ workUnit: "2", startTime: 1_000_050 });
});

test.each([
  { max_running: 2 },
  { max_running_per_partition: 2 },
  { rate: { limit: 9, burst: 9 } },
  { limits: ["l"] },
])("with %j, a clock that was a day ahead once does not date the attempts of others", async (keys) => {
  const clocks = [87_400_000, 1_000_000, 1_020_000].map((now) => new ManualClock(now));
  const [ahead, good, later] = clocks.map((clock) => new Engine(store, { clock, random: () => 0 }));
  const ns = `ahead ${JSON.stringify(keys)}`;
  await good!.setLimits(ns, [{ name: "l", maxRunning: 2 }]);
  await good!.setWorkSpecs(ns, [{ data: encodeData({ name: "s", ...keys }) }]);
  await good!.addWorkUnits(
    ns,
    "s",
    ["1", "2", "3"].map((name) => ({ name })),
  );
  const [first] = await ahead!.requestAttempts(ns, { worker: "w" });
  await ahead!.settleAttempts(ns, [{ attempt: first!.id, action: "finish" }]);
  const [next] = await good!.requestAttempts(ns, { worker: "w" });
  expect(next).toMatchObject({ startTime: 1_000_000 });
  // an end by a clock that is ahead by less counts, though the other one was later
  await later!.settleAttempts(ns, [{ attempt: next!.id, action: "finish" }]);
  // by then the rate has tokens again
  clocks[1]!.advance(1000);
  const [last] = await good!.requestAttempts(ns, { worker: "w" });
  expect(last).toMatchObject({ startTime: 1_020_000 });
});
