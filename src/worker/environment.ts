/** The host and process data that a worker sends with every check-in. */
import { readFileSync } from "node:fs";
import { freemem, hostname, networkInterfaces, totalmem } from "node:os";

/** Plain values: it is stored in the data of the worker. */
export interface Environment {
  host: string;
  pid: number;
  /** The first non-internal address; empty when there is none. */
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

/** Reads package.json, which is two folders up from both the source and the built file. */
function packageVersion(): string {
  if (version !== null) return version;
  try {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    const read = JSON.parse(text) as { version?: unknown };
    version = typeof read.version === "string" ? read.version : "";
  } catch {
    // bundled into another file, without package.json: not worth a failure
    version = "";
  }
  return version;
}
