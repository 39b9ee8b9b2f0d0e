/**
 * Where a claim begins to scan. Every claimed unit leaves a dead entry at the head of the index of waiting units, and until a
 * vacuum removes them every claim scans all of them: half a millisecond after 60,000 units, and a hundred times that while a
 * transaction holds an old snapshot. So a daemon remembers how far it has emptied the index, and begins there.
 *
 * That is right as long as no unit became available before that place. A transaction that makes units available records in the
 * row of its server process in `tally` how many, and the first place among them, per second. So a few counters tell whether, and
 * how far back, a claim must begin. In all other cases claims begin at the start: when these records do not reach back far
 * enough, when nothing is found, and every few seconds, for units that another claim had locked and released.
 */
import type { Row, Session } from "./connection.ts";

export interface Place {
  /** The negated priority: places in rising order are the order of claims. */
  place: number;
  key: Buffer;
}

export const start: Place = { place: -Infinity, key: Buffer.alloc(0) };

export const comparePlaces = (a: Place, b: Place): number =>
  a.place - b.place || Buffer.compare(a.key, b.key);

const earlier = (a: Place, b: Place): Place =>
  a.place < b.place || (a.place === b.place && Buffer.compare(a.key, b.key) < 0) ? a : b;

/** A priority as a place. Negative zero becomes zero. */
export const placeOf = (priority: number): number => (priority === 0 ? 0 : -priority);

/** How long a place is trusted before a claim begins at the start again. */
const trustMs = 15_000;

/** A claim that finds nothing begins at the start at most this often. */
const restartMs = 500;

interface Floor {
  at: Place;
  /** Rises when the floor may have been lowered: a claim that began before that must not raise it. */
  version: number;
  total: number;
  shards: Map<number, { arrivals: number; epoch: number }>;
  sureUntil: number;
  /** When a claim last began at the start. */
  started: number;
}

export class Floors {
  readonly #floors = new Map<number, Floor>();

  /**
   * Lowers the floor if units became available before it. `total` is how many units ever became available: the records in `tally`
   * are read only if it has changed. Call it before the claim: units that arrive between the two are found by the next claim.
   */
  async look(session: Session, spec: number, total: number): Promise<void> {
    const known = this.#floors.get(spec);
    if (known?.total === total) return;
    const floor = known ?? this.#fresh(spec);
    const rows = await session.rows(
      `SELECT shard, arrivals, epoch, place, key, before_epoch, before_place, before_key FROM @tally
       WHERE spec = $1 AND arrivals > 0`,
      [spec],
    );
    let at = floor.at;
    let sum = 0;
    for (const row of rows) {
      sum += row[1] as number;
      at = earlier(at, lowest(row, floor.shards.get(row[0] as number)));
      floor.shards.set(row[0] as number, { arrivals: row[1] as number, epoch: row[2] as number });
    }
    floor.total = sum;
    floor.version++;
    floor.at = at;
  }

  #fresh(spec: number): Floor {
    if (this.#floors.size > 10_000) this.#floors.clear();
    const floor = {
      at: start,
      version: 0,
      total: -1,
      shards: new Map<never, never>(),
      sureUntil: 0,
      started: 0,
    };
    this.#floors.set(spec, floor);
    return floor;
  }

  /** Where a claim begins, and a callback for how far it came. */
  begin(spec: number): { at: Place; raise: (to: Place) => void } {
    const floor = this.#floors.get(spec);
    if (floor === undefined) return { at: start, raise: () => undefined };
    const time = performance.now();
    if (time > floor.sureUntil) {
      floor.at = start;
      floor.sureUntil = time + trustMs;
      floor.started = time;
    }
    const { version } = floor;
    return {
      at: floor.at,
      raise: (to) => {
        if (floor.version === version && comparePlaces(to, floor.at) > 0) floor.at = to;
      },
    };
  }

  /** After a claim that found nothing: resets the floor, unless that was done less than `restartMs` ago. Returns whether to claim again. */
  mayRestart(spec: number): boolean {
    const floor = this.#floors.get(spec);
    const time = performance.now();
    if (floor === undefined || time - floor.started < restartMs) return false;
    floor.started = time;
    this.reset(spec);
    return true;
  }

  /** Makes the next claim begin at the start. */
  reset(spec: number): void {
    const floor = this.#floors.get(spec);
    if (floor === undefined) return;
    floor.at = start;
    floor.version++;
  }
}

/** The first place that may have become available since the row of a server process was last read. */
function lowest(row: Row, seen: { arrivals: number; epoch: number } | undefined): Place {
  const [, arrivals, , place, key, beforeEpoch, beforePlace, beforeKey] = row as [
    number,
    number,
    number,
    number | null,
    Buffer | null,
    number,
    number | null,
    Buffer | null,
  ];
  if (seen?.arrivals === arrivals) return { place: Infinity, key: Buffer.alloc(0) };
  const current = place === null || key === null ? start : { place, key };
  // the latest second covers all arrivals ever, or all since the last read
  if (beforeEpoch === 0 || (seen !== undefined && seen.epoch > beforeEpoch)) return current;
  if (seen?.epoch !== beforeEpoch || beforePlace === null || beforeKey === null) return start;
  return earlier(current, { place: beforePlace, key: beforeKey });
}
