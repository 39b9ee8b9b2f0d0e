/**
 * The Python package in `python/`: its own suite runs with pytest in a virtual environment, against daemons of this
 * source on SQLite and on PostgreSQL, and mypy checks its types. The oldest other suitable Python of the machine also runs the suite
 * on SQLite, without the long flows and the builds; with `TEST_PYTHON=all`, every other Python does. Any other value of
 * `TEST_PYTHON` is the only Python to use.
 */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { executable } from "../daemon/built.ts";
import { openServer, type Server } from "../postgres/server.ts";
import { whySkipped } from "../skipped-reporter.ts";

const run = promisify(execFile);
const root = path.join(import.meta.dirname, "..", "..");
const cwd = path.join(root, "python");
const oldest = 9;
/** The program of a package, if it has a different name. */
const programs: Readonly<Record<string, string>> = { build: "pyproject-build" };

/** The output of an interpreter, or null if it fails. */
function tell(python: string, args: readonly string[]): string | null {
  try {
    return execFileSync(python, [...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

const versionOf = (python: string): string | null =>
  tell(python, ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);

const isOld = (version: string): boolean => Number(version.split(".")[1]) < oldest;

class Python {
  readonly command: string;
  readonly version: string | null;
  readonly environment: string;

  constructor(command: string, version = versionOf(command)) {
    this.command = command;
    this.version = version;
    this.environment = path.join(root, "node_modules", ".cache", `python-${version ?? "none"}`);
  }

  bin(name: string): string {
    return path.join(this.environment, "bin", name);
  }

  /** Why this Python cannot run the tests, or null. */
  async hindrance(tools: readonly string[]): Promise<string | null> {
    if (this.version === null) return `no ${this.command}`;
    if (isOld(this.version)) return `Python ${this.version} is older than 3.${oldest}`;
    if (tell(this.command, ["-c", "import venv, ensurepip"]) === null)
      return "no module venv (Debian: apt-get install python3-venv)";
    try {
      await this.#install(tools);
      return null;
    } catch (error) {
      return `${tools.join(", ")} cannot be installed: ${String(error)}`;
    }
  }

  /** Creates the environment once; it is kept with the other caches. */
  async #install(tools: readonly string[]): Promise<void> {
    if (tools.every((name) => existsSync(this.bin(programs[name] ?? name)))) return;
    mkdirSync(path.dirname(this.environment), { recursive: true });
    await run(this.command, ["-m", "venv", "--clear", this.environment]);
    await run(this.bin("pip"), ["install", "--quiet", "--disable-pip-version-check", ...tools]);
  }

  /** Returns the number of tests that passed. */
  async pytest(backends: string, ...args: string[]): Promise<number> {
    const env = {
      PATH: process.env.PATH,
      TMPDIR: process.env.TMPDIR,
      // bytecode next to the sources would be shipped, and without bytecode every worker process would compile the package again
      PYTHONPYCACHEPREFIX: path.join(this.environment, "bytecode"),
      TEST_DAEMON: `${process.execPath} ${executable("coordinated")}`,
      TEST_BACKENDS: backends,
      ...(process.env.FLOW_UNITS !== undefined && { FLOW_UNITS: process.env.FLOW_UNITS }),
    };
    const all = ["-q", "--maxfail=5", "-p", "no:cacheprovider", ...args];
    const { stdout } = await run(this.bin("pytest"), all, { cwd, env, maxBuffer: 1 << 26 }).catch(
      (error: unknown) => {
        const { stdout, stderr } = error as { stdout?: string; stderr?: string };
        throw new Error(`pytest failed\n${stdout ?? ""}${stderr ?? ""}`, { cause: error });
      },
    );
    expect(stdout).not.toMatch(/\d+ failed/);
    return Number(/(\d+) passed/.exec(stdout)?.[1]);
  }

  async mypy(): Promise<string> {
    const cache = path.join(this.environment, "mypy");
    const args = ["--strict", "--cache-dir", cache, "coordinate", "tests/types_check.py"];
    const { stdout } = await run(this.bin("mypy"), args, { cwd }).catch((error: unknown) => {
      throw new Error(`mypy failed\n${(error as { stdout?: string }).stdout ?? ""}`, { cause: error });
    });
    return stdout;
  }
}

/** One Python of every other version, oldest first: those in PATH by name, and those installed by pyenv. */
function others(first: Python): Python[] {
  const pyenv = path.join(homedir(), ".pyenv", "versions");
  const installed = existsSync(pyenv) ? readdirSync(pyenv).map((name) => path.join(pyenv, name)) : [];
  const named = [9, 10, 11, 12, 13, 14].map((minor) => `python3.${minor}`);
  const found = new Map<string, Python>();
  for (const command of [...named, ...installed.map((directory) => path.join(directory, "bin", "python3"))]) {
    const version = versionOf(command);
    if (version === null || version === first.version || isOld(version) || found.has(version)) continue;
    found.set(version, new Python(command, version));
  }
  const minor = ({ version }: Python): number => Number(version?.split(".")[1]);
  return [...found.values()].sort((a, b) => minor(a) - minor(b));
}

const { TEST_PYTHON: wanted = "" } = process.env;
const python = new Python(wanted === "" || wanted === "all" ? "python3" : wanted);
const reason = await python.hindrance(["pytest", "mypy", "build"]);
const found = reason !== null || python.command === wanted ? [] : others(python);
const more = wanted === "all" ? found : found.slice(0, 1);

describe.skipIf(reason !== null)(`the Python package${whySkipped(reason)}`, () => {
  let postgres: Server;

  beforeAll(async () => {
    postgres = await openServer();
    executable("coordinated"); // build it once, before several tests need it
  }, 240_000);

  afterAll(async () => {
    await postgres.stop();
  }, 60_000);

  test.concurrent("passes its own suite on sqlite and postgres", { timeout: 1_800_000 }, async () => {
    // three at once, because these tests mostly wait: files of long tests, the other files, and what runs on both stores
    const long = ["tests/test_worker.py", "tests/test_flow.py"];
    const runs = [
      python.pytest("sqlite", ...long),
      python.pytest("sqlite", ...long.map((file) => `--ignore=${file}`), "tests"),
      python.pytest(postgres.url(), "-m", "not one_backend", "-k", "postgres", "tests"),
    ];
    // all have ended when one failed, so that none runs on without its server
    await Promise.allSettled(runs);
    const passed = await Promise.all(runs);
    expect(passed[0]! + passed[1]! + passed[2]!).toBeGreaterThan(300);
  });

  test.concurrent("has types that mypy has nothing to say against", { timeout: 600_000 }, async () => {
    expect(await python.mypy()).toContain("Success");
  });

  if (more.length === 0) return;
  const title = `passes its suite on Python ${more.map(({ version }) => version ?? "").join(", ")}`;
  // one after the other, so that they use at most one processor of a small machine
  test.concurrent(title, { timeout: 3_600_000 }, async ({ skip }) => {
    const short = ["--ignore", "tests/test_flow.py", "--ignore", "tests/test_documentation.py", "tests"];
    const missing: string[] = [];
    for (const other of more) {
      const hindrance = await other.hindrance(["pytest"]);
      if (hindrance !== null) missing.push(`Python ${other.version ?? ""}: ${hindrance}`);
      else expect(await other.pytest("sqlite", ...short)).toBeGreaterThan(200);
    }
    if (missing.length > 0) skip(missing.join("; "));
  });
});
