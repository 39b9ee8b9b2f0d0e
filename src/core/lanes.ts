/** The lanes of one work spec, for stores that keep them in memory: which lane is served next, and which lanes are held until when. */
import { compareNames } from "./names.ts";
import { holdOf, rankOf, turnGoesOn, type Hold, type LaneState, type Turn } from "./partitions.ts";
import { SortedList } from "./sorted-list.ts";
import type { WorkSpecMeta } from "./work-spec.ts";
import type { WorkUnitStatus } from "./work-unit.ts";

/** How many units wait, and the highest priority among them. */
class Waiting {
  waiting = 0;
  /** The highest priority. When its last unit has left, the next read recomputes it. */
  #top = 0;
  #isTop = true;
  /** Null while all units have the same priority, as they mostly do. */
  #byPriority: Map<number, number> | null = null;

  /** Adds `by` waiting units of this priority; a negative `by` removes them. */
  wait(priority: number, by: number): void {
    if (this.#byPriority === null) {
      if (this.waiting === 0 || priority === this.#top) {
        this.#top = priority;
        this.waiting += by;
        return;
      }
      this.#byPriority = new Map([[this.#top, this.waiting]]);
    }
    this.waiting += by;
    this.#waitAmong(this.#byPriority, priority, by);
  }

  #waitAmong(counts: Map<number, number>, priority: number, by: number): void {
    const left = (counts.get(priority) ?? 0) + by;
    if (left === 0) {
      counts.delete(priority);
      if (priority === this.#top) this.#isTop = false;
    } else {
      counts.set(priority, left);
      if (priority >= this.#top) {
        this.#top = priority;
        this.#isTop = true;
      }
    }
    if (counts.size > 1) return;
    this.#findTop(counts);
    this.#byPriority = null;
  }

  /** Meaningless while no unit waits. */
  get top(): number {
    if (!this.#isTop && this.#byPriority !== null) this.#findTop(this.#byPriority);
    return this.#top;
  }

  #findTop(counts: ReadonlyMap<number, number>): void {
    this.#top = -Infinity;
    for (const priority of counts.keys()) if (priority > this.#top) this.#top = priority;
    this.#isTop = true;
  }
}

export class Lane extends Waiting implements LaneState {
  readonly partition: string;
  running = 0;
  begun = 0;
  begunAvailable = 0;
  full = 0;
  hold: Hold | null = null;
  /** Whether it has available units and is not held. */
  open = false;
  /** Its rank while it is in the ring, else null. */
  rank: number | null = null;

  constructor(partition: string) {
    super();
    this.partition = partition;
  }
}

/** The fields of a unit that its lane depends on. */
export interface LaneUnit {
  readonly partition: string;
  readonly priority: number;
  readonly attempt: object | null;
}

const hasEnded = (status: WorkUnitStatus): boolean => status === "finished" || status === "failed";

const byName = (a: Lane, b: Lane): number => compareNames(a.partition, b.partition);
const byRank = (a: Lane, b: Lane): number => (a.rank ?? 0) - (b.rank ?? 0) || byName(a, b);
const byWaking = (a: Lane, b: Lane): number => (a.hold?.until ?? 0) - (b.hold?.until ?? 0) || byName(a, b);

/** A store may extend `Lane` with its own fields. */
export class Lanes<Kept extends Lane = Lane> {
  readonly #meta: WorkSpecMeta;
  readonly #make: (partition: string) => Kept;
  readonly #lanes = new Map<string, Kept>();
  /**
   * The open lanes, by rank. A lane that closes stays until its turn comes: most are open again by then, and finding a lane's place
   * among 10,000 costs more than the rest of a claim.
   */
  readonly #ring = new SortedList<Kept>(byRank);
  #open = 0;
  /** The lane that `next` returned last: a shortcut for `#from`. */
  #found: Kept | null = null;
  /** Waiting units of all lanes. */
  readonly #waiting = new Waiting();
  /** Lanes in name order, built by the first listing. Most work specs have few lanes and are never listed. */
  #listed: SortedList<Kept> | null = null;
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
    if (lane === undefined) {
      this.#lanes.set(partition, (lane = this.#make(partition)));
      this.#listed?.add(lane);
    }
    return lane;
  }

  /** At most `limit` lanes after `previous`, in name order, that have waiting or begun units. */
  list(previous: string | null, limit: number): Kept[] {
    if (this.#listed === null) {
      this.#listed = new SortedList<Kept>(byName);
      for (const lane of [...this.#lanes.values()].sort(byName)) this.#listed.add(lane);
    }
    const found: Kept[] = [];
    const after = previous === null ? undefined : (lane: Kept) => compareNames(lane.partition, previous) > 0;
    for (const lane of this.#listed.from(after)) {
      if (found.length === limit) break;
      if (lane.waiting > 0 || lane.begun > 0) found.push(lane);
    }
    return found;
  }

  /** The highest priority among the waiting units of all lanes, or null. */
  get top(): number | null {
    return this.#waiting.waiting === 0 ? null : this.#waiting.top;
  }

  /** How many lanes have available units and are not held. */
  get open(): number {
    return this.#open;
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

  /** Adds `by` units like this to a status, or removes them. Never called for finished or failed. */
  count(
    lane: Kept,
    { priority, attempt }: Pick<LaneUnit, "priority" | "attempt">,
    status: WorkUnitStatus,
    by: number,
  ): void {
    if (status === "available") {
      lane.wait(priority, by);
      this.#waiting.wait(priority, by);
    } else if (status === "pending") lane.running += by;
    if (attempt !== null) {
      lane.begun += by;
      if (status === "available") lane.begunAvailable += by;
    }
    this.#setHold(lane, null);
  }

  /** An available unit of the lane becomes pending. `again`: it had begun before. */
  begin(lane: Kept, priority: number, again: boolean): void {
    lane.wait(priority, -1);
    this.#waiting.wait(priority, -1);
    lane.running++;
    if (again) lane.begunAvailable--;
    else lane.begun++;
    this.#setHold(lane, null);
  }

  hold(lane: Kept, hold: Hold): void {
    this.#setHold(lane, hold);
  }

  /** Also moves the lane to its place in the ring: call it after every change to the lane's units. */
  #setHold(lane: Kept, hold: Hold | null): void {
    if (lane.hold !== hold) {
      if (lane.hold !== null && lane.hold.until > 0) this.#asleep.remove(lane);
      lane.hold = hold;
      if (hold !== null && hold.until > 0) this.#asleep.add(lane);
    }
    const open = lane.waiting > 0 && hold === null;
    if (open !== lane.open) {
      lane.open = open;
      this.#open += open ? 1 : -1;
    }
    if (!open) return;
    const rank = rankOf(this.#meta, lane.top);
    if (rank === lane.rank) return;
    this.#takeOut(lane);
    lane.rank = rank;
    this.#ring.add(lane);
  }

  #takeOut(lane: Kept): void {
    if (lane.rank !== null) this.#ring.remove(lane);
    lane.rank = null;
  }

  /** The next lane of the lowest rank after the cursor; or the cursor's own lane while its turn goes on. */
  next(turn: Turn, now: number): Kept | undefined {
    this.#wake(now);
    const first = this.#first();
    if (first === undefined) return undefined;
    const { rank } = first;
    let lane = this.#from(turn, rank);
    while (lane?.rank === rank && !lane.open) {
      const closed = lane;
      lane = this.#ring.next(closed);
      this.#takeOut(closed);
    }
    return (this.#found = lane?.rank === rank ? lane : first);
  }

  /** Whether any lane may hand out a unit. Sets a hold on each lane that it finds may not. */
  mayServe(turn: Turn, now: number): boolean {
    for (;;) {
      const lane = this.next(turn, now);
      if (lane === undefined) return false;
      const hold = holdOf(this.#meta, lane, now);
      if (hold === null) return true;
      this.hold(lane, hold);
    }
  }

  /** At most `count` open lanes in the order of their turns. The order may change once one of them is served. */
  ahead(turn: Turn, now: number, count: number): Kept[] {
    const first = this.next(turn, now);
    if (first === undefined) return [];
    const lanes: Kept[] = [];
    let lane: Kept | undefined = first;
    do {
      if (lane.open) lanes.push(lane);
      lane = this.#ring.next(lane);
      if (lane?.rank !== first.rank) lane = this.#ring.first();
    } while (lanes.length < count && lane !== undefined && lane !== first);
    return lanes;
  }

  /** The first lane that is open. */
  #first(): Kept | undefined {
    for (;;) {
      const lane = this.#ring.first();
      if (lane === undefined || lane.open) return lane;
      this.#takeOut(lane);
    }
  }

  /** The lane after the cursor, open or not: of this rank, the lowest, or else the first of the next rank. */
  #from(turn: Turn, rank: number | null): Kept | undefined {
    const goesOn = turnGoesOn(this.#meta, turn);
    const found = this.#found;
    if (found !== null && found.rank === rank && found.partition === turn.cursor)
      return goesOn ? found : this.#ring.next(found);
    const from = goesOn ? 0 : 1;
    return this.#ring.firstFrom(
      (lane) => lane.rank !== rank || compareNames(lane.partition, turn.cursor) >= from,
    );
  }

  #wake(now: number): void {
    for (let lane = this.#asleep.first(); lane !== undefined; lane = this.#asleep.first()) {
      if ((lane.hold?.until ?? 0) > now) return;
      this.#setHold(lane, null);
    }
  }

  /** When the first timed hold ends; 0 without any. */
  get nextWake(): number {
    return this.#asleep.first()?.hold?.until ?? 0;
  }

  /** Removes lanes with a full bucket and no waiting or begun units; returns their partitions. */
  prune(now: number): string[] {
    const gone: string[] = [];
    for (const lane of this.#lanes.values())
      if (lane.waiting === 0 && lane.begun === 0 && lane.full <= now) {
        this.#setHold(lane, null);
        this.#takeOut(lane);
        this.#lanes.delete(lane.partition);
        this.#listed?.remove(lane);
        gone.push(lane.partition);
      }
    return gone;
  }
}
