/** How commands find their target: addresses, configuration, files that a daemon owns, PostgreSQL; and pipes. */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { encodeData } from "../../src/core/index.ts";
import { version } from "../../src/daemon/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import manifest from "../../package.json" with { type: "json" };
import { executable, startProcess, type Started } from "../daemon/built.ts";
import { openServer } from "../postgres/server.ts";
import { coordinate, type Ran, type RunOptions } from "./run.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-places-"));
const store = `sqlite:${path.join(place, "work.sqlite")}`;
const socket = path.join(place, "coordinate.sock");
let daemon: Started;
let client: RestClient;

beforeAll(async () => {
  executable("coordinate");
  daemon = await startProcess([
    ...["--backend", store, "--data-dir", place, "--socket", socket],
    ...["--http", "127.0.0.1:0", "--log-level", "error"],
  ]);
  client = new RestClient(daemon.url);
  await client.setWorkSpecs("", [{ data: encodeData({ name: "crawl" }) }]);
  await client.setWorkSpecs("shop", [{ data: encodeData({ name: "orders" }) }]);
  const units = Array.from({ length: 3000 }, (_, i) => ({ name: `unit-${String(i).padStart(5, "0")}` }));
  await client.addWorkUnits("", "crawl", units);
  writeFileSync(
    path.join(place, "config.yaml"),
    `coordinate:\n  address: ${daemon.url}\n  namespace: shop\n`,
  );
}, 240_000);
afterAll(async () => {
  await client.close();
  daemon.child.kill();
  await daemon.ended;
  rmSync(place, { recursive: true, force: true });
});

const nowhere = "http://127.0.0.1:1";

describe("commands from a pipe", () => {
  const piped = (input: string, ...words: string[]): Promise<Ran> =>
    coordinate(["--address", daemon.url, ...words], { input });

  test("are run one after the other, an error is told, and the last one's code is the exit code", async () => {
    const { code, out, err } = await piped("work_specs\n# a remark\n\nstatus nope\ncoordinate work_specs\n");
    expect([code, out]).toEqual([0, "crawl\ncrawl\n"]);
    expect(err).toMatch(/^coordinate status: No such work spec nope[^\n]*\n$/);
    expect(await piped("work_specs\nstatus 'nope\n")).toMatchObject({ code: 2, out: "crawl\n" });
    expect(await piped("work_specs\nquit\nstatus nope\n")).toMatchObject({
      code: 0,
      out: "crawl\n",
      err: "",
    });
  });

  test("answer questions with the next line, and take the options of the whole", async () => {
    await client.setWorkSpecs("piped", [{ data: encodeData({ name: "gone" }) }]);
    const { code, out, err } = await piped("delete gone\ngone\nwork_specs\n", "--namespace", "piped");
    expect({ code, out }).toEqual({ code: 0, out: "deleted gone with 0 work units\n" });
    expect(err).toContain("Type the name of the work spec");
  });
});

describe("which place is meant", { concurrent: true, timeout: 120_000 }, () => {
  const cases: readonly [
    name: string,
    words: () => string,
    env: () => Record<string, string>,
    printed: string,
  ][] = [
    ["--address", () => `work_specs --address ${daemon.url}`, () => ({}), "crawl\n"],
    [
      "an address without http://",
      () => `work_specs --address ${new URL(daemon.url).host}`,
      () => ({}),
      "crawl\n",
    ],
    ["a Unix socket", () => `work_specs --address unix:${socket}`, () => ({}), "crawl\n"],
    [
      "the second of two addresses",
      () => `work_specs --address ${nowhere},${daemon.url}`,
      () => ({}),
      "crawl\n",
    ],
    ["COORDINATE_ADDRESS", () => "work_specs", () => ({ COORDINATE_ADDRESS: daemon.url }), "crawl\n"],
    [
      "COORDINATE_NAMESPACE",
      () => "work_specs",
      () => ({ COORDINATE_ADDRESS: daemon.url, COORDINATE_NAMESPACE: "shop" }),
      "orders\n",
    ],
    ["a configuration file", () => `-c ${place}/config.yaml work_specs`, () => ({}), "orders\n"],
    [
      "COORDINATE_CONFIG",
      () => "work_specs",
      () => ({ COORDINATE_CONFIG: `${place}/config.yaml` }),
      "orders\n",
    ],
    [
      "a flag before the configuration",
      () => `work_specs --config ${place}/config.yaml --namespace ''`,
      () => ({}),
      "crawl\n",
    ],
    [
      "a flag before the environment",
      () => `--address ${daemon.url} work_specs`,
      () => ({ COORDINATE_ADDRESS: nowhere }),
      "crawl\n",
    ],
    [
      "a flag after the command before one before it",
      () => `--address ${nowhere} work_specs --address ${daemon.url}`,
      () => ({}),
      "crawl\n",
    ],
    [
      "the file of a daemon that runs, to look into it",
      () => `work_specs --backend ${store}`,
      () => ({ COORDINATE_ADDRESS: nowhere }),
      "crawl\n",
    ],
  ];
  test.each(cases)("%s", async (_name, words, env, printed) => {
    const ran = await coordinate(words(), { env: env() });
    expect(ran).toEqual({ code: 0, out: printed, err: "" });
  });

  test("the name of a file does not make it look like one that is in use", async () => {
    writeFileSync(path.join(place, "locked"), "no store");
    const ran = await coordinate(`pause crawl --backend sqlite:${place}/locked`);
    expect(ran.err).toMatch(/is not an SQLite database\n$/);
    expect(ran.code).toBe(1);
  });

  test("the file of a daemon that runs is not changed, and it is said whom to ask", async () => {
    const ran = await coordinate(`pause crawl --backend ${store}`);
    expect(ran.err).toMatch(/is in use by .*; connect to the daemon that has it open with --address\n$/);
    expect(ran.code).toBe(1);
  });

  test("all namespaces", async () => {
    const { out } = await coordinate(`summary -A --address ${daemon.url}`);
    expect(out).toMatch(/\(default\) +crawl +3,000[\s\S]*shop +orders +0/);
    const { out: json } = await coordinate(`summary -A --json --address ${daemon.url}`);
    expect(JSON.parse(json)).toMatchObject({
      specs: [{ namespace: "", work_spec: "crawl", num_available: 3000 }, { namespace: "shop" }],
    });
  });
});

describe("with a daemon", { timeout: 120_000 }, () => {
  const run = (words: string, options?: RunOptions): Promise<Ran> =>
    coordinate(`--address ${daemon.url} ${words}`, options);

  test("a listing of many is one page, unless all are asked for", async () => {
    const { out, err } = await run("work_units crawl");
    expect(out.split("\n")).toHaveLength(1001);
    expect(err).toMatch(/and 2,000 more/);
    expect((await run("work_units crawl --all")).out.split("\n")).toHaveLength(3001);
    const all = JSON.parse((await run("work_units crawl --all --json")).out) as unknown[];
    expect(all).toHaveLength(3000);
  });

  test("a reader that has enough ends it without a complaint", async () => {
    const command = `"${process.execPath}" "${executable("coordinate")}" --address ${daemon.url} work_units crawl --all | head -1`;
    const { stdout, stderr } = await promisify(execFile)("bash", ["-o", "pipefail", "-c", command]);
    expect(stdout).toBe("unit-00000\n");
    expect(stderr).toBe("");
  });

  test.each([
    ["by REST", () => ["--address", daemon.url]],
    ["by looking at the counts of a store", () => ["--backend", store]],
  ])("tail tells what happens, %s", async (_name, where) => {
    const child = spawn(process.execPath, [
      executable("coordinate"),
      "tail",
      "--namespace",
      "live",
      "-n",
      "1",
      ...where(),
    ]);
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (out += chunk));
    const ended = new Promise((resolve) => child.once("close", resolve));
    let n = 0;
    await vi.waitFor(
      async () => {
        // repeated until `tail` prints something: it does not print events from before it started watching
        await client.setWorkSpecs("live", [{ data: encodeData({ name: "s" }) }]);
        await client.addWorkUnits("live", "s", [{ name: `u${(n += 1)}\u001b` }]);
        expect(out).not.toBe("");
      },
      { timeout: 30_000, interval: 200 },
    );
    expect(await ended).toBe(0);
    expect(out).toMatch(/^\d\d:\d\d:\d\d {2}(added u\d+\\x1b in s|set work specs s|s: available \+\d+)\n$/);
  });

  test("tail names units and what went wrong", async () => {
    await client.setWorkSpecs("told", [{ data: encodeData({ name: "s" }) }]);
    const child = spawn(process.execPath, [
      ...[executable("coordinate"), "tail", "--address", daemon.url],
      ...["--namespace", "told", "--type", "attempts"],
    ]);
    onTestFinished(() => void child.kill());
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (out += chunk));
    let n = 0;
    await vi.waitFor(
      async () => {
        n += 1;
        await client.addWorkUnits("told", "s", [{ name: `a${n}` }, { name: `b${n}` }]);
        const attempts = await client.requestAttempts("told", { worker: "w", number: 2 });
        const [a, b] = attempts.map(({ id }) => id);
        await client.settleAttempts("told", [
          { attempt: a!, action: "error", error: "Error: no answer\n    at x" },
          { attempt: b!, action: "finish" },
        ]);
        expect(out).toMatch(/settled 2 attempts: 1 failed \(a\d+\), 1 finished \(b\d+\)\n/);
        expect(out).toMatch(/^\d\d:\d\d:\d\d {2}a\d+ in s: failed, attempt 1: Error: no answer$/m);
      },
      { timeout: 60_000, interval: 500 },
    );
    await client.addWorkUnits("told", "s", [{ name: "one" }]);
    const [attempt] = await client.requestAttempts("told", { worker: "w", workSpecs: ["s"] });
    await client.settleAttempts("told", [{ attempt: attempt!.id, action: "finish" }]);
    await vi.waitFor(() => expect(out).toMatch(/ {2}one in s: finished\n/), { timeout: 60_000 });
  });

  test("tail --for ends by itself, and with --json prints events", async () => {
    const [ran] = await Promise.all([
      run("tail --for 2 --json --namespace timed"),
      vi.waitFor(() => client.setWorkSpecs("timed", [{ data: encodeData({ name: "s" }) }])),
    ]);
    expect(ran.code).toBe(0);
    for (const line of ran.out.split("\n").filter(Boolean)) expect(JSON.parse(line)).toHaveProperty("verb");
  });

  test("backup copies a store that is in use; the copy can be looked into and is not written over", async () => {
    const copy = path.join(place, "copy.sqlite");
    const made = await coordinate(`backup ${copy} --check --backend ${store}`);
    expect(made.out).toMatch(/copy\.sqlite: [\d.]+ KiB, checked\n$/);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect((await coordinate(`status crawl --backend sqlite:${copy}`)).out).toMatch(/"num_tasks": 3000/);
    const nowhere = await coordinate(`backup ${place}/none/copy --backend ${store}`);
    expect(nowhere.err).toMatch(/none\/copy: its directory does not exist\n$/);
    const again = await coordinate(`backup ${copy} --backend ${store}`);
    expect(again.code).toBe(1);
    expect(again.err).toMatch(/Name already exists/);
    const doctor = await coordinate(`doctor --deep --json --backend sqlite:${copy}`);
    expect(doctor.code).toBe(0);
    expect(JSON.parse(doctor.out)).toContainEqual(
      expect.objectContaining({ about: "store", text: "checked: no damage" }),
    );
  });

  test("doctor knows version and clock, and what a token may do", async () => {
    const { out, code } = await run("doctor");
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`ok +daemon +version ${manifest.version}\\n`));
    expect(out).toMatch(/ok +clock +agrees with the daemon's\n/);
    expect(out).toMatch(/ok +rights +without a token you may read, work, write\n/);
    expect(version).toBe(manifest.version);
  });

  test("completion knows the names of work specs", async () => {
    const env = { COORDINATE_ADDRESS: daemon.url };
    expect((await coordinate("complete_words -- status ''", { env })).out).toBe("crawl\n");
    expect((await coordinate("complete_words -- --namespace shop work_units -W or", { env })).out).toBe(
      "orders\n",
    );
    expect(await coordinate("complete_words -- status ''", { env: { COORDINATE_ADDRESS: nowhere } })).toEqual(
      { code: 0, out: "", err: "" },
    );
  });

  test("the script for bash completes", async () => {
    const bin = `coordinate() { "${process.execPath}" "${executable("coordinate")}" "$@"; }`;
    const script = `${bin}; source <(coordinate completion bash); COMP_WORDS=(coordinate status cr); COMP_CWORD=2; _coordinate; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)("bash", ["-c", script], {
      env: { ...process.env, COORDINATE_ADDRESS: daemon.url },
    });
    expect(stdout).toBe("crawl\n");
  });
});

test("PostgreSQL, without a daemon", { timeout: 120_000 }, async () => {
  const server = await openServer();
  try {
    const url = await server.createDatabase();
    const bench = await coordinate(["bench", "--backend", url, "--units", "500", "--batch", "50", "--json"]);
    expect(bench.err).toBe("");
    const last = JSON.parse(bench.out.trim().split("\n").at(-1) ?? "") as Record<string, number>;
    expect(last).toMatchObject({ units: 500, work: 500 });
    expect(last.add_per_s).toBeGreaterThan(0);
    expect(await coordinate(["summary", "--backend", url, "--json"])).toMatchObject({ code: 0, err: "" });
  } finally {
    await server.stop();
  }
});

test("starting takes a small multiple of what Node itself takes", { timeout: 120_000 }, async () => {
  const main = executable("coordinate");
  const ways = [
    ["-e", "0"],
    [main, "--help"],
    [main, "summary", "--address", daemon.url],
  ];
  // processor time, in turns, and the least of each, so that other load on the machine does not count
  const tell = `process.on("exit", () => { const { user, system } = process.cpuUsage(); process.stderr.write("\\n" + (user + system)); })`;
  const least = ways.map(() => Infinity);
  for (let turn = 0; turn < 10; turn++)
    for (const [at, words] of ways.entries()) {
      const args = ["--import", `data:text/javascript,${encodeURIComponent(tell)}`, ...words];
      const { stderr } = await promisify(execFile)(process.execPath, args);
      least[at] = Math.min(least[at] ?? Infinity, Number(stderr.split("\n").at(-1)));
    }
  const [node = 0, help, summary] = least;
  // measured: 2.5 and 2.8 times
  expect(help).toBeLessThan(5 * node);
  expect(summary).toBeLessThan(5 * node);
});
