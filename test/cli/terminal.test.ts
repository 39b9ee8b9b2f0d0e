/** Terminal output: colours, widths, the live view and the interactive shell, in a real pseudo-terminal. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import path from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData } from "../../src/core/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { executable, startProcess, type Started } from "../daemon/built.ts";

interface Step {
  expect: string;
  send?: string;
  signal?: number;
  resize?: readonly [columns: number, rows: number];
}

interface Shown {
  output: string;
  code: number;
  cooked: boolean;
  /** The number of steps whose expected text did not appear. */
  left: number;
}

const place = mkdtempSync(path.join(tmpdir(), "coordinate-terminal-"));
const history = path.join(place, "state", "history");
let daemon: Started;

beforeAll(async () => {
  executable("coordinate");
  daemon = await startProcess([
    ...["--backend", "memory:", "--data-dir", place, "--http", "127.0.0.1:0", "--log-level", "error"],
  ]);
  const client = new RestClient(daemon.url);
  const long = "a-work-spec-with-a-name-that-is-longer-than-any-window-is-wide-".repeat(2);
  await client.setWorkSpecs("", [
    { data: encodeData({ name: "crawl" }) },
    { data: encodeData({ name: long, disabled: true }) },
    { data: encodeData({ name: "測試\u001b[31m名" }) },
  ]);
  const units = Array.from({ length: 250 }, (_, i) => ({ name: `unit-${String(i).padStart(4, "0")}` }));
  await client.addWorkUnits("", "crawl", units);
  const [attempt] = await client.requestAttempts("", { worker: "w".repeat(120), workSpecs: ["crawl"] });
  const data = encodeData({ traceback: "Error: boom\n  at work", note: "x".repeat(500) });
  await client.settleAttempts("", [{ attempt: attempt?.id ?? "", action: "fail", data }]);
  await client.close();
}, 240_000);
afterAll(async () => {
  daemon.child.kill();
  await daemon.ended;
  rmSync(place, { recursive: true, force: true });
});

async function show(
  words: readonly string[],
  steps: readonly Step[] = [],
  {
    columns = 80,
    rows = 24,
    env = {},
  }: { columns?: number; rows?: number; env?: Record<string, string> } = {},
): Promise<Shown> {
  const command = [process.execPath, executable("coordinate"), ...words];
  const plan = { columns, rows, command, steps, seconds: 120 };
  const { stdout } = await promisify(execFile)(
    "python3",
    [path.join(import.meta.dirname, "terminal.py"), JSON.stringify(plan)],
    {
      env: {
        PATH: process.env.PATH ?? "",
        HOME: place,
        TZ: "UTC",
        TERM: "xterm-256color",
        COORDINATE_ADDRESS: daemon.url,
        COORDINATE_HISTORY: history,
        ...env,
      },
    },
  );
  return JSON.parse(stdout) as Shown;
}

const linesOf = ({ output }: Shown): string[] => stripVTControlCharacters(output).split(/\r*\n/);

/** A wide character takes two columns. */
const widthOf = (line: string): number =>
  Array.from(line).reduce((sum, one) => sum + (/[\u1100-\u115f\u2e80-\uffdc]/.test(one) ? 2 : 1), 0);

describe("on a terminal", { concurrent: true, timeout: 180_000 }, () => {
  test.each([
    [["summary"], 80],
    [["summary"], 60],
    [["summary", "-A"], 80],
    [["summary", "-A"], 40],
    [["history", "-q"], 40],
    [["workers"], 40],
    [["work_specs", "--details"], 80],
    [["work_unit", "crawl", "unit-0000"], 80],
    [["work_unit", "crawl", "unit-0000"], 160],
    [["workers"], 80],
    [["explain"], 80],
    [["doctor"], 80],
    [["--help"], 80],
  ])("%j fits a window of %i columns", async (words, columns) => {
    const shown = await show(words, [], { columns });
    expect(shown.code).toBe(0);
    const [page = ""] = linesOf(shown).join("\n").split("\nExamples:");
    // commands for copying are not truncated, however long the names in them are
    for (const line of page.split("\n").filter((text) => !/coordinate resume|is-wide-\.?$/.test(text)))
      expect(widthOf(line), line).toBeLessThanOrEqual(columns);
  });

  test("names cannot command the terminal", async () => {
    const shown = await show(["work_specs"]);
    expect(shown.output).toContain("測試\\x1b[31m名");
    expect(shown.output).not.toContain("\u001b[31m");
  });

  test("colours on a terminal, none where they are not wanted", async () => {
    expect((await show(["summary"])).output).toContain("\u001b[1m");
    expect((await show(["summary", "--no-color"])).output).not.toContain("\u001b");
    expect((await show(["summary"], [], { env: { NO_COLOR: "1" } })).output).not.toContain("\u001b");
    expect((await show(["summary"], [], { env: { TERM: "dumb" } })).output).not.toContain("\u001b");
  });

  test("a listing stops where a person would, and says how much is left", async () => {
    const lines = linesOf(await show(["work_units", "crawl"]));
    expect(lines.filter((line) => line.startsWith("unit-"))).toHaveLength(100);
    expect(lines.at(-2)).toBe("… and 150 more; -n N shows more, --all everything");
  });

  test("deleting everything is asked for, and not done when the answer is no", async () => {
    const shown = await show(["clear", "crawl"], [{ expect: "(yes/no) ", send: "n\n" }]);
    expect(shown.output).toContain("Delete all 250 units of crawl?");
    expect(shown.output).toContain("Removed nothing.");
    expect(shown.code).toBe(2);
  });
});

describe("coordinate top", { concurrent: true, timeout: 180_000 }, () => {
  /** The last frame on the screen. */
  const frame = ({ output }: Shown): string[] =>
    stripVTControlCharacters(output.slice(output.lastIndexOf("\u001b[H")).split("\u001b[J")[0] ?? "").split(
      /\r*\n/,
    );
  const restored = (shown: Shown): void => {
    expect(shown.output).toMatch(/\u001b\[\?25h\u001b\[\?1049l/);
    expect(shown.output.lastIndexOf("\u001b[?1049l")).toBeGreaterThan(
      shown.output.lastIndexOf("\u001b[?1049h"),
    );
    expect(shown.cooked).toBe(true);
    expect(shown.left).toBe(0);
  };

  test.each([[80], [160]])("fits %i columns, and q gives the terminal back", async (columns) => {
    const shown = await show(
      ["top", "-i", "0.3"],
      [{ expect: "q quits" }, { expect: "q quits", send: "q" }],
      { columns },
    );
    restored(shown);
    expect(shown.code).toBe(0);
    const lines = frame(shown);
    expect(lines).toHaveLength(24);
    for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(columns);
    expect(lines[1]).toMatch(/^3 work specs {2}250 units {2}0 pending {2}1 failed {2}/);
    expect(lines.join("\n")).toMatch(/^crawl +249 +0 +1 +0/m);
    if (columns === 160) expect(lines.join("\n")).toMatch(/Progress/);
  });

  test("p pauses the view, s sorts, a resize redraws", async () => {
    const shown = await show(
      ["top", "-i", "0.3"],
      [
        { expect: "q quits", send: "p" },
        { expect: "paused, p resumes", send: "p" },
        { expect: "p pauses", send: "s" },
        { expect: "order: done/s", resize: [100, 30] },
        { expect: "Progress", send: "q" },
      ],
    );
    restored(shown);
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("%s gives the terminal back", async (signal) => {
    restored(await show(["top"], [{ expect: "q quits", signal: constants.signals[signal] }]));
  });

  test("a daemon that is not there is told, and no screen is taken", async () => {
    const shown = await show(["top", "--address", "http://127.0.0.1:1"]);
    expect(shown.output).toMatch(/is a daemon running/);
    expect(shown.output).not.toContain("\u001b[?1049h");
    expect(shown.code).toBe(1);
  });
});

describe("the shell", { timeout: 180_000 }, () => {
  const prompt = "coordinate> ";

  test("runs commands, survives their errors, completes, asks, and remembers", async () => {
    const shown = await show(
      [],
      [
        { expect: prompt, send: "status crawl\n" },
        { expect: '"num_tasks": 250', send: "work_unit crawl nope\n" },
        { expect: "No such work unit nope", send: "frobnicate\n" },
        { expect: "no such command frobnicate", send: "summary --colour\n" },
        { expect: "unknown option '--colour'", send: '"\n' },
        { expect: "missing closing", send: "stat\t" },
        { expect: "status ", send: "cr\t" },
        { expect: "crawl ", send: "--json\n" },
        { expect: '"num_tasks": 250', send: "delete crawl\n" },
        { expect: "to confirm: ", send: "no\n" },
        { expect: "not deleting anything", send: "work_specs\nnamespaces\n" },
        { expect: "weighted", send: "--address http://127.0.0.1:1 summary\n" },
        { expect: "is a daemon running", send: "summary --token secret\n" },
        { expect: "Finished" },
        { expect: prompt, send: "tail\n" },
        { expect: "tail", signal: constants.signals.SIGINT },
        { expect: prompt, send: "\u0003" },
        { expect: "^C", send: "help pause\n" },
        { expect: "Usage: coordinate pause" },
        { expect: prompt, send: "\u0004" },
      ],
    );
    expect(shown.left, shown.output).toBe(0);
    expect(shown.cooked).toBe(true);
    expect(shown.code).toBe(0);
    expect(existsSync(history)).toBe(true);
    const remembered = readFileSync(history, "utf8").split("\n");
    expect(remembered).toContain("status crawl");
    expect(remembered.join()).not.toContain("secret");
    expect(statSync(history).mode & 0o777).toBe(0o600);
    // a second shell has the history of the first
    const again = await show(
      [],
      [
        { expect: prompt, send: "\u001b[A" },
        { expect: "help pause", send: "\u0003" },
        { expect: prompt, send: "quit\n" },
      ],
    );
    expect(again.left, again.output).toBe(0);
  });

  test("options of the shell hold for its lines", async () => {
    const shown = await show(
      ["--namespace", "elsewhere", "--backend", "memory:"],
      [
        { expect: prompt, send: `rpc setWorkSpecs '[{"data":{"name":"here"}}]'\n` },
        { expect: "nextWorkSpecName" },
        { expect: prompt, send: "work_specs\n" },
        { expect: "\nhere", send: "quit\n" },
      ],
    );
    expect(shown.left, shown.output).toBe(0);
  });
});
