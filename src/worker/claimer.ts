/**
 * One claimer for all slots of a process. It requests work from the coordinator, holds claimed runs until a slot is free, and hands
 * them out.
 *
 * Guarantee: while a slot is free and a runtime has room, a request for work of that runtime is pending. Each runtime has its own
 * requests, so that none waits for another. A request waits at the coordinator until work arrives: an idle process has one open
 * request for each runtime, however many slots it has.
 *
 * While claims are short, the claimer requests the next one before the slots run dry. Runs that have not begun within `holdMs` of
 * their claim are released, so that other workers can claim the units.
 */
import type {
  AttemptRequest,
  AttemptRow,
  Clock,
  Coordinate,
  Random,
  ScheduleRequest,
} from "../core/index.ts";
import type { Alarm, Alarms } from "./alarms.ts";
import { askOf } from "./asks.ts";
import { ClaimSizes, paceOf, type Pace } from "./claim-size.ts";
import type { Runtime } from "./runtime.ts";
import type { KnownSpec, Specs } from "./specs.ts";
import type { Outage } from "./outage.ts";

/** What a slot runs in one call: one unit, or all units of a bulk task's claim. */
export interface Runnable {
  /** Releases its attempts; they do not count as tries. Never rejects. */
  release(): Promise<void>;
}

/** The attempts of one claim, ready to run. */
export interface Opened<Run extends Runnable> {
  readonly runs: readonly Run[];
  readonly runtime: Runtime;
  /** Bulk task: the smallest number of units that claims of this work spec shrink to. Null when each unit has its own run. */
  readonly atLeast: number | null;
}

export interface ClaimSetting<Run extends Runnable> {
  readonly verbs: Pick<Coordinate, "requestAttempts">;
  readonly ns: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly alarms: Alarms;
  readonly outage: Outage;
  readonly specs: Pick<Specs, "get">;
  /** The fields of a request besides worker, number, runtimes and tasks. */
  readonly request: Pick<AttemptRequest, "lifetimeMs" | "workSpecs" | "availableGb" | "labels">;
  readonly runtimes: readonly Runtime[];
  readonly maxAttempts: number;
  /** How long one request waits for work. */
  readonly waitMs: number;
  /** The shortest interval between two requests that find nothing, where the coordinator does not support waiting. */
  readonly pollMs: number;
  /** Requests the next claim while a short one runs. */
  readonly ahead: boolean;
  /** Claimed runs that have not begun are released after this time, or after half of their lease if that is shorter. */
  readonly holdMs: number;
  /** Names of the slots that may take work now. Claims are made in these names. */
  readonly working: () => readonly string[];
  /** Whether too many settlements are not stored yet. No work is requested while this is true. */
  readonly isBehind: () => boolean;
  /** Called when an answer with attempts arrives. `sent` is absent if an earlier request, with the same id, may have claimed them. */
  readonly onClaimed: (rows: readonly AttemptRow[], sent?: number) => void;
  /** Finds the task and prepares the runs. Must call `settled` when the last attempt is settled. */
  readonly open: (
    rows: readonly AttemptRow[],
    spec: KnownSpec,
    settled: () => void,
  ) => Promise<Opened<Run>> | Opened<Run>;
  /** Releases attempts that cannot be run. Never rejects. */
  readonly release: (rows: readonly AttemptRow[]) => Promise<void>;
}

/** A waiting request is aborted when no slot has been free for this long. */
const noRoomMs = 100;
/** The most units that are requested ahead in small claims while slots wait for them. */
const maxSmallAhead = 8;
/** Claims are requested ahead only while a claim takes at most `aimMs` and at most this part of its lease. */
const shortLease = 1 / 20;

/**
 * The most runs that begin in one turn of the event loop. Without this limit, synchronous tasks over a store in the same process
 * would block the event loop: no settlement would be sent and no signal handled.
 */
const maxBegunInTurn = 256;
/** When tasks have run this long in one turn, no more begin and nothing is claimed until timers and settlements had their turn. */
const maxTurnMs = 10;
/** The clock is read before at most so many runs of a turn, because reading it costs 0.1 µs and a run that does nothing 4 µs. */
const lookEvery = 16;

/** A run that a slot has taken. The slot calls `ended` when it has ended. */
export interface Taken<Run> {
  readonly run: Run;
  readonly ended: () => void;
  /** How many runs of this runtime a slot may have in progress. */
  readonly runsPerSlot: number;
}

/** A claim, tracked until all of its runs have begun. */
interface ClaimProgress {
  readonly source: Source<unknown>;
  readonly spec: string;
  readonly count: number;
  readonly claimedAt: number;
  /** When its first run began; 0 until then. */
  beganAt: number;
  /** Runs that have not begun. */
  left: number;
  hold: Alarm | null;
}

interface Ready<Run> {
  readonly run: Run;
  readonly claim: ClaimProgress;
  /** The number of its claim: the earliest claim runs first. */
  readonly order: number;
}

/** A runtime with its ready runs, its requests and the statistics of its claims. */
interface Source<Run> {
  readonly runtime: Runtime;
  readonly schedule: ScheduleRequest;
  readonly sizes: ClaimSizes;
  readonly maxAttempts: number;
  /** Claimed runs that have not begun, in the order of their claims. */
  ready: Ready<Run>[];
  running: number;
  /** Number of pending requests. */
  asking: number;
  /** Aborts the request that waits for work; null when there is none. */
  poll: AbortController | null;
  /** The slot that this request claims for. */
  claimant: string;
  /** The last claim got as many attempts as it asked for: there is probably more work. */
  plenty: boolean;
  /** How many claims are requested ahead. Grows while slots wait for small claims, whose requests take longer than their units run. */
  depth: number;
  /** Number of claims since the last one that a slot had to wait for. */
  inTime: number;
  /** The number of runs of the last claim, and how long the last settled claim took until all were settled. */
  lastRuns: number;
  lastMs: number;
  /** Where the coordinator does not support waiting: no request before this time. */
  notBefore: number;
  /** Called when one of its runs has ended. Shared by all `Taken` of this runtime. */
  readonly ended: () => void;
  /** Ids of requests whose answer was lost and that may have claimed work. The next request repeats one of these ids. */
  readonly unanswered: string[];
}

interface Idle<Run> {
  readonly slot: string;
  /** It has runs in progress and would take more ready ones. Nothing is claimed for a busy slot. */
  busy: boolean;
  readonly give: (taken: Taken<Run> | null) => void;
}

export class Claimer<Run extends Runnable> {
  readonly #setting: ClaimSetting<Run>;
  readonly #pace: Pace;
  readonly #sources: readonly Source<Run>[];
  readonly #idle: Idle<Run>[] = [];
  /** How many of the idle slots are not busy. */
  #waiting = 0;
  readonly #asks = new Set<Promise<void>>();
  readonly #nonce: string;
  #requests = 0;
  #claims = 0;
  /** Runs that slots were given in this turn of the event loop, and those that began. */
  #begunInTurn = 0;
  #startedInTurn = 0;
  /** The clock is read when so many runs have started. */
  #lookAt = 1;
  #turnIsOver = false;
  #isTurnOpen = false;
  /** Runs that were taken and begin in the next turn. */
  readonly #deferred: (() => void)[] = [];
  /** When the first run of this turn began. */
  #turnBeganAt = 0;
  #turn = 0;
  #noRoom: Alarm | null = null;
  #stopped = false;

  constructor(setting: ClaimSetting<Run>) {
    this.#setting = setting;
    const pace = (this.#pace = paceOf(setting.holdMs));
    const draw = (): string => setting.random().toString(36).slice(2);
    this.#nonce = draw() + draw();
    this.#sources = setting.runtimes.map((runtime) => {
      const maxAttempts = Math.min(setting.maxAttempts, runtime.maxAttempts ?? setting.maxAttempts);
      const source: Source<Run> = {
        runtime,
        schedule: askOf(runtime),
        maxAttempts,
        sizes: new ClaimSizes(maxAttempts, pace, runtime.firstAttempts ?? runtime.maxAttempts),
        ready: [],
        running: 0,
        asking: 0,
        poll: null,
        claimant: "",
        plenty: false,
        depth: 1,
        inTime: 0,
        lastRuns: 1,
        lastMs: Infinity,
        notBefore: 0,
        unanswered: [],
        ended: () => {
          source.running--;
          this.#pump();
        },
      };
      return source;
    });
  }

  /** Whether a claimed run waits for a slot. */
  get hasReady(): boolean {
    return this.#sources.some(({ ready }) => ready.length > 0);
  }

  /** Takes a run that is ready now; null when there is none. */
  take(): Taken<Run> | null {
    if (this.#isTurnOver()) return null;
    const taken = this.#takeReady();
    if (taken === null) return null;
    this.#startedInTurn++;
    this.#request();
    return taken;
  }

  /**
   * Resolves with the next run for a slot, which may have other runs in progress; null when the slot is withdrawn or the claimer has
   * stopped. Takes no abort signal, because it is called many times in one turn of the event loop.
   */
  next(slot: string, busy = false): Promise<Taken<Run> | null> {
    return new Promise((give) => {
      if (this.#stopped) return give(null);
      this.#idle.push({ slot, give, busy });
      if (!busy) this.#waiting++;
      this.#pump();
    });
  }

  /** Marks a waiting slot that was busy as not busy. */
  isFree(slot: string): void {
    const idle = this.#idle.find((one) => one.slot === slot);
    if (idle?.busy !== true) return;
    idle.busy = false;
    this.#waiting++;
  }

  /** Ends the slot's wait for a run: its `next` resolves with null. */
  withdraw(slot: string): void {
    const at = this.#idle.findIndex((idle) => idle.slot === slot);
    if (at < 0) return;
    for (const { give, busy } of this.#idle.splice(at, 1)) {
      if (!busy) this.#waiting--;
      give(null);
    }
    this.#pump();
  }

  /** Called when the set of working slots has changed. With none left, releases the ready runs and aborts the waiting requests. */
  slotsChanged(): void {
    const working = this.#setting.working();
    if (working.length === 0) return this.#letGo();
    for (const { poll, claimant } of this.#sources)
      if (!working.includes(claimant)) poll?.abort("the slot takes no more work");
    this.#pump();
  }

  /** Stops requesting work and releases runs that have not begun. */
  stop(): void {
    this.#stopped = true;
    this.#waiting = 0;
    for (const { give } of this.#idle.splice(0)) give(null);
    this.#noRoom?.cancel();
    this.#letGo();
  }

  /** Resolves when no request is pending. */
  async drained(): Promise<void> {
    while (this.#asks.size > 0) await Promise.all(this.#asks);
  }

  /** Reads the flag again after an `await`, where the compiler would assume its earlier value. */
  #hasStopped(): boolean {
    return this.#stopped;
  }

  #letGo(): void {
    for (const source of this.#sources) {
      source.poll?.abort("no slot takes work");
      this.#giveBack(source, () => true);
    }
  }

  /** Hands out ready runs, then requests more work. */
  #pump(): void {
    while (this.#idle.length > 0) {
      const taken = this.#takeReady();
      if (taken === null) break;
      const idle = this.#idle.shift();
      if (idle?.busy === false) this.#waiting--;
      idle?.give(taken);
    }
    this.#request();
  }

  /** Takes a run of the earliest claim whose runtime has room. */
  #takeReady(): Taken<Run> | null {
    if (this.#begunInTurn >= maxBegunInTurn || this.#turnIsOver) return null;
    let from: Source<Run> | null = null;
    for (const source of this.#sources) {
      const [first] = source.ready;
      if (first === undefined || source.running >= capacityOf(source)) continue;
      if (from === null || first.order < (from.ready[0]?.order ?? Infinity)) from = source;
    }
    const first = from?.ready.shift();
    if (from === null || first === undefined) return null;
    const source = from;
    source.running++;
    this.#begunInTurn++;
    this.#openTurn();
    if (first.claim.beganAt === 0) first.claim.beganAt = this.#setting.clock.now();
    this.#begun(first.claim);
    return { run: first.run, ended: source.ended, runsPerSlot: source.runtime.runsPerSlot ?? 1 };
  }

  /** Whether the tasks of this turn of the event loop have run for long enough. */
  #isTurnOver(): boolean {
    const started = this.#startedInTurn;
    if (this.#turnIsOver || started < this.#lookAt) return this.#turnIsOver;
    this.#lookAt = started + Math.min(started, lookEvery);
    return this.#look();
  }

  #look(): boolean {
    return (this.#turnIsOver = this.#setting.clock.now() - this.#turnBeganAt >= maxTurnMs);
  }

  #openTurn(): void {
    if (this.#isTurnOpen) return;
    this.#isTurnOpen = true;
    this.#turnBeganAt = this.#setting.clock.now();
    // after a long turn, one more: the settlements of its runs were scheduled after this
    setImmediate(() => (this.#look() ? setImmediate(this.#nextTurn) : this.#nextTurn()));
  }

  readonly #nextTurn = (): void => {
    this.#isTurnOpen = this.#turnIsOver = false;
    this.#begunInTurn = this.#startedInTurn = 0;
    this.#lookAt = 1;
    for (const go of this.#deferred.splice(0)) go();
    this.#pump();
  };

  /** Called before a run begins that `next` returned. Null when it may begin now; else resolves in the next turn, to ask again. */
  later(): Promise<void> | null {
    if (this.#isTurnOver()) return new Promise((resolve) => this.#deferred.push(resolve));
    this.#openTurn();
    this.#startedInTurn++;
    return null;
  }

  /** Counts a run of the claim that has begun or was released. */
  #begun(claim: ClaimProgress): void {
    if (--claim.left > 0) return;
    claim.hold?.cancel();
    if (claim.count > 1) claim.source.sizes.begun(claim.spec, this.#setting.clock.now() - claim.claimedAt);
  }

  // ---- asking

  #request(): void {
    if (this.#stopped || this.#setting.isBehind() || this.#turnIsOver) return;
    const count = this.#sources.length;
    const start = this.#turn++ % count;
    for (let i = 0; i < count; i++) this.#requestFor(this.#sources[(start + i) % count]!);
    this.#watchRoom();
  }

  #requestFor(source: Source<Run>): void {
    const { clock, ahead } = this.#setting;
    const free = this.#free(source);
    if (free > 0 && source.asking === 0) {
      if (clock.now() >= source.notBefore) this.#ask(source, free, true);
      return;
    }
    if (!source.plenty) return;
    const isShort = source.lastMs <= this.#pace.aimMs;
    const more = ahead && isShort ? Math.max(source.running, source.lastRuns * source.depth) : 0;
    const wanted = Math.max(0, free) + more;
    if (source.ready.length + source.asking * source.lastRuns >= wanted) return;
    if (this.#setting.working().length === 0) return;
    while (source.ready.length + source.asking * source.lastRuns < wanted) this.#ask(source, free, false);
  }

  /** How many more runs could begin right now. */
  #free(source: Source<Run>): number {
    return Math.min(this.#waiting, capacityOf(source) - source.running) - source.ready.length;
  }

  #ask(source: Source<Run>, free: number, waits: boolean): void {
    const asked = this.#askOnce(source, Math.max(1, free), waits).finally(() => {
      this.#asks.delete(asked);
      this.#pump();
    });
    this.#asks.add(asked);
  }

  async #askOnce(source: Source<Run>, free: number, waits: boolean): Promise<void> {
    const { clock, pollMs, waitMs, alarms } = this.#setting;
    const since = clock.now();
    // a claim ahead is sized for all slots: they will be free when its runs begin
    const slots = waits ? free : Math.min(this.#setting.working().length, capacityOf(source));
    const number = source.sizes.number(since, Math.max(free, slots));
    const claimant = this.#claimant();
    const poll = new AbortController();
    source.asking++;
    if (waits) {
      source.poll = poll;
      source.claimant = claimant;
    }
    try {
      const rows = await this.#send(source, claimant, number, waits ? waitMs : 0, waits ? poll.signal : null);
      if (source.poll === poll) source.poll = null;
      if (rows.length > 0) await this.#receive(source, rows, number);
      else {
        source.plenty = false;
        const again = since + Math.min(waitMs === 0 ? pollMs : waitMs, pollMs);
        if (waits && !poll.signal.aborted && clock.now() < again) {
          source.notBefore = again;
          alarms.at(again, () => this.#pump());
        }
      }
    } finally {
      if (source.poll === poll) source.poll = null;
      source.asking--;
    }
  }

  /**
   * Sends a request. With a signal, retries until there is an answer or the signal aborts; without one, tries once. When the answer
   * is lost, the next request repeats the request id and gets the attempts that the lost one claimed.
   */
  async #send(
    { schedule, unanswered }: Source<Run>,
    worker: string,
    number: number,
    waitMs: number,
    signal: AbortSignal | null,
  ): Promise<readonly AttemptRow[]> {
    const { verbs, ns, outage, request, clock, onClaimed } = this.#setting;
    const repeated = unanswered.shift();
    const requestId = repeated ?? `${this.#nonce}-${this.#requests++}`;
    const sent = repeated === undefined ? clock.now() : undefined;
    const ask: AttemptRequest = {
      ...request,
      worker,
      number,
      ...schedule,
      requestId,
      ...(waitMs > 0 && { waitMs }),
      ...(signal !== null && { signal }),
    };
    for (let tries = 0; ; tries++) {
      try {
        const call = outage.began();
        const rows = await verbs.requestAttempts(ns, ask);
        outage.answered(call);
        if (rows.length > 0) onClaimed(rows, sent);
        return rows;
      } catch (error) {
        outage.failed("claim", error);
        if (signal !== null && !signal.aborted) await outage.pause(tries, signal);
        if (signal === null || signal.aborted) {
          unanswered.push(requestId);
          return [];
        }
      }
    }
  }

  /** Picks the slot to claim for, in rotation: a free slot if there is one, else any working slot. */
  #claimant(): string {
    const free = this.#idle.filter(({ busy }) => !busy).map(({ slot }) => slot);
    const slots = free.length > 0 ? free : this.#setting.working();
    return slots[this.#requests % slots.length] ?? "";
  }

  async #receive(source: Source<Run>, rows: readonly AttemptRow[], number: number): Promise<void> {
    const { clock, open, release, alarms } = this.#setting;
    const [first] = rows;
    if (first === undefined) return;
    const spec = await this.#specOf(first.workSpec, source.runtime);
    if (spec === null || this.#stopped || this.#setting.working().length === 0) return release(rows);
    const full = rows.length >= Math.min(number, spec.maxGetwork > 0 ? spec.maxGetwork : Infinity);
    const claimedAt = clock.now();
    const settled = (): void => {
      const ms = clock.now() - (claim.beganAt === 0 ? claimedAt : claim.beganAt);
      source.lastMs = ms * Math.max(1, this.#pace.aimMs / (lifetimeMs * shortLease));
      source.sizes.settled(spec.name, rows.length, full, ms);
      if (opened.atLeast !== null) source.sizes.begun(spec.name, ms);
      this.#pump();
    };
    const lifetimeMs = first.expirationTime - first.startTime;
    const opened = await open(rows, spec, settled);
    const length = rows.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
    source.sizes.claimed(spec.name, opened.atLeast ?? 0, claimedAt, rows.length, length);
    source.plenty = full;
    source.lastRuns = opened.runs.length;
    this.#adaptDepth(source, rows.length);
    const runner = this.#sources.find(({ runtime }) => runtime === opened.runtime) ?? source;
    const claim: ClaimProgress = {
      source,
      spec: spec.name,
      count: rows.length,
      claimedAt,
      beganAt: 0,
      left: opened.runs.length,
      hold: null,
    };
    const order = this.#claims++;
    for (const run of opened.runs) runner.ready.push({ run, claim, order });
    if (this.#hasStopped()) this.#letGo();
    else this.#pump();
    if (claim.left === 0) return;
    claim.hold = alarms.at(claimedAt + Math.min(this.#pace.holdMs, lifetimeMs / 2), () => {
      this.#giveBack(runner, (ready) => ready.claim === claim);
      this.#pump();
    });
  }

  /** Adapts `depth` to a claim of so many units: up when a slot waited for it, down when none has waited for a while. */
  #adaptDepth(source: Source<Run>, units: number): void {
    const { depth } = source;
    const hasWaited = this.#free(source) > 0;
    source.inTime = hasWaited ? 0 : source.inTime + 1;
    if (hasWaited && units * (depth + 1) <= maxSmallAhead) source.depth++;
    else if (depth > 1 && (source.inTime > 2 * depth || units * depth > maxSmallAhead)) {
      source.depth--;
      source.inTime = 0;
    }
  }

  #giveBack(source: Source<Run>, which: (ready: Ready<Run>) => boolean): void {
    const back = source.ready.filter(which);
    if (back.length === 0) return;
    source.ready = source.ready.filter((ready) => !which(ready));
    for (const { run, claim } of back) {
      this.#begun(claim);
      void run.release();
    }
  }

  /** Reads a work spec, with retries. Null when it was deleted or is not for this runtime. */
  async #specOf(name: string, { names }: Runtime): Promise<KnownSpec | null> {
    const { specs, outage } = this.#setting;
    for (let tries = 0, fresh = false; ; tries++) {
      try {
        const spec = await specs.get(name, fresh);
        if (spec === null || names.includes(spec.runtime)) return spec;
        // the cached work spec may be out of date: read it again, once
        if (fresh) return null;
        fresh = true;
      } catch (error) {
        outage.failed("read a work spec", error);
        if (this.#stopped) return null;
        await outage.pause(tries);
      }
    }
  }

  /** Aborts waiting requests when no slot has been free for a while, so that they do not claim work that cannot begin. */
  #watchRoom(): void {
    const { alarms, clock } = this.#setting;
    if (this.#noRoom !== null || !this.#sources.some((source) => this.#isFull(source))) return;
    this.#noRoom = alarms.at(clock.now() + noRoomMs, () => {
      this.#noRoom = null;
      for (const source of this.#sources) if (this.#isFull(source)) source.poll?.abort("no room");
      this.#pump();
    });
  }

  #isFull(source: Source<Run>): boolean {
    return source.poll !== null && !source.poll.signal.aborted && this.#free(source) <= 0;
  }
}

const capacityOf = ({ runtime }: Source<unknown>): number => runtime.capacity ?? Infinity;
