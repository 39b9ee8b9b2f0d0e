import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, type Coordinate } from "../../src/core/index.ts";
import { configOf } from "../../src/config/index.ts";
import { startDaemon, type Daemon } from "../../src/daemon/index.ts";
import { sparkline } from "../../src/cli/sparkline.ts";
import { run } from "./in-process.ts";

const step = 10_000;
let daemon: Daemon;
let address = "";

const advance = async (ms: number): Promise<void> => {
  const answer = await fetch(`${address}/clock`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ms }),
  });
  expect(answer.status).toBe(200);
};

const now = async (): Promise<number> =>
  ((await (await fetch(`${address}/clock`)).json()) as { now: number }).now;

/** Ten steps of work: each adds more units than the last and processes half of them; one in ten of those fails. */
async function work(coordinate: Coordinate): Promise<void> {
  await coordinate.setWorkSpecs("", [
    { data: encodeData({ name: "resize" }) },
    { data: encodeData({ name: "idle" }) },
  ]);
  await advance(step - ((await now()) % step));
  for (let i = 1; i <= 10; i++) {
    const names = Array.from({ length: 10 * i }, (_, j) => ({ name: `${i}-${j}` }));
    await coordinate.addWorkUnits("", "resize", names);
    const attempts = await coordinate.requestAttempts("", { worker: "w", number: 5 * i });
    await advance(1000);
    await coordinate.settleAttempts(
      "",
      attempts.map(({ id }, j) => ({ attempt: id, action: j % 10 === 0 ? "fail" : "finish" })),
    );
    await advance(step - 1000);
  }
  await coordinate.setWorkSpecMeta("", "resize", { paused: true });
  await advance(step);
  await advance(2000);
}

beforeAll(async () => {
  daemon = await startDaemon(
    configOf({
      backend: "memory",
      http: ["127.0.0.1:0"],
      clock: "manual",
      logLevel: "silent",
      sweepMs: 3_600_000,
    }),
  );
  address = daemon.urls[0] ?? "";
  await work(daemon.coordinate);
}, 60_000);
afterAll(() => daemon.stop());

test("all work specs: rates, failures, what waits, and a line of blocks", async () => {
  const { code, out, err } = await run(["history", "--since", "2m", "--address", address]);
  expect(code).toBe(0);
  const [head, all, idle, resize] = out.split("\n");
  expect(head).toMatch(/Work spec +In\/s +Out\/s +Failed +Waiting +Running +Took p50 +Waited p90 +Out/);
  for (const line of [all, resize])
    expect(line).toMatch(/^(all|resize) +4\.\d +2\.\d +30 +275 +0 +(9\d\d ms|1\.0 s) +.* [▁▂▃▄▅▆▇█]{11,14}$/);
  expect(idle).toMatch(/^idle +0 +0 +0 +0 +0 +– +– +▁+$/);
  expect(err).toMatch(/^From [\d: -]+ to [\d: -]+ in steps of 10 s\.\n$/);
});

test("one work spec: each count over time, how long it took, and what was changed", async () => {
  const { code, out, err } = await run(["history", "resize", "--since", "2m", "--address", address]);
  expect(code).toBe(0);
  expect(out).toMatch(/^added +0 +100 +550 +▁*▂[▂▃▄▅▆▇]+█+▁*$/m);
  expect(out).toMatch(/^finished +0 +45 +245 +/m);
  expect(out).toMatch(/^failed +0 +5 +30 +/m);
  expect(out).toMatch(/^waiting +275 +275 +/m);
  expect(out).toMatch(/^duration p50 +(9\d\d ms|1\.0 s)/m);
  expect(err).toMatch(/ {2}paused\n/);
});

test("as JSON, all that the verb answers", async () => {
  const { out } = await run(["history", "resize", "--json", "--points", "5", "--address", address]);
  const answer = JSON.parse(out) as Awaited<ReturnType<Coordinate["history"]>>;
  const [series] = answer.series;
  expect(series?.workSpec).toBe("resize");
  expect(series?.points.reduce((sum, { added }) => sum + added, 0)).toBe(550);
  const watched = await run(["history", "--json", "--watch", "0.01", "--times", "2", "--address", address]);
  expect(watched.out.trim().split("\n")).toHaveLength(2);
});

test("wrong words are named", async () => {
  expect(await run(["history", "resise", "--address", address])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/resise.*resize/s) as string,
  });
  expect((await run(["history", "--since", "soon", "--address", address])).err).toMatch(/--since/);
});

test("a line of blocks begins at zero and leaves a gap where nothing is known", () => {
  expect(sparkline([0, 1, 4, 7, null, 7])).toBe("▁▂▅█ █");
  expect(sparkline([0, 0])).toBe("▁▁");
});
