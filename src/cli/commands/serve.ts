/** `coordinate serve`: runs the daemon, which parses its own options; see `coordinate serve --help`. */
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { CommandError } from "../failure.ts";

export default command({
  define: () => undefined,
  run: (context, { args }) => serve(context, args),
});

async function serve(context: Context, args: readonly string[]): Promise<number> {
  if (context.session.inShell) throw new CommandError("serve cannot run inside the shell");
  const { runDaemon } = await import("../../daemon/index.ts");
  // global options before the word `serve` apply to the daemon too
  const { backend, config } = context.options;
  const before = [
    ...(backend === undefined ? [] : ["--backend", backend]),
    ...(config === undefined ? [] : ["--config", config]),
  ];
  return runDaemon([...before, ...args], context.env);
}
