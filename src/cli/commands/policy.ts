/** `coordinate policy`: how the scheduler of a namespace chooses among work specs of equal priority. */
import { schedulingPolicies, shareKinds, type NamespaceSettings } from "../../core/index.ts";
import { didYouMean } from "../../config/did-you-mean.ts";
import { command } from "../command.ts";
import { exit, UsageError } from "../failure.ts";

interface Options {
  share?: string;
}

export default command<Options>({
  define: (it) => {
    it.argument("[policy]", schedulingPolicies.join(" or "))
      .option("--share <kind>", `what the weights are shares of: ${shareKinds.join(" or ")}`)
      .addHelpText(
        "after",
        "\nWithout a policy, shows the current one. weighted draws among work specs by weight; python hands out" +
          "\nunits of later work specs of a chain before units of earlier ones. With --share time, work specs with longer" +
          "\nattempts are chosen less often, so that weights are shares of the workers' time.",
      );
  },
  run: async (context, { args: [word], options }) => {
    const policy = readWord(word, schedulingPolicies);
    const share = readWord(options.share, shareKinds);
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const change: Partial<NamespaceSettings> = {
      ...(policy !== undefined && { policy }),
      ...(share !== undefined && { share }),
    };
    const changed = Object.entries(change);
    const { settings } = await (changed.length > 0
      ? coordinate.setNamespace(ns, change)
      : coordinate.getNamespace(ns));
    if (out.json) out.printJson({ policy: settings.policy, share: settings.share });
    else if (changed.length > 0)
      for (const [setting, value] of changed) out.line(`set ${setting} to '${value}'`);
    else out.line(settings.share === "time" ? `${settings.policy}, share of time` : settings.policy);
    return exit.done;
  },
});

function readWord<Word extends string>(word: string | undefined, words: readonly Word[]): Word | undefined {
  const found = words.find((one) => one === word);
  if (word !== undefined && found === undefined)
    throw new UsageError(`expected ${words.join(" or ")}, got ${word}${didYouMean(word, words)}`);
  return found;
}
