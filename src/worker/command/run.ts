/** Runs one command to its end: writes its input, keeps a bounded part of its output, enforces its time and memory limits. */
import { Buffer } from "node:buffer";
import type { Readable } from "node:stream";
import { ProcessGroup, type Exit, type Program } from "../process/group.ts";
import { readLines } from "../process/lines.ts";
import { mebibytes } from "../process/memory.ts";
import { workerStops } from "../stops.ts";

/** Node fires a longer timer at once. A command with a timeout of more than 24 days has only the limit of its lease. */
const longestTimer = 2 ** 31 - 1;

export interface CommandLimits {
  /** Bytes of standard output that are kept, from its beginning. */
  readonly maxOutput: number;
  /** Bytes of standard error that are kept, from its end. */
  readonly maxErrors: number;
  readonly memoryLimit: number | null;
  readonly timeoutMs: number | null;
  readonly graceMs: number;
}

export interface CommandResult {
  readonly exit: Exit;
  readonly stdout: string;
  /** Bytes of standard output beyond the limit. */
  readonly stdoutLeftOut: number;
  readonly stderr: string;
  readonly ms: number;
  /** The peak memory in bytes; null when the program ended before it was measured. */
  readonly peak: number | null;
}

/** Never rejects: errors are in `exit`. When its time is up or its worker stops, the program gets SIGTERM, then SIGKILL. */
export async function runCommand(
  program: Program,
  input: string,
  limits: CommandLimits,
  signals: { readonly signal: AbortSignal; readonly expired: AbortSignal },
  onErrorLine: (line: string) => void,
): Promise<CommandResult> {
  const { maxOutput, maxErrors, memoryLimit, timeoutMs, graceMs } = limits;
  const began = performance.now();
  const group = new ProcessGroup(program, { input: true });
  const stdout = keepStart(group.stdout, maxOutput);
  const stderr = keepEnd(group.stderr, maxErrors);
  if (group.stderr !== null) readLines(group.stderr, onErrorLine);
  // a program need not read its input: `ProcessGroup` ignores errors of the pipe
  group.stdin?.end(input);

  const { signal, expired } = signals;
  const look = (): void => {
    if (expired.aborted) void group.stop("expired", "job expired", graceMs);
    else if (workerStops(signal)) void group.stop("stopped", "was stopped with its worker", graceMs);
  };
  signal.addEventListener("abort", look);
  expired.addEventListener("abort", look);
  look();
  const timer =
    timeoutMs === null || timeoutMs > longestTimer
      ? undefined
      : setTimeout(() => {
          void group.stop("expired", `ran for more than ${timeoutMs / 1000} s`, graceMs);
        }, timeoutMs);
  const watch = watchMemory(group, memoryLimit);
  const exit = await group.exited;
  const peak = watch();
  clearTimeout(timer);
  signal.removeEventListener("abort", look);
  expired.removeEventListener("abort", look);
  return {
    exit,
    stdout: stdout().toString("utf8"),
    stdoutLeftOut: stdout.leftOut,
    stderr: stderr().toString("utf8"),
    ms: performance.now() - began,
    peak,
  };
}

/** Measures the memory at intervals that grow from 10 ms to 500 ms. The returned function stops this and returns the peak. */
function watchMemory(group: ProcessGroup, limit: number | null): () => number | null {
  let peak: number | null = null;
  let timer: NodeJS.Timeout | undefined;
  let delayMs = 10;
  let over = false;
  const look = async (): Promise<void> => {
    const use = await group.memory();
    if (over) return;
    if (use !== null) {
      peak = Math.max(peak ?? 0, use.peak);
      if (limit !== null && use.rss > limit)
        void group.stop(
          "memory",
          `used ${mebibytes(use.rss)} of memory, the limit is ${mebibytes(limit)}`,
          0,
        );
    }
    delayMs = Math.min(500, delayMs * 2);
    timer = setTimeout(() => void look(), delayMs);
  };
  timer = setTimeout(() => void look(), delayMs);
  return () => {
    over = true;
    clearTimeout(timer);
    return peak;
  };
}

interface Kept {
  (): Buffer;
  leftOut: number;
}

function keepStart(stream: Readable | null, max: number): Kept {
  const chunks: Buffer[] = [];
  let length = 0;
  const kept: Kept = Object.assign(() => Buffer.concat(chunks), { leftOut: 0 });
  stream?.on("data", (chunk: Buffer) => {
    const part = chunk.subarray(0, max - length);
    if (part.length > 0) chunks.push(part);
    length += part.length;
    kept.leftOut += chunk.length - part.length;
  });
  return kept;
}

function keepEnd(stream: Readable | null, max: number): () => Buffer {
  let chunks: Buffer[] = [];
  let length = 0;
  stream?.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    length += chunk.length;
    if (length <= max * 2) return;
    chunks = [Buffer.concat(chunks).subarray(-max)];
    length = max;
  });
  return () => Buffer.concat(chunks).subarray(-max);
}
