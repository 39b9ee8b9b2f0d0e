/** The text of a mistake; `unknown` if it is an option or a setting that does not exist. */
export type Mistake = string | { readonly unknown: string };

/** A mistake in the configuration. The message lists all mistakes at once; nothing was started or changed. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly mistakes: readonly Mistake[];

  constructor(given: string | readonly Mistake[], options?: ErrorOptions) {
    const mistakes = typeof given === "string" ? [given] : given;
    super(mistakes.map((one) => (typeof one === "string" ? one : one.unknown)).join("\n"), options);
    this.mistakes = mistakes;
  }

  /** Whether a list of all options and settings helps. */
  get hasUnknown(): boolean {
    return this.mistakes.some((one) => typeof one !== "string");
  }
}
