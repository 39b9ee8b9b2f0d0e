/** Where a worker and its tasks write what a person should read. A pino logger is one as it is. */
import { inspect } from "node:util";

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
