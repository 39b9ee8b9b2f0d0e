/** A mistake in the configuration. The message lists all mistakes at once; nothing was started or changed. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}
