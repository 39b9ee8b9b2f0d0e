/** The process around a command line: its streams, and its end. */
import { Session } from "./context.ts";
import { runLine } from "./program.ts";

/** Runs the command line and ends the process. */
export async function runMain(argv: readonly string[]): Promise<never> {
  // `coordinate work_units | head` ends when its reader does, and that is no failure
  process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
  const { stdin, stdout, stderr, env } = process;
  const session = new Session({ stdin, stdout, stderr, env });
  const code = await runLine(session, argv);
  await session.close().catch(() => undefined);
  // what was written must have been taken before the process ends, also where pipes are slow
  for (const stream of [stdout, stderr])
    if (!stream.destroyed) await new Promise<void>((resolve) => stream.write("", () => resolve()));
  process.exit(code);
}
