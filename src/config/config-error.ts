/** A mistake of whoever wrote the configuration, told in full, all of it at once; nothing was started or changed. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}
