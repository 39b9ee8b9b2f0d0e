/**
 * One settler for all slots of a process: what their tasks settle at about the same time is one call of the
 * coordinator. Nothing is waited for: the first goes at the end of this turn of the event loop, and what comes while calls are
 * under way goes with the next, so that calls grow with the load.
 *
 * A settle resolves when it is stored. Until it is, it is asked again: a second same settle does nothing.
 */
import {
  alarm,
  askTogether,
  isRefusal,
  type Asked,
  type AttemptChange,
  type AttemptChanged,
  type Clock,
  type Coordinate,
} from "../core/index.ts";
import type { Outage } from "./outage.ts";

/** More than this in one call keeps others waiting longer than it saves. */
const largest = 1000;
/** So many are sent at once, also where more are to come. */
const enough = 32;
/** Two, so that one travels while the other is written. */
const maxUnderWay = 2;

type Part = Asked<AttemptChange, AttemptChanged>;
type Done = (answers: AttemptChanged[] | null) => void;

/** What ends while more is ready to run is sent together with what ends soon after it. */
export interface Gathering {
  readonly clock: Clock;
  /** Whether more is about to end. */
  readonly isOn: () => boolean;
  /** How long a change waits at most for others to go with. */
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
  /** Changes that are not stored yet. */
  #unstored = 0;
  #allStored: (() => void)[] = [];
  /** Attempts in a call that is under way: another change of one waits for its answer, so that they stay in order. */
  readonly #busy = new Set<string>();

  constructor(verbs: Coordinate, ns: string, outage: Outage, gathering: Gathering | null = null) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#outage = outage;
    this.#gathering = gathering;
  }

  /**
   * As the verb, for changes of any attempts. Rejects with a refusal, or with the last failure when abandoned. `done` is
   * called before it resolves or rejects, with null when it rejects.
   */
  settle(changes: readonly AttemptChange[], done: Done = nothing): Promise<AttemptChanged[]> {
    return new Promise((resolve, reject) => {
      const refuse: (error: unknown) => void = reject;
      this.#take({
        items: changes,
        resolve(answers) {
          done(answers);
          resolve(answers);
        },
        reject(error) {
          done(null);
          refuse(error);
        },
      });
    });
  }

  /** The same where nobody waits for it but `done`. */
  post(changes: readonly AttemptChange[], done: Done): void {
    this.#take({ items: changes, resolve: done, reject: () => done(null) });
  }

  #take(part: Part): void {
    this.#unstored += part.items.length;
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

  /** So many changes wait to be stored that no more should be made. */
  get isBehind(): boolean {
    return this.#unstored > 3 * largest;
  }

  /** Resolves when every change has been answered. */
  async idle(): Promise<void> {
    while (this.#unstored > 0) await new Promise<void>((resolve) => this.#allStored.push(resolve));
  }

  /** From now on what fails once is given up. */
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
    for (const part of this.#waiting) {
      const fits = taken.length === 0 || size + part.items.length <= largest;
      if (!fits || part.items.some(({ attempt }) => this.#busy.has(attempt))) {
        left.push(part);
        continue;
      }
      taken.push(part);
      size += part.items.length;
    }
    this.#waiting = left;
    if (taken.length === 0) return;
    for (const { items } of taken) for (const { attempt } of items) this.#busy.add(attempt);
    this.#underWay++;
    void askTogether(taken, (changes) => this.#ask(changes)).finally(() => {
      this.#underWay--;
      for (const { items } of taken) {
        this.#unstored -= items.length;
        for (const { attempt } of items) this.#busy.delete(attempt);
      }
      this.#schedule();
      if (this.#unstored === 0) for (const resolve of this.#allStored.splice(0)) resolve();
    });
    this.#schedule();
  }

  /** Asks until there is an answer or a refusal; once abandoned, twice at most. */
  async #ask(changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    for (let tries = 0; ; tries++) {
      try {
        const call = this.#outage.began();
        const answers = await this.#verbs.settleAttempts(this.#ns, changes);
        this.#outage.answered(call);
        return answers;
      } catch (error) {
        if (isRefusal(error)) throw error;
        this.#outage.failed("settle", error);
        if (!this.#abandoned.signal.aborted) await this.#outage.pause(tries, this.#abandoned.signal);
        if (this.#abandoned.signal.aborted && tries > 0) throw error;
      }
    }
  }
}

const nothing = (): void => undefined;
