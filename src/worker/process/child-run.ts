/**
 * The attempts of a claim, run by child processes.
 *
 * What a child reports is settled as it comes, so that its death takes no result back. When it dies, the attempts that
 * are still open are looked at:
 *
 *   - the one that was running, where that is known, or the only one that is left, is the culprit: it ends in an error, and is
 *     tried again as its retry policy says;
 *   - the others run again in another child, one at a time where nobody knows which of them it was.
 *
 * The supervisor holds the leases all the while: to run a unit again costs it no attempt.
 */
import { isCoordinateError, type AttemptChanged, type Data } from "../../core/index.ts";
import type { Attempt } from "../../objects/index.ts";
import { settleThrown } from "../outcome.ts";
import { attemptLog, taskLog, type Logger } from "../log.ts";
import type { BulkContext } from "../task.ts";
import { workerStops } from "../stops.ts";
import { orFail } from "../unstorable.ts";
import { ChildEndedError, type Child } from "./child.ts";
import type { Message } from "./frame.ts";
import type { Exit } from "./group.ts";
import {
  readDone,
  readLinesHead,
  readLog,
  readProgress,
  readRenew,
  readSettle,
  readText,
  thrownError,
  type AnswerHead,
  type ProgressHead,
  type SettleHead,
  type TaskFailure,
} from "./messages.ts";
import type { ProcessPool } from "./pool.ts";

export interface ChildRunHost {
  readonly pool: ProcessPool;
  /** The message that makes a child run these attempts. */
  message(attempts: readonly Attempt[], context: BulkContext): Message;
  /** From SIGTERM to SIGKILL, for a child whose time is up. */
  readonly graceMs: number;
  /** Its children say which unit they begin, and run one after the other; else all of them are begun at once. */
  readonly tellsBegin: boolean;
  /** Its children cannot be asked to come to an end: when the worker stops and its grace time is over, they are ended. */
  readonly endsWithWorker: boolean;
  /** Children are ended this long before the leases of their attempts are; 0 leaves it to the worker, which has its own rule. */
  readonly stopEarlyMs: number;
  /** What the child prints meanwhile belongs to this run. */
  attach(child: Child, log: Logger | null): void;
}

/** The `traceback` of units whose time was up. */
export const jobExpired = "job expired";

interface Done {
  readonly failure: TaskFailure | null;
  /** What `throw retry(ms, data)` leaves with the attempts. */
  readonly data: Data | null;
}

type Outcome = Done | { readonly exit: Exit };

export async function runInChildren(
  attempts: readonly Attempt[],
  context: BulkContext,
  host: ChildRunHost,
): Promise<void> {
  const run = new ChildRun(attempts, context, host);
  const groups: (readonly Attempt[])[] = [attempts];
  for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
    const child = await host.pool.acquire(context.signal);
    if (child === null) {
      await run.giveBack([...group, ...groups.flat()]);
      return;
    }
    const outcome = await run.run(child, group);
    if (context.expired.aborted) return;
    const left = run.open(group);
    if ("failure" in outcome) {
      if (outcome.failure === null) continue;
      const thrown = thrownError(outcome.failure, outcome.data);
      // The worker's rule for what a task throws; it must not reach those that have not had their turn.
      if (groups.length === 0) throw thrown;
      await run.fail(left, thrown);
    } else groups.unshift(...(await run.afterDeath(left, outcome.exit)));
  }
}

class ChildRun {
  readonly #context: BulkContext;
  readonly #host: ChildRunHost;
  readonly #all: ReadonlyMap<string, Attempt>;
  readonly #open: Map<string, Attempt>;
  readonly #settling = new Set<Promise<unknown>>();
  readonly #begun = new Set<string>();
  readonly #clockOffset: number;
  #running: string | null = null;

  constructor(attempts: readonly Attempt[], context: BulkContext, host: ChildRunHost) {
    this.#context = context;
    this.#host = host;
    this.#all = new Map(attempts.map((attempt) => [attempt.id, attempt]));
    this.#open = new Map(this.#all);
    this.#clockOffset = (attempts[0]?.startTime ?? 0) - context.clock.now();
  }

  /** Those of a group that nobody has settled. */
  open(group: readonly Attempt[]): Attempt[] {
    return group.filter(({ id }) => this.#open.has(id));
  }

  /** Resolves when the child is done or dead and everything it reported is settled. */
  async run(child: Child, group: readonly Attempt[]): Promise<Outcome> {
    const { signal, expired, log } = this.#context;
    const pleaseStop = (): void => {
      child.send({ head: { kind: "signal" }, data: [] });
      if (this.#host.endsWithWorker && workerStops(signal))
        void child.stop("stopped", "was stopped with its worker", this.#host.graceMs);
    };
    const giveUp = (): void => {
      child.send({ head: { kind: "expired" }, data: [] });
      void child.stop("expired", jobExpired, this.#host.graceMs);
    };
    signal.addEventListener("abort", pleaseStop);
    expired.addEventListener("abort", giveUp);
    const early = this.#stopEarly(group, () => {
      void child.stop("expired", jobExpired, this.#host.graceMs);
    });
    this.#host.attach(child, this.#printed(log, group));
    this.#running = null;
    if (!this.#host.tellsBegin) for (const { id } of group) this.#begun.add(id);
    try {
      const running = child.run(this.#host.message(group, this.#context), (message) =>
        this.#receive(child, message),
      );
      if (expired.aborted) giveUp();
      else if (signal.aborted) pleaseStop();
      const { head, data } = await running;
      return { failure: readDone(head).error, data: data[0] ?? null };
    } catch (error) {
      if (error instanceof ChildEndedError) return { exit: error.exit };
      throw error;
    } finally {
      await Promise.allSettled(this.#settling);
      signal.removeEventListener("abort", pleaseStop);
      expired.removeEventListener("abort", giveUp);
      clearInterval(early);
      this.#host.attach(child, null);
      this.#host.pool.release(child);
    }
  }

  /** For what the child prints: it is kept with the attempt that runs, where that is known. */
  #printed(log: Logger, group: readonly Attempt[]): Logger {
    const { clock } = this.#context;
    return taskLog(log, (level, text) => {
      const attempt = group.length === 1 ? group[0] : this.#all.get(this.#running ?? "");
      attempt?.log(text, { level, time: clock.now() });
    });
  }

  /** Looks now and then whether the leases end so soon; a renew moves that away. */
  #stopEarly(group: readonly Attempt[], stop: () => void): NodeJS.Timeout | undefined {
    const { stopEarlyMs } = this.#host;
    if (stopEarlyMs <= 0) return undefined;
    const { clock } = this.#context;
    // Leases are in the coordinator's time; what it said when they were claimed tells how far its clock is off.
    const isOverdue = ({ expirationTime }: Attempt): boolean =>
      expirationTime - this.#clockOffset - clock.now() < stopEarlyMs;
    return setInterval(() => {
      const open = this.open(group);
      if (open.length > 0 && open.every(isOverdue)) stop();
    }, 500);
  }

  /** Settles the culprit, if it is known; answers what shall run next. */
  async afterDeath(left: readonly Attempt[], exit: Exit): Promise<(readonly Attempt[])[]> {
    // Taken away by its own side: nobody's fault. All of them run again.
    if (exit.cause === "stopped") return left.length === 0 ? [] : [left];
    if (exit.cause === "expired") {
      await this.#each(left, (attempt) => attempt.error(jobExpired, { reason: "expired" }));
      return [];
    }
    const known = left.find(({ id }) => id === this.#running) ?? (left.length === 1 ? left[0] : undefined);
    if (known === undefined) return left.map((attempt) => [attempt]);
    await this.#blame(known, exit);
    const others = left.filter((attempt) => attempt !== known);
    return others.length === 0 ? [] : [others];
  }

  async fail(attempts: readonly Attempt[], thrown: Error): Promise<void> {
    await this.#each(attempts, (attempt) => settleThrown(attempt, thrown));
  }

  /** There is nobody to run them any more. Those that were not begun have not had a try. */
  async giveBack(attempts: readonly Attempt[]): Promise<void> {
    await this.#each(this.open(attempts), (attempt) =>
      this.#begun.has(attempt.id) ? attempt.expire() : attempt.release(),
    );
  }

  async #blame(attempt: Attempt, exit: Exit): Promise<void> {
    const { log } = this.#context;
    const tail = exit.errorTail.trim();
    const text = `the child process ${exit.text}${tail === "" ? "" : `\n${tail}`}`;
    log.warn({ unit: attempt.workUnitName, attempt: attempt.id }, `the child process ${exit.text}`);
    // Too much memory once is too much again; a crash may have been chance.
    await this.#each([attempt], () =>
      exit.cause === "memory" ? attempt.failWith(text) : attempt.error(text),
    );
  }

  /** A refusal (lost, settled by somebody else, deleted) ends the matter as a success does. */
  async #each(attempts: readonly Attempt[], settle: (attempt: Attempt) => Promise<unknown>): Promise<void> {
    await Promise.all(
      attempts.map(async (attempt) => {
        try {
          await settle(attempt);
          this.#open.delete(attempt.id);
        } catch (error) {
          if (!isLost(error)) throw error;
          this.#open.delete(attempt.id);
        }
      }),
    );
  }

  #receive(child: Child, { head, data: [data = null] }: Message): void {
    switch (head.kind) {
      case "begin":
        this.#running = readText(head, "attempt");
        this.#begun.add(this.#running);
        return;
      case "settle": {
        const change = readSettle(head);
        const settled = this.#settle(change, data);
        // a child that waits for the answer can say itself what it makes of a refusal
        const attempt = change.ref === 0 ? this.#open.get(change.attempt) : undefined;
        if (attempt === undefined) return this.#answer(child, change.ref, settled);
        const ended = orFail(attempt, settled).then((changed) => {
          this.#open.delete(attempt.id);
          return changed;
        });
        return this.#answer(child, change.ref, ended);
      }
      case "progress": {
        const { ref, ...progress } = readProgress(head);
        return this.#answer(child, ref, this.#progress(progress, data));
      }
      case "renew": {
        const { ref, lifetimeMs } = readRenew(head);
        return this.#answer(
          child,
          ref,
          this.#context.renew(lifetimeMs).then(() => null),
        );
      }
      case "log": {
        const { level, text, details, attempt } = readLog(head);
        const own = attempt === undefined ? undefined : this.#all.get(attempt);
        const { log, clock } = this.#context;
        return (own === undefined ? log : attemptLog(log, own, clock))[level](details, text);
      }
      case "lines": {
        const { attempt, lines } = readLinesHead(head);
        for (const { text, ...line } of lines) this.#all.get(attempt)?.log(text, line);
        return;
      }
      default:
        throw new Error(`a message of the kind ${head.kind}`);
    }
  }

  /** What is settled for a child that does not wait for it is remembered all the same, until it is. */
  #answer(child: Child, ref: number, work: Promise<AttemptChanged | null>): void {
    const answer = (error: AnswerHead["error"], changed: AttemptChanged | null): void => {
      if (ref === 0) return;
      child.send({ head: { kind: "answer", ref, error, changed } satisfies AnswerHead, data: [] });
    };
    const answered = work
      .then(
        (changed) => answer(null, changed),
        (error: unknown) => {
          if (ref === 0) this.#context.log.warn({ error }, "a result of a child could not be settled");
          if (isCoordinateError(error)) answer({ code: error.code, value: error.value }, null);
          else answer({ code: "", value: error instanceof Error ? error.message : String(error) }, null);
        },
      )
      .finally(() => this.#settling.delete(answered));
    this.#settling.add(answered);
  }

  async #settle(change: SettleHead, data: Data | null): Promise<AttemptChanged> {
    const attempt = this.#attempt(change.attempt);
    const { action, delayMs = 0, lifetimeMs, untried, error: text, reason } = change;
    const given = data ?? undefined;
    const settled = (work: Promise<AttemptChanged>): Promise<AttemptChanged> =>
      work.then(
        (changed) => {
          if (action !== "renew" || changed.status !== "pending") this.#open.delete(attempt.id);
          return changed;
        },
        (error: unknown) => {
          if (isLost(error)) this.#open.delete(attempt.id);
          throw error;
        },
      );
    switch (action) {
      case "finish":
        return settled(attempt.finish(given));
      case "fail":
        return settled(attempt.fail(given));
      case "error":
        return settled(
          attempt.error(text, {
            ...(given !== undefined && { data: given }),
            ...(reason !== undefined && { reason }),
          }),
        );
      case "retry":
        if (untried === true) return settled(attempt.snooze(delayMs));
        return settled(attempt.retry({ delayMs, ...(given !== undefined && { data: given }) }));
      case "expire":
        return settled(untried === true ? attempt.release() : attempt.expire(given));
      case "renew":
        return settled(attempt.renew(lifetimeMs, given));
    }
  }

  async #progress({ attempt, done, note }: Omit<ProgressHead, "ref">, data: Data | null): Promise<null> {
    if (done !== undefined) await this.#context.progress(this.#attempt(attempt), done, note);
    else if (data !== null) await this.#context.progress(this.#attempt(attempt), data);
    return null;
  }

  #attempt(id: string): Attempt {
    const attempt = this.#open.get(id);
    if (attempt === undefined) throw new Error(`attempt ${id} is not of this run, or settled`);
    return attempt;
  }
}

/** The attempt cannot be settled any more. */
const isLost = (error: unknown): boolean =>
  isCoordinateError(error, "lost_lease", "not_pending", "gone", "no_such_attempt");
