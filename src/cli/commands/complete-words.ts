/** `coordinate complete_words WORD…`: prints completion candidates, one per line. The scripts of `completion` call it. */
import { command } from "../command.ts";
import { complete } from "../complete.ts";
import { exit } from "../failure.ts";

export default command({
  define: () => undefined,
  run: async (context, { args }) => {
    for (const candidate of await complete(context.session, args[0] === "--" ? args.slice(1) : args))
      context.out.line(candidate);
    return exit.done;
  },
});
