/** `coordinate replay`: runs ended units again in a copy of their work spec, compares the results, and replaces the old ones. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { acceptReplay } from "../../src/bulk/index.ts";
import { decodeData, encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { run } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-replay-"));
const file = path.join(place, "store.sqlite");
const line = (words: string) => run(["--backend", `sqlite:${file}`, ...words.split(" ")]);

async function withEngine<Answer>(work: (engine: Engine) => Promise<Answer>): Promise<Answer> {
  const engine = new Engine(await openSqlite(file));
  try {
    return await work(engine);
  } finally {
    await engine.close();
  }
}

/** Processes all available units. The result depends on the data of the unit and on a setting of the work spec. */
const work = (): Promise<string[]> =>
  withEngine(async (engine) => {
    const ran: string[] = [];
    for (;;) {
      const attempts = await engine.requestAttempts("", { worker: "w", number: 100 });
      if (attempts.length === 0) return ran;
      for (const { id, workSpec, workUnit, data } of attempts) {
        const [spec] = await engine.getWorkSpecs("", [workSpec]);
        const { factor = 1, task } = decodeData(spec!.data) as { factor?: number; task?: string };
        const { n } = decodeData(data!) as { n: number };
        ran.push(`${workSpec}/${workUnit} ${task ?? ""}`);
        const broken = n === 3 && factor === 10;
        await engine.settleAttempts("", [
          broken || (n === 4 && factor === 1)
            ? { attempt: id, action: "fail", data: encodeData({ n, traceback: "Error: no" }) }
            : {
                ...{ attempt: id, action: "finish" },
                data: encodeData({
                  result: n < 2 ? n : n * factor,
                  at: ran.length,
                  output: [`${workUnit}!`],
                }),
              },
        ]);
      }
    }
  });

beforeAll(async () => {
  await withEngine(async (engine) => {
    await engine.setWorkSpecs("", [
      {
        data: encodeData({
          name: "sums",
          then: "next",
          factor: 1,
          retention: { finished: { max_age: 3600 } },
        }),
      },
      { data: encodeData({ name: "next", disabled: true }) },
    ]);
    await engine.addWorkUnits(
      "",
      "sums",
      [0, 1, 2, 3, 4].map((n) => ({
        name: `u${n}`,
        data: encodeData({ n }),
        priority: 5 - n,
        labels: ["l"],
      })),
    );
  });
  await work();
  await withEngine((engine) => engine.deleteWorkUnits("", "next", { all: true }));
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

test("begin, compare, accept, drop", async () => {
  const begun = await line("replay sums --set factor=10");
  expect(begun.err + begun.out).toMatch(/5 units selected[^]*Added 5 work units to sums-replay/);
  const early = await line("replay sums --compare");
  expect(early.out).toBe("        5  not ended yet\n");
  expect(await work()).toEqual([0, 1, 2, 3, 4].map((n) => `sums-replay/u${n} sums`));

  const compared = await line("replay sums --compare --ignore at");
  expect(compared.out).toBe(
    [
      "        2  the same",
      "        2  different",
      "        1  failed, but had finished before",
      "",
      "u2",
      "  - result: 2",
      "  + result: 20",
      "",
      "u4",
      "  - n: 4",
      '  - traceback: "Error: no"',
      "  + result: 40",
      '  + output: ["u4!"]',
      "",
    ].join("\n"),
  );
  const json = JSON.parse((await line("--json replay sums --compare --show 0")).out) as object;
  expect(json).toEqual({
    ...{ same: 2, different: 2, failed: 1, stillFailed: 0, open: 0, gone: 0 },
    differences: [],
  });
  // the replay made no units in the next work spec and changed nothing
  await withEngine(async (engine) => {
    expect((await engine.listWorkUnits("", "next")).rows).toEqual([]);
    expect((await engine.getWorkUnits("", "sums", ["u4"]))[0]).toMatchObject({
      status: "failed",
      attempts: 1,
    });
  });

  expect((await line("replay sums --accept --ignore at")).out).toBe(
    "Replaced the results of 2 work units of sums.\n",
  );
  expect(await line("replay sums --accept --ignore at")).toMatchObject({ code: 2 });
  expect((await line("workers")).out).not.toContain("replay");
  await withEngine(async (engine) => {
    const rows = await engine.getWorkUnits("", "sums", ["u1", "u2", "u3", "u4"]);
    expect(
      rows.map((row) => [row?.status, row?.attempts, (decodeData(row!.data!) as { result: number }).result]),
    ).toEqual([
      ["finished", 1, 1],
      ["finished", 2, 20],
      ["finished", 1, 3],
      ["finished", 2, 40],
    ]);
    expect(
      (await engine.listUnitAttempts("", "sums", "u2")).map(({ worker, status }) => [worker, status]),
    ).toEqual([
      ["w", "finished"],
      ["replay", "finished"],
    ]);
    expect((await engine.listWorkUnits("", "next")).rows.map(({ name }) => name)).toEqual(["u2!", "u4!"]);
  });
  expect((await line("replay sums --drop")).out).toBe("Deleted sums-replay.\n");
  const none = await line("replay sums --compare");
  expect(none.code).not.toBe(0);
  expect(none.err).toMatch(/No such replay sums-replay of sums[^]*coordinate replay sums/);
});

test("with nothing to run again, --json says so", async () => {
  const none = await line("--json replay sums --prefix none");
  expect(none).toMatchObject({ code: 2, err: "" });
  expect(JSON.parse(none.out)).toEqual({ workSpec: "sums-replay", added: 0 });
});

test("an accept that was killed is continued by the next one", async () => {
  await line("replay sums u2 u3 --as again --set factor=7");
  await work();
  await withEngine(async (engine) => {
    const replay = { coordinate: engine, ns: "", workSpec: "sums", copy: "again" };
    expect(await acceptReplay(replay, ["at"], { signal: AbortSignal.abort() })).toBe(0);
    expect((await engine.listUnitAttempts("", "sums", "u2")).length).toBe(2);
    // it was killed before it could finish the attempts
    await engine.makeAttempts("", [{ workSpec: "sums", workUnit: "u2", worker: "replay" }]);
  });
  expect((await line("replay sums --as again --compare --show 0")).out).toBe("        2  different\n");
  expect((await line("replay sums --as again --accept --ignore at")).out).toContain("2 work units");
  await withEngine(async (engine) => {
    const rows = await engine.getWorkUnits("", "sums", ["u2", "u3"]);
    expect(rows.map((row) => [row?.status, (decodeData(row!.data!) as { result: number }).result])).toEqual([
      ["finished", 14],
      ["finished", 21],
    ]);
  });
  await line("replay sums --as again --drop");
});

test("only what is selected, under a name of its own, by another task", async () => {
  await line("replay sums u1 u2 -s finished --as trial --set task=sums-next --set note=plain");
  await withEngine(async (engine) => {
    const { rows } = await engine.listWorkUnits("", "trial");
    expect(rows.map(({ name, data, priority, labels }) => [name, data, priority, labels])).toEqual([
      ["u1", '{"n":1}', 4, ["l"]],
      ["u2", '{"n":2}', 3, ["l"]],
    ]);
    const [spec] = await engine.getWorkSpecs("", ["trial"]);
    expect(decodeData(spec!.data)).toEqual({
      ...{ task: "sums-next", name: "trial", factor: 1, note: "plain" },
      replay_of: "sums",
    });
  });
});

test("a copy runs like its original, and is not in its batch", async () => {
  const retry = { maxRetries: 3, retry: { attempts: 2, backoff: { kind: "fixed", delayMs: 5 } } } as const;
  const settle = (engine: Engine, workSpec: string) =>
    engine
      .requestAttempts("", { worker: "w", number: 1, workSpecs: [workSpec] })
      .then(([attempt]) => engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]));
  const done = async (engine: Engine): Promise<unknown> => {
    const [batch] = await engine.getBatches("", ["bt"]);
    const reports = (await engine.listWorkUnits("", "report")).rows.map(({ name }) => name);
    return [batch?.total, batch?.finished, reports];
  };
  await withEngine(async (engine) => {
    await engine.setWorkSpecs("", [
      { data: encodeData({ name: "parts" }) },
      { data: encodeData({ name: "report", disabled: true }) },
    ]);
    await engine.setBatches("", [{ name: "bt", then: { workSpec: "report" } }]);
    await engine.addWorkUnits("", "parts", [
      {
        ...{ name: "u1", batch: "bt", labels: ["l"], partition: "p", priority: 2, ...retry },
        ...{ deadlineMs: 1, expiresMs: 60_000, queues: ["q"] },
      },
      { name: "u2", batch: "bt" },
    ]);
    await engine.setBatches("", [{ name: "bt", sealed: true }]);
    await settle(engine, "parts");
  });
  expect((await line("replay parts")).out).toContain("Added 1 work unit to parts-replay");
  await withEngine(async (engine) => {
    const [copy] = await engine.getWorkUnits("", "parts-replay", ["u1"]);
    expect(copy).toMatchObject({ partition: "p", priority: 2, labels: ["l"], queues: [], ...retry });
    expect([copy?.deadline, copy?.expires]).toEqual([undefined, undefined]);
    expect(await done(engine)).toEqual([2, 1, []]);
    await settle(engine, "parts");
    expect(await done(engine)).toEqual([2, 2, ["bt"]]);
  });
  expect(JSON.parse((await line("replay parts --drop --json")).out)).toEqual({ deleted: "parts-replay" });
  await withEngine((engine) => engine.deleteWorkSpecs("", ["parts", "report"]));
});

test("a work spec that is no replay is neither overwritten nor deleted", async () => {
  for (const words of [
    "replay sums --as next",
    "replay sums --as next --drop",
    "replay sums --as next --accept",
  ]) {
    const refused = await line(words);
    expect(refused.code).not.toBe(0);
    expect(refused.err).toMatch(/work spec next is not a replay of sums/);
  }
  await withEngine(async (engine) => {
    const [spec] = await engine.getWorkSpecs("", ["next"]);
    expect(decodeData(spec!.data)).toEqual({ name: "next", disabled: true });
  });
});

test("wrong use", async () => {
  expect((await line("replay nowhere")).err).toMatch(/nowhere/);
  expect((await line("replay sums --as sums")).err).toMatch(/needs a name other than the work spec's/);
  expect((await line("replay sums --accept --drop")).err).toMatch(
    /--accept and --drop: use only one of them/,
  );
  expect((await line("replay sums --set factor")).err).toMatch(/expected KEY=VALUE, got factor/);
  expect((await line("replay sums --set name=foo")).err).toMatch(/--set: the copy is named by --as/);
  expect((await line("replay sums --set replay_of=foo")).err).toMatch(/replay_of always names the work spec/);
  expect((await line("replay sums -s pending")).err).toMatch(/expected finished or failed, got pending/);
  expect((await line("replay sums --compare --as trial --show x")).err).toMatch(/--show: expected /);
  expect((await line("replay sums --prefix nothing-has-it")).code).toBe(2);
});

test("a work spec that has taken more units than may wait at once is replayed whole", async () => {
  await withEngine(async (engine) => {
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "narrow", max_waiting: 1 }) }]);
    for (const name of ["a", "b", "c"]) {
      await engine.addWorkUnits("", "narrow", [{ name }]);
      const [attempt] = await engine.requestAttempts("", { worker: "w", workSpecs: ["narrow"] });
      await engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
    }
  });
  expect((await line("replay narrow")).out).toContain("Added 3 work units to narrow-replay");
});

test("limits that were set by hand hold for the copy too, and a pause does not", async () => {
  await withEngine(async (engine) => {
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "slow", max_running: 9, weight: 7 }) }]);
    await engine.addWorkUnits("", "slow", [{ name: "a" }]);
    const [attempt] = await engine.requestAttempts("", { worker: "w", workSpecs: ["slow"] });
    await engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
    await engine.setWorkSpecMeta("", "slow", { maxRunning: 2, weight: 3, paused: true, maxWaiting: 1 });
  });
  await line("replay slow --set weight=5");
  await withEngine(async (engine) => {
    const meta = (await engine.getWorkSpecs("", ["slow-replay"]))[0]!.meta;
    expect(meta).toMatchObject({ maxRunning: 2, weight: 5, paused: false, maxWaiting: 0 });
  });
});
