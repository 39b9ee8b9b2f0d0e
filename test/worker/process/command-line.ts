/** The command line as processes of their own, from the sources. */
import { spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import { execArgv } from "./harness.ts";

const cli = path.join(import.meta.dirname, "..", "..", "..", "src", "cli");

export interface Ran {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly output: () => string;
  /** The exit code, null when it was killed. */
  readonly ended: Promise<number | null>;
}

/** What it prints goes to `output`. Whoever starts it sees that it ends. */
export function start(args: readonly string[], { program = "main.ts", cwd = import.meta.dirname } = {}): Ran {
  const child = spawn(process.execPath, [...execArgv, path.join(cli, program), ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  if (child.pid === undefined) throw new Error("it could not be started");
  return { child, pid: child.pid, output: () => output, ended };
}
