/**
 * Who waits here for units to end or for messages, wherever they end. Nobody is told of ends: a daemon that settles pays
 * nothing for those who wait elsewhere. Every change is announced anyway, by namespace and a few times a second, for those who
 * wait for work; a daemon in which somebody waits takes that as a hint and asks for all of them at once, in one statement,
 * and never spends more than a fifth of its time so.
 */
import { nameToBytes, Watches } from "../core/index.ts";
import type { Session } from "./connection.ts";
import { byteas, int8s } from "./values.ts";

/** Asked about in one statement. */
const mostAtOnce = 5000;
/** Between two looks at least, and at most. */
const shortestGapMs = 5;
const longestGapMs = 1000;

interface Space {
  watches: Watches;
  /** A look is under way or planned. */
  busy: boolean;
  /** Something changed since the look began. */
  again: boolean;
  /** Not before this time, by the machine's steady clock. */
  notBefore: number;
}

export class Watching {
  readonly #session: Session;
  readonly #spaces = new Map<string, Space>();
  readonly #listen: (listener: (ns: string) => void) => () => void;
  #stopListening: (() => void) | null = null;
  #closed = false;
  /** Looks so far, for those who want to know what waiting costs. */
  looks = 0;

  constructor(session: Session, listen: (listener: (ns: string) => void) => () => void) {
    this.#session = session;
    this.#listen = listen;
  }

  watchEnds(ns: string, units: readonly number[], wake: (unit: number) => void): () => void {
    return this.#keep(ns, (watches) => watches.watchEnds(units, wake));
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    return this.#keep(ns, (watches) => watches.watchQueue(ns, queue, wake));
  }

  #keep(ns: string, add: (watches: Watches) => () => void): () => void {
    this.#stopListening ??= this.#listen((changed) => this.changed(changed));
    let space = this.#spaces.get(ns);
    if (space === undefined) {
      space = { watches: new Watches(), busy: false, again: false, notBefore: 0 };
      this.#spaces.set(ns, space);
    }
    const { watches } = space;
    const stop = add(watches);
    return () => {
      stop();
      if (!watches.hasUnits && !watches.hasQueues) this.#spaces.delete(ns);
    };
  }

  isWatched(ns: string): boolean {
    return this.#spaces.has(ns);
  }

  /** This daemon itself ended a unit: who waits for it here need not be asked for. */
  ended(ns: string, units: readonly number[]): void {
    const space = this.#spaces.get(ns);
    if (space?.watches.hasUnits === true) for (const unit of units) space.watches.ended(unit);
  }

  /** Something happened in a namespace. */
  changed(ns: string): void {
    const space = this.#spaces.get(ns);
    if (space === undefined) return;
    if (space.busy) space.again = true;
    else this.#plan(ns, space);
  }

  #plan(ns: string, space: Space): void {
    space.busy = true;
    space.again = false;
    const wait = Math.max(0, space.notBefore - performance.now());
    if (wait === 0) setImmediate(() => void this.#look(ns, space));
    else setTimeout(() => void this.#look(ns, space), wait).unref();
  }

  async #look(ns: string, space: Space): Promise<void> {
    const begin = performance.now();
    space.again = false;
    try {
      if (!this.#closed) await this.#ask(ns, space.watches);
    } catch {
      // a database that does not answer now: those who wait look for themselves now and then
    }
    const spent = performance.now() - begin;
    space.notBefore = performance.now() + Math.min(longestGapMs, Math.max(shortestGapMs, 4 * spent));
    space.busy = false;
    if (isDue(space) && !this.#closed && this.#spaces.get(ns) === space) this.#plan(ns, space);
  }

  async #ask(ns: string, watches: Watches): Promise<void> {
    const units = watches.units();
    for (let from = 0; from < units.length; from += mostAtOnce) {
      this.looks++;
      const some = units.slice(from, from + mostAtOnce);
      const rows = await this.#session.rows(endedSql, [int8s(some)]);
      for (const [unit] of rows as [number][]) watches.ended(unit);
    }
    const queues = watches.queues().map(({ queue }) => queue);
    for (let from = 0; from < queues.length; from += mostAtOnce) {
      this.looks++;
      const some = queues.slice(from, from + mostAtOnce);
      const rows = await this.#session.rows(cameSql, [nameToBytes(ns), byteas(some.map(nameToBytes))]);
      for (const [at] of rows as [number][]) watches.appended(ns, some[at - 1] ?? "");
    }
  }

  close(): void {
    this.#closed = true;
    this.#stopListening?.();
    this.#spaces.clear();
  }
}

/** It may have become so during the look. */
const isDue = ({ again }: Space): boolean => again;

export const endedSql = `
  SELECT g.id FROM unnest($1::bigint[]) AS g (id)
    LEFT JOIN LATERAL (SELECT u.status, u.spec FROM @unit u WHERE u.id = g.id LIMIT 1) u ON true
    LEFT JOIN @spec s ON s.id = u.spec
  WHERE u.status IS NULL OR u.status >= 4 OR s.dead`;

export const cameSql = `
  SELECT g.at FROM @namespace n, unnest($2::bytea[]) WITH ORDINALITY AS g (queue, at)
  WHERE n.name = $1 AND NOT n.dead AND EXISTS (
    SELECT 1 FROM @message m WHERE m.namespace = n.id AND m.queue = g.queue AND m.request IS NULL)`;
