/** `coordinate status`: the counts of one work spec, as JSON. */
import { command } from "../command.ts";
import { numbers } from "../counts.ts";
import { exit } from "../failure.ts";
import { defineNaming, missingWorkSpec, readOneSpec, type NamingOptions } from "../naming.ts";

export default command<NamingOptions>({
  define: (it) => defineNaming(it),
  run: async (context, { args, options }) => {
    const name = await readOneSpec(args, options);
    const { coordinate, ns } = await context.work();
    const row = (await coordinate.tally(ns)).find(({ workSpec }) => workSpec === name);
    if (row === undefined) throw await missingWorkSpec(coordinate, ns, name);
    context.out.printJson(numbers(row), 4);
    return exit.done;
  },
});
