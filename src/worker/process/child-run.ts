/**
 * Runs the attempts of a claim in child processes.
 *
 * The supervisor settles each result when the child reports it, so that no reported result is lost when the child dies. After a
 * death, the attempts that are still open are handled like this:
 *
 *   - the attempt that was running, if known, or the only one left, is blamed: it ends in an error, and its retry policy applies;
 *   - the others run again in another child, one at a time if it is not known which of them caused the death.
 *
 * The supervisor keeps the leases meanwhile: running a unit again uses no further attempt.
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
  signalHead,
  type SettleHead,
  type TaskFailure,
} from "./messages.ts";
import type { ProcessPool } from "./pool.ts";

export interface ChildRunHost {
  readonly pool: ProcessPool;
  /** The message that makes a child run these attempts. */
  message(attempts: readonly Attempt[], context: BulkContext): Message;
  /** Time from SIGTERM to SIGKILL for a child whose time is up. */
  readonly graceMs: number;
  /** Whether children run one unit after the other and report each begin. Otherwise all units of a run count as begun at once. */
  readonly tellsBegin: boolean;
  /** Whether children are stopped when the worker stops and its grace time is over, because they cannot react to a signal message. */
  readonly endsWithWorker: boolean;
  /** Children are stopped this long before the leases of their attempts end; 0 leaves it to the worker's own rule. */
  readonly stopEarlyMs: number;
  /** Directs the output of the child to the log of its run; null ends this. */
  attach(child: Child, log: Logger | null): void;
}

/** The `traceback` of units whose lease ran out. */
export const jobExpired = "job expired";

interface Done {
  readonly failure: TaskFailure | null;
  /** The data of `throw retry(ms, data)`, to store with the attempts. */
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
      // the worker settles all open attempts when this throws: only allowed when no group is left to run
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

  /** The attempts of a group that are not settled yet. */
  open(group: readonly Attempt[]): Attempt[] {
    return group.filter(({ id }) => this.#open.has(id));
  }

  /** Resolves when the child is done or dead and every result it reported is settled. */
  async run(child: Child, group: readonly Attempt[]): Promise<Outcome> {
    const { signal, expired, log } = this.#context;
    const pleaseStop = (): void => {
      child.send({ head: signalHead("signal", signal), data: [] });
      if (this.#host.endsWithWorker && workerStops(signal))
        void child.stop("stopped", "was stopped with its worker", this.#host.graceMs);
    };
    const giveUp = (): void => {
      child.send({ head: signalHead("expired", expired), data: [] });
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

  /** The log for output of the child. Lines are stored with the running attempt, if it is known. */
  #printed(log: Logger, group: readonly Attempt[]): Logger {
    const { clock } = this.#context;
    return taskLog(log, (level, text) => {
      const attempt = group.length === 1 ? group[0] : this.#all.get(this.#running ?? "");
      attempt?.log(text, { level, time: clock.now() });
    });
  }

  /** Checks every 500 ms whether all open leases end within `stopEarlyMs`, and then calls `stop`. A renew postpones this. */
  #stopEarly(group: readonly Attempt[], stop: () => void): NodeJS.Timeout | undefined {
    const { stopEarlyMs } = this.#host;
    if (stopEarlyMs <= 0) return undefined;
    const { clock } = this.#context;
    // leases are in the coordinator's time; its clock offset is estimated from the start time of the first attempt
    const isOverdue = ({ expirationTime }: Attempt): boolean =>
      expirationTime - this.#clockOffset - clock.now() < stopEarlyMs;
    return setInterval(() => {
      const open = this.open(group);
      if (open.length > 0 && open.every(isOverdue)) stop();
    }, 500);
  }

  /** Settles the attempt that caused the death, if it is known. Returns the groups to run next. */
  async afterDeath(left: readonly Attempt[], exit: Exit): Promise<(readonly Attempt[])[]> {
    // the supervisor stopped the child: no attempt is to blame, and all of them run again
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

  /** Gives attempts back when there is no child to run them. It counts as a try if they have begun and the worker goes on. */
  async giveBack(attempts: readonly Attempt[]): Promise<void> {
    const stops = workerStops(this.#context.signal);
    await this.#each(this.open(attempts), (attempt) =>
      this.#begun.has(attempt.id) && !stops ? attempt.expire() : attempt.release(),
    );
  }

  async #blame(attempt: Attempt, exit: Exit): Promise<void> {
    const { log } = this.#context;
    const tail = exit.errorTail.trim();
    const text = `the child process ${exit.text}${tail === "" ? "" : `\n${tail}`}`;
    log.warn({ unit: attempt.workUnitName, attempt: attempt.id }, `the child process ${exit.text}`);
    // no retry after too much memory, which would happen again; a crash may have been accidental
    await this.#each([attempt], () =>
      exit.cause === "memory" ? attempt.failWith(text) : attempt.error(text),
    );
  }

  /** Settles each attempt. A refusal (lost, settled elsewhere, deleted) closes the attempt like a success. */
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
        // when a result cannot be stored, fail the attempt here only if the child does not wait for the answer
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
        throw new Error(`unknown message ${head.kind}`);
    }
  }

  /** Sends the answer when the work is done. `run` waits for the work even if the child does not wait for an answer. */
  #answer(child: Child, ref: number, work: Promise<AttemptChanged | null>): void {
    const answer = (error: AnswerHead["error"], changed: AttemptChanged | null): void => {
      if (ref === 0) return;
      child.send({ head: { kind: "answer", ref, error, changed } satisfies AnswerHead, data: [] });
    };
    const answered = work
      .then(
        (changed) => answer(null, changed),
        (error: unknown) => {
          if (ref === 0)
            this.#context.log.warn({ error }, "the result of a child process could not be settled");
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
    if (attempt === undefined) throw new Error(`attempt ${id} does not belong to this run, or is settled`);
    return attempt;
  }
}

/** Whether the error means that the attempt can no longer be settled. */
const isLost = (error: unknown): boolean =>
  isCoordinateError(error, "lost_lease", "not_pending", "gone", "no_such_attempt");
