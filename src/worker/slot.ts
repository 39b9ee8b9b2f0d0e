/**
 * One place to work: claims a batch, runs it, claims the next. A slot is a child worker, and what it claims is claimed
 * in its name.
 *
 * When batches have lately been short, the next one is claimed while the current one runs, so that the coordinator is never
 * waited for. Should the current one turn out to be long, what was claimed ahead is given back untried after a second.
 */
import type { AttemptRow, Clock } from "../core/index.ts";
import type { Alarm, Alarms } from "./alarms.ts";
import { Batch, type BatchSetting } from "./batch.ts";
import type { Claimed, Claimer } from "./claimer.ts";
import type { Runtime } from "./runtime.ts";
import type { Task } from "./task.ts";
import { PlainError } from "./traceback.ts";

export interface SlotSetting {
  readonly claimer: Claimer;
  readonly batch: BatchSetting;
  readonly clock: Clock;
  readonly alarms: Alarms;
  /** Claims ahead at all. */
  readonly ahead: boolean;
  readonly release: (rows: readonly AttemptRow[]) => Promise<void>;
}

/** What was claimed ahead is held this long at most, and no longer than half its lease. */
const holdMs = 1000;

export type SlotMode = "run" | "idle" | "stop";

export class Slot {
  readonly name: string;
  readonly #setting: SlotSetting;
  #mode: SlotMode = "run";
  /** Ends whatever the slot waits for, that a change of mode may be seen. */
  #waiting: AbortController | null = null;
  #current: Batch | null = null;
  #leave: () => void = () => undefined;
  #isAbandoned = false;
  #ahead: Claimed | null = null;
  #holding: Alarm | null = null;
  /** How long the last batch took. */
  #recentMs = Infinity;

  constructor(name: string, setting: SlotSetting) {
    this.name = name;
    this.#setting = setting;
  }

  get mode(): SlotMode {
    return this.#mode;
  }

  /** What it runs now. */
  get current(): Batch | null {
    return this.#current;
  }

  /** Works until it is stopped, and what it holds has ended. Never rejects. */
  async run(): Promise<void> {
    while (this.#mode !== "stop") {
      const ahead = this.#takeAhead();
      if (ahead !== null) {
        await this.#work(ahead);
        continue;
      }
      const waiting = new AbortController();
      this.#waiting = waiting;
      if (this.#mode === "idle") {
        await new Promise<void>((resolve) =>
          waiting.signal.addEventListener("abort", () => resolve(), { once: true }),
        );
        continue;
      }
      const claimed = await this.#setting.claimer.next(this.name, waiting.signal);
      this.#waiting = null;
      if (claimed !== null) await this.#work(claimed);
    }
  }

  /** Takes no more work, now or for ever; what it runs goes on, what it claimed ahead is given back at once. */
  set(mode: SlotMode): void {
    if (this.#mode === "stop" || this.#mode === mode) return;
    this.#mode = mode;
    this.#waiting?.abort("mode");
    if (mode === "run") return;
    const ahead = this.#takeAhead();
    if (ahead !== null) void this.#letGo(ahead);
    if (mode === "stop" && this.#current?.isGone === true) this.#leave();
  }

  /** The task is told to come to an end. */
  signal(reason: Error): void {
    this.#current?.signal(reason);
  }

  /** The task is told that it is over, its open attempts are given back, and nobody waits for it any longer. */
  async abandon(reason: Error): Promise<void> {
    this.#isAbandoned = true;
    this.set("stop");
    await this.#current?.abandon(reason);
    this.#leave();
  }

  async #work(claimed: Claimed): Promise<void> {
    if (this.#mode !== "run") return this.#letGo(claimed);
    const { clock } = this.#setting;
    const { rows, spec, runtimes } = claimed;
    const batch = new Batch(this.#setting.batch, rows);
    const started = clock.now();
    const fetching = this.#shouldFetch(claimed) ? this.#fetch(claimed) : null;
    this.#current = batch;
    await new Promise<void>((resolve) => {
      this.#leave = resolve;
      // a task that was given up is waited for, since it may still use what it uses; but not when the worker stops
      batch.onGone = () => {
        if (this.#mode === "stop") resolve();
      };
      const timedOut = runtimes.find((runtime) => runtime.timedOut !== undefined)?.timedOut ?? "timed out";
      void batch.run(spec, () => findTask(runtimes, claimed), timedOut).then(resolve);
    });
    this.#current = null;
    this.#recentMs = clock.now() - started;
    claimed.done();
    // what comes from a claim under way is run next, or given back before the slot ends
    if (!this.#isAbandoned) await fetching;
  }

  #shouldFetch({ rows, plenty }: Claimed): boolean {
    const [first] = rows;
    if (!this.#setting.ahead || first === undefined || this.#mode !== "run") return false;
    const lifetimeMs = first.expirationTime - first.startTime;
    return plenty() && this.#recentMs <= Math.min(holdMs / 4, lifetimeMs / 20);
  }

  async #fetch(current: Claimed): Promise<void> {
    const claimed = await current.ahead();
    if (claimed === null) return;
    if (this.#mode !== "run") return this.#letGo(claimed);
    this.#ahead = claimed;
    this.#hold(claimed);
  }

  #hold(claimed: Claimed): void {
    const { clock, alarms } = this.#setting;
    const [first] = claimed.rows;
    if (first === undefined) return;
    const halfLease = (first.expirationTime - first.startTime) / 2;
    this.#holding = alarms.at(clock.now() + Math.min(holdMs, halfLease), () => {
      if (this.#ahead === claimed) void this.#letGo(claimed);
      this.#ahead = null;
    });
  }

  #takeAhead(): Claimed | null {
    const claimed = this.#ahead;
    if (claimed === null) return null;
    this.#ahead = null;
    this.#holding?.cancel();
    return claimed;
  }

  async #letGo(claimed: Claimed): Promise<void> {
    claimed.done();
    await this.#setting.release(claimed.rows);
  }
}

/** The first of the runtimes that has the task; they are in the order in which the worker was given them. */
async function findTask(runtimes: readonly Runtime[], { spec }: Claimed): Promise<Task> {
  for (const runtime of runtimes) {
    const task = await runtime.task(spec);
    if (task !== null) return task;
  }
  const names = runtimes.flatMap(({ taskNames }) => taskNames ?? []);
  const wanted = typeof spec.data.task === "string" ? spec.data.task : spec.name;
  const have = names.length === 0 ? "this worker has none" : `this worker has ${names.sort().join(", ")}`;
  throw new PlainError(
    `no task ${JSON.stringify(wanted)} for runtime ${JSON.stringify(spec.runtime)}; ${have}`,
  );
}
