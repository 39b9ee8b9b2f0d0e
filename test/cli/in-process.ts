import { PassThrough } from "node:stream";
import { Session } from "../../src/cli/context.ts";
import { runLine } from "../../src/cli/program.ts";

export interface Ran {
  code: number;
  out: string;
  err: string;
}

/**
 * Runs a command line in this process, as the interactive shell does, for tests that need no separate process. `input` is its standard
 * input.
 */
export async function run(
  argv: readonly string[],
  env: Record<string, string> = {},
  input = "",
): Promise<Ran> {
  const written = { out: "", err: "" };
  const stream = (key: "out" | "err"): NodeJS.WriteStream =>
    new PassThrough({ encoding: "utf8" }).on(
      "data",
      (chunk: string) => (written[key] += chunk),
    ) as unknown as NodeJS.WriteStream;
  const stdin = new PassThrough() as unknown as NodeJS.ReadStream;
  (stdin as unknown as PassThrough).end(input);
  const session = new Session({ stdin, stdout: stream("out"), stderr: stream("err"), env });
  const code = await runLine(session, argv);
  await session.close();
  return { code, ...written };
}
