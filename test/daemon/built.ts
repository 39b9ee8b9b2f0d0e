import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..", "..");
const cache = path.join(root, "node_modules", ".cache", "daemon-test");
const found = new Map<string, string>();

/** The path of an executable, compiled to JavaScript: Node 20 cannot run the TypeScript sources. */
export function executable(name: "coordinate" | "coordinated"): string {
  const known = found.get(name) ?? build(name);
  found.set(name, known);
  return known;
}

function build(name: "coordinate" | "coordinated"): string {
  const file = path.join("cli", name === "coordinate" ? "main.js" : "coordinated.js");
  // use the output of `npm run build` if it is up to date, as in CI
  const dist = path.join(root, "dist", file);
  const sources = newest(path.join(root, "src"));
  if (existsSync(dist) && statSync(dist).mtimeMs > sources) return dist;
  // one folder for each state of the sources, renamed into place when complete: test files that run in parallel build it at the same
  // time, and none may see a partial build
  const out = path.join(cache, `dist-${Math.floor(sources).toString(36)}`);
  if (!existsSync(out)) {
    const own = `${out}-${process.pid}`;
    const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc");
    // types are checked elsewhere; without type checks the build takes two seconds
    const options = [
      "--noCheck",
      "--incremental",
      "false",
      "--declaration",
      "false",
      "--sourceMap",
      "false",
      "--inlineSources",
      "false",
    ];
    const args = ["-p", "tsconfig.build.json", "--outDir", own, "--tsBuildInfoFile", "null", ...options];
    execFileSync(process.execPath, [tsc, ...args], { cwd: root, stdio: "inherit" });
    // the Python runtime expects the python folder next to the built files, as in the package
    const python = path.join(cache, "python");
    first(python, () => symlinkSync(path.join(root, "python"), python));
    first(out, () => renameSync(own, out));
    rmSync(own, { recursive: true, force: true });
  }
  return path.join(out, file);
}

/** Creates a file if it does not exist. Another process may create it at the same time. */
function first(file: string, make: () => void): void {
  try {
    if (!existsSync(file)) make();
  } catch (error) {
    if (!existsSync(file)) throw error;
  }
}

function newest(directory: string): number {
  const files = readdirSync(directory, { recursive: true, encoding: "utf8" });
  return Math.max(...files.map((file) => statSync(path.join(directory, file)).mtimeMs));
}

export interface Started {
  child: ChildProcess;
  /** Empty if the process ended before it served. */
  url: string;
  output: () => string;
  /** Resolves with the exit code when the process has ended. */
  ended: Promise<number | null>;
}

/** Starts a daemon as a separate process. Resolves when it serves or has ended. */
export async function startProcess(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Started> {
  const child = spawn(process.execPath, [executable("coordinated"), ...args], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...env },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const url = await new Promise<string>((resolve) => {
    child.stdout.on("data", () => {
      const match = /serves (\S+)/.exec(output);
      if (match !== null) resolve(match[1]!);
    });
    void ended.then(() => resolve(""));
  });
  return { child, url, output: () => output, ended };
}
