/** A claim returns one row per caller, and a batch that only finishes returns one row per work spec: no data of a unit is lost. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, nameFromBytes, type AttemptRow } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
let store: PostgresStore;
beforeAll(async () => {
  server = await openServer();
  store = await openPostgres({ url: await server.createDatabase(), notify: false });
}, 60_000);
afterAll(async () => {
  await store.close();
  await server.stop();
});

let serial = 0;
const open = async (...specs: string[]) => {
  const ns = `test ${serial++}`;
  const clock = new ManualClock(1_000_000);
  const engine = new Engine(store, { clock, random: () => 0 });
  await engine.setWorkSpecs(
    ns,
    specs.map((name) => ({ data: encodeData({ name }) })),
  );
  return { ns, clock, engine };
};

const bytes = (count: number): Uint8Array => Uint8Array.from({ length: count }, (_, i) => i & 255);
const odd = {
  names: [
    "plain",
    "back\\slash",
    "\\x41",
    "\\000",
    "zero\0byte",
    nameFromBytes(Uint8Array.of(0x6e, 0xff, 0x5c)),
    "\u{1f600}",
    `long ${"y".repeat(2700)}`,
    "z",
  ],
  data: [
    null,
    encodeData({ text: "back\\slash \u{1f600} \0" }),
    encodeData({ bytes: bytes(300) }),
    encodeData({ text: "\\x41" }),
    ...[8170, 8180, 8181, 8182, 8183, 8192, 100_000].map((size) => encodeData({ a: "x".repeat(size) })),
    ...[8170, 8185, 8186, 8187, 8192, 20_000].map((size) => encodeData({ a: bytes(size) })),
  ],
};

const told = ({ workUnit, data, number }: AttemptRow): unknown => ({ workUnit, data, number });

test.each(["a worker that is not known", "a known one", "with a request id", "after another try"])(
  "odd names, and data of all lengths and both encodings: %s",
  async (how) => {
    const { ns, clock, engine } = await open("s");
    if (how !== "a worker that is not known") await engine.requestAttempts(ns, { worker: "w" });
    for (const [i, data] of odd.data.entries()) {
      const units = odd.names.map((name) => ({ name: `${i} ${name}`, data }));
      await engine.addWorkUnits(ns, "s", [...units, { name: odd.names[i % odd.names.length]!, data }]);
    }
    const stored = (await engine.listWorkUnits(ns, "s", { limit: 1000 })).rows;
    if (how === "after another try") {
      await engine.requestAttempts(ns, { worker: "w", number: 1000, lifetimeMs: 10 });
      clock.advance(1000);
    }
    const ask = { number: 1000, ...(how === "with a request id" && { requestId: "r" }) };
    const claimed = await engine.requestAttempts(ns, { worker: "w", ...ask });
    const expected = stored.map(({ name: workUnit, data }) => ({
      workUnit,
      data,
      number: how === "after another try" ? 2 : 1,
    }));
    expect(claimed.map(told)).toEqual(expected);
    if (how === "with a request id")
      expect((await engine.requestAttempts(ns, { worker: "w", ...ask })).map(told)).toEqual(expected);
  },
);

test("several callers at once, each with its own units, names and data", async () => {
  const { ns, engine } = await open("s");
  const workers = ["a", "b", "c"];
  for (const worker of workers) await engine.requestAttempts(ns, { worker });
  await engine.addWorkUnits(
    ns,
    "s",
    Array.from({ length: 40 }, (_, i) => ({
      name: `${String(i).padStart(3, "0")} ${odd.names[i % odd.names.length]!}`,
      data: odd.data[i % odd.data.length]!,
    })),
  );
  const stored = (await engine.listWorkUnits(ns, "s", { limit: 1000 })).rows;
  const answers = await Promise.all(
    workers.map((worker, i) => engine.requestAttempts(ns, { worker, number: 5 + 7 * i })),
  );
  expect(answers.map((rows) => rows.length)).toEqual([5, 12, 19]);
  expect(answers.flat().map(({ workUnit, data }) => ({ workUnit, data }))).toEqual(
    stored.slice(0, 36).map(({ name: workUnit, data }) => ({ workUnit, data })),
  );
});

test("a finish of attempts that are all lost changes nothing, and says so", async () => {
  const { ns, clock, engine } = await open("s");
  await engine.requestAttempts(ns, { worker: "w" });
  await engine.addWorkUnits(
    ns,
    "s",
    Array.from({ length: 10 }, (_, i) => ({ name: `u${i}` })),
  );
  const claimed = await engine.requestAttempts(ns, { worker: "w", number: 10, lifetimeMs: 100 });
  const finish = (rows: readonly AttemptRow[]) =>
    engine.settleAttempts(
      ns,
      rows.map(({ id }) => ({ attempt: id, action: "finish" })),
    );
  clock.advance(1000);
  const again = await engine.requestAttempts(ns, { worker: "other", number: 10, lifetimeMs: 100_000 });
  expect(again).toHaveLength(10);
  expect((await finish(claimed)).map(({ changed }) => changed)).toEqual(new Array(10).fill(false));
  expect((await engine.tally(ns))[0]?.counts).toMatchObject({ pending: 10, finished: 0 });
  // one attempt twice, and a lost attempt among valid ones
  const mixed = await finish([...again.slice(0, 4), again[0]!, claimed[9]!]);
  expect(mixed.map(({ changed }) => changed)).toEqual([true, true, true, true, false, false]);
  expect((await finish(again.slice(4))).every(({ changed }) => changed)).toBe(true);
  expect((await engine.tally(ns))[0]?.counts).toMatchObject({ pending: 0, finished: 10 });
});

test("a finish of units of several work specs, with leases of their own", async () => {
  const { ns, clock, engine } = await open("a", "b");
  await engine.requestAttempts(ns, { worker: "w" });
  const rows: AttemptRow[] = [];
  for (const [i, spec] of ["a", "b", "a", "b"].entries()) {
    await engine.addWorkUnits(ns, spec, [{ name: `${i} x` }, { name: `${i} y` }]);
    const ask = { worker: "w", number: 2, lifetimeMs: 1000 * (i + 1), workSpecs: [spec] };
    rows.push(...(await engine.requestAttempts(ns, ask)));
    clock.advance(10);
  }
  expect(rows).toHaveLength(8);
  const answers = await engine.settleAttempts(
    ns,
    rows.toReversed().map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  expect(answers.map(({ changed, status, expirationTime }) => ({ changed, status, expirationTime }))).toEqual(
    rows.toReversed().map(({ expirationTime }) => ({ changed: true, status: "finished", expirationTime })),
  );
  for (const spec of ["a", "b"])
    expect(
      (await engine.listWorkUnits(ns, spec)).rows.map(({ status, activeAttempt }) => [
        status,
        activeAttempt?.endTime,
      ]),
    ).toEqual(new Array(4).fill(["finished", clock.now()]));
});
