/**
 * One settler for all slots of a process. It batches settlements into calls of the coordinator. Without `Gathering` it adds no delay:
 * the first call goes at the end of this turn of the event loop, and changes that arrive while calls are pending go with the next
 * one, so that batches grow with the load.
 *
 * `settle` resolves when the changes are stored. Until then the call is retried: repeating a settlement has no effect. It is given up
 * when the coordinator was closed, and when it fails with `internal` each time, because then it would delay all others without end.
 */
import {
  alarm,
  askTogether,
  CoordinateError,
  isCoordinateError,
  isRefusal,
  lengthOfChange,
  maxRequestLength,
  nextTurn,
  type Asked,
  type AttemptChange,
  type AttemptChanged,
  type Clock,
  type Coordinate,
} from "../core/index.ts";
import type { Outage } from "./outage.ts";
import { messageOf } from "./traceback.ts";

/** Most changes in one call. Larger batches delay other changes more than they save. */
const largest = 1000;
/** While more than this is not stored yet, no more work should be claimed. */
const maxUnstored = { changes: 3 * largest, length: 8 * maxRequestLength } as const;
/** While gathering, this many waiting requests are sent without waiting for more. */
const enough = 32;
/** Most pending calls. Two, so that one is on the network while the other is written to the store. */
const maxUnderWay = 2;
/** After so many tries that end with `internal`, the changes of a call are sent separately; alone, a change is given up after about 10 s. */
const internalTries = { together: 2, alone: 8 } as const;

interface Part extends Asked<AttemptChange, AttemptChanged> {
  /** Of the data and the log lines of all its changes. */
  readonly length: number;
}
/** Called with the answers, or with null and the error. */
type Done = (answers: AttemptChanged[] | null, error?: unknown) => void;

/** Delays changes while more runs are about to end, to send them in one call. */
export interface Gathering {
  readonly clock: Clock;
  /** Whether more runs are about to end. */
  readonly isOn: () => boolean;
  /** How long a change waits at most. */
  readonly ms: number;
}

export class Settler {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #outage: Outage;
  readonly #gathering: Gathering | null;
  #stopGathering: (() => void) | null = null;
  readonly #abandoned = new AbortController();
  #waiting: Part[] = [];
  #scheduled = false;
  #underWay = 0;
  /** Changes that are not stored yet, and the length of their data. */
  #unstored = 0;
  #unstoredLength = 0;
  #allStored: (() => void)[] = [];
  /** Attempts in pending calls. Another change of one of them waits for the answer, so that changes stay in order. */
  readonly #busy = new Set<string>();

  constructor(verbs: Coordinate, ns: string, outage: Outage, gathering: Gathering | null = null) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#outage = outage;
    this.#gathering = gathering;
  }

  /**
   * Like the verb `settleAttempts`. Rejects with a refusal, or with the last failure when it is given up. Calls `done` before it
   * resolves or rejects.
   */
  settle(changes: readonly AttemptChange[], done: Done = nothing): Promise<AttemptChanged[]> {
    return new Promise((resolve, reject) => {
      const refuse: (error: unknown) => void = reject;
      this.#take({
        items: changes,
        length: lengthOf(changes),
        resolve(answers) {
          done(answers);
          resolve(answers);
        },
        reject(error) {
          done(null, error);
          refuse(error);
        },
      });
    });
  }

  /** Like `settle`, without a promise: only `done` is called. */
  post(changes: readonly AttemptChange[], done: Done): void {
    const length = lengthOf(changes);
    this.#take({ items: changes, length, resolve: done, reject: (error) => done(null, error) });
  }

  #take(part: Part): void {
    this.#unstored += part.items.length;
    this.#unstoredLength += part.length;
    this.#waiting.push(part);
    if (this.#gathering?.isOn() === true && this.#waiting.length < enough) this.#gather(this.#gathering);
    else this.#gathered();
  }

  #gather({ clock, ms }: Gathering): void {
    this.#stopGathering ??= alarm(clock, clock.now() + ms, () => this.#gathered());
  }

  #gathered(): void {
    this.#stopGathering?.();
    this.#stopGathering = null;
    this.#schedule();
  }

  /** Sends waiting changes now instead of at the end of the turn. */
  flush(): void {
    if (this.#underWay < maxUnderWay) this.#flush();
  }

  /** Whether so many changes are not stored yet that no more work should be claimed. */
  get isBehind(): boolean {
    return this.#unstored > maxUnstored.changes || this.#unstoredLength > maxUnstored.length;
  }

  /** Resolves when every change has been answered. */
  async idle(): Promise<void> {
    do {
      while (this.#unstored > 0) await new Promise<void>((resolve) => this.#allStored.push(resolve));
      // an outcome that could not be stored is followed by another change, for example a failure
      await nextTurn();
    } while (this.#unstored > 0);
  }

  /** From now on a call is given up when its second try, or a later one, has failed. */
  abandon(): void {
    this.#abandoned.abort();
  }

  #schedule(): void {
    if (
      this.#scheduled ||
      this.#stopGathering !== null ||
      this.#underWay >= maxUnderWay ||
      this.#waiting.length === 0
    )
      return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const taken: Part[] = [];
    const left: Part[] = [];
    let size = 0;
    let length = 0;
    let isFull = false;
    for (const part of this.#waiting) {
      const isBusy = part.items.some(({ attempt }) => this.#busy.has(attempt));
      const fits = size + part.items.length <= largest && length + part.length <= maxRequestLength;
      // a part that fits into no call goes alone; the parts after it wait, because they may change the same attempts
      isFull ||= !isBusy && !fits && taken.length > 0;
      if (isBusy || isFull) {
        left.push(part);
        continue;
      }
      taken.push(part);
      size += part.items.length;
      length += part.length;
    }
    this.#waiting = left;
    if (taken.length === 0) return;
    for (const { items } of taken) for (const { attempt } of items) this.#busy.add(attempt);
    this.#underWay++;
    const ask = (changes: readonly AttemptChange[]): Promise<AttemptChanged[]> =>
      this.#ask(changes, taken.length > 1 && changes.length === size ? "together" : "alone");
    void askTogether(taken, ask, mayBeOfItem).finally(() => {
      this.#underWay--;
      this.#unstoredLength -= length;
      for (const { items } of taken) {
        this.#unstored -= items.length;
        for (const { attempt } of items) this.#busy.delete(attempt);
      }
      this.#schedule();
      if (this.#unstored === 0) for (const resolve of this.#allStored.splice(0)) resolve();
    });
    this.#schedule();
  }

  /** Retries until there is an answer, a refusal or a final failure; after `abandon`, makes at most two tries. */
  async #ask(changes: readonly AttemptChange[], how: keyof typeof internalTries): Promise<AttemptChanged[]> {
    let internal = 0;
    for (let tries = 0; ; tries++) {
      try {
        const call = this.#outage.began();
        const answers = await this.#verbs.settleAttempts(this.#ns, changes);
        this.#outage.answered(call);
        return answers;
      } catch (error) {
        if (isRefusal(error)) throw error;
        this.#outage.failed("settle", error);
        if (isCoordinateError(error, "closed")) throw error;
        if (isCoordinateError(error, "internal") && ++internal >= internalTries[how]) throw error;
        if (!this.#abandoned.signal.aborted) await this.#outage.pause(tries, this.#abandoned.signal);
        if (this.#abandoned.signal.aborted && tries > 0) throw unstored(error);
      }
    }
  }
}

const nothing = (): void => undefined;

const lengthOf = (changes: readonly AttemptChange[]): number =>
  changes.reduce((sum, change) => sum + lengthOfChange(change), 0);

/** Whether the error may be due to one of the changes. */
const mayBeOfItem = (error: unknown): boolean => isRefusal(error) || isCoordinateError(error, "internal");

/** Callers tell a settlement that was given up from data that could not be encoded: its error is always the coordinator's. */
const unstored = (error: unknown): CoordinateError =>
  isCoordinateError(error) ? error : new CoordinateError("unavailable", messageOf(error), { cause: error });
