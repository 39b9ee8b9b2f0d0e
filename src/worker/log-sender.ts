/**
 * Sends log lines of tasks once a second, in one call for all attempts of a worker. A settlement or renew that is sent earlier carries
 * the lines itself.
 */
import { isRefusal, type AttemptLinesOf, type Clock, type Coordinate } from "../core/index.ts";
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
  readonly #waiting = new Set<Attempt>();
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
        const [next] = this.#waiting;
        if (next !== undefined) this.wrote(next);
      });
    });
  }

  /** After a failure, keeps the lines for the next call; after a refusal, only logs a warning. Never rejects. */
  async #send(): Promise<void> {
    const { verbs, ns, log } = this.#setting;
    const some = [...this.#waiting].slice(0, attemptsAtOnce);
    for (const attempt of some) this.#waiting.delete(attempt);
    const sent = some.flatMap((attempt) => {
      const lines = attempt.unstoredLog;
      return lines === null ? [] : [{ attempt, lines }];
    });
    if (sent.length === 0) return;
    try {
      const logs = sent.map(({ attempt, lines }): AttemptLinesOf => ({ attempt: attempt.id, ...lines }));
      await verbs.writeAttemptLogs(ns, logs);
    } catch (error) {
      if (isRefusal(error)) log.warn({ err: error }, "log lines of tasks were not stored");
      else for (const { attempt } of sent) this.#waiting.add(attempt);
      return;
    }
    for (const { attempt, lines } of sent) attempt.storedLog(lines);
  }
}
