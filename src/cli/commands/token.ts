/** `coordinate token`: creates, lists and revokes the tokens of a daemon on this machine. */
import path from "node:path";
import { createToken, listTokens, revokeToken, type Grant } from "../../daemon/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { readNumber } from "../units.ts";

interface Options {
  name?: string;
  namespace?: string[];
  scope?: string[];
  days?: string;
  dataDir?: string;
  tokens?: string;
}

const more = `
A token opens the namespaces it names (all when none is) for read, work, write or admin (work when none is given).
work and write include read, but not each other; admin includes all. The text of a token is shown once. --data-dir or
--tokens say whose tokens, as for the daemon.`;

export default command<Options>({
  define: (it) => {
    it.argument("<action>", "create, list or revoke")
      .argument("[id]", "of the token to revoke")
      .option("--name <name>", "create: whose it is")
      .option("--namespace <name>", "create: a namespace that it opens; may be repeated", repeated)
      .option("--scope <scope>", "create: read, work, write or admin; may be repeated", repeated)
      .option("--days <n>", "create: how long it is good for; for ever if not given")
      .option("--data-dir <path>", "the daemon's data directory")
      .option("--tokens <file>", "the daemon's file of tokens")
      .addHelpText("after", more);
  },
  run: async (context, { args: [action, id], options }) => {
    const { address } = context.options;
    if (address !== undefined)
      throw new CommandError(
        `tokens are in a file of the daemon's machine, and ${show(address)} does not tell of them`,
        "run this there without --address; --data-dir or --tokens say where the file is",
      );
    const file = await tokenFile(options, context);
    if (action === "create") return create(context, file, options);
    if (action === "list") return printTokens(context, file);
    if (action !== "revoke") throw new UsageError(`expected create, list or revoke, got ${action ?? ""}`);
    if (id === undefined) throw new UsageError("revoke: the id of a token must follow");
    if (!revokeToken(file, id))
      throw new CommandError(`no such token ${id}`, "coordinate token list lists them");
    return exit.done;
  },
});

async function tokenFile({ dataDir, tokens }: Options, context: Context): Promise<string> {
  const { daemon } = await context.configuration();
  const given = tokens ?? daemon.tokens;
  return given === "" ? path.join(dataDir ?? daemon.dataDir, "tokens.json") : given;
}

function create({ out }: Context, file: string, options: Options): number {
  const { name, namespace = ["*"], scope = ["work"], days = "0" } = options;
  if (name === undefined) throw new UsageError("create: --name NAME says whose token it is");
  const life = readNumber(days, "--days");
  if (life < 0) throw new UsageError(`--days: expected 0 or more, got ${days}`);
  const expires = life === 0 ? 0 : Date.now() + life * 24 * 3600 * 1000;
  // createToken validates the scopes
  const grants = namespace.map((one) => ({ namespace: one, scopes: scope }) as Grant);
  const { token, row } = createToken(file, { name, grants, expires });
  if (out.json) out.printJson({ token, id: row.id, name, grants, expires });
  else {
    out.remark(`token ${row.id} for ${show(name)}; keep it, it is not shown again:`);
    out.line(token);
  }
  return exit.done;
}

function printTokens({ out }: Context, file: string): number {
  const rows = listTokens(file);
  if (out.json) {
    out.printJson(rows);
    return exit.done;
  }
  if (rows.length === 0)
    out.remark(`no tokens in ${show(file)}: whoever reaches a daemon that uses it may do everything`);
  else {
    out.remark(`tokens in ${show(file)}:`);
    out.table(
      [{ head: "Id" }, { head: "Name", min: 8 }, { head: "Opens", min: 16 }, { head: "Until" }],
      rows.map(({ id, name, grants, expires }) => [
        id,
        name,
        grants.map((grant) => `${grant.namespace}: ${grant.scopes.join(", ")}`).join("; "),
        expires === 0 ? "for ever" : new Date(expires).toISOString().slice(0, 10),
      ]),
    );
  }
  return exit.done;
}
