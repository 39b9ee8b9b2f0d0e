/**
 * The environment of this process as a child may see it: without the worker's own settings. Its token and the address of its database
 * are among them, and no child needs them.
 */
export function childEnvironment(): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("COORDINATE_"));
  return Object.fromEntries(kept);
}
