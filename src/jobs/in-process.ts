/**
 * Runs functions in the current process: for tests, for debugging, and where a child process is too expensive. A function that
 * times out is abandoned, but it cannot be killed. A function that never yields the processor blocks the whole process.
 */
import { setTimeout as timer } from "node:timers/promises";
import { invoke, type RunRequest } from "./child/invoke.ts";
import { Loader } from "./child/load.ts";
import type { JobOutcome } from "./job.ts";
import { endedBy, haltText, timeoutText, type RunOptions, type Runner } from "./runner.ts";

/** The longest delay of a Node timer. */
const longestTimer = 2 ** 31 - 1;

export class InProcessRunner implements Runner {
  readonly pid = process.pid;
  readonly isReady = true;
  readonly maxQueued = 1;
  readonly #loader: Loader;

  constructor(options: { roots: readonly string[]; inline: boolean }) {
    this.#loader = new Loader(options);
  }

  async ready(): Promise<void> {
    // there is nothing to wait for
  }

  async run(
    request: RunRequest,
    { timeoutMs, signal, onBegun, onProgress }: RunOptions,
  ): Promise<JobOutcome | null> {
    if (signal.aborted) return null;
    onBegun();
    const over = new AbortController();
    const running = invoke(request, {
      loader: this.#loader,
      signal: AbortSignal.any([signal, over.signal]),
      onProgress: (value) => {
        if (!over.signal.aborted) onProgress(value);
      },
    });
    const done = new AbortController();
    const never = new Promise<never>(() => undefined);
    const late =
      timeoutMs > longestTimer
        ? never
        : timer(timeoutMs, endedBy("TIMEOUT", timeoutText(timeoutMs)), { signal: done.signal }).catch(
            () => never,
          );
    const halted = new Promise<JobOutcome>((resolve) => {
      signal.addEventListener("abort", () => resolve(endedBy("HALTED", haltText(signal))), {
        once: true,
        signal: done.signal,
      });
    });
    try {
      return await Promise.race([running, late, halted]);
    } finally {
      over.abort();
      done.abort();
    }
  }

  async close(): Promise<void> {
    // nothing to release
  }
}
