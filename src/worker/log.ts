/** Loggers of workers and tasks. A pino logger fits the interface. */
import { inspect } from "node:util";
import { escapeLine, type Clock } from "../core/index.ts";
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
  /** Returns a logger that adds these details to every line. */
  child(details: object): Logger;
}

/** A logger without `child`, such as `console`. */
export type PlainLogger = Pick<Logger, Level>;

/** Returns the logger, with a `child` of its own making if it has none: its lines then have their details as text. */
export function withChild(log: Logger | PlainLogger): Logger {
  if ("child" in log && typeof log.child === "function") return log;
  return loggerTo((level, text, details) => log[level](withDetails(text, details)));
}

/** The default logger of a worker: writes warnings and errors to stderr, one line each, and nothing else. */
export const stderrLogger: Logger = linesLogger((line) => void process.stderr.write(line), ["warn", "error"]);

export const silentLogger: Logger = linesLogger(() => undefined, []);

const levels = ["debug", "info", "warn", "error"] as const;
export type Level = (typeof levels)[number];

/** The first method that a logger lacks; null when it has all but `child`, which it need not have. */
export const missingMethod = (log: object): Level | null =>
  levels.find((level) => typeof (log as Partial<Record<Level, unknown>>)[level] !== "function") ?? null;

/** Passes each line to `write`, with `base` and the details of its own. */
export function loggerTo(
  write: (level: Level, text: string, details: object) => void,
  base: object = {},
): Logger {
  const at =
    (level: Level): Log =>
    (first: string | object, message?: string) => {
      if (typeof first === "string") write(level, first, base);
      else write(level, message ?? "", { ...base, ...first });
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (details) => loggerTo(write, { ...base, ...details }),
  };
}

/** Writes one line per call: level, message, and the details as JSON, with control characters escaped. */
export function linesLogger(
  write: (line: string) => void,
  levels: readonly Level[] = ["debug", "info", "warn", "error"],
  base: object = {},
): Logger {
  return loggerTo((level, text, details) => {
    if (levels.includes(level)) write(`${level}: ${escapeLine(withDetails(text, details))}\n`);
  }, base);
}

/** The log of one unit. Called as a function, it writes at level `info`. */
export type TaskLog = Logger & Log;

/** Returns a log that writes to `base` and passes every line except debug lines to `keep`. */
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

/** Returns a log whose lines are also stored with the attempt. */
export const attemptLog = (base: Logger, attempt: Attempt, clock: Clock): TaskLog =>
  taskLog(base, (level, text, details) =>
    attempt.log(withDetails(text, details), { level, time: clock.now() }),
  );

const withDetails = (text: string, details: object): string =>
  Object.keys(details).length === 0 ? text : `${text} ${show(details)}`;

/** Errors become their message. Details that JSON cannot encode must not make logging fail. */
function show(details: object): string {
  try {
    return JSON.stringify(details, (_key, value: unknown) =>
      value instanceof Error ? value.message : typeof value === "bigint" ? String(value) : value,
    );
  } catch {
    return inspect(details, { breakLength: Infinity });
  }
}
