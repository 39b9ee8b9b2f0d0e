/** A mistake of the operator, told in full; the daemon does not start. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}
