/** The lanes of one work spec, for stores that keep them in memory: who is served next, and who is passed over until when. */
import { compareNames } from "./names.ts";
import { rankOf, turnGoesOn, type Hold, type LaneState, type Turn } from "./partitions.ts";
import { SortedList } from "./sorted-list.ts";
import type { WorkSpecMeta } from "./work-spec.ts";
import type { WorkUnitStatus } from "./work-unit.ts";

export class Lane implements LaneState {
  readonly partition: string;
  running = 0;
  begun = 0;
  begunAvailable = 0;
  full = 0;
  /** How many units are available, by priority: few numbers, mostly one. */
  readonly waiting = new Map<number, number>();
  hold: Hold | null = null;
  /** Its rank while it stands in the ring. */
  rank: number | null = null;

  constructor(partition: string) {
    this.partition = partition;
  }

  /** The highest priority that waits. */
  top(): number {
    return highest(this.waiting);
  }
}

function highest(waiting: ReadonlyMap<number, number>): number {
  let top = -Infinity;
  for (const priority of waiting.keys()) if (priority > top) top = priority;
  return top;
}

function add(waiting: Map<number, number>, priority: number, by: number): void {
  const left = (waiting.get(priority) ?? 0) + by;
  if (left === 0) waiting.delete(priority);
  else waiting.set(priority, left);
}

/** What of a unit counts for its lane. */
export interface LaneUnit {
  readonly partition: string;
  readonly priority: number;
  readonly attempt: object | null;
}

const hasEnded = (status: WorkUnitStatus): boolean => status === "finished" || status === "failed";

const byRank = (a: Lane, b: Lane): number =>
  (a.rank ?? 0) - (b.rank ?? 0) || compareNames(a.partition, b.partition);
const byWaking = (a: Lane, b: Lane): number =>
  (a.hold?.until ?? 0) - (b.hold?.until ?? 0) || compareNames(a.partition, b.partition);

/** A store may keep more in its lanes. */
export class Lanes<Kept extends Lane = Lane> {
  readonly #meta: WorkSpecMeta;
  readonly #make: (partition: string) => Kept;
  readonly #lanes = new Map<string, Kept>();
  /** Lanes with available units that are not held. */
  readonly #ring = new SortedList<Kept>(byRank);
  /** How many units are available in all lanes, by priority. */
  readonly #waiting = new Map<number, number>();
  /** Lanes that are held until a time. */
  readonly #asleep = new SortedList<Kept>(byWaking);

  constructor(meta: WorkSpecMeta, make: (partition: string) => Kept) {
    this.#meta = meta;
    this.#make = make;
  }

  get(partition: string): Kept | undefined {
    return this.#lanes.get(partition);
  }

  of(partition: string): Kept {
    let lane = this.#lanes.get(partition);
    if (lane === undefined) this.#lanes.set(partition, (lane = this.#make(partition)));
    return lane;
  }

  /** The highest priority that waits in any lane, or null. */
  get top(): number | null {
    return this.#waiting.size === 0 ? null : highest(this.#waiting);
  }

  /** How many lanes have available units and are not held. */
  get open(): number {
    return this.#ring.size;
  }

  [Symbol.iterator](): Iterator<Kept> {
    return this.#lanes.values();
  }

  enter(unit: LaneUnit, status: WorkUnitStatus): void {
    if (hasEnded(status)) return;
    this.count(this.of(unit.partition), unit, status, 1);
  }

  leave(unit: LaneUnit, status: WorkUnitStatus): void {
    if (hasEnded(status)) return;
    this.count(this.of(unit.partition), unit, status, -1);
  }

  /** So many units like this came into a status, or left it; not finished, not failed. */
  count(
    lane: Kept,
    { priority, attempt }: Pick<LaneUnit, "priority" | "attempt">,
    status: WorkUnitStatus,
    by: number,
  ): void {
    if (status === "available") {
      add(lane.waiting, priority, by);
      add(this.#waiting, priority, by);
    } else if (status === "pending") lane.running += by;
    if (attempt !== null) {
      lane.begun += by;
      if (status === "available") lane.begunAvailable += by;
    }
    // most units come and go while their lane stays where it is: finding its place in the ring is the larger part of the cost
    const rank = lane.waiting.size > 0 ? rankOf(this.#meta, lane.top()) : null;
    if (lane.hold === null && rank === lane.rank) return;
    this.#takeOut(lane);
    lane.hold = null;
    this.#putIn(lane);
  }

  #takeOut(lane: Kept): void {
    if (lane.rank !== null) {
      this.#ring.remove(lane);
      lane.rank = null;
    }
    if (lane.hold !== null && lane.hold.until > 0) this.#asleep.remove(lane);
  }

  #putIn(lane: Kept): void {
    if (lane.waiting.size > 0) {
      lane.rank = rankOf(this.#meta, lane.top());
      this.#ring.add(lane);
    }
  }

  hold(lane: Kept, hold: Hold): void {
    this.#takeOut(lane);
    lane.hold = hold;
    if (hold.until > 0) this.#asleep.add(lane);
  }

  /** The first in turn after the cursor among those of the lowest rank; or the cursor's own while its turn goes on. */
  next(turn: Turn, now: number): Kept | undefined {
    this.#wake(now);
    const from = turnGoesOn(this.#meta, turn) ? 0 : 1;
    const first = this.#ring.first();
    if (first === undefined) return undefined;
    const after = (lane: Lane): boolean =>
      lane.rank !== first.rank || compareNames(lane.partition, turn.cursor) >= from;
    const next = this.#ring.firstFrom(after);
    return next?.rank === first.rank ? next : first;
  }

  #wake(now: number): void {
    for (let lane = this.#asleep.first(); lane !== undefined; lane = this.#asleep.first()) {
      if ((lane.hold?.until ?? 0) > now) return;
      this.#takeOut(lane);
      lane.hold = null;
      this.#putIn(lane);
    }
  }

  /** When the first lane that is held is no longer; 0 when none is held until a time. */
  get nextWake(): number {
    return this.#asleep.first()?.hold?.until ?? 0;
  }

  /** Forgets lanes that are as good as new; answers which. */
  prune(now: number): string[] {
    const gone: string[] = [];
    for (const lane of this.#lanes.values())
      if (lane.waiting.size === 0 && lane.begun === 0 && lane.full <= now) {
        this.#takeOut(lane);
        this.#lanes.delete(lane.partition);
        gone.push(lane.partition);
      }
    return gone;
  }
}
