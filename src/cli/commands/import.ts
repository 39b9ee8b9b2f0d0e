/** `coordinate import`: restores what `export` wrote. */
import path from "node:path";
import { importLines, openSource } from "../../bulk/index.ts";
import { quoteSource } from "../bulk-options.ts";
import { command } from "../command.ts";
import { show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { Progress } from "../progress.ts";
import { counted } from "../units.ts";

export default command<{ merge?: boolean; quiet?: boolean }>({
  define: (it) => {
    it.argument("[file]", "file written by export, - for standard input; .gz and .zst are decompressed")
      .option("--merge", "replace work specs that exist, and add units to them")
      .option("-q, --quiet", "show no progress");
  },
  run: async (context, { args: [file], options }) => {
    if (file === undefined)
      throw new UsageError("no file given: use a file written by export, or - for standard input");
    const { coordinate, ns } = await context.work();
    const source = openSource(file, context.session.streams.stdin);
    let units = 0;
    const state = () => ({ value: source.bytesRead(), total: source.size, units });
    const progress = new Progress(context, path.basename(source.name), state, options.quiet === true);
    try {
      const result = await importLines(coordinate, ns, source.chunks(), {
        name: source.name,
        merge: options.merge === true,
        onProgress: (made) => (units = made.units),
        signal: context.signal,
      });
      progress.stop();
      for (const one of result.leftOut) context.out.remark(show(`not restored: ${one}`));
      if (context.out.json) context.out.printJson(result);
      else
        context.out.line(
          `${counted(result.specs, "work spec")} and ${counted(result.units, "unit")} from ${quoteSource(source.name)}`,
        );
      return exit.done;
    } catch (error) {
      progress.stop();
      if (context.signal.aborted)
        throw new CommandError(
          "interrupted",
          "its work specs are paused; import the file again with --merge",
        );
      throw error;
    } finally {
      source.close();
    }
  },
});
