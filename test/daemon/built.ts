/** The package compiled to JavaScript, and its daemon as a process: Node 20 cannot run the TypeScript sources. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..", "..");
const cache = path.join(root, "node_modules", ".cache", "built-test");
const found = new Map<string, string>();

export const executable = (name: "coordinate" | "coordinated"): string =>
  builtFile(path.join("cli", name === "coordinate" ? "main.js" : "coordinated.js"));

/** The path of a compiled file of the package, given in `dist`. */
export function builtFile(file: string): string {
  const known = found.get(file) ?? build(file);
  found.set(file, known);
  return known;
}

function build(file: string): string {
  // use the output of `npm run build` if it is up to date, as in CI
  const dist = path.join(root, "dist", file);
  const sources = newest(path.join(root, "src"));
  if (existsSync(dist) && statSync(dist).mtimeMs > sources) return dist;
  // one folder for each state of the sources, renamed into place when complete
  const out = path.join(cache, Math.floor(sources).toString(36));
  const lock = `${out}.lock`;
  mkdirSync(cache, { recursive: true });
  for (let tries = 0; !existsSync(out); tries++) {
    // test files that run in parallel wait for the one that builds; it may have been killed
    if (!create(lock) && tries < 600) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    else
      try {
        if (!existsSync(out)) compile(out);
      } finally {
        rmSync(lock, { recursive: true, force: true });
      }
  }
  return path.join(out, "dist", file);
}

function create(directory: string): boolean {
  try {
    mkdirSync(directory);
    return true;
  } catch {
    return false;
  }
}

/** Makes a folder like that of the package. */
function compile(out: string): void {
  const own = `${out}-${process.pid}`;
  const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc");
  const place = ["--outDir", path.join(own, "dist"), "--tsBuildInfoFile", "null"];
  const off = ["--incremental", "--declaration", "--sourceMap", "--inlineSources"];
  // types are checked elsewhere; without type checks the build takes two seconds
  const options = ["--noCheck", ...off.flatMap((name) => [name, "false"])];
  const args = [tsc, "-p", "tsconfig.build.json", ...place, ...options];
  execFileSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  copyFileSync(path.join(root, "package.json"), path.join(own, "package.json"));
  symlinkSync(path.join(root, "python"), path.join(own, "python"));
  try {
    renameSync(own, out);
  } catch (error) {
    rmSync(own, { recursive: true, force: true });
    if (!existsSync(out)) throw error;
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
