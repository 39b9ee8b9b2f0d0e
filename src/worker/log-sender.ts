/**
 * Sends log lines of tasks once a second, in one call for all attempts of a worker. A settlement or renew that is sent earlier carries
 * the lines itself.
 */
import {
  isRefusal,
  type AttemptLines,
  type AttemptLinesOf,
  type Clock,
  type Coordinate,
} from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Alarms } from "./alarms.ts";
import type { Logger } from "./log.ts";

const sendEveryMs = 1000;
/** Most attempts in one call. Each has at most 64 KiB of lines. */
const attemptsAtOnce = 50;

export interface LogSenderSetting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly log: Logger;
}

export class LogSender {
  readonly #setting: LogSenderSetting;
  #waiting = new Set<Attempt>();
  #scheduled = false;

  constructor(setting: LogSenderSetting) {
    this.#setting = setting;
  }

  /** Called when the task of this attempt wrote a line. */
  wrote(attempt: Attempt): void {
    this.#waiting.add(attempt);
    if (this.#scheduled) return;
    this.#scheduled = true;
    const { alarms, clock } = this.#setting;
    alarms.at(clock.now() + sendEveryMs, () => {
      void this.#send().finally(() => {
        this.#scheduled = false;
        const [first] = this.#waiting;
        if (first !== undefined) this.wrote(first);
      });
    });
  }

  /** After a failure, keeps the lines for the next call; after a refusal, only logs a warning. Never rejects. */
  async #send(): Promise<void> {
    // attempts that write meanwhile wait for the next second
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (let sent = takeLines(waiting); sent.length > 0; sent = takeLines(waiting)) {
      if (await this.#write(sent)) continue;
      for (const attempt of [...sent.map((one) => one.attempt), ...waiting]) this.#waiting.add(attempt);
      return;
    }
  }

  /** Returns false when the coordinator did not answer. */
  async #write(sent: readonly Lines[]): Promise<boolean> {
    const { verbs, ns, log } = this.#setting;
    try {
      const logs = sent.map(({ attempt, lines }): AttemptLinesOf => ({ attempt: attempt.id, ...lines }));
      await verbs.writeAttemptLogs(ns, logs);
    } catch (error) {
      if (!isRefusal(error)) return false;
      log.warn({ err: error }, "log lines of tasks were not stored");
      return true;
    }
    for (const { attempt, lines } of sent) attempt.storedLog(lines);
    return true;
  }
}

interface Lines {
  readonly attempt: Attempt;
  readonly lines: AttemptLines;
}

/** Removes attempts from the set, and returns the lines of those that have any, up to the size of one call. */
function takeLines(waiting: Set<Attempt>): Lines[] {
  const found: Lines[] = [];
  for (const attempt of waiting) {
    if (found.length === attemptsAtOnce) break;
    waiting.delete(attempt);
    // null: a settlement or a renewal has carried them
    const lines = attempt.unstoredLog;
    if (lines !== null) found.push({ attempt, lines });
  }
  return found;
}
