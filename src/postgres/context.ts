/** What the operations of a store share: its connections, its ids, and what it remembers of namespaces and work specs. */
import { nameToBytes, workSpecName, type Rule, type WorkSpecRef } from "../core/index.ts";
import type { Database, DatabaseOptions, Session } from "./connection.ts";
import { catchUp, hasOverdue, lookUp, type CatchUpOptions, type LookedUp } from "./expiry.ts";
import type { LivePool } from "./live.ts";
import type { Notifier } from "./notify.ts";
import { UnitIds } from "./unit-ids.ts";
import type { Spec } from "./units.ts";
import { Watching } from "./watching.ts";
import { apply, PostgresSet, type Allocate } from "./working-set.ts";

export interface PostgresParts {
  db: Database;
  /** The same with fewer connections, for operations that may take long. */
  slow: Database;
  /** The same for operations whose times (leases, delays, ends) count from the moment they are written: see `timely`. */
  timely: Database;
  live: LivePool;
  options: DatabaseOptions;
  notifier: Notifier;
  /** False: every operation uses the rules of core, one unit at a time. For tests; see `fast-paths.ts`. */
  fastPaths: boolean;
  /** Closes the pool, if the store opened it. */
  end: () => Promise<void>;
}

/** Work specs that are remembered. */
const maxSeen = 1000;

export class Context {
  readonly parts: PostgresParts;
  readonly db: Database;
  readonly slow: Database;
  readonly timely: Database;
  readonly fastPaths: boolean;
  readonly watching: Watching;
  /** Whether everything is part of the caller's own transaction. */
  readonly borrowed: boolean;
  readonly #ids: UnitIds;
  /** The most queues of a unit that ended recently, by namespace: the next settle prepares that many messages per unit. */
  readonly queues = new Map<string, number>();
  /** Namespaces with work specs whose units are claimed by partition. */
  readonly laned = new Set<string>();
  /** Namespaces with work specs that have breakers, as of the last look. */
  readonly counted = new Set<string>();
  /** Work specs as they were last read, by namespace and name. */
  readonly #seen = new Map<string, LookedUp>();

  /** `owner`: the context of the store that lends its ids and watches to a store on the caller's own connection. */
  constructor(parts: PostgresParts, owner?: Context) {
    this.parts = parts;
    this.db = parts.db;
    this.slow = parts.slow;
    this.timely = parts.timely;
    this.fastPaths = parts.fastPaths;
    this.borrowed = owner !== undefined;
    this.#ids = owner === undefined ? new UnitIds(parts.db) : owner.#ids;
    this.watching = owner?.watching ?? new Watching(parts.db, parts.live, parts.notifier);
  }

  readonly allocate: Allocate = (count, session) => this.#ids.take(count, session);

  /** Wakes up waiting callers in all daemons; in the caller's own transaction, when it commits. */
  async changed(ns: string): Promise<void> {
    if (this.borrowed) await this.parts.notifier.changedWithin(this.db, ns);
    else this.parts.notifier.changed(ns);
  }

  /** Catches up on overdue work, in one namespace or in all. */
  async catchUpAll(ns: string | null, now: number): Promise<void> {
    const past = await this.slow.rows(
      `SELECT s.id FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
       WHERE NOT n.dead AND ($1::bytea IS NULL OR n.name = $1::bytea) AND ${hasOverdue("s", "$2::bigint")}`,
      [ns === null ? null : nameToBytes(ns), now],
    );
    for (const [id] of past as [number][]) await this.catchUp(this.slow, id, now);
  }

  async catchUp(db: Database, spec: number, now: number): Promise<void> {
    await catchUp(db, spec, now, Infinity, this.ways);
  }

  get ways(): CatchUpOptions {
    return { fast: this.fastPaths, allocate: this.allocate };
  }

  /**
   * Finds the work spec, and catches up on its overdue work. Throws if the spec does not exist. The caller's own transaction does
   * not catch up: it would keep the overdue units locked until it ends.
   */
  async lookUp(db: Database, ns: string, ref: WorkSpecRef, now: number): Promise<Spec> {
    const found = await lookUp(db, ns, ref, now, this.borrowed ? null : this.ways);
    if (this.#seen.size > maxSeen) this.#seen.clear();
    this.#seen.set(specKey(ns, ref), found);
    return found.spec;
  }

  /** One transaction in which the rules of core decide. */
  async apply<Answer>(
    db: Database,
    now: number,
    rule: (set: PostgresSet, tx: Session) => Rule<Answer>,
    options: { repeatable?: boolean; large?: boolean } = {},
  ): Promise<Answer> {
    const { answer, woken, told } = await db.transaction(async (tx) => {
      const set = new PostgresSet(tx, now, this.allocate);
      return { answer: await apply(set, rule(set, tx)), woken: set.woken, told: set.told };
    }, options);
    for (const [namespace, queues] of told)
      this.queues.set(namespace, Math.max(queues, this.queues.get(namespace) ?? 0));
    for (const { namespace, unit } of woken)
      if (this.watching.isWatched(namespace)) this.watching.ended(namespace, [unit]);
    return answer;
  }

  /** The work spec as it was last read. */
  lastSeen(ns: string, ref: WorkSpecRef): LookedUp | undefined {
    const found = this.#seen.get(specKey(ns, ref));
    return found === undefined || (typeof ref !== "string" && ref.id !== found.spec.id) ? undefined : found;
  }

  forget(ns: string, ref: WorkSpecRef): void {
    this.#seen.delete(specKey(ns, ref));
  }
}

/** Names may have any characters: the length marks the end of the namespace. */
const specKey = (ns: string, ref: WorkSpecRef): string => `${ns.length} ${ns}${workSpecName(ref)}`;
