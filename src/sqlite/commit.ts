/**
 * Group commit. Verbs that arrive together, in one turn of the event loop or while others are being written, share one
 * transaction and one sync, and are answered when it is on disk. A verb that throws a `CoordinateError` before it has
 * written anything fails alone. Any other error rolls the transaction back, and its verbs run again one by one.
 *
 * A verb may be a generator. When it yields after it has run long, the event loop gets a turn. The transaction stays
 * open and the other verbs wait, but nothing else does.
 *
 * Before the commit, callers that wait for work are woken once and may join the transaction: a unit is added, and claimed
 * by a waiting worker, with one sync.
 */
import { CoordinateError, nextTurn, WaitedError } from "../core/index.ts";
import type { Connection, Statement } from "./driver.ts";
import { explain, isFatal } from "./file.ts";
import type { State } from "./state.ts";

/** The result of a verb that has moved its share of overdue units and has to run again before it can answer. */
export const again = Symbol("again");

type Work = () => unknown;

interface Job {
  work: Work;
  resolve: (answer: unknown) => void;
  reject: (error: unknown) => void;
  alone: boolean;
  /** Submitted by a caller that this transaction woke up. */
  invited: boolean;
  /** The verb does nothing and throws a `WaitedError` if it starts later than this. */
  deadline: number;
}

type Outcome = { job: Job; answer: unknown } | { job: Job; error: unknown };

/** How long verbs may join a transaction, by default. */
const defaultJoinMs = 12;
/** How long a verb runs before the event loop gets a turn. */
const turnMs = 20;
/** How long a timely verb may wait for other transactions: at a time, and in all. */
const timelyMs = 1000;
const timelyLimitMs = 60_000;

export class Committer {
  readonly #file: string;
  readonly #begin: Statement;
  readonly #end: Statement;
  readonly #connection: Connection;
  readonly #state: State;
  readonly #invite: () => boolean;
  readonly #onCommit: () => void;
  readonly #joinMs: number;
  #queue: Job[] = [];
  #running: Promise<void> | null = null;
  #inviting = false;
  #closed = false;
  #failure: CoordinateError | null = null;

  constructor(
    file: string,
    connection: Connection,
    state: State,
    /** Wakes callers that may join this transaction. Returns whether there were any. */
    invite: () => boolean,
    onCommit: () => void,
    joinMs = defaultJoinMs,
  ) {
    this.#file = file;
    this.#connection = connection;
    this.#begin = connection.prepare("BEGIN");
    this.#end = connection.prepare("COMMIT");
    this.#state = state;
    this.#invite = invite;
    this.#onCommit = onCommit;
    this.#joinMs = joinMs;
  }

  /** Set permanently after a fault of the disk or the file: nothing is written any more. */
  get failure(): CoordinateError | null {
    return this.#failure;
  }

  /** Whether no verb is halfway. The state in memory is then consistent, but may not be on disk yet. */
  get isBetweenVerbs(): boolean {
    return this.#running === null || this.#inviting;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** `timely`: the times that the verb writes count from when it starts. If it had to wait, its caller tries again with a later `now`. */
  submit<Answer>(
    work: () => Answer | typeof again | Generator<undefined, Answer | typeof again>,
    timely = false,
  ): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      if (this.#failure !== null) reject(this.#failure);
      else if (this.#closed) reject(new CoordinateError("closed"));
      else {
        // the cast is safe: the answer is the result of `work`
        const job = { work, resolve: resolve as (answer: unknown) => void, reject, alone: false };
        const deadline = timely ? performance.now() + timelyMs : Infinity;
        this.#queue.push({ ...job, invited: this.#inviting, deadline });
        if (this.#queue.length === 1 && this.#running === null) setImmediate(() => this.#start());
      }
    });
  }

  #start(): void {
    if (this.#running !== null || this.#queue.length === 0) return;
    this.#running = this.#run().finally(() => {
      this.#running = null;
      if (this.#queue.length > 0) setImmediate(() => this.#start());
    });
  }

  /** Rejects new verbs and waits for the accepted ones. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#running !== null || this.#queue.length > 0) await nextTurn();
  }

  /** Runs one transaction. */
  async #run(): Promise<void> {
    const jobs: Job[] = [];
    const outcomes: Outcome[] = [];
    const state = this.#state;
    try {
      this.#begin.run();
      const start = performance.now();
      let invited = false;
      for (let at = 0; ;) {
        if (at === this.#queue.length) {
          if (invited || !this.#invite()) break;
          invited = true;
          this.#inviting = true;
          await nextTurn();
          this.#inviting = false;
          continue;
        }
        const job = this.#queue[at++]!;
        if (jobs.length > 0 && job.alone) break;
        jobs.push(job);
        state.writes = 0;
        try {
          if (performance.now() > job.deadline)
            throw new WaitedError(`${this.#file}: other calls take long`, timelyMs, timelyLimitMs);
          let answer = job.work();
          if (isSteps(answer)) answer = await this.#drive(answer);
          outcomes.push({ job, answer });
        } catch (error) {
          if (!(error instanceof CoordinateError) || state.writes > 0) throw error;
          outcomes.push({ job, error });
        }
        if (job.alone || performance.now() - start > this.#joinMs) break;
      }
    } catch (error) {
      this.#queue.splice(0, jobs.length);
      this.#rollBack();
      this.#failed(jobs, error);
      return;
    }
    this.#queue.splice(0, jobs.length);
    this.#commit(jobs, outcomes);
  }

  async #drive(steps: Generator<undefined, unknown>): Promise<unknown> {
    for (let start = performance.now(); ;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      if (performance.now() - start < turnMs) continue;
      await nextTurn();
      start = performance.now();
    }
  }

  #commit(jobs: Job[], outcomes: Outcome[]): void {
    const state = this.#state;
    try {
      state.flush();
    } catch (error) {
      this.#rollBack();
      this.#failed(jobs, error);
      return;
    }
    try {
      this.#end.run();
    } catch (error) {
      this.#rollBack();
      // if the disk fails during the commit, the transaction may or may not have been stored
      if (isFatal(error)) this.#fail(jobs, error, "unknown_outcome");
      else this.#failed(jobs, error);
      return;
    }
    state.committed();
    const others: Outcome[] = [];
    let invited = false;
    for (const outcome of outcomes) {
      if ("answer" in outcome && outcome.answer === again) this.#queue.push(outcome.job);
      else if (!outcome.job.invited) others.push(outcome);
      else {
        invited = true;
        answer(outcome);
      }
    }
    // callers that this transaction woke up, such as waiting workers, get their answers first
    if (invited) process.nextTick(() => others.forEach(answer));
    else others.forEach(answer);
    this.#onCommit();
  }

  #rollBack(): void {
    try {
      this.#connection.exec("ROLLBACK");
    } catch {
      // after some faults SQLite has rolled back already, and reports that there is nothing to roll back
    }
    this.#state.rolledBack();
  }

  /** Handles the error of a transaction that was rolled back: none of the jobs has taken effect. */
  #failed(jobs: Job[], error: unknown): void {
    const explained = explain(this.#file, error);
    if (isFatal(error)) return this.#fail(jobs, error, "unavailable");
    let others = jobs;
    if (explained instanceof CoordinateError && explained !== error) {
      for (const { invited, reject } of jobs) if (!invited) reject(explained);
      others = jobs.filter(({ invited }) => invited);
    } else if (jobs.length === 1) return jobs[0]!.reject(error);
    this.#queue.unshift(...others.map((job) => ({ ...job, alone: true, invited: false })));
  }

  #fail(jobs: Job[], error: unknown, code: "unavailable" | "unknown_outcome"): void {
    const explained = explain(this.#file, error);
    const value = explained instanceof CoordinateError ? explained.value : String(error);
    this.#failure = new CoordinateError("unavailable", value, { cause: error });
    const first = code === "unavailable" ? this.#failure : new CoordinateError(code, value, { cause: error });
    for (const { reject } of jobs) reject(first);
    const rest = this.#queue;
    this.#queue = [];
    for (const { reject } of rest) reject(this.#failure);
  }
}

function answer(outcome: Outcome): void {
  if ("error" in outcome) outcome.job.reject(outcome.error);
  else outcome.job.resolve(outcome.answer);
}

const isSteps = (answer: unknown): answer is Generator<undefined, unknown> =>
  typeof answer === "object" &&
  answer !== null &&
  Symbol.iterator in answer &&
  "next" in answer &&
  typeof answer.next === "function";
