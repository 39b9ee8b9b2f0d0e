/**
 * One claimer for all slots of a process: asks the coordinator for work, holds what was claimed until a slot is free, and hands it out.
 *
 * Promised: while a slot is free and a runtime has room, a request for that runtime's work is under way. Each runtime is asked for by itself, so
 * that no request for one waits on another's. A request waits at the coordinator for work to come; an idle process is one open
 * request for each runtime, however many slots it has.
 *
 * While claims are short, the next one is requested before the slots run dry. What has not begun within `holdMs` of its claim is given back
 * untried, so that other workers get it.
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

/** What a slot runs at a time: one unit, or all units of a bulk task. */
export interface Runnable {
  /** Gives it back untried. Never rejects. */
  release(): Promise<void>;
}

/** The attempts of one answer, made ready to run. */
export interface Opened<Run extends Runnable> {
  readonly runs: readonly Run[];
  /** The runtime that runs them. */
  readonly runtime: Runtime;
  /** They run in one call, and claims of this work spec do not shrink below this many; null when each unit runs by itself. */
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
  /** What to ask for besides worker, number, runtimes and tasks. */
  readonly request: Pick<AttemptRequest, "lifetimeMs" | "workSpecs" | "availableGb" | "labels">;
  readonly runtimes: readonly Runtime[];
  readonly maxAttempts: number;
  /** How long one request waits for work. */
  readonly waitMs: number;
  /** The least time between two requests that found nothing, where the coordinator cannot wait. */
  readonly pollMs: number;
  /** Requests the next claim while a short one runs. */
  readonly ahead: boolean;
  /** What was claimed and has not begun is held this long at most, and no longer than half its lease. */
  readonly holdMs: number;
  /** Slots that may take work now, to claim in their names. */
  readonly working: () => readonly string[];
  /** More settles wait to be stored than should: no more work is requested until some are. */
  readonly isBehind: () => boolean;
  /** Called with every answer that has attempts, when it comes. */
  readonly onClaimed: (rows: readonly AttemptRow[]) => void;
  /** Finds the task and makes the attempts ready to run. `settled` is to be called when the last of them is settled. */
  readonly open: (
    rows: readonly AttemptRow[],
    spec: KnownSpec,
    settled: () => void,
  ) => Promise<Opened<Run>> | Opened<Run>;
  /** Gives back attempts that cannot be run. Never rejects. */
  readonly release: (rows: readonly AttemptRow[]) => Promise<void>;
}

/** A request that waits for work is ended when no slot has been free to run it for this long. */
const noRoomMs = 100;
/** How many units small claims request ahead at most, while slots wait for them. */
const maxSmallAhead = 8;
/** Claims ahead are for claims that take no longer than the pace aims at, and no longer than this part of the lease. */
const shortLease = 1 / 20;

/**
 * Runs that begin in one turn of the event loop. Tasks that do not wait, over a store in the same process, would else go on without a turn for
 * others: no settle would be sent, and no signal heard.
 */
const maxBegunInTurn = 256;

/** A run that a slot has taken; the slot says when it has ended. */
export interface Taken<Run> {
  readonly run: Run;
  readonly ended: () => void;
  /** How many of its kind a slot may have under way. */
  readonly inARow: number;
}

/** A claim, until all of its runs have begun. */
interface Lot {
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
  readonly lot: Lot;
  /** The order of claims. */
  readonly order: number;
}

/** A runtime, with what is known of its work. */
interface Source<Run> {
  readonly runtime: Runtime;
  readonly schedule: ScheduleRequest;
  readonly sizes: ClaimSizes;
  readonly maxAttempts: number;
  /** Claimed and not begun, in the order of claims. */
  ready: Ready<Run>[];
  running: number;
  /** Requests under way. */
  asking: number;
  /** Ends the request that waits for work, if there is one. */
  poll: AbortController | null;
  /** In whose name that request is. */
  claimant: string;
  /** The last claim was answered in full: there is probably more. */
  plenty: boolean;
  /** How many claims are requested ahead. It grows while slots wait for small claims: a request then takes longer than its units run. */
  depth: number;
  /** Claims since one for which a slot waited. */
  inTime: number;
  /** How many runs the last claim had, and how long it took until all were settled. */
  lastRuns: number;
  lastMs: number;
  /** Where the coordinator does not wait: when to ask again. */
  notBefore: number;
  /** One of its runs has ended: for all that slots take. */
  readonly ended: () => void;
  /** Names of requests that may have been carried out though their answer was lost. The next request repeats one. */
  readonly unanswered: string[];
}

interface Idle<Run> {
  readonly slot: string;
  /** It has something to run, and would take more of what was claimed: nothing is claimed for it. */
  busy: boolean;
  readonly give: (taken: Taken<Run> | null) => void;
}

export class Claimer<Run extends Runnable> {
  readonly #setting: ClaimSetting<Run>;
  readonly #pace: Pace;
  readonly #sources: readonly Source<Run>[];
  readonly #idle: Idle<Run>[] = [];
  /** How many of those have nothing to run. */
  #waiting = 0;
  readonly #asks = new Set<Promise<void>>();
  readonly #nonce: string;
  #requests = 0;
  #claims = 0;
  #begunInTurn = 0;
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

  /** Whether something waits for a slot. */
  get hasReady(): boolean {
    return this.#sources.some(({ ready }) => ready.length > 0);
  }

  /** What is ready to run now, if anything is. */
  take(): Taken<Run> | null {
    const taken = this.#takeReady();
    if (taken !== null) this.#request();
    return taken;
  }

  /**
   * The next run for a slot, which may be busy with others; null when the slot is withdrawn or the claimer has stopped. Many a turn: no signal
   * for each.
   */
  next(slot: string, busy = false): Promise<Taken<Run> | null> {
    return new Promise((give) => {
      if (this.#stopped) return give(null);
      this.#idle.push({ slot, give, busy });
      if (!busy) this.#waiting++;
      this.#pump();
    });
  }

  /** A slot that was busy while it waited is not any more. */
  isFree(slot: string): void {
    const idle = this.#idle.find((one) => one.slot === slot);
    if (idle?.busy !== true) return;
    idle.busy = false;
    this.#waiting++;
  }

  /** The slot no longer waits. */
  withdraw(slot: string): void {
    const at = this.#idle.findIndex((idle) => idle.slot === slot);
    if (at < 0) return;
    for (const { give, busy } of this.#idle.splice(at, 1)) {
      if (!busy) this.#waiting--;
      give(null);
    }
    this.#pump();
  }

  /** Which slots may take work has changed. With none left, nothing is held and nothing is waited for. */
  slotsChanged(): void {
    const working = this.#setting.working();
    if (working.length === 0) return this.#letGo();
    for (const { poll, claimant } of this.#sources)
      if (!working.includes(claimant)) poll?.abort("the slot takes no more work");
    this.#pump();
  }

  /** Requests nothing more, and gives back what has not begun. */
  stop(): void {
    this.#stopped = true;
    this.#waiting = 0;
    for (const { give } of this.#idle.splice(0)) give(null);
    this.#noRoom?.cancel();
    this.#letGo();
  }

  /** Resolves when no request is under way any more. */
  async drained(): Promise<void> {
    while (this.#asks.size > 0) await Promise.all(this.#asks);
  }

  /** Read anew: it changes while one waits. */
  #hasStopped(): boolean {
    return this.#stopped;
  }

  #letGo(): void {
    for (const source of this.#sources) {
      source.poll?.abort("no slot takes work");
      this.#giveBack(source, () => true);
    }
  }

  /** Hands out what is ready, then asks for more. */
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

  /** The earliest claim of a runtime with room goes first. */
  #takeReady(): Taken<Run> | null {
    if (this.#begunInTurn >= maxBegunInTurn) return null;
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
    if (this.#begunInTurn++ === 0)
      setImmediate(() => {
        this.#begunInTurn = 0;
        this.#pump();
      });
    if (first.lot.beganAt === 0) first.lot.beganAt = this.#setting.clock.now();
    this.#begun(first.lot);
    return { run: first.run, ended: source.ended, inARow: source.runtime.inARow ?? 1 };
  }

  /** One of its runs has begun, or was given back. */
  #begun(lot: Lot): void {
    if (--lot.left > 0) return;
    lot.hold?.cancel();
    if (lot.count > 1) lot.source.sizes.begun(lot.spec, this.#setting.clock.now() - lot.claimedAt);
  }

  // ---- asking

  #request(): void {
    if (this.#stopped || this.#setting.isBehind()) return;
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

  /** How many more runs could begin at once. */
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
    // a claim ahead is for all slots, which will be free when its time comes
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
   * With a signal, asks until it is answered or the signal aborts; without one, once. Each request has a name: when its answer was lost, the
   * next one goes under the same name and is answered with what that one claimed.
   */
  async #send(
    { schedule, unanswered }: Source<Run>,
    worker: string,
    number: number,
    waitMs: number,
    signal: AbortSignal | null,
  ): Promise<readonly AttemptRow[]> {
    const { verbs, ns, outage, request } = this.#setting;
    const requestId = unanswered.shift() ?? `${this.#nonce}-${this.#requests++}`;
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

  /** The slot in whose name is claimed: one that is free, if there is any; one after the other. */
  #claimant(): string {
    const free = this.#idle.filter(({ busy }) => !busy).map(({ slot }) => slot);
    const slots = free.length > 0 ? free : this.#setting.working();
    return slots[this.#requests % slots.length] ?? "";
  }

  async #receive(source: Source<Run>, rows: readonly AttemptRow[], number: number): Promise<void> {
    const { clock, open, onClaimed, release, alarms } = this.#setting;
    const [first] = rows;
    if (first === undefined) return;
    onClaimed(rows);
    const spec = await this.#specOf(first.workSpec, source.runtime);
    if (spec === null || this.#stopped || this.#setting.working().length === 0) return release(rows);
    const full = rows.length >= Math.min(number, spec.maxGetwork > 0 ? spec.maxGetwork : Infinity);
    const claimedAt = clock.now();
    const settled = (): void => {
      const ms = clock.now() - (lot.beganAt === 0 ? claimedAt : lot.beganAt);
      source.lastMs = ms * Math.max(1, this.#pace.aimMs / (lifetimeMs * shortLease));
      source.sizes.settled(spec.name, rows.length, full, ms);
      if (opened.atLeast !== null) source.sizes.begun(spec.name, ms);
      this.#pump();
    };
    const lifetimeMs = first.expirationTime - first.startTime;
    const opened = await open(rows, spec, settled);
    source.sizes.claimed(spec.name, opened.atLeast ?? 0, claimedAt);
    source.plenty = full;
    source.lastRuns = opened.runs.length;
    this.#adaptDepth(source, rows.length);
    const runner = this.#sources.find(({ runtime }) => runtime === opened.runtime) ?? source;
    const lot: Lot = {
      source,
      spec: spec.name,
      count: rows.length,
      claimedAt,
      beganAt: 0,
      left: opened.runs.length,
      hold: null,
    };
    const order = this.#claims++;
    for (const run of opened.runs) runner.ready.push({ run, lot, order });
    if (this.#hasStopped()) this.#letGo();
    else this.#pump();
    if (lot.left === 0) return;
    lot.hold = alarms.at(claimedAt + Math.min(this.#pace.holdMs, lifetimeMs / 2), () => {
      this.#giveBack(runner, (ready) => ready.lot === lot);
      this.#pump();
    });
  }

  /** A claim of so many units came: deeper when a slot waited for it, less deep when none has waited for a while. */
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
    for (const { run, lot } of back) {
      this.#begun(lot);
      void run.release();
    }
  }

  /** Null when the work spec is not there any more, or is not for this runtime. Asks until it is answered. */
  async #specOf(name: string, { names }: Runtime): Promise<KnownSpec | null> {
    const { specs, outage } = this.#setting;
    for (let tries = 0, fresh = false; ; tries++) {
      try {
        const spec = await specs.get(name, fresh);
        if (spec === null || names.includes(spec.runtime)) return spec;
        // it was set again since it was read
        if (fresh) return null;
        fresh = true;
      } catch (error) {
        outage.failed("read a work spec", error);
        if (this.#stopped) return null;
        await outage.pause(tries);
      }
    }
  }

  /** A request must not take work that no slot is free to run: it is ended when there has been no room for a while. */
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
