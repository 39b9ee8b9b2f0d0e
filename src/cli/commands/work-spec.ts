/** `coordinate work_spec`: prints the definition of a work spec, as YAML or JSON. */
import { dataToMarkedJson, type WorkSpecRow } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { showText } from "../escape.ts";
import { exit } from "../failure.ts";
import { rawData, rawText, writeJson } from "../json.ts";
import { defineNaming, readOneSpec, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { shownMeta } from "./set.ts";

interface Options extends NamingOptions {
  yaml?: boolean;
  meta?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineNaming(it)
      .option("--yaml", "print YAML (the default)")
      .option("--meta", "include the current scheduler settings");
  },
  run: async (context, { args, options }) => {
    const name = await readOneSpec(args, options);
    let row: WorkSpecRow;
    try {
      row = await requireWorkSpec(context, name);
    } catch (error) {
      if (!context.compat) throw error;
      // the Python tool printed the empty answer of its server
      context.out.line(context.out.json ? "null" : "null\n...");
      return exit.done;
    }
    await print(context, row, options.meta === true);
    return exit.done;
  },
});

async function print({ out }: Context, { data, meta }: WorkSpecRow, withMeta: boolean): Promise<void> {
  const value = withMeta ? { data: rawData(data), meta: shownMeta(meta) } : rawText(dataToMarkedJson(data));
  if (out.json) {
    out.printJson(value, 4);
    return;
  }
  const text = withMeta ? writeJson(value) : dataToMarkedJson(data);
  const { parseDocument, visit } = await import("yaml");
  // values stay as they were written (1.0 stays 1.0), only the layout changes
  const document = parseDocument(text, { intAsBigInt: true });
  visit(document, {
    Collection: (_key, node) => {
      node.flow = false;
    },
    Scalar: (_key, node) => {
      if (typeof node.value === "string") delete node.type;
    },
  });
  out.line(showText(document.toString({ lineWidth: 0 }).trimEnd()));
}
