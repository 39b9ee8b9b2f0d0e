/** Logs with pino: JSON, or lines for people. Logs have names, ids and counts, but never data or secrets. */
import { pino, type Logger } from "pino";
import { escapeLine } from "../core/index.ts";

export type { Logger } from "pino";

export function makeLog(level: string, format: string): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (format === "json") return pino(options, pino.destination({ fd: 2, sync: true }));
  return pino(options, { write: (line: string) => void process.stderr.write(readable(line)) });
}

/** A line as pino writes it, for people. */
export function readable(line: string): string {
  const { time, level, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const name = pino.levels.labels[Number(level)] ?? "";
  const fields = Object.entries(rest).map(
    ([key, value]) => ` ${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const text = `${String(time).slice(11, 23)} ${name.padEnd(5)} ${String(msg)}${fields.join("")}`;
  return `${escapeLine(text)}\n`;
}
