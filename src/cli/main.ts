#!/usr/bin/env node
/** `coordinate`: one command, or an interactive shell. */
import module from "node:module";

// Node 22.8 and later cache compiled code for the next start; this must be enabled before anything else is loaded
(module as { enableCompileCache?: () => unknown }).enableCompileCache?.();

// in `coordinate work_units | head` the reader closes the pipe early, which is no failure
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
// in `coordinate worker … 2>&1 | head` the worker goes on: there is nowhere left to report the error
process.stderr.on("error", () => undefined);

const { Session } = await import("./context.ts");
const { runLine } = await import("./program.ts");
const session = new Session({
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
});
const code = await runLine(session, process.argv.slice(2));
await session.close().catch(() => undefined);
// flush both streams before the process ends: pipes may be slow
for (const stream of [process.stdout, process.stderr])
  if (!stream.destroyed) await new Promise<void>((resolve) => stream.write("", () => resolve()));
process.exit(code);
