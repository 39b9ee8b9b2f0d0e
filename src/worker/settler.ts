/**
 * One settler for all slots of a process: what their tasks settle at about the same time is one call of the
 * coordinator. Nothing is waited for: the first goes at the end of this turn of the event loop, and what comes while calls are
 * under way goes with the next, so that batches grow with the load.
 *
 * A settle resolves when it is stored. Until it is, it is asked again: a second same settle does nothing.
 */
import type { AttemptChange, AttemptChanged, Coordinate } from "../core/index.ts";
import { isRefusal, type Trouble } from "./trouble.ts";

/** More than this in one call keeps others waiting longer than it saves. */
const largest = 1000;
/** Two, so that one travels while the other is written. */
const maxUnderWay = 2;

interface Part {
  readonly changes: readonly AttemptChange[];
  readonly done: (answers: AttemptChanged[] | null) => void;
  readonly resolve: (answers: AttemptChanged[]) => void;
  readonly reject: (error: unknown) => void;
}

export class Settler {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #trouble: Trouble;
  readonly #abandoned = new AbortController();
  #waiting: Part[] = [];
  #scheduled = false;
  #underWay = 0;
  /** Changes that are not stored yet. */
  #unstored = 0;
  #allStored: (() => void)[] = [];
  /** Attempts in a call that is under way: another change of one waits for its answer, so that they stay in order. */
  readonly #busy = new Set<string>();

  constructor(verbs: Coordinate, ns: string, trouble: Trouble) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#trouble = trouble;
  }

  /**
   * As the verb, for changes of any attempts. Rejects with a refusal, or with the last trouble when abandoned. `done` is
   * called before it resolves or rejects, with null when it rejects.
   */
  settle(changes: readonly AttemptChange[], done: Part["done"] = nothing): Promise<AttemptChanged[]> {
    return new Promise((resolve, reject) => this.#take({ changes, done, resolve, reject }));
  }

  /** The same where nobody waits for it but `done`. */
  post(changes: readonly AttemptChange[], done: Part["done"]): void {
    this.#take({ changes, done, resolve: nothing, reject: nothing });
  }

  #take(part: Part): void {
    this.#unstored += part.changes.length;
    this.#waiting.push(part);
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
    if (this.#scheduled || this.#underWay >= maxUnderWay || this.#waiting.length === 0) return;
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
      const fits = taken.length === 0 || size + part.changes.length <= largest;
      if (!fits || part.changes.some(({ attempt }) => this.#busy.has(attempt))) {
        left.push(part);
        continue;
      }
      taken.push(part);
      size += part.changes.length;
    }
    this.#waiting = left;
    if (taken.length === 0) return;
    for (const { changes } of taken) for (const { attempt } of changes) this.#busy.add(attempt);
    this.#underWay++;
    void this.#send(taken).finally(() => {
      this.#underWay--;
      for (const { changes } of taken) {
        this.#unstored -= changes.length;
        for (const { attempt } of changes) this.#busy.delete(attempt);
      }
      this.#schedule();
      if (this.#unstored === 0) for (const resolve of this.#allStored.splice(0)) resolve();
    });
    this.#schedule();
  }

  /** Never rejects: every part is told by itself. */
  async #send(parts: readonly Part[]): Promise<void> {
    const changes: AttemptChange[] = [];
    for (const part of parts) for (const change of part.changes) changes.push(change);
    for (let tries = 0; ; tries++) {
      try {
        const asked = this.#trouble.asked();
        const answers = await this.#verbs.settleAttempts(this.#ns, changes);
        this.#trouble.over(asked);
        let at = 0;
        for (const { changes: own, done, resolve } of parts) {
          const part = parts.length === 1 ? answers : answers.slice(at, at + own.length);
          at += own.length;
          done(part);
          resolve(part);
        }
        return;
      } catch (error) {
        if (isRefusal(error)) return this.#refused(parts, error);
        this.#trouble.met("settle", error);
        if (!this.#abandoned.signal.aborted) await this.#trouble.pause(tries, this.#abandoned.signal);
        if (this.#abandoned.signal.aborted && tries > 0) {
          tellRejected(parts, error);
          return;
        }
      }
    }
  }

  /** One bad change, data that is too large, refuses the whole call: then each part is asked by itself. */
  async #refused(parts: readonly Part[], error: unknown): Promise<void> {
    if (parts.length > 1) await Promise.all(parts.map((part) => this.#send([part])));
    else tellRejected(parts, error);
  }
}

const nothing = (): void => undefined;

function tellRejected(parts: readonly Part[], error: unknown): void {
  for (const { done, reject } of parts) {
    done(null);
    reject(error);
  }
}
