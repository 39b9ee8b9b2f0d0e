/** The errors that commands throw, and the exit codes of the process. */

/** 0: done. 1: failed. 2: nothing to do, or wrong usage. */
export const exit = { done: 0, failed: 1, nothing: 2, usage: 2 } as const;

/** An expected failure: a message of one line, and a hint. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  /** What to do about it; empty when there is nothing to say. */
  readonly hint: string;

  constructor(message: string, hint = "", options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** The command line is invalid. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
