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
    let top = -Infinity;
    for (const priority of this.waiting.keys()) if (priority > top) top = priority;
    return top;
  }
}

/** What of a unit counts for its lane. */
export interface LaneUnit {
  readonly partition: string;
  readonly priority: number;
  readonly attempt: object | null;
}

const byRank = (a: Lane, b: Lane): number =>
  (a.rank ?? 0) - (b.rank ?? 0) || compareNames(a.partition, b.partition);
const byWaking = (a: Lane, b: Lane): number =>
  (a.hold?.until ?? 0) - (b.hold?.until ?? 0) || compareNames(a.partition, b.partition);

export class Lanes {
  readonly #meta: WorkSpecMeta;
  readonly #lanes = new Map<string, Lane>();
  /** Lanes with available units that are not held. */
  readonly #ring = new SortedList<Lane>(byRank);
  /** Lanes that are held until a time. */
  readonly #asleep = new SortedList<Lane>(byWaking);

  constructor(meta: WorkSpecMeta) {
    this.#meta = meta;
  }

  get(partition: string): Lane | undefined {
    return this.#lanes.get(partition);
  }

  of(partition: string): Lane {
    let lane = this.#lanes.get(partition);
    if (lane === undefined) this.#lanes.set(partition, (lane = new Lane(partition)));
    return lane;
  }

  [Symbol.iterator](): Iterator<Lane> {
    return this.#lanes.values();
  }

  enter(unit: LaneUnit, status: WorkUnitStatus): void {
    this.count(unit, status, 1);
  }

  leave(unit: LaneUnit, status: WorkUnitStatus): void {
    this.count(unit, status, -1);
  }

  /** So many units like this came into a status, or left it. */
  count({ partition, priority, attempt }: LaneUnit, status: WorkUnitStatus, by: number): void {
    if (status === "finished" || status === "failed") return;
    const lane = this.of(partition);
    if (status === "available") {
      const left = (lane.waiting.get(priority) ?? 0) + by;
      if (left === 0) lane.waiting.delete(priority);
      else lane.waiting.set(priority, left);
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

  #takeOut(lane: Lane): void {
    if (lane.rank !== null) {
      this.#ring.remove(lane);
      lane.rank = null;
    }
    if (lane.hold !== null && lane.hold.until > 0) this.#asleep.remove(lane);
  }

  #putIn(lane: Lane): void {
    if (lane.waiting.size > 0) {
      lane.rank = rankOf(this.#meta, lane.top());
      this.#ring.add(lane);
    }
  }

  hold(lane: Lane, hold: Hold): void {
    this.#takeOut(lane);
    lane.hold = hold;
    if (hold.until > 0) this.#asleep.add(lane);
  }

  /** The first in turn after the cursor among those of the lowest rank; or the cursor's own while its turn goes on. */
  next(turn: Turn, now: number): Lane | undefined {
    this.#wake(now);
    const from = turnGoesOn(this.#meta, turn) ? 0 : 1;
    const first = this.#ring.first();
    if (first === undefined) return undefined;
    const after = (lane: Lane): boolean =>
      lane.rank !== first.rank || compareNames(lane.partition, turn.cursor) >= from;
    for (const lane of this.#ring.from(after)) return lane.rank === first.rank ? lane : first;
    return first;
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
