/** `coordinate flow`: sets many work specs from one file, in one step. */
import { text } from "node:stream/consumers";
import { jobConfiguration, parseDocumentText, readDocument } from "../../config/index.ts";
import {
  applyPlan,
  chainsOutOfFile,
  flowSchema,
  planFlow,
  printPlan,
  printVanished,
  readFlow,
  type Flow,
  type FlowPlan,
} from "../../flow/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { counted } from "../units.ts";

interface Options {
  embedConfig?: string;
  embedSecret?: string[];
  dryRun?: boolean;
  keepMeta?: boolean;
  prune?: boolean;
  yes?: boolean;
  check?: boolean;
  schema?: boolean;
}

export default command<Options>({
  define: (it) => {
    it.argument("[file]", "flow file, YAML or JSON; - for standard input")
      .option(
        "-c, --embed-config <file>",
        "embed the configuration of this file instead of the one in effect",
      )
      .option(
        "--embed-secret <name>",
        "also embed this secret of the configuration, such as db.password; may be repeated",
        repeated,
      )
      .option("--dry-run", "print what would change, and change nothing")
      .option("--keep-meta", "keep what was set by hand, such as pause and weight")
      .option("--prune", "delete work specs that are not in the file, with their units")
      .option("-y, --yes", "delete without asking for confirmation")
      .option("--check", "only check the file; needs no daemon")
      .option("--schema", "print the JSON Schema of flow files, for an editor");
  },
  run: async (context, { args, options }) => {
    const { out } = context;
    if (options.schema === true) {
      out.printJson(flowSchema());
      return exit.done;
    }
    const [file] = args;
    if (file === undefined) throw new UsageError("no flow file given");
    const flow = await read(context, file);
    for (const warning of flow.warnings) out.remark(show(warning));
    const { config, left } = jobConfiguration(
      await context.configuration(options.embedConfig),
      options.embedSecret,
    );
    if (options.check === true) {
      for (const warning of chainsOutOfFile(flow)) out.remark(show(warning));
      if (out.json) out.printJson({ workSpecs: flow.specs.map(({ name }) => name) });
      else out.line(`${counted(flow.specs.length, "work spec")}, no errors`);
      return exit.done;
    }
    const { coordinate, ns } = await context.work();
    const how = { keepMeta: options.keepMeta === true, prune: options.prune === true };
    const plan = await planFlow(coordinate, ns, flow, config, how);
    if (left.length > 0 && flow.specs.length > 0)
      out.remark(
        show(
          `not embedded because they look like secrets: ${left.join(", ")}; --embed-secret NAME embeds one`,
        ),
      );
    if (options.dryRun === true) {
      print(context, plan, how);
      return exit.done;
    }
    if (how.prune && !(await mayPrune(context, plan, options.yes === true))) return exit.nothing;
    const deleted = await applyPlan(coordinate, ns, plan, how);
    report(context, plan, deleted);
    return exit.done;
  },
});

async function read(context: Context, file: string): Promise<Flow> {
  const options = { env: context.env };
  if (file !== "-") return readFlow(readDocument(file, options));
  return readFlow(parseDocumentText(await text(context.session.streams.stdin), "standard input", options));
}

function print(context: Context, plan: FlowPlan, how: { prune: boolean }): void {
  const { out } = context;
  if (out.json) {
    out.printJson({
      specs: plan.specs.map(({ name, kind, differences, resets }) => ({ name, kind, differences, resets })),
      limits: plan.limits,
      vanished: plan.vanished,
    });
    return;
  }
  for (const line of printPlan(plan, how)) out.line(line);
}

/** Lists the work specs that would be deleted and asks for confirmation. Without a terminal, `--yes` is required. */
async function mayPrune(context: Context, plan: FlowPlan, yes: boolean): Promise<boolean> {
  if (plan.vanished.length === 0) return true;
  for (const spec of plan.vanished) context.out.remark(printVanished(spec, true));
  if (yes) return true;
  const { stdin } = context.session.streams;
  if (!stdin.isTTY && !context.session.inShell)
    throw new CommandError(
      "nothing was changed",
      "use --yes to delete these work specs without confirmation",
    );
  const answer = await context.ask(`Delete ${counted(plan.vanished.length, "work spec")}? (yes/no) `);
  if (/^\s*y(es)?\s*$/i.test(answer ?? "")) return true;
  context.out.line("nothing was changed");
  return false;
}

function report(context: Context, plan: FlowPlan, deleted: readonly string[]): void {
  const { out } = context;
  const made = plan.specs.filter(({ kind }) => kind === "new").length;
  const changed = plan.specs.filter(({ kind }) => kind === "changed").length;
  const same = plan.specs.length - made - changed;
  if (out.json) {
    out.printJson({ created: made, changed, same, deleted, limits: plan.limits.map(({ name }) => name) });
    return;
  }
  const parts = [`${made} new`, `${changed} changed`, `${same} unchanged`];
  if (deleted.length > 0) parts.push(`${deleted.length} deleted`);
  if (plan.limits.length > 0) parts.push(`${counted(plan.limits.length, "limit")} set`);
  out.line(`${counted(plan.specs.length, "work spec")}: ${parts.join(", ")}`);
}
