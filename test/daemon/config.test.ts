import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ConfigError, configOf, readConfig, settings, type Config } from "../../src/daemon/index.ts";
import { runDaemon } from "../../src/daemon/main.ts";

const directory = mkdtempSync(path.join(tmpdir(), "config-"));

function file(text: string): string {
  const name = path.join(directory, `${Math.random()}.yaml`);
  writeFileSync(name, text);
  return name;
}

function run(argv: string[], env: Record<string, string> = {}): Config {
  const line = readConfig(argv, env);
  if (line.kind !== "run") throw new Error("expected to run");
  return line.config;
}

const wrong = (argv: string[], env: Record<string, string> = {}): string => {
  try {
    readConfig(argv, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
  }
  return "";
};

describe("settings", () => {
  test("the command line goes before the environment, that before the file, that before the default", () => {
    const config = file("logLevel: warn\nsweepMs: 5\ngrace-ms: 7\nhttp: 127.0.0.1:1\n");
    const env = { COORDINATE_CONFIG: config, COORDINATE_LOG_LEVEL: "error", COORDINATE_SWEEP_MS: "6" };
    expect(run(["--log-level", "debug"], env)).toMatchObject({
      logLevel: "debug",
      sweepMs: 6,
      graceMs: 7,
      http: ["127.0.0.1:1"],
      maxItems: 10_000,
    });
  });

  test("a setting goes by its earlier name too", () => {
    expect(run(["--max-batch", "7"]).maxItems).toBe(7);
    expect(run([], { COORDINATE_MAX_BATCH: "8" }).maxItems).toBe(8);
    expect(run(["--config", file("maxBatch: 9\n")]).maxItems).toBe(9);
  });

  test("lists, flags and values after =", () => {
    expect(
      run(["--http=[::1]:1", "--http", "127.0.0.1:2", "--log-requests", "--no-page", "--metrics=false"]),
    ).toMatchObject({
      http: ["[::1]:1", "127.0.0.1:2"],
      logRequests: true,
      page: false,
      metrics: false,
    });
    expect(run(["--http", ""]).http).toEqual([]);
    expect(run([], { COORDINATE_HTTP: "a:1,b:2" }).http).toEqual(["a:1", "b:2"]);
  });

  test("all that is wrong is told at once, with what was meant", () => {
    const text = wrong(["--log-levle", "x", "--sweep-ms", "soon", "--clock", "manul"], {
      COORDINATE_BACKEN: "x",
      COORDINATE_URL: "fine",
    });
    expect(text.split("\n")).toHaveLength(5);
    expect(text).toContain("--log-levle: no such option; did you mean --log-level?");
    expect(text).toContain('--sweep-ms: expected an integer of 0 or more, got "soon"');
    expect(text).toContain('--clock: expected one of system, manual, got "manul"; did you mean manual?');
    expect(text).toContain("COORDINATE_BACKEN: no such setting; did you mean COORDINATE_BACKEND?");
    expect(wrong(["--config", file("sweepMss: 5")])).toContain("did you mean sweepMs?");
    expect(wrong(["--config", file("- a")])).toContain("expected a mapping of settings");
    expect(wrong(["--config", "/nowhere/x"])).toContain("no such file");
    expect(wrong(["--http"])).toContain("expected a value");
  });

  test.each([
    [["--log-levle", "x"], true],
    [["--config", file("sweepMss: 5")], true],
    [["--log-level", "no such"], false],
  ])("%j: the hint to --help is given: %j", async (argv, isGiven) => {
    const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
    onTestFinished(() => said.mockRestore());
    expect(await runDaemon(argv, {})).toBe(78);
    expect(said.mock.calls.flat().includes("See --help.")).toBe(isGiven);
  });

  test("--help explains every setting; --dump-config is a file that --config takes", () => {
    const help = readConfig(["--help"], {});
    expect(help.kind).toBe("print");
    if (help.kind !== "print") throw new Error("expected text");
    const words = help.text.replaceAll(/\s+/g, " ");
    for (const { help: text } of Object.values(settings)) expect(words).toContain(text);
    const dumped = readConfig(
      ["--dump-config", "--sweep-ms", "77", "--backend", "postgres://me:secret@host/db"],
      {},
    );
    if (dumped.kind !== "print") throw new Error("expected text");
    expect(dumped.text).not.toContain("secret");
    expect(run(["--config", file(dumped.text)])).toMatchObject({ sweepMs: 77, http: ["127.0.0.1:5980"] });
  });

  test("programs say only what differs", () => {
    expect(configOf({ sweepMs: 5 })).toMatchObject({ sweepMs: 5, logLevel: "info" });
    expect(() => configOf({ clock: "sundial" })).toThrow(ConfigError);
  });
});
