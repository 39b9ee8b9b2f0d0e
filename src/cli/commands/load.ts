/** `coordinate load`: sets one work spec from a file, and adds its units from another. */
import { readDocument } from "../../config/index.ts";
import { dataFromMarked } from "../../core/index.ts";
import { readSpecFile, specSchema } from "../../flow/index.ts";
import { defineBulk, runLoad, type BulkOptions } from "../bulk-options.ts";
import { command } from "../command.ts";
import { quote, show } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { readNumber } from "../units.ts";

interface Options extends BulkOptions {
  workSpec?: string;
  nice?: string;
  /** False: `--no-work`. */
  work?: boolean;
  keepMeta?: boolean;
  schema?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineBulk(
      it
        .option("-w, --work-spec <file>", "YAML or JSON file of the work spec")
        .option("-n, --nice <n>", "nice value; overrides the file")
        .option("--no-work", "set the work spec without adding units")
        .option("--keep-meta", "keep what was set by hand, such as pause and weight")
        .option("--schema", "print the JSON Schema of work spec files, for an editor"),
    );
  },
  run: async (context, { options }) => {
    const { out } = context;
    if (options.schema === true) {
      out.printJson(specSchema());
      return exit.done;
    }
    if (options.workSpec === undefined) throw new UsageError("no work spec given: use -w FILE");
    if ((options.workUnits === undefined) === (options.work !== false))
      throw new UsageError("use either -u FILE or --no-work");
    const { name, data, warnings } = readSpecFile(readDocument(options.workSpec, { env: context.env }));
    for (const warning of warnings) out.remark(show(warning));
    const nice = options.nice === undefined ? {} : { nice: readNumber(options.nice, "--nice") };
    const { coordinate, ns } = await context.work();
    await coordinate.setWorkSpecs(ns, [{ name, data: dataFromMarked({ ...data, ...nice }) }], {
      keepMeta: options.keepMeta === true,
    });
    if (options.workUnits === undefined) {
      if (out.json) out.printJson({ workSpec: name });
      else out.line(`set work spec ${quote(name)}; no work units`);
      return exit.done;
    }
    if (!out.json) out.remark(`set work spec ${quote(name)}`);
    const { bad, complete } = await runLoad(context, name, options);
    return bad > 0 || !complete ? exit.failed : exit.done;
  },
});
