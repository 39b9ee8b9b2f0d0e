/** Runs the command line from the sources, in separate processes. */
import { spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import { execArgv } from "./harness.ts";
import { until } from "./processes.ts";

const cli = path.join(import.meta.dirname, "..", "..", "..", "src", "cli");

export interface Ran {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly output: () => string;
  /** The exit code, or null if the process was killed. */
  readonly ended: Promise<number | null>;
}

/** Starts a process whose output is in `output`. The caller must make sure that it ends. */
export function start(args: readonly string[], { program = "main.ts", cwd = import.meta.dirname } = {}): Ran {
  const child = spawn(process.execPath, [...execArgv, path.join(cli, program), ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", PYTHONDONTWRITEBYTECODE: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  if (child.pid === undefined) throw new Error("it could not be started");
  return { child, pid: child.pid, output: () => output, ended };
}

/** Starts a daemon. Resolves with its address when it serves. */
export async function serve(args: readonly string[]): Promise<Ran & { url: string }> {
  const ran = start(["serve", ...args]);
  const url = (): string => /serves (\S+)/.exec(ran.output())?.[1] ?? "";
  let isOver = false;
  void ran.ended.then(() => (isOver = true));
  await until("the daemon serves", () => isOver || url() !== "", 60_000);
  if (url() === "") throw new Error(`the daemon ended:\n${ran.output()}`);
  return { ...ran, url: url() };
}
