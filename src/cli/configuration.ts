/** What the configuration says to the command line: where the work is, and as whom to ask. */
import type { Configuration } from "../config/index.ts";
import { findFile } from "../config/find-file.ts";
import type { GlobalOptions } from "./context.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Everything: defaults, file, environment and the options of this command line. Throws, naming file and line. */
export async function readWhole(options: GlobalOptions, env: Environment): Promise<Configuration> {
  const { readConfiguration } = await import("../config/index.ts");
  return readConfiguration({
    env,
    file: options.config,
    flags: {
      client: {
        ...(options.address !== undefined && { addresses: options.address.split(",") }),
        ...(options.backend !== undefined && { store: options.backend }),
        ...(options.namespace !== undefined && { namespace: options.namespace }),
        ...(options.token !== undefined && { token: options.token }),
      },
    },
  });
}

/** Where the target may be said besides the variables that everybody looks at. */
const rareVariables = ["COORDINATE_ADDRESSES", "COORDINATE_URL", "COORDINATE_STORE"];

/** What a configuration file says of the target, under the environment; empty where there is none, and then nothing is loaded. */
export async function readTarget(
  options: GlobalOptions,
  env: Environment,
): Promise<{ address?: string; backend?: string; namespace?: string; token?: string }> {
  const named = rareVariables.some((name) => (env[name] ?? "") !== "");
  if (!named && findFile(options.config, env, process.cwd()) === null) return {};
  const { client, sources } = await readWhole(
    options.config === undefined ? {} : { config: options.config },
    env,
  );
  const given = (key: string): boolean => sources.has(`client.${key}`);
  return {
    ...(given("addresses") && { address: client.addresses.join(",") }),
    ...(given("store") && client.store !== "" && { backend: client.store }),
    ...(given("namespace") && { namespace: client.namespace }),
    ...(given("token") && client.token !== "" && { token: client.token }),
  };
}
