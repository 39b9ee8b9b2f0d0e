/** Where a worker and its tasks write what a person should read. A pino logger is one as it is. */
import { inspect } from "node:util";
import type { Clock } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";

export interface Log {
  (message: string): void;
  (details: object, message: string): void;
}

export interface Logger {
  readonly debug: Log;
  readonly info: Log;
  readonly warn: Log;
  readonly error: Log;
  /** The same with these details on every line. */
  child(details: object): Logger;
}

/** Warnings and errors to stderr, one line each; the rest is not written. What a worker uses when it is given no logger. */
export const stderrLogger: Logger = linesLogger((line) => void process.stderr.write(line), ["warn", "error"]);

/** Nothing is written. */
export const silentLogger: Logger = linesLogger(() => undefined, []);

type Level = "debug" | "info" | "warn" | "error";

/** One line a call: level, message, and the details as JSON. */
export function linesLogger(
  write: (line: string) => void,
  levels: readonly Level[] = ["debug", "info", "warn", "error"],
  base: object = {},
): Logger {
  const at =
    (level: Level): Log =>
    (first: string | object, message?: string) => {
      if (!levels.includes(level)) return;
      const text = typeof first === "string" ? first : (message ?? "");
      const details = typeof first === "string" ? base : { ...base, ...first };
      write(`${level}: ${text}${Object.keys(details).length === 0 ? "" : ` ${show(details)}`}\n`);
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (details) => linesLogger(write, levels, { ...base, ...details }),
  };
}

/** The log of one unit: called like a function it writes with the level `info`. */
export type TaskLog = Logger & Log;

/** A log that writes to another, and hands every line but those for debugging to `keep`. */
export function taskLog(
  base: Logger,
  keep: (level: Level, text: string, details: object) => void,
  details: object = {},
): TaskLog {
  const at =
    (level: Level): Log =>
    (first: string | object, message?: string) => {
      const text = typeof first === "string" ? first : (message ?? "");
      const all = typeof first === "string" ? details : { ...details, ...first };
      if (typeof first === "string") base[level](first);
      else base[level](first, text);
      if (level !== "debug") keep(level, text, all);
    };
  return Object.assign(at("info"), {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (more: object) => taskLog(base.child(more), keep, { ...details, ...more }),
  });
}

/** A log whose lines are kept with the attempt as well. */
export const attemptLog = (base: Logger, attempt: Attempt, clock: Clock): TaskLog =>
  taskLog(base, (level, text, details) =>
    attempt.log(Object.keys(details).length === 0 ? text : `${text} ${show(details)}`, {
      level,
      time: clock.now(),
    }),
  );

/** Of an error, its message; what cannot be JSON must not make logging fail. */
function show(details: object): string {
  try {
    return JSON.stringify(details, (_key, value: unknown) =>
      value instanceof Error ? value.message : typeof value === "bigint" ? String(value) : value,
    );
  } catch {
    return inspect(details, { breakLength: Infinity });
  }
}
