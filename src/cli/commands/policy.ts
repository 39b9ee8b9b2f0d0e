/** `coordinate policy`: how the scheduler of a namespace chooses among work specs of equal priority. */
import { schedulingPolicies } from "../../core/index.ts";
import { didYouMean } from "../../config/did-you-mean.ts";
import { command } from "../command.ts";
import { exit, UsageError } from "../failure.ts";

export default command({
  define: (it) => {
    it.argument("[policy]", schedulingPolicies.join(" or ")).addHelpText(
      "after",
      "\nWithout a policy, shows the one that is set. weighted draws among work specs by weight; python hands out" +
        "\nunits of later work specs of a chain before those of earlier ones.",
    );
  },
  run: async (context, { args: [word] }) => {
    const policy = schedulingPolicies.find((one) => one === word);
    if (word !== undefined && policy === undefined)
      throw new UsageError(
        `expected ${schedulingPolicies.join(" or ")}, got ${word}${didYouMean(word, schedulingPolicies)}`,
      );
    const { out } = context;
    const { coordinate, ns } = await context.work();
    if (policy !== undefined) await coordinate.setNamespace(ns, { policy });
    const set = policy ?? (await coordinate.getNamespace(ns)).settings.policy;
    if (out.json) out.printJson({ policy: set });
    else out.line(policy === undefined ? set : `set policy to '${set}'`);
    return exit.done;
  },
});
