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
  yes?: boolean;
}

const more = `
A token grants scopes (read, work, write or admin; default: work) in the namespaces it names (default: all).
work and write include read, but not each other; admin includes all. The token itself is shown only once. --data-dir or
--tokens select the daemon's token file, as for the daemon.`;

export default command<Options>({
  define: (it) => {
    it.argument("<action>", "create, list or revoke")
      .argument("[id]", "revoke: id of the token")
      .option("--name <name>", "create: name of its owner")
      .option("--namespace <name>", "create: a namespace it has access to; may be repeated", repeated)
      .option("--scope <scope>", "create: read, work, write or admin; may be repeated", repeated)
      .option("--days <n>", "create: days until it expires (default: never)")
      .option("--data-dir <path>", "the daemon's data directory")
      .option("--tokens <file>", "the daemon's token file")
      .option("-y, --yes", "revoke: even the last token")
      .addHelpText("after", more);
  },
  run: async (context, { args: [action, id], options }) => {
    const { address } = context.options;
    if (address !== undefined)
      throw new CommandError(
        `tokens are stored in a file on the daemon's machine; ${show(address)} cannot manage them remotely`,
        "run this command on that machine without --address; give the file with --data-dir or --tokens",
      );
    const file = await tokenFile(options, context);
    if (action === "create") return create(context, file, options);
    if (action === "list") return printTokens(context, file);
    if (action !== "revoke") throw new UsageError(`expected create, list or revoke, got ${action ?? ""}`);
    if (id === undefined) throw new UsageError("revoke: expected the id of a token");
    return revoke(file, id, options.yes === true);
  },
});

async function tokenFile({ dataDir, tokens }: Options, context: Context): Promise<string> {
  const { daemon } = await context.configuration();
  const given = tokens ?? daemon.tokens;
  return given === "" ? path.join(dataDir ?? daemon.dataDir, "tokens.json") : given;
}

function create({ out }: Context, file: string, options: Options): number {
  const { name, namespace = ["*"], scope = ["work"], days = "0" } = options;
  if (name === undefined) throw new UsageError("create: --name NAME is required");
  const life = readNumber(days, "--days");
  if (life < 0) throw new UsageError(`--days: expected 0 or more, got ${days}`);
  const expires = life === 0 ? 0 : Date.now() + life * 24 * 3600 * 1000;
  // createToken validates the scopes
  const grants = namespace.map((one) => ({ namespace: one, scopes: scope }) as Grant);
  const { token, row } = createToken(file, { name, grants, expires });
  if (out.json) out.printJson({ token, id: row.id, name, grants, expires });
  else {
    out.remark(`token ${row.id} for ${show(name)}; store it now, it is not shown again:`);
    out.line(token);
  }
  return exit.done;
}

function revoke(file: string, id: string, yes: boolean): number {
  const tokens = listTokens(file);
  if (!yes && tokens.length === 1 && tokens[0]?.id === id)
    throw new CommandError(
      `${id} is the last token: without it the daemon refuses everyone, and after its next start it needs no token`,
      "create another token first, or use --yes",
    );
  if (!revokeToken(file, id))
    throw new CommandError(`no such token ${id}`, "coordinate token list lists them");
  return exit.done;
}

function printTokens({ out }: Context, file: string): number {
  const rows = listTokens(file);
  if (out.json) {
    out.printJson(rows);
    return exit.done;
  }
  if (rows.length === 0)
    out.remark(
      `no tokens in ${show(file)}: anyone who can connect to a daemon with this file has full access`,
    );
  else {
    out.remark(`tokens in ${show(file)}:`);
    out.table(
      [{ head: "Id" }, { head: "Name", min: 8 }, { head: "Grants", min: 16 }, { head: "Expires" }],
      rows.map(({ id, name, grants, expires }) => [
        id,
        name,
        grants.map((grant) => `${grant.namespace}: ${grant.scopes.join(", ")}`).join("; "),
        expires === 0 ? "never" : new Date(expires).toISOString().slice(0, 10),
      ]),
    );
  }
  return exit.done;
}
