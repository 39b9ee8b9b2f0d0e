/** Starts subjects (`subject.ts`) and receives their results. */
import { spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import { here, sourceFlags, subjectNode } from "./machine.ts";
import type { Figures } from "./probes/probe.ts";
import type { Added, Heard, Role, SubjectRequest, Worked } from "./subject.ts";

interface Results {
  add: Added;
  work: Worked;
  send: Added;
  listen: Heard;
  hold: never;
  drain: Heard;
  probe: Figures;
}

export interface Subject<Result> {
  readonly process: ChildProcess;
  /** Resolves when the subject is ready to start. */
  readonly ready: Promise<void>;
  readonly go: () => void;
  readonly result: Promise<Result>;
}

/** Ten million units in memory need a larger heap than Node's default. */
const heapFlags = (role: Role): string[] =>
  role.role === "probe" && role.probe === "flat10" ? ["--max-old-space-size=14000"] : [];

export function startSubject<R extends Role>(
  system: string,
  address: string,
  role: R,
): Subject<Results[R["role"]]> {
  const request: SubjectRequest = { ...role, system, address };
  const child = spawn(
    subjectNode(),
    [...heapFlags(role), ...sourceFlags, path.join(here, "subject.ts"), JSON.stringify(request)],
    { stdio: ["ignore", "ignore", "pipe", "ipc"] },
  );
  let log = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => (log = (log + chunk).slice(-4000)));
  let isReady: () => void = () => undefined;
  const ready = new Promise<void>((resolve) => (isReady = resolve));
  const result = new Promise<Results[R["role"]]>((resolve, reject) => {
    child.on("message", (message) => {
      if (message === "ready") isReady();
      else resolve((message as { result: Results[R["role"]] }).result);
    });
    child.once("exit", (code) => {
      isReady();
      reject(new Error(`${system}: the subject ended with ${code} before it had a result\n${log}`));
    });
  });
  // a caller that awaits `ready` first must not get an unhandled rejection of `result`
  result.catch(() => undefined);
  return { process: child, ready, go: () => child.connected && child.send("go"), result };
}
