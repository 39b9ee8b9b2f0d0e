/** The tables that hold the state of units apart from their rows: what they are for, and that no entries are left behind. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres } from "../../src/postgres/index.ts";
import { openServer, query, type Server } from "./server.ts";
import { checkStanding } from "./standing.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer("quiet");
}, 60_000);
afterAll(() => server.stop());

async function prepared(
  spec: Record<string, unknown> = {},
): Promise<{ url: string; clock: ManualClock; engine: Engine }> {
  const url = await server.createDatabase();
  const clock = new ManualClock(1_000_000);
  const engine = new Engine(await openPostgres({ url, notify: false }), { clock });
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", ...spec }) }]);
  return { url, clock, engine };
}

const named = (count: number): { name: string }[] =>
  Array.from({ length: count }, (_, i) => ({ name: String(i).padStart(4, "0") }));
const rows = async (url: string, table: string): Promise<number> =>
  ((await query(url, `SELECT count(*)::int AS n FROM coordinate.${table}`)) as { n: number }[])[0]!.n;
const status = async (engine: Engine, name: string): Promise<string | undefined> =>
  (await engine.getWorkUnits("", "s", [name]))[0]?.status;

test("claiming and settling units writes no entry in an index of theirs", async () => {
  const { url, engine } = await prepared();
  await engine.addWorkUnits("", "s", named(1000));
  for (let i = 0; i < 10; i++) {
    const attempts = await engine.requestAttempts("", { worker: "w", number: 100 });
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
  }
  await engine.close();
  const updates = async (): Promise<{ all: number; hot: number }> =>
    (
      (await query(
        url,
        "SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE schemaname = 'coordinate' AND relname = 'unit'",
      )) as { all: number; hot: number }[]
    )[0]!;
  // a session reports its statistics when it ends
  await expect.poll(async () => (await updates()).all, { timeout: 30_000 }).toBe(2000);
  expect((await updates()).hot).toBeGreaterThan(1900);
}, 60_000);

test("a list of what runs is dropped with the last that is settled, or by the sweep", async () => {
  const { url, engine } = await prepared();
  await engine.addWorkUnits("", "s", named(20));
  const settle = async (ids: readonly string[]): Promise<void> => {
    await engine.settleAttempts(
      "",
      ids.map((attempt) => ({ attempt, action: "finish" as const })),
    );
  };
  const first = (await engine.requestAttempts("", { worker: "w", number: 10 })).map(({ id }) => id);
  await settle(first);
  expect(await rows(url, "lease")).toBe(0);
  const second = (await engine.requestAttempts("", { worker: "w", number: 10 })).map(({ id }) => id);
  await settle(second.slice(0, 4));
  await engine.sweep();
  expect(await rows(url, "lease")).toBe(1);
  await settle(second.slice(4));
  await engine.sweep();
  expect(await rows(url, "lease")).toBe(0);
  expect(await checkStanding(url)).toEqual([]);
  await engine.close();
});

test("a lease that was renewed ends when it says, later or sooner", async () => {
  const { url, clock, engine } = await prepared();
  await engine.addWorkUnits("", "s", named(3));
  const [later, sooner, other] = await engine.requestAttempts("", {
    worker: "w",
    number: 3,
    lifetimeMs: 10_000,
  });
  await engine.settleAttempts("", [
    { attempt: later!.id, action: "renew", lifetimeMs: 60_000 },
    { attempt: sooner!.id, action: "renew", lifetimeMs: 1000 },
  ]);
  expect(await checkStanding(url)).toEqual([]);
  clock.advance(2000);
  expect(await status(engine, sooner!.workUnit)).toBe("available");
  expect(await status(engine, other!.workUnit)).toBe("pending");
  clock.advance(10_000);
  expect(await status(engine, other!.workUnit)).toBe("available");
  expect(await status(engine, later!.workUnit)).toBe("pending");
  // the lease list has moved to its next expiration: claims do not read it before that
  expect(await query(url, "SELECT expiration::int AS at FROM coordinate.lease")).toEqual([{ at: 1_060_000 }]);
  clock.advance(60_000);
  expect(await status(engine, later!.workUnit)).toBe("available");
  expect(await rows(url, "lease")).toBe(0);
  expect(await checkStanding(url)).toEqual([]);
  await engine.close();
});

test("what is removed after its end, or begins anew, leaves no list behind", async () => {
  const { url, clock, engine } = await prepared({ retention: { finished: { max_count: 3 } } });
  await engine.addWorkUnits("", "s", named(10));
  for (let i = 0; i < 5; i++) {
    const attempts = await engine.requestAttempts("", { worker: "w", number: 2 });
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
    clock.advance(1000);
  }
  expect(await rows(url, "ended")).toBe(5);
  await engine.sweep();
  expect((await engine.listWorkUnits("", "s")).rows.map(({ name }) => name)).toEqual([
    "0007",
    "0008",
    "0009",
  ]);
  expect(await rows(url, "ended")).toBe(2);
  await engine.deleteWorkUnits("", "s", { names: ["0007", "0008", "0009"] });
  await engine.sweep();
  expect(await rows(url, "ended")).toBe(0);
  await engine.close();
});
