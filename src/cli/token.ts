/** `coordinate token`: makes, lists and revokes the tokens of a daemon on this machine. */
import path from "node:path";
import { parseArgs } from "node:util";
import { configOf, createToken, listTokens, readConfig, revokeToken, type Grant } from "../daemon/index.ts";

const usage = `usage: coordinate token create --name NAME [--namespace NS]... [--scope SCOPE]... [--days N]
       coordinate token list [--json]
       coordinate token revoke ID

A token opens the namespaces it names (all when none is) for read, work, write or admin (work when none is given);
each includes those before it. The text of a token is shown once. --data-dir or --tokens say whose tokens, as for the
daemon.`;

/** Answers the exit code: 0 done, 1 failed, 2 wrong use. */
export function runToken(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): number {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        name: { type: "string" },
        namespace: { type: "string", multiple: true },
        scope: { type: "string", multiple: true },
        days: { type: "string" },
        json: { type: "boolean" },
        help: { type: "boolean" },
        "data-dir": { type: "string" },
        tokens: { type: "string" },
      },
    });
    const [action, id] = positionals;
    if (values.help === true) {
      console.log(usage);
      return 0;
    }
    const file = tokenFile(values["data-dir"], values.tokens, env);
    if (action === "create" && values.name !== undefined) return create(file, values.name, values);
    if (action === "list") return list(file, values.json === true);
    if (action === "revoke" && id !== undefined) return revoke(file, id);
  } catch (error) {
    console.error(`coordinate token: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
  console.error(usage);
  return 2;
}

function tokenFile(
  dataDir: string | undefined,
  tokens: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const line = readConfig([], env);
  const config = line.kind === "run" ? line.config : configOf({});
  const given = tokens ?? config.tokens;
  return given === "" ? path.join(dataDir ?? config.dataDir, "tokens.json") : given;
}

function create(
  file: string,
  name: string,
  { namespace = ["*"], scope = ["work"], days }: { namespace?: string[]; scope?: string[]; days?: string },
): number {
  const life = Number(days ?? 0);
  if (!(life >= 0)) throw new Error(`--days ${days ?? ""}: expected a number`);
  const expires = life === 0 ? 0 : Date.now() + life * 24 * 3600 * 1000;
  const grants = namespace.map((one) => ({ namespace: one, scopes: scope }) as Grant);
  const { token, row } = createToken(file, { name, grants, expires });
  console.error(`token ${row.id} for ${name}; keep it, it is not shown again:`);
  console.log(token);
  return 0;
}

function list(file: string, json: boolean): number {
  const rows = listTokens(file);
  if (json) console.log(JSON.stringify(rows, null, 2));
  else if (rows.length === 0) console.log("no tokens: whoever reaches the daemon may do everything");
  for (const { id, name, grants, expires } of json ? [] : rows) {
    const opens = grants.map((grant) => `${grant.namespace}: ${grant.scopes.join(", ")}`).join("; ");
    console.log(
      `${id}  ${name}  ${opens}${expires === 0 ? "" : `  until ${new Date(expires).toISOString()}`}`,
    );
  }
  return 0;
}

function revoke(file: string, id: string): number {
  if (revokeToken(file, id)) return 0;
  console.error(`coordinate token: no such token ${id}`);
  return 1;
}
