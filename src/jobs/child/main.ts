/**
 * The process that runs functions for a worker, one at a time and in order. It communicates only over file descriptor 3, so that
 * the output of a function cannot be mistaken for a message. It has no connection to the coordinator: the worker stores the
 * results. It exits when the channel closes, because then the worker is gone.
 *
 * Messages: `start` {roots, inline} -> `ready`; `run` {nr, until, request} -> any number of `progress` {nr, value}, then `ended`
 * {nr, outcome}; `signal` {nr}. A null outcome means that the job was not begun: its deadline `until` had passed, or a signal
 * came first. A job begins only after the outcome of the job before it has left this process, so that the worker knows which job
 * ran when the process dies.
 */
import { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { encodeMessage, FrameReader, type Head } from "../../worker/process/frame.ts";
import type { JobOutcome } from "../job.ts";
import { invoke, type RunRequest } from "./invoke.ts";
import { Loader } from "./load.ts";
import { machineMs } from "./machine-time.ts";

interface Given {
  readonly nr: number;
  /** The job does not begin after this time. */
  readonly until: number;
  readonly request: RunRequest;
  readonly stop: AbortController;
}

/** How long jobs that do not wait may run in a row before the worker's messages are read. */
const deafMs = 2;

const channel = new Socket({ fd: 3 });
const reader = new FrameReader();
let loader: Loader | null = null;
/** The running job, and the jobs that wait behind it. */
const given: Given[] = [];

/** Resolves when the message has left this process. */
const send = (head: Head): Promise<void> =>
  new Promise((resolve) => channel.write(encodeMessage({ head, data: [] }), () => resolve()));

channel.on("data", (chunk) => {
  for (const { head } of reader.push(chunk)) receive(head);
});
channel.on("error", () => process.exit(0));
channel.on("close", () => process.exit(0));

function receive(head: Head): void {
  if (head.kind === "start") start(head);
  else if (head.kind === "run") take(head);
  else if (head.kind === "signal") given.find(({ nr }) => nr === head.nr)?.stop.abort();
}

function take({ nr, until = Infinity, request }: Head): void {
  given.push({
    nr: nr as number,
    until: until as number,
    request: request as RunRequest,
    stop: new AbortController(),
  });
  if (given.length === 1) void work();
}

async function work(): Promise<void> {
  let heard = machineMs();
  for (let next = given[0]; next !== undefined; next = given[0]) {
    const { nr, until, stop } = next;
    const now = machineMs();
    const outcome = now > until || stop.signal.aborted ? null : await run(next);
    await send({ kind: "ended", nr, outcome });
    if (machineMs() - heard > deafMs) {
      await nextTurn();
      heard = machineMs();
    }
    given.shift();
  }
}

function start({ roots, inline }: Head): void {
  try {
    loader = new Loader({ roots: roots as string[], inline: inline === true });
    void send({ kind: "ready" });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    channel.end(encodeMessage({ head: { kind: "failed", text }, data: [] }));
  }
}

async function run({ nr, request, stop: { signal } }: Given): Promise<JobOutcome | null> {
  if (loader === null) return null;
  const onProgress = (value: unknown): void => void send({ kind: "progress", nr, value });
  return invoke(request, { loader, signal, onProgress });
}
