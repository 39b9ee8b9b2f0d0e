/** The machine: its description, its load, the resources a process has used, and statistics of measurements. */
import { execFileSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { cpus, loadavg, release, tmpdir, totalmem } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };

export const here = import.meta.dirname;

/** The Node that all subjects run on: the one in bench/node_modules, which some peers need, or else the one that runs this. */
export function subjectNode(): string {
  const packaged = path.join(here, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  return existsSync(packaged) ? packaged : process.execPath;
}

/** Flags for a process that runs the TypeScript sources. */
export const sourceFlags = [
  "--disable-warning=ExperimentalWarning",
  "--import",
  path.join(here, "../examples/typescript.mjs"),
];

export async function scratch<Answer>(work: (directory: string) => Promise<Answer>): Promise<Answer> {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-bench-"));
  try {
    return await work(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? NaN)
    : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2;
}

/** Resolves when the process has ended. */
export function ended(child: ChildProcess): Promise<void> {
  return child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise((resolve) => child.once("exit", () => resolve()));
}

export async function terminate(child: ChildProcess): Promise<void> {
  child.kill("SIGTERM");
  await ended(child);
}

/** Processor time of a process so far, in seconds; null where there is no /proc. */
export function cpuSeconds(pid: number | undefined): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return null;
  }
}

/** Resident memory of a process in bytes. */
export function residentBytes(pid: number | undefined): number | null {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  } catch {
    return null;
  }
}

function ticks(): { idle: number; all: number } {
  const times = cpus().map((cpu) => cpu.times);
  const idle = times.reduce((sum, time) => sum + time.idle, 0);
  return { idle, all: times.reduce((sum, { user, nice, sys, irq }) => sum + user + nice + sys + irq, idle) };
}

/** The idle share of all processors over `ms` milliseconds. */
export async function idleShare(ms = 200): Promise<number> {
  const before = ticks();
  await sleep(ms);
  const after = ticks();
  return (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

/** Waits until the processors are more than 90 % idle, for at most `maxMs`. Returns the last idle share. */
export async function quiet(maxMs: number): Promise<number> {
  for (const end = Date.now() + maxMs; ;) {
    const share = await idleShare();
    if (share > 0.9 || Date.now() >= end) return share;
  }
}

/** How long a write of 4 kB and its fdatasync take on the disk of the temporary directory. */
async function diskMs(): Promise<number> {
  return scratch(async (directory) => {
    const file = await open(path.join(directory, "file"), "w");
    const times: number[] = [];
    for (let i = 0; i < 100; i++) {
      const start = performance.now();
      await file.write("x".repeat(4096));
      await file.datasync();
      times.push(performance.now() - start);
    }
    await file.close();
    return median(times);
  });
}

function output(command: string, ...args: string[]): string | null {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

function versionOf(name: string): string | null {
  const file = path.join(here, "node_modules", name, "package.json");
  if (!existsSync(file)) return null;
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

export async function environment(): Promise<Record<string, string | number | null>> {
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: output("git", "-C", here, "rev-parse", "--short", "HEAD"),
    processor: cpus()[0]?.model ?? null,
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    load_before: Number(loadavg()[0]?.toFixed(2)),
    fdatasync_ms: Number((await diskMs()).toFixed(3)),
    node: output(subjectNode(), "--version"),
    redis: /v=(\S+)/.exec(output("redis-server", "--version") ?? "")?.[1] ?? null,
    bullmq: versionOf("bullmq"),
    "graphile-worker": versionOf("graphile-worker"),
    "pg-boss": versionOf("pg-boss"),
  };
}
