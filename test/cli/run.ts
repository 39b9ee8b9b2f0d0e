import { spawn } from "node:child_process";
import { splitWords } from "../../src/cli/shell.ts";
import { executable } from "../daemon/built.ts";

export interface Ran {
  code: number | null;
  out: string;
  err: string;
}

export interface RunOptions {
  env?: Record<string, string>;
  /** Its standard input. Default: empty. */
  input?: string;
  cwd?: string;
}

/** Runs the built executable as a separate process. A string is split into words as in a shell. */
export function coordinate(args: string | readonly string[], options: RunOptions = {}): Promise<Ran> {
  const words = typeof args === "string" ? splitWords(args) : args;
  const child = spawn(process.execPath, [executable("coordinate"), ...words], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", TZ: "UTC", ...options.env },
    cwd: options.cwd,
  });
  const ran = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (ran.out += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (ran.err += chunk));
  // a command may end without reading its input; that is not an error
  child.stdin.on("error", () => undefined).end(options.input ?? "");
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, ...ran })));
}
