/** Reads how much memory a process uses, on systems with procfs. */
import { readFile } from "node:fs/promises";

export interface MemoryUse {
  /** Resident memory now, in bytes. */
  readonly rss: number;
  /** The peak of resident memory, in bytes. */
  readonly peak: number;
}

/** Null when the process is gone or the system has no procfs. */
export async function memoryOf(pid: number): Promise<MemoryUse | null> {
  let text: string;
  try {
    text = await readFile(`/proc/${pid}/status`, "utf8");
  } catch {
    return null; // no such process, or no procfs: the memory use is unknown
  }
  const kilobytes = (key: string): number | null => {
    const found = new RegExp(`^${key}:\\s+(\\d+) kB$`, "m").exec(text);
    return found?.[1] === undefined ? null : Number(found[1]) * 1024;
  };
  const rss = kilobytes("VmRSS");
  // a zombie has no VmRSS line
  return rss === null ? null : { rss, peak: kilobytes("VmHWM") ?? rss };
}

export const mebibytes = (bytes: number): string => `${Math.round(bytes / (1024 * 1024))} MiB`;
