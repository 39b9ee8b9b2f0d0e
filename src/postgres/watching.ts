/**
 * Wakes up callers in this daemon that wait for work, for units to end or for messages, whichever daemon causes it.
 *
 * Other daemons announce their changes, by namespace. An announcement is a hint: it is not sent if the daemon is killed first,
 * and not received while the listening connection is down or silent. So while callers wait, one statement a second reads the
 * state of all watched namespaces, as one short mark each, and a mark that differs from the last one counts as an announcement.
 * Without waiting callers nothing is read.
 *
 * Announcements do not name ended units: a daemon that settles pays nothing for callers that wait elsewhere. When a namespace
 * changes, a daemon with callers that wait for ends or messages in it asks for all of them at once, and spends at most a fifth of
 * its time on this.
 */
import { nameToBytes, Watches } from "../core/index.ts";
import type { Row, Session } from "./connection.ts";
import { orLate, type LivePool } from "./live.ts";
import type { Notifier } from "./notify.ts";
import { byteas, int8s } from "./values.ts";

/** Between two rounds over all watched namespaces. With the claim, this keeps the promise that work reaches an idle worker within 2 s. */
const roundMs = 1000;
/** An answer that takes longer than this, and than three times the last one, is asked for on another connection. */
const answerMs = 300;
/** The most units or queues in one statement. */
const maxAtOnce = 5000;
/** The least and the most time between two checks of a namespace. */
const shortestGapMs = 5;
const longestGapMs = 1000;

interface Space {
  watches: Watches;
  /** The mark of the namespace when it was last read; null if the next round must count as a change. */
  mark: string | null;
  /** A check is in progress or scheduled. */
  busy: boolean;
  /** Something changed since the check began. */
  again: boolean;
  /** No check before this time, by the machine's monotonic clock. */
  notBefore: number;
}

export class Watching {
  readonly #session: Session;
  readonly #pool: LivePool;
  readonly #notifier: Notifier;
  readonly #spaces = new Map<string, Space>();
  #round: NodeJS.Timeout | null = null;
  /** How long the last answer took: with thousands of work specs, it takes long. */
  #usualMs = 0;
  #closed = false;

  constructor(session: Session, pool: LivePool, notifier: Notifier) {
    this.#session = session;
    this.#pool = pool;
    this.#notifier = notifier;
  }

  watchWork(ns: string, wake: () => void): () => void {
    return this.#keep(ns, (watches) => watches.watchWork(ns, wake));
  }

  watchEnds(ns: string, units: readonly number[], wake: (unit: number) => void): () => void {
    return this.#keep(ns, (watches) => watches.watchEnds(units, wake));
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    return this.#keep(ns, (watches) => watches.watchQueue(ns, queue, wake));
  }

  #keep(ns: string, add: (watches: Watches) => () => void): () => void {
    this.#notifier.listen(this.#heard);
    let space = this.#spaces.get(ns);
    if (space === undefined) {
      space = { watches: new Watches(), mark: null, busy: false, again: false, notBefore: 0 };
      this.#spaces.set(ns, space);
    }
    const { watches } = space;
    const stop = add(watches);
    this.#round ??= this.#later(roundMs);
    return () => {
      stop();
      if (watches.isEmpty && this.#spaces.get(ns)?.watches === watches) this.#spaces.delete(ns);
    };
  }

  readonly #heard = (changed: string | null): void => {
    for (const ns of changed === null ? [...this.#spaces.keys()] : [changed]) this.changed(ns);
  };

  #later(ms: number): NodeJS.Timeout {
    return setTimeout(() => void this.#look(), ms).unref();
  }

  /** One round: finds the namespaces that changed without an announcement. */
  async #look(): Promise<void> {
    const begin = performance.now();
    const names = [...this.#spaces.keys()];
    try {
      const marks = names.length === 0 ? [] : await this.#marks(names);
      names.forEach((ns, i) => {
        const space = this.#spaces.get(ns);
        const mark = marks[i] ?? null;
        if (space === undefined || (mark !== null && space.mark === mark)) return;
        space.mark = mark;
        this.changed(ns);
      });
      await this.#pool.endSilent(this.#session);
    } catch {
      // if the database does not answer, the next round asks again in a second
    }
    const spent = performance.now() - begin;
    const idle = this.#closed || this.#spaces.size === 0;
    this.#round = idle ? null : this.#later(Math.min(roundMs, Math.max(roundMs - spent, 4 * spent)));
  }

  /** On the listening connection, which also checks it; if there is none or it is late, on any other. */
  async #marks(names: readonly string[]): Promise<string[]> {
    const values = [byteas(names.map(nameToBytes))];
    const ask = (): Promise<Row[]> => this.#session.rows(marksSql, values);
    let begin = performance.now();
    const patienceMs = Math.min(roundMs, Math.max(answerMs, 3 * this.#usualMs));
    let rows = await orLate(this.#notifier.ask(marksSql, values) ?? ask(), patienceMs, null);
    if (rows === null) {
      // if one connection failed silently, others may have, too
      this.#pool.suspect();
      begin = performance.now();
      rows = await ask();
    }
    this.#usualMs = performance.now() - begin;
    return rows.map(([mark]) => mark as string);
  }

  isWatched(ns: string): boolean {
    return this.#spaces.has(ns);
  }

  /** This daemon itself ended these units: wakes up their callers without a query. */
  ended(ns: string, units: readonly number[]): void {
    const space = this.#spaces.get(ns);
    if (space?.watches.hasUnits === true) for (const unit of units) space.watches.ended(unit);
  }

  /** Something happened in a namespace. */
  changed(ns: string): void {
    const space = this.#spaces.get(ns);
    if (space === undefined) return;
    space.watches.changed(ns);
    if (!space.watches.hasUnits && !space.watches.hasQueues) return;
    if (space.busy) space.again = true;
    else this.#plan(ns, space);
  }

  #plan(ns: string, space: Space): void {
    space.busy = true;
    space.again = false;
    const wait = Math.max(0, space.notBefore - performance.now());
    if (wait === 0) setImmediate(() => void this.#lookAt(ns, space));
    else setTimeout(() => void this.#lookAt(ns, space), wait).unref();
  }

  async #lookAt(ns: string, space: Space): Promise<void> {
    const begin = performance.now();
    space.again = false;
    try {
      if (!this.#closed) await this.#ask(ns, space.watches);
    } catch {
      // the change was not checked: the next round counts as a change
      space.mark = null;
    }
    const spent = performance.now() - begin;
    space.notBefore = performance.now() + Math.min(longestGapMs, Math.max(shortestGapMs, 4 * spent));
    space.busy = false;
    if (isDue(space) && !this.#closed && this.#spaces.get(ns) === space) this.#plan(ns, space);
  }

  async #ask(ns: string, watches: Watches): Promise<void> {
    const units = watches.units();
    for (let from = 0; from < units.length; from += maxAtOnce) {
      const some = units.slice(from, from + maxAtOnce);
      const rows = await this.#session.rows(endedSql, [int8s(some)]);
      for (const [unit] of rows as [number][]) watches.ended(unit);
    }
    const queues = watches.queues().map(({ queue }) => queue);
    for (let from = 0; from < queues.length; from += maxAtOnce) {
      const some = queues.slice(from, from + maxAtOnce);
      const rows = await this.#session.rows(cameSql, [nameToBytes(ns), byteas(some.map(nameToBytes))]);
      for (const [at] of rows as [number][]) watches.appended(ns, some[at - 1] ?? "");
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#round !== null) clearTimeout(this.#round);
    this.#spaces.clear();
  }
}

/** A stable function, which an index condition may use. */
const serverNow = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/** `again` may have been set during the check. */
const isDue = ({ again }: Space): boolean => again;

/**
 * The mark of each namespace: a short text that differs after every change that may matter to a waiting caller. `xmin` is the
 * transaction that wrote a row, so it shows every change of a namespace, a spec or its counts. The rest shows what becomes due by
 * time alone, or by a delay or lease that was moved without changing a count.
 */
export const marksSql = `
  SELECT hashtextextended(concat(n.xmin, (
    SELECT string_agg(concat_ws(' ', s.id, s.xmin,
      (SELECT string_agg(concat(t.shard, ':', t.xmin), ' ' ORDER BY t.shard) FROM @tally t WHERE t.spec = s.id),
      (SELECT concat('lease ', l.expiration) FROM @lease l WHERE l.spec = s.id AND l.expiration <= ${serverNow}
         ORDER BY l.expiration LIMIT 1),
      (SELECT concat('delay ', w.at) FROM @waiting w WHERE w.spec = s.id AND w.status = 1 AND w.at <= ${serverNow}
         ORDER BY w.at LIMIT 1)), ',' ORDER BY s.id)
    FROM @spec s WHERE s.namespace = n.id AND NOT s.dead)), 0)::text
  FROM unnest($1::bytea[]) WITH ORDINALITY AS g (name, at) LEFT JOIN @namespace n ON n.name = g.name AND NOT n.dead
  ORDER BY g.at`;

const endedSql = `
  SELECT g.id FROM unnest($1::bigint[]) AS g (id)
    LEFT JOIN LATERAL (SELECT u.status, u.spec FROM @unit u WHERE u.id = g.id LIMIT 1) u ON true
    LEFT JOIN @spec s ON s.id = u.spec
  WHERE u.status IS NULL OR u.status >= 4 OR s.dead`;

const cameSql = `
  SELECT g.at FROM @namespace n, unnest($2::bytea[]) WITH ORDINALITY AS g (queue, at)
  WHERE n.name = $1 AND NOT n.dead AND EXISTS (
    SELECT 1 FROM @message m WHERE m.namespace = n.id AND m.queue = g.queue AND m.request IS NULL)`;
