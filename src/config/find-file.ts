/** Finds the configuration file. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

const fileName = "coordinate.yaml";

/**
 * The file that was named, else the first that exists of `./coordinate.yaml` and the one in the user's configuration directory.
 * Null when there is none.
 */
export function findFile(named: string | undefined, env: Environment, directory: string): string | null {
  const explicit = named ?? env.COORDINATE_CONFIG ?? "";
  if (explicit !== "") return explicit;
  const home = env.XDG_CONFIG_HOME ?? path.join(env.HOME ?? homedir(), ".config");
  const found = [path.join(directory, fileName), path.join(home, "coordinate", fileName)].find(existsSync);
  // for messages: only the name of a file in the current directory
  return found === path.join(process.cwd(), fileName) ? fileName : (found ?? null);
}
