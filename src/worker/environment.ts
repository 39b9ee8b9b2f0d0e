/** What a worker tells of where it runs, with every check-in of its process. */
import { readFileSync } from "node:fs";
import { freemem, hostname, networkInterfaces, totalmem } from "node:os";

/** Plain values, as data of a worker has them. */
export interface Environment {
  host: string;
  pid: number;
  /** The first address that others may reach; empty when there is none. */
  ip: string;
  platform: string;
  versions: { coordinate: string; node: string };
  memory: { rss: number; heap: number; free: number; total: number };
}

export function environment(): Environment {
  const { rss, heapUsed } = process.memoryUsage();
  return {
    host: hostname(),
    pid: process.pid,
    ip: firstAddress(),
    platform: `${process.platform} ${process.arch}`,
    versions: { coordinate: packageVersion(), node: process.versions.node },
    memory: { rss, heap: heapUsed, free: freemem(), total: totalmem() },
  };
}

function firstAddress(): string {
  for (const addresses of Object.values(networkInterfaces()))
    for (const { address, internal } of addresses ?? []) if (!internal) return address;
  return "";
}

let version: string | null = null;

/** The package's own file, two folders up from the sources as from what is built. */
function packageVersion(): string {
  if (version !== null) return version;
  try {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    const read = JSON.parse(text) as { version?: unknown };
    version = typeof read.version === "string" ? read.version : "";
  } catch {
    // bundled into one file of somebody's own: not worth a failure
    version = "";
  }
  return version;
}
