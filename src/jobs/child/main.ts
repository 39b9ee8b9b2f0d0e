/**
 * The process that runs functions for a worker, one at a time and in order. It speaks over file descriptor 3 only, so that whatever a
 * function prints cannot be taken for a message, and holds no connection to the coordinator: results go to the worker, which
 * stores them. When the channel closes the worker is gone, and so is the reason to live.
 *
 * Messages: `start` {roots, inline} -> `ready`; `run` {nr, until, request} -> any number of `progress` {nr, value}, then `ended` {nr, outcome}, where null is
 * that it was not begun: its time was over, or it was told not to; `signal` {nr}. A job begins when the outcome of the one before it has left this process, so that
 * the worker knows which one it was when the process dies.
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
  /** It does not begin after this time. */
  readonly until: number;
  readonly request: RunRequest;
  readonly stop: AbortController;
}

/** So long jobs that do not wait are run without a look at what the worker says. */
const deafMs = 2;

const channel = new Socket({ fd: 3 });
const reader = new FrameReader();
let loader: Loader | null = null;
/** The one that runs, and those after it. */
const given: Given[] = [];

const send = (head: Head): void => void channel.write(encodeMessage({ head, data: [] }));

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
    send({ kind: "ended", nr, outcome });
    if (channel.writableLength > 0) await new Promise((resolve) => channel.once("drain", resolve));
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
    send({ kind: "ready" });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    channel.end(encodeMessage({ head: { kind: "failed", text }, data: [] }));
  }
}

async function run({ nr, request, stop: { signal } }: Given): Promise<JobOutcome | null> {
  if (loader === null) return null;
  const onProgress = (value: unknown): void => send({ kind: "progress", nr, value });
  return invoke(request, { loader, signal, onProgress });
}
