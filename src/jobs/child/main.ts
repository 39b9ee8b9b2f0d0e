/**
 * The process that runs functions for a worker, one at a time. It speaks over file descriptor 3 only, so that whatever a
 * function prints cannot be taken for a message, and holds no connection to the coordinator: results go to the worker, which
 * stores them. When the channel closes the worker is gone, and so is the reason to live.
 *
 * Messages: `start` {roots, inline} -> `ready`; `run` {request} -> any number of `progress` {value}, then `done` {outcome}; `signal`.
 */
import { Socket } from "node:net";
import { encodeMessage, FrameReader, type Head } from "../../worker/process/frame.ts";
import { invoke, type RunRequest } from "./invoke.ts";
import { Loader } from "./load.ts";

const channel = new Socket({ fd: 3 });
const reader = new FrameReader();
let loader: Loader | null = null;
let stopping: AbortController | null = null;

const send = (head: Head): void => void channel.write(encodeMessage({ head, data: [] }));

channel.on("data", (chunk) => {
  for (const { head } of reader.push(chunk)) receive(head);
});
channel.on("error", () => process.exit(0));
channel.on("close", () => process.exit(0));

function receive(head: Head): void {
  if (head.kind === "start") start(head);
  else if (head.kind === "run") void run(head.request as RunRequest);
  else if (head.kind === "signal") stopping?.abort();
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

async function run(request: RunRequest): Promise<void> {
  if (loader === null) return;
  const { signal } = (stopping = new AbortController());
  const onProgress = (value: unknown): void => send({ kind: "progress", value });
  const outcome = await invoke(request, { loader, signal, onProgress });
  stopping = null;
  send({ kind: "done", outcome });
}
