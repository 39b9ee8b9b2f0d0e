/** What a command says when it cannot do what it was asked, and the code that the process ends with. */

/** 0: done. 1: it could not be done. 2: there was nothing to do, or it was asked for in a wrong way. */
export const exit = { done: 0, failed: 1, nothing: 2, usage: 2 } as const;

/** An expected failure: one line, and what to do about it. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  /** What to do about it; empty when there is nothing to say. */
  readonly hint: string;

  constructor(message: string, hint = "", options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** The command line makes no sense. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
