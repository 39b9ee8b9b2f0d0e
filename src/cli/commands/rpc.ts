/** `coordinate rpc`: calls any verb of the interface, with JSON arguments. */
import { didYouMean } from "../../config/did-you-mean.ts";
import { callVerb, checkArguments, signatures, verbNames, verbs, type Verb } from "../../core/index.ts";
import { readWire } from "../../rest/wire.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { exit, UsageError } from "../failure.ts";

export default command({
  define: (it) => {
    it.argument("[verb]", "such as listWorkUnits; list_work_units and list-work-units are the same")
      .argument("[json...]", "arguments after the namespace, as JSON; a plain word is a string")
      .addHelpText(
        "after",
        "\nWithout a verb, lists the verbs with their arguments. The namespace comes from --namespace. For example:" +
          `\n  coordinate rpc listWorkUnits crawl '{"limit": 1}'` +
          "\nThe methods of the Python daemon work too, such as control_work_spec; where a verb has the same" +
          "\nname, --compat calls the method.",
      );
  },
  run: async (context, { args: [word, ...words] }) => {
    if (word === undefined) return printVerbs(context);
    const verb = context.compat ? null : findVerb(word);
    if (verb === null) return callPython(context, word, words);
    const { namespace } = verbs[verb];
    const { params, counts, optionsAt } = signatures[verb];
    const max = counts[1] - (namespace === "none" ? 0 : 1);
    // all arguments but the options are required
    if (words.length < params.length || words.length > max)
      throw new UsageError(`${verb}: expected ${signature(verb)}`);
    const args = words.map(readArgument);
    // the options are optional: an empty object is enough
    if (optionsAt >= 0 && args.length < max) args.push({});
    const { coordinate, ns } = await context.work();
    const given = namespace === "none" ? args : [ns, ...args];
    checkArguments(verb, given);
    context.out.printJson((await callVerb(coordinate, verb, given)) ?? null);
    return exit.done;
  },
});

function findVerb(word: string): Verb | null {
  const plain = (text: string): string => text.replace(/[-_]/g, "").toLowerCase();
  return verbNames.find((verb) => plain(verb) === plain(word)) ?? null;
}

/** Calls a method as Python clients do; each parameter is YAML, as in the Python tool. */
async function callPython(context: Context, word: string, words: readonly string[]): Promise<number> {
  const { callMethod, methodNames } = await import("../../cbor/index.ts");
  const method = word.replaceAll("-", "_");
  if (!methodNames.includes(method))
    throw new UsageError(`no such verb ${word}${didYouMean(word, [...verbNames, ...methodNames])}`);
  const { parse } = await import("yaml");
  const params = words.map((text): unknown => {
    try {
      return parse(text, { maxAliasCount: 100 }) as unknown;
    } catch (error) {
      throw new UsageError(`${text}: ${error instanceof Error ? error.message : String(error)}`);
    }
  });
  const { coordinate, ns } = await context.work();
  context.out.printJson(await callMethod(coordinate, ns, method, params));
  return exit.done;
}

/** Parses JSON and keeps data dictionaries as written; a single word that is no JSON is text. */
function readArgument(text: string): unknown {
  if (/^[A-Za-z_][\w.:/-]*$/.test(text) && !["true", "false", "null"].includes(text)) return text;
  try {
    return readWire(text);
  } catch (error) {
    throw new UsageError(`${text}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function signature(verb: Verb): string {
  const { params, optionsAt } = signatures[verb];
  return [verb, ...params.map((name) => name.toUpperCase()), ...(optionsAt < 0 ? [] : ["[{…}]"])].join(" ");
}

function printVerbs({ out }: Context): number {
  if (out.json) out.printJson(verbs);
  else
    out.table(
      [{ head: "Verb", min: 20 }, { head: "Scope" }, { head: "What it does", min: 20 }],
      verbNames.map((verb) => [signature(verb), verbs[verb].scope, verbs[verb].summary]),
    );
  return exit.done;
}
