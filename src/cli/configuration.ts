/** The target of the command line from the configuration: daemon or store, namespace and token. */
import type { Configuration } from "../config/index.ts";
import { findFile } from "../config/find-file.ts";
import type { GlobalOptions } from "./context.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The whole configuration: defaults, file, environment and the options of this command line. Errors name file and line. */
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

/** Variables that also set the target, besides those that `Context` reads itself. */
const rareVariables = ["COORDINATE_ADDRESSES", "COORDINATE_URL", "COORDINATE_STORE"];

/**
 * The target from the configuration file and the environment. Without a file and these variables the result is empty and the
 * configuration code is not loaded.
 */
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
