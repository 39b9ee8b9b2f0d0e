/**
 * The environment of this process for child processes, without the worker's own `COORDINATE_` settings. These include its token and the
 * address of its database, which no child needs.
 */
export function childEnvironment(): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("COORDINATE_"));
  return Object.fromEntries(kept);
}
