/** `addwork`, `export` and `import`: the built executable against a daemon with an SQLite file. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { jsonData, type Tally } from "../../src/core/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { executable, startProcess, type Started } from "../daemon/built.ts";
import { coordinate, type Ran, type RunOptions } from "./run.ts";

// processes are slow when many run at once
vi.setConfig({ testTimeout: 120_000 });
const place = mkdtempSync(path.join(tmpdir(), "coordinate-bulk-"));
let daemon: Started;
let client: RestClient;
let spaces = 0;

beforeAll(async () => {
  daemon = await startProcess([
    "--data-dir",
    path.join(place, "data"),
    "--http",
    "127.0.0.1:0",
    "--log-level",
    "error",
  ]);
  client = new RestClient(daemon.url);
}, 180_000);
afterAll(async () => {
  await client.close();
  daemon.child.kill();
  await daemon.ended;
  rmSync(place, { recursive: true, force: true });
});

function file(name: string, content: string | Buffer): string {
  const full = path.join(place, name);
  writeFileSync(full, content);
  return full;
}

/** A new namespace with a work spec `s`. */
async function space() {
  const ns = `ns${spaces++}`;
  await client.setWorkSpecs(ns, [{ data: jsonData('{"name":"s"}') }]);
  const env = {
    COORDINATE_ADDRESS: daemon.url,
    COORDINATE_NAMESPACE: ns,
    HOME: place,
    XDG_STATE_HOME: path.join(place, `state-${ns}`),
  };
  const run = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
    coordinate(args, { ...options, env: { ...env, ...options.env } });
  const counts = async (spec = "s"): Promise<Partial<Tally>> =>
    (await client.tally(ns)).find(({ workSpec }) => workSpec === spec)?.counts ?? {};
  const names = async (): Promise<string[]> =>
    (await client.listWorkUnits(ns, "s", { limit: 10_000 })).rows.map(({ name }) => name);
  const journals = (): string[] => {
    const folder = path.join(env.XDG_STATE_HOME, "coordinate", "loads");
    return existsSync(folder) ? readdirSync(folder) : [];
  };
  return { ns, env, run, counts, names, journals };
}

const lines = (count: number): string =>
  Array.from(
    { length: count },
    (_, i) => `{"name":"u${String(i).padStart(7, "0")}","data":{"i":${i}}}\n`,
  ).join("");

describe("addwork", () => {
  test.each([
    ['{"data": {"a": 1}}', [], 'the unit has no name: add "name" beside "data", or use --column name=KEY'],
    ['{"data": {"a": 1}, "priority": {}}', [], "the unit has no name"],
    ['{"url": "http://x"}', [], '"url": expected the data of a unit, got "http://x"; the unit has no name'],
    ['[{"url": "http://x"}]', [], '"url": expected the data of a unit, got "http://x"\n'],
    [
      '{"name": "a", "the data of a unit": 1}',
      [],
      '"the data of a unit": unknown field of a work unit; put your own keys into data\n',
    ],
    ['{"url": "http://x"}', ["--column", "name=id"], "id: expected the name of the unit, got"],
    ['{"id": {}}', ["--column", "name=id"], "id: expected the name of the unit, got"],
    ['{"id": 1}', ["--column", "priority=id"], "no key for the name; use --column name=KEY"],
    ["name,size\n,3", ["--format", "csv"], "name: the name of the unit is empty"],
    [
      "url,size\nx,3",
      ["--format", "csv"],
      "no column for the name; choose one of url, size with --column name=COLUMN",
    ],
    [" \t", ["--format", "lines"], "the name is empty: the line has only white space"],
  ])("the input %j with %j is refused: %s", async (input, options, said) => {
    const { run } = await space();
    const { code, err } = await run(["addwork", "s", "-u", "-", "--no-journal", ...options], { input });
    expect([code, err]).toEqual([1, expect.stringContaining(said)]);
    expect((await run(["work_units", "s"])).out).toBe("");
  });

  test("lines of JSON whose name stands under another key", async () => {
    const { run } = await space();
    const input = '{"id": 7, "url": "http://x", "rank": 1.0}\n{"id": "b", "url": "http://y", "rank": 2}\n';
    const columns = ["--column", "name=id", "--column", "priority=rank"];
    expect((await run(["addwork", "s", "-u", "-", ...columns], { input })).code).toBe(0);
    const units = JSON.parse((await run(["work_units", "s", "--details", "--json"])).out) as object[];
    expect(units).toMatchObject([
      { name: "7", priority: 1, data: { id: 7, url: "http://x", rank: 1 } },
      { name: "b", priority: 2, data: { id: "b", url: "http://y", rank: 2 } },
    ]);
    const only = ["--column", "name=id", "--column", "data.link=url"];
    expect((await run(["addwork", "s", "-u", "-", "--no-journal", ...only], { input })).code).toBe(0);
    expect((await run(["work_units", "s", "--details", "--json"])).out).toContain(
      '"data":{"link":"http://x"}',
    );
  });

  test("units that exist are left alone, refused or replaced, as --on-conflict says", async () => {
    const { run } = await space();
    const add = (input: string, ...options: string[]): ReturnType<typeof run> =>
      run(["addwork", "s", "-u", "-", "--no-journal", ...options], { input });
    const stored = async (): Promise<unknown> =>
      JSON.parse((await run(["work_units", "s", "--details", "--json"])).out);
    const line = (name: string, n: number, priority: number): string =>
      `${JSON.stringify({ name, data: { n }, priority })}\n`;
    await add(line("a", 1, 5));
    const left = await add(line("a", 2, 1) + line("b", 2, 1), "--on-conflict", "ignore");
    expect(left.out).toMatch(/2 units from .*: 1 new, 1 left unchanged;/);
    expect(await stored()).toMatchObject([
      { name: "a", data: { n: 1 } },
      { name: "b", data: { n: 2 } },
    ]);
    const refused = await add(line("c", 3, 1) + line("a", 3, 1), "--on-conflict", "refuse", "--keep-going");
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/:2: .*exist/)]);
    await add(line("a", 4, 1), "--on-conflict", "data");
    expect(await stored()).toMatchObject([
      { name: "a", data: { n: 4 }, priority: 5 },
      { name: "b" },
      { name: "c", data: { n: 3 } },
    ]);
    expect(await add(line("a", 5, 1), "--on-conflict", "merge")).toMatchObject({
      code: 2,
      err: expect.stringContaining("expected one of update, replace, data, ignore, refuse") as string,
    });
  });

  test("from a file, compressed or not, and from standard input; one line at the end and no progress", async () => {
    const { run, counts, journals } = await space();
    const plain = file("a.jsonl", lines(2500));
    const ran = await run(["addwork", "s", "-u", plain]);
    expect(ran).toMatchObject({ code: 0, err: "" });
    expect(ran.out).toMatch(/^2,500 units from .*a\.jsonl: 2,500 new; .*\/s\n$/);
    expect(await counts()).toMatchObject({ available: 2500 });
    const packed = await run([
      "addwork",
      "-W",
      "s",
      "-u",
      file("a.jsonl.gz", gzipSync(lines(2600))),
      "--json",
    ]);
    expect(JSON.parse(packed.out)).toMatchObject({
      units: 2600,
      created: 100,
      replaced: 2500,
      bad: 0,
      complete: true,
    });
    const piped = await run(["addwork", "s", "-u", "-"], { input: '"x"\n"y"\n' });
    expect(piped.out).toMatch(/^2 units from standard input: 2 new;/);
    expect(journals()).toEqual([]);
  });

  test("CSV, plain lines, YAML, a work spec by its file", async () => {
    const { run, names, ns } = await space();
    const csv = file("u.csv", "url,size\nhttp://a,5\nhttp://b,\n");
    expect((await run(["addwork", "s", "-u", csv])).err).toContain(
      "no column for the name; choose one of url, size",
    );
    expect(
      (await run(["addwork", "s", "-u", csv, "--column", "name=url", "--column", "data.size=size:number"]))
        .code,
    ).toBe(0);
    expect((await client.getWorkUnits(ns, "s", ["http://a"]))[0]?.data).toBe('{"size":5}');
    const spec = file("s.yaml", "name: s\n");
    expect((await run(["addwork", "-w", spec, "-u", file("u.txt", "l1\r\nl2\n")])).code).toBe(0);
    expect((await run(["addwork", "s", "-u", file("u.yaml", "y1: {a: 1}\ny2:\n")])).code).toBe(0);
    expect((await run(["addwork", "s", "-u", file("odd", "j1 {}\n"), "--format", "lines"])).code).toBe(0);
    expect(await names()).toEqual(["http://a", "http://b", "j1 {}", "l1", "l2", "y1", "y2"]);
  });

  test("a bad line is named by file and number; it ends the load, or not", async () => {
    const { run, counts } = await space();
    const bad = file("bad.jsonl", '"a"\n\n{"b": 1}\n"c"\n');
    const stopped = await run(["addwork", "s", "-u", bad]);
    expect(stopped.code).toBe(1);
    expect(stopped.err).toBe(
      `coordinate addwork: ${bad}:3: "b": expected the data of a unit, got 1; the unit has no name: add "name" beside "data", or use --column name=KEY if another key is the name; 1 unit stored; --resume continues from there\n`,
    );
    const went = await run(["addwork", "s", "-u", bad, "--restart", "--keep-going"]);
    expect(went).toMatchObject({
      code: 1,
      err: expect.stringMatching(
        /^.*bad\.jsonl:3: "b": expected the data of a unit, got 1; [^\n]*\n$/,
      ) as string,
    });
    expect(went.out).toMatch(/^2 units from .*: 1 new, 1 replaced, 1 bad line;/);
    expect(await counts()).toMatchObject({ available: 2 });
  });

  test("an interrupted load is not begun anew by accident", async () => {
    const { run, counts, journals } = await space();
    const units = file("mend.jsonl", `${lines(1500)}nonsense\n`);
    expect((await run(["addwork", "s", "-u", units])).code).toBe(1);
    expect(journals()).toHaveLength(1);
    const again = await run(["addwork", "s", "-u", units]);
    expect(again.code).toBe(1);
    expect(again.err).toContain(
      "an earlier load of this input stopped after 1,500 units; --resume continues from there",
    );
    file("mend.jsonl", `${lines(1500)}"mended"\n`);
    const other = await run(["addwork", "s", "-u", units, "--resume", "--format", "lines"]);
    expect(other.err).toContain("read its input with other options");
    const resumed = await run(["addwork", "s", "-u", units, "--resume"]);
    expect(resumed).toMatchObject({
      code: 0,
      err: expect.stringContaining("continuing after 1,500 units") as string,
    });
    expect(resumed.out).toMatch(/^1,501 units from .*: 1,501 new, 1,500 loaded earlier;/);
    expect(await counts()).toMatchObject({ available: 1501 });
    expect(journals()).toEqual([]);
    expect((await run(["addwork", "s", "-u", units, "--resume"])).code).toBe(0);
  });

  test(
    "killed in the middle, while a worker finishes units: resumed, nothing is lost and nothing is done twice",
    { timeout: 120_000 },
    async () => {
      const { run, env, ns, counts } = await space();
      const count = Number(process.env.BULK_UNITS ?? 20_000);
      const units = file("kill.jsonl.gz", gzipSync(lines(count)));
      const args = ["addwork", "s", "-u", units, "--batch", "200"];
      const total = async (): Promise<number> =>
        Object.values(await counts()).reduce((sum, one) => sum + one, 0);
      let finished = 0;
      const work = async (): Promise<void> => {
        const attempts = await client.requestAttempts(ns, { worker: "w", number: 500 });
        const settled = await client.settleAttempts(
          ns,
          attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
        );
        finished += settled.filter(({ error }) => error === null).length;
      };
      for (const part of [0.2, 0.5]) {
        const child = spawn(process.execPath, [executable("coordinate"), ...args, "--resume"], {
          env: { PATH: process.env.PATH ?? "", ...env },
          stdio: "ignore",
        });
        const ended = new Promise((resolve) => child.once("close", resolve));
        while ((await total()) < count * part && child.exitCode === null) await work();
        child.kill("SIGKILL");
        await ended;
        // requests in flight may still be executed, and their units finished, after the sender was killed
        for (let i = 0; i < 5; i++) await work();
      }
      const stored = await total();
      expect(stored).toBeGreaterThan(count * 0.2);
      expect(finished).toBeGreaterThan(0);
      const resumed = await run([...args, "--resume", "--json"]);
      expect(resumed.code).toBe(0);
      expect(JSON.parse(resumed.out)).toMatchObject({ units: count, complete: true });
      expect(await counts()).toMatchObject({ available: count - finished, finished });
    },
  );

  test("Ctrl-C is an orderly end", { timeout: 60_000 }, async () => {
    const { run, env, counts } = await space();
    const units = file("stop.jsonl", lines(8000));
    const child = spawn(
      process.execPath,
      [executable("coordinate"), "addwork", "s", "-u", units, "--batch", "50", "--in-flight", "1"],
      {
        env: { PATH: process.env.PATH ?? "", ...env },
      },
    );
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    while (((await counts()).available ?? 0) < 500) await new Promise((resolve) => setTimeout(resolve, 10));
    child.kill("SIGINT");
    expect(await ended).toBe(1);
    expect(out).toMatch(/^interrupted: [\d,]+ units from/);
    expect((await run(["addwork", "s", "-u", units, "--resume"])).code).toBe(0);
    expect(await counts()).toMatchObject({ available: 8000 });
  });

  test("names with control characters and lines of a megabyte", async () => {
    const { run, ns } = await space();
    const units = file(
      "odd.jsonl",
      `{"\\u001b[31m\\n":{}}\n{"name":"long","data":{"x":"${"x".repeat(1_000_000)}"}}\n{"\\u001b": 1}\n`,
    );
    const ran = await run(["addwork", "s", "-u", units, "--keep-going"]);
    expect(ran.err).not.toContain("\u001b");
    const [odd, long] = await client.getWorkUnits(ns, "s", ["\u001b[31m\n", "long"]);
    expect(odd?.status).toBe("available");
    expect(long?.data).toHaveLength(1_000_008);
  });

  test.each([
    [["addwork", "s"], 2, "no input given"],
    [["addwork", "-u", "UNITS"], 2, "no work spec given"],
    [["addwork", "nobody", "-u", "UNITS"], 1, "No such work spec"],
    [["addwork", "s", "-u", "/nowhere.jsonl"], 1, "no such file"],
    [["addwork", "s", "-u", "/"], 1, "is a directory"],
    [["addwork", "s", "-u", "UNITS", "--format", "xml"], 2, "--format: expected one of"],
    [["addwork", "s", "-u", "UNITS", "--batch", "0"], 2, "--batch: expected a whole number of 1 or more"],
    [["addwork", "s", "-u", "UNITS", "--prune"], 2, "need --sync"],
    [["addwork", "s", "-u", "UNITS", "--resume", "--no-journal"], 2, "--resume needs a journal"],
    [["addwork", "s", "-u", "UNITS", "--column", "x"], 1, "expected TARGET=COLUMN"],
    [["addwork", "s", "-u", "BROKEN"], 1, "the compressed data is damaged or cut off"],
    [["addwork", "s", "-u", "EMPTY"], 0, ""],
  ])("%j", async (args, code, message) => {
    const { run } = await space();
    const whole = gzipSync(Array.from({ length: 5000 }, (_, i) => `"${Math.sin(i)}"\n`).join(""));
    const known: Record<string, string> = {
      UNITS: file("some.jsonl", '"a"\n'),
      BROKEN: file("broken.jsonl.gz", whole.subarray(0, 9000)),
      EMPTY: file("empty.jsonl", ""),
    };
    const ran = await run(args.map((arg) => known[arg] ?? arg));
    expect(ran.err).toContain(message);
    expect(ran.code).toBe(code);
    expect(ran.err).not.toContain("    at ");
  });

  test("--sync adds what differs, tells what vanished, and deletes it only when asked", async () => {
    const { run, names } = await space();
    const list = file("list.jsonl", '{"a":{"x":1},"b":{},"c":{}}\n');
    expect((await run(["addwork", "s", "-u", list, "--sync"])).out).toBe(
      `3 units in ${list}: 3 added, 0 changed, 0 unchanged, 0 stored but not in the list\n`,
    );
    file("list.jsonl", '{"b":{},"a":{"x":2},"d":{}}\n');
    expect((await run(["addwork", "s", "-u", list, "--sync", "--prune", "--dry-run"])).out).toBe(
      `3 units in ${list}: 1 would be added, 1 changed, 1 unchanged, 1 would be deleted\n`,
    );
    expect(JSON.parse((await run(["addwork", "s", "-u", list, "--sync", "--json"])).out)).toMatchObject({
      added: 1,
      changed: 1,
      same: 1,
      vanished: 1,
      deleted: 0,
    });
    expect(await names()).toEqual(["a", "b", "c", "d"]);
    expect((await run(["addwork", "s", "-u", list, "--sync", "--prune"])).out).toContain("1 deleted");
    expect(await names()).toEqual(["a", "b", "d"]);
    file("list.jsonl", "");
    expect((await run(["addwork", "s", "-u", list, "--sync", "--prune"])).err).toContain("the list is empty");
    expect(await names()).toHaveLength(3);
    expect((await run(["addwork", "s", "-u", list, "--sync", "--resume"])).code).toBe(2);
  });
});

describe("export and import", () => {
  test("out of one namespace and into another, by file or by pipe", async () => {
    const { run, ns } = await space();
    await run(["addwork", "s", "-u", file("x.jsonl", lines(1200))]);
    const attempts = await client.requestAttempts(ns, { worker: "w", number: 10 });
    await client.settleAttempts(
      ns,
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
    const packed = path.join(place, "all.jsonl.gz");
    expect((await run(["export", "-o", packed, "--attempts"])).out).toBe(`1,200 units in ${packed}\n`);
    const text = gunzipSync(readFileSync(packed)).toString();
    expect(text.trim().split("\n")).toHaveLength(1 + 1 + 1200 + 10 + 1);
    const piped = await run(["export", "-W", "s", "-s", "finished"]);
    expect(piped.out.trim().split("\n")).toHaveLength(1 + 1 + 10 + 1);
    const copy = { env: { COORDINATE_NAMESPACE: `${ns}-copy` } };
    expect((await run(["import", packed], copy)).out).toBe(`1 work spec and 1,200 units from ${packed}\n`);
    const counted = await client.tally(`${ns}-copy`);
    expect(counted[0]?.counts).toMatchObject({ available: 1190, finished: 10 });
    const refused = await run(["import", "-"], { ...copy, input: piped.out });
    expect(refused.code).toBe(1);
    expect(refused.err).toContain("work spec s already exists; use --merge");
    expect((await run(["import", "-", "--merge"], { ...copy, input: piped.out })).code).toBe(0);
  });

  test.each([
    [["import"], 2, "no file given"],
    [["import", "/nowhere"], 1, "no such file"],
    [["import", "-"], 1, "standard input: the input is empty"],
    [["export", "-W", "nobody"], 1, "No such work spec"],
    [["export", "-s", "sleeping"], 2, "--status: expected one of"],
    [["export", "-o", "/nowhere/x"], 1, "/nowhere/x: no such file"],
  ])("%j", async (args, code, message) => {
    const ran = await (await space()).run(args);
    expect(ran.err).toContain(message);
    expect(ran.code).toBe(code);
  });
});
