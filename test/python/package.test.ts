/**
 * The Python package in `python/`: its own suite runs with pytest in a virtual environment, against daemons of this
 * source on SQLite and on PostgreSQL, and mypy checks its types.
 */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { executable } from "../daemon/built.ts";
import { openServer, type Server } from "../postgres/server.ts";
import { whySkipped } from "../skipped-reporter.ts";

const run = promisify(execFile);
const root = path.join(import.meta.dirname, "..", "..");
const python = process.env.TEST_PYTHON ?? "python3";
const version = tell(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
const environment = path.join(root, "node_modules", ".cache", `python-${version ?? "none"}`);
const bin = (name: string): string => path.join(environment, "bin", name);

/** What the interpreter says, or null when it cannot. */
function tell(args: readonly string[]): string | null {
  try {
    return execFileSync(python, [...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

/** Why these tests cannot run on this machine, or null. */
function hindrance(): string | null {
  if (version === null) return `no ${python}`;
  if (Number(version.split(".")[1]) < 9) return `Python ${version} is older than 3.9`;
  if (tell(["-c", "import venv, ensurepip"]) === null)
    return "no module venv (Debian: apt-get install python3-venv)";
  try {
    install();
    return null;
  } catch (error) {
    return `pytest, mypy and build cannot be installed: ${String(error)}`;
  }
}

/** Once: the environment is kept with the other caches. */
function install(): void {
  if (["pytest", "mypy", "pyproject-build"].every((name) => existsSync(bin(name)))) return;
  mkdirSync(path.dirname(environment), { recursive: true });
  execFileSync(python, ["-m", "venv", "--clear", environment]);
  execFileSync(bin("pip"), ["install", "--quiet", "--disable-pip-version-check", "pytest", "mypy", "build"]);
}

const reason = hindrance();

describe.skipIf(reason !== null)(`the Python package${whySkipped(reason)}`, () => {
  const cwd = path.join(root, "python");
  let postgres: Server;

  beforeAll(async () => {
    postgres = await openServer();
  }, 120_000);

  afterAll(async () => {
    await postgres.stop();
  }, 60_000);

  test("passes its own suite on sqlite and postgres", { timeout: 1_800_000 }, async () => {
    const env = {
      PATH: process.env.PATH,
      PYTHONDONTWRITEBYTECODE: "1",
      TEST_DAEMON: `${process.execPath} ${executable("coordinated")}`,
      TEST_BACKENDS: `sqlite ${postgres.url()}`,
    };
    const args = ["-q", "--maxfail=5", "-p", "no:cacheprovider", "tests"];
    const { stdout } = await run(bin("pytest"), args, { cwd, env, maxBuffer: 1 << 26 }).catch(
      (error: unknown) => {
        const { stdout, stderr } = error as { stdout?: string; stderr?: string };
        throw new Error(`pytest failed\n${stdout ?? ""}${stderr ?? ""}`, { cause: error });
      },
    );
    expect(stdout).toMatch(/\d+ passed/);
    expect(stdout).not.toMatch(/\d+ failed/);
  });

  test("has types that mypy has nothing to say against", { timeout: 300_000 }, async () => {
    const cache = path.join(environment, "mypy");
    const args = ["--strict", "--cache-dir", cache, "coordinate", "tests/types_check.py"];
    const { stdout } = await run(bin("mypy"), args, { cwd }).catch((error: unknown) => {
      throw new Error(`mypy failed\n${(error as { stdout?: string }).stdout ?? ""}`, { cause: error });
    });
    expect(stdout).toContain("Success");
  });
});
