/**
 * The jobs that were given to one child process. The child runs them one after the other, in order; the next ones travel while
 * the first runs.
 *
 * The first job counts as begun: this process cannot know more. For every other job it can make sure that the job has not begun.
 * The child begins a job only after it has sent the outcome of the job before, and never after the job's deadline (`until`),
 * which is measured on a clock that all processes of the machine share. Once the deadline has passed and all messages that the
 * child sent before it have been read, a job that is still not the first will never begin, and is given up. So a function that
 * runs long does not keep the jobs behind it from other workers.
 */
import type { Child, Exit, Message, ProcessPool } from "../worker/index.ts";
import type { RunRequest } from "./child/invoke.ts";
import { machineMs } from "./child/machine-time.ts";
import type { JobOutcome } from "./job.ts";
import { endedBy, haltText, timeoutText, type RunOptions } from "./runner.ts";

/** The default time after which the child does not begin a job that waits behind another. */
const defaultBeginMs = 40;
/** The margin after that time before the job is given up. */
const marginMs = 10;
/** The longest delay of setTimeout: a longer one fires at once. */
const longestTimer = 2 ** 31 - 1;

interface Entry {
  readonly nr: number;
  readonly request: RunRequest;
  readonly options: RunOptions;
  readonly resolve: (outcome: JobOutcome | null) => void;
  readonly halt: () => void;
  until: number;
}

export class Pipeline {
  readonly #pool: ProcessPool;
  readonly #graceMs: number;
  readonly #beginMs: number;
  /** In the order in which the jobs were given to the child. */
  readonly #entries: Entry[] = [];
  #child: Child | null = null;
  /** Aborts the wait for a child; null when nothing waits. */
  #waiting: AbortController | null = null;
  #nr = 0;
  /** The timeout of the first job. */
  #late: NodeJS.Timeout | undefined;
  #kill: NodeJS.Timeout | undefined;
  /** The job that caused the child to be stopped. */
  #culprit: Entry | null = null;
  #giveUp: NodeJS.Timeout | undefined;

  constructor(pool: ProcessPool, options: { graceMs: number; beginMs?: number | undefined }) {
    this.#pool = pool;
    this.#graceMs = options.graceMs;
    this.#beginMs = options.beginMs ?? defaultBeginMs;
  }

  get child(): Child | null {
    return this.#child;
  }

  /** Resolves to null when the job was not begun. Never rejects. */
  run(request: RunRequest, options: RunOptions): Promise<JobOutcome | null> {
    if (options.signal.aborted) return Promise.resolve(null);
    return new Promise((resolve) => {
      const entry: Entry = {
        nr: this.#nr++,
        request,
        options,
        resolve,
        halt: () => this.#halt(entry),
        until: Infinity,
      };
      options.signal.addEventListener("abort", entry.halt, { once: true });
      this.#entries.push(entry);
      if (this.#entries.length > 1) {
        entry.until = machineMs() + this.#beginMs;
        this.#giveUp ??= setTimeout(() => this.#overdue(), this.#beginMs + marginMs);
      }
      if (this.#child !== null) this.#send(this.#child, entry);
      else if (this.#waiting === null) void this.#start();
      if (this.#child !== null && this.#entries.length === 1) this.#first(entry);
    });
  }

  async #start(): Promise<void> {
    const waiting = (this.#waiting = new AbortController());
    const child = await this.#pool.acquire(waiting.signal);
    this.#waiting = null;
    const [first] = this.#entries;
    if (child === null || first === undefined) {
      if (child !== null) this.#pool.release(child);
      for (const entry of [...this.#entries]) this.#end(entry, null);
      return;
    }
    this.#child = child;
    child.enter(
      (message) => this.#hear(message),
      (exit) => this.#ended(exit),
    );
    for (const entry of this.#entries) this.#send(child, entry);
    this.#first(first);
  }

  #send(child: Child, { nr, until, request }: Entry): void {
    const head = { kind: "run", nr, request, ...(until < Infinity && { until }) };
    child.send({ head, data: [] });
  }

  /** Starts the timeout of a job that has become the first. */
  #first(entry: Entry): void {
    const { timeoutMs, signal, onBegun } = entry.options;
    if (timeoutMs <= longestTimer)
      this.#late = setTimeout(() => this.#stop(entry, "expired", timeoutText(timeoutMs)), timeoutMs);
    onBegun();
    if (signal.aborted) this.#killAfterGrace(entry);
  }

  #halt(entry: Entry): void {
    if (this.#child === null) {
      this.#end(entry, null);
      if (this.#entries.length === 0) this.#waiting?.abort();
      return;
    }
    // if the job has not begun, the child returns it without running it when its turn comes
    this.#child.send({ head: { kind: "signal", nr: entry.nr }, data: [] });
    if (entry === this.#entries[0]) this.#killAfterGrace(entry);
  }

  #killAfterGrace(entry: Entry): void {
    const end = (): void => this.#stop(entry, "stopped", haltText(entry.options.signal));
    this.#kill ??= setTimeout(end, this.#graceMs);
  }

  #stop(entry: Entry, cause: "expired" | "stopped", text: string): void {
    this.#culprit = entry;
    void this.#child?.stop(cause, text, 0);
  }

  #hear({ head }: Message): void {
    const entry = this.#entries.find(({ nr }) => nr === head.nr);
    // the message may be about a job that was given up
    if (entry === undefined) return;
    if (head.kind === "progress") entry.options.onProgress(head.value);
    else if (head.kind === "ended") this.#end(entry, readOutcome(head.outcome));
  }

  #end(entry: Entry, outcome: JobOutcome | null): void {
    const at = this.#entries.indexOf(entry);
    this.#entries.splice(at, 1);
    entry.options.signal.removeEventListener("abort", entry.halt);
    if (at === 0 && this.#child !== null) this.#next(this.#child);
    entry.resolve(outcome);
  }

  /** Moves on after the first job has ended. */
  #next(child: Child): void {
    clearTimeout(this.#late);
    clearTimeout(this.#kill);
    this.#kill = undefined;
    const [first] = this.#entries;
    if (first !== undefined) return this.#first(first);
    clearTimeout(this.#giveUp);
    this.#giveUp = undefined;
    this.#child = null;
    child.leave();
    this.#pool.release(child);
  }

  /** Gives up the jobs whose deadline has passed. `setImmediate` lets pending messages of the child be read first. */
  #overdue(): void {
    setImmediate(() => {
      this.#giveUp = undefined;
      const late = machineMs() - marginMs;
      const [, ...others] = this.#entries;
      for (const entry of others) if (entry.until < late) this.#end(entry, null);
      if (this.#entries.length > 1)
        this.#giveUp = setTimeout(() => this.#overdue(), this.#beginMs + marginMs);
    });
  }

  #ended(exit: Exit): void {
    const [first] = this.#entries;
    const culprit = this.#culprit;
    this.#child = this.#culprit = null;
    clearTimeout(this.#late);
    clearTimeout(this.#kill);
    clearTimeout(this.#giveUp);
    this.#kill = this.#giveUp = undefined;
    for (const entry of [...this.#entries]) {
      // the process may have been stopped because of another job, which ended just before: then the first job is not to blame
      const isCause = entry === first && (culprit === null || culprit === entry);
      this.#end(entry, isCause ? outcomeOfExit(exit) : null);
    }
  }
}

function outcomeOfExit({ cause, text, errorTail }: Exit): JobOutcome {
  if (cause === "expired") return endedBy("TIMEOUT", text);
  if (cause === "stopped") return endedBy("HALTED", text);
  return endedBy("CRASH", `the process of the job ${text}`, errorTail.trim());
}

/** Checks the outcome: the child's program is ours, but a function may write to the channel too. */
function readOutcome(outcome: unknown): JobOutcome | null {
  if (outcome === null) return null;
  const isOutcome = typeof outcome === "object" && "state" in outcome;
  return isOutcome ? (outcome as JobOutcome) : endedBy("CRASH", "the process of the job sent no outcome");
}
