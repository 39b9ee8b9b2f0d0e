/** What a worker of jobs may be told, in a pool or by itself; all of it is checked before anything is started. */
import type { KeyLike } from "node:crypto";
import { statSync } from "node:fs";
import { CoordinateError } from "../core/index.ts";
import { stderrLogger, type Logger } from "../worker/index.ts";
import { defaultTimeoutMs } from "./worker-record.ts";

export interface JobWorkerOptions {
  /** How long a job may run that has no time-out of its own; 3,600,000. 0 is unlimited. */
  timeoutMs?: number;
  /** Modules are loaded from below these folders; the working directory. */
  roots?: readonly string[];
  /** Also takes inline functions, where the namespace allows them. */
  inline?: boolean;
  /** Runs only inline functions that were signed for one of these Ed25519 public keys. */
  trustedKeys?: readonly KeyLike[];
  /** A job whose worker was lost is available again after this long; 30 s. It is renewed while the job runs. */
  leaseMs?: number;
  /** Between check-ins, idle or busy; 5 s. A worker that missed four is taken for dead. */
  heartbeatMs?: number;
  /** Between asking a function to stop and ending its process; 2 s. */
  killGraceMs?: number;
  /** A process that uses more memory than this, in bytes, is ended; not watched when absent. */
  memoryLimit?: number;
  /** The heap of processes that run inline functions, in MiB; 256. */
  inlineHeapMb?: number;
  /** Options of Node for processes that run modules; those of this process when absent. */
  execArgv?: readonly string[];
  /** Added to the environment of processes that run modules. */
  env?: Readonly<Record<string, string>>;
  /** Prints what is executed, what came of it, and what functions print. */
  showout?: boolean;
  /** Where that is printed; standard output. */
  print?: (line: string) => void;
  log?: Logger;
  /** The program of the processes; that of this package when absent. */
  program?: string;
}

export interface JobWorkerSettings {
  readonly timeoutMs: number;
  readonly roots: readonly string[];
  readonly inline: boolean;
  readonly trustedKeys: readonly KeyLike[];
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly killGraceMs: number;
  readonly memoryLimit: number | undefined;
  readonly inlineHeapMb: number;
  readonly execArgv: readonly string[] | undefined;
  readonly env: Readonly<Record<string, string>> | undefined;
  readonly show: (text: string) => void;
  readonly log: Logger;
  readonly program: string | undefined;
}

export const workerOptionNames = [
  "timeoutMs",
  "roots",
  "inline",
  "trustedKeys",
  "leaseMs",
  "heartbeatMs",
  "killGraceMs",
  "memoryLimit",
  "inlineHeapMb",
  "execArgv",
  "env",
  "showout",
  "print",
  "log",
  "program",
] as const satisfies (keyof JobWorkerOptions)[];

/** Throws `bad_argument`, naming the option. */
export function readWorkerOptions(options: JobWorkerOptions): JobWorkerSettings {
  const { showout = false, print = (line) => void process.stdout.write(`${line}\n`) } = options;
  const timeoutMs = span("timeoutMs", options.timeoutMs, defaultTimeoutMs, 0);
  const roots = options.roots ?? [process.cwd()];
  for (const root of roots) checkFolder(root);
  return {
    timeoutMs: timeoutMs === 0 ? Infinity : timeoutMs,
    roots,
    inline: options.inline ?? false,
    trustedKeys: options.trustedKeys ?? [],
    leaseMs: span("leaseMs", options.leaseMs, 30_000, 100),
    heartbeatMs: span("heartbeatMs", options.heartbeatMs, 5000, 10),
    killGraceMs: span("killGraceMs", options.killGraceMs, 2000, 0),
    memoryLimit: options.memoryLimit,
    inlineHeapMb: span("inlineHeapMb", options.inlineHeapMb, 256, 16),
    execArgv: options.execArgv,
    env: options.env,
    show: showout ? print : () => undefined,
    log: options.log ?? stderrLogger,
    program: options.program,
  };
}

export function span(option: string, value: number | undefined, otherwise: number, min: number): number {
  const given = value ?? otherwise;
  if (typeof given !== "number" || !(given >= min) || !Number.isFinite(given))
    throw new CoordinateError(
      "bad_argument",
      `${option}: expected a number of ${min} or more, got ${String(given)}`,
    );
  return given;
}

export function checkKnown(options: object, known: readonly string[]): void {
  for (const key of Object.keys(options))
    if (!known.includes(key)) throw new CoordinateError("bad_argument", `${key}: not an option here`);
}

function checkFolder(root: string): void {
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new CoordinateError("bad_argument", `roots: ${root} is not a folder`);
}
