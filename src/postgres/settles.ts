/** Settles attempts: plain changes by the fast path, the others by the rules of core. */
import { settleAttempts, type AttemptChanged, type Settle } from "../core/index.ts";
import { Caution } from "./caution.ts";
import { isNotPlain, manyUnits } from "./connection.ts";
import type { Context } from "./context.ts";
import { moveAcross } from "./expiry.ts";
import { settlePlain } from "./fast-paths.ts";
import { few, Merges } from "./merge.ts";

/** Data of this length may have thousands of outputs. */
const longData = 50_000;

const isLarge = (changes: readonly Settle[]): boolean =>
  changes.length >= manyUnits || changes.some(({ data }) => data !== null && data.length >= longData);

export class Settles {
  readonly #context: Context;
  readonly #merges = new Merges<{ changes: readonly Settle[]; now: number }, AttemptChanged[]>(100);
  /** Namespaces in which an optimistic settle failed. */
  readonly #caution = new Caution<string>();

  constructor(context: Context) {
    this.#context = context;
  }

  async settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    const answers =
      changes.length > few || isLarge(changes) || this.#context.borrowed
        ? await this.#settle(ns, changes, now)
        : await this.#together(ns, changes, now);
    if (!this.#context.borrowed && this.#context.watching.isWatched(ns))
      this.#context.watching.ended(
        ns,
        changes
          .filter((_, i) => answers[i]?.status === "finished" || answers[i]?.status === "failed")
          .map(({ unitId }) => unitId),
      );
    await this.#context.changed(ns);
    return answers;
  }

  async #settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    const queues = this.#context.queues.get(ns) ?? 0;
    const { answers: plain, pastAcross } = this.#context.fastPaths
      ? await this.#settlePlain(ns, changes, queues, now)
      : { answers: [], pastAcross: true };
    // changes that are not plain, and those of units that another transaction changed at the same moment
    const left = changes.filter((_, i) => plain[i] === undefined);
    if (left.length === 0) return plain as AttemptChanged[];
    const units = left.map(({ unitId }) => unitId);
    if (pastAcross) await moveAcross(this.#context.db, now, Infinity, this.#context.allocate, { ns, units });
    // not `timely` after a part was settled: the engine would send that part again
    const db = left.length === changes.length ? this.#context.timely : this.#context.db;
    const decided = await this.#context.apply(db, now, (set) => settleAttempts(set, ns, left), {
      repeatable: true,
      large: isLarge(left),
    });
    return changes.map((_, i) => plain[i] ?? decided.shift()!);
  }

  /** Settles plain changes without checking them first, unless that failed recently in the namespace. */
  async #settlePlain(
    ns: string,
    changes: readonly Settle[],
    queues: number,
    now: number,
  ): Promise<{ answers: (AttemptChanged | undefined)[]; pastAcross: boolean }> {
    const { timely } = this.#context;
    const kind = { laned: this.#context.laned.has(ns), counted: this.#context.counted.has(ns) };
    // a failed statement would abort the caller's own transaction
    if (!this.#caution.isNeeded(ns) && !this.#context.borrowed)
      try {
        return await settlePlain(timely, ns, changes, queues, { ...kind, sure: true }, now);
      } catch (error) {
        if (!isNotPlain(error)) throw error;
        this.#caution.failed(ns);
      }
    const settled = await settlePlain(timely, ns, changes, queues, { ...kind, sure: false }, now);
    if (!settled.pastAcross) this.#caution.used(ns, settled.answers.includes(undefined));
    return settled;
  }

  /** Merges concurrent settles of a few attempts each into one statement and one commit. */
  #together(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    return this.#merges.ask(ns, { changes, now }, async (asked) => {
      const all = asked.flatMap((one) => one.changes);
      const answers = await this.#settle(ns, all, Math.max(...asked.map((one) => one.now)));
      let at = 0;
      return asked.map((one) => answers.slice(at, (at += one.changes.length)));
    });
  }
}
