/** The options of a job worker, in a pool or single. All of them are checked before anything is started. */
import type { KeyLike } from "node:crypto";
import { statSync } from "node:fs";
import { CoordinateError, escapeLine } from "../core/index.ts";
import { stderrLogger, type Logger } from "../worker/index.ts";
import { defaultTimeoutMs } from "./worker-record.ts";

export interface JobWorkerOptions {
  /** The time limit of jobs without their own timeout; 3,600,000 by default. 0 is unlimited. */
  timeoutMs?: number;
  /** Modules are loaded only from below these folders; the working directory by default. */
  roots?: readonly string[];
  /** Also takes inline functions, where the namespace allows them. */
  inline?: boolean;
  /** If not empty, inline functions must be signed by one of these Ed25519 keys. */
  trustedKeys?: readonly KeyLike[];
  /**
   * The lease of a job; 30 s by default. The worker renews it while the job runs. The job of a lost worker is available
   * again after this.
   */
  leaseMs?: number;
  /** The interval between check-ins, idle or busy; 5 s by default. A worker that missed four counts as dead. */
  heartbeatMs?: number;
  /** The delay between asking a function to stop and killing its process; 2 s by default. */
  killGraceMs?: number;
  /** A process that uses more memory than this, in bytes, is killed; not watched when absent. */
  memoryLimit?: number;
  /** The maximum heap of processes that run inline functions, in MiB; 256 by default. */
  inlineHeapMb?: number;
  /** Node options of processes that run modules; those of this process when absent. */
  execArgv?: readonly string[];
  /** Added to the environment of processes that run modules. */
  env?: Readonly<Record<string, string>>;
  /** Prints each job that is executed, its outcome, and the output of functions. */
  showout?: boolean;
  /** Receives each printed line; writes to standard output when absent. */
  print?: (line: string) => void;
  log?: Logger;
  /** The program that the child processes run; that of this package when absent. */
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
    show: showout ? (text) => print(text.split("\n").map(escapeLine).join("\n")) : () => undefined,
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
    if (!known.includes(key)) throw new CoordinateError("bad_argument", `${key}: unknown option`);
}

function checkFolder(root: string): void {
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new CoordinateError("bad_argument", `roots: ${root} is not a folder`);
}
