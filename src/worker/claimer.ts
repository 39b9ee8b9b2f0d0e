/**
 * One claimer for all slots of a process. While there is plenty of work every free slot claims for itself; when there
 * is none, one slot waits at the coordinator for all, and the others wait here, in the order they came: an idle process
 * is one open request, however many slots it has.
 *
 * Runtimes that take batches of different sizes are asked for apart, in turn, because a request has one size.
 */
import type { AttemptRequest, AttemptRow, Clock, Coordinate, Random } from "../core/index.ts";
import type { Runtime } from "./runtime.ts";
import type { KnownSpec, Specs } from "./specs.ts";
import type { Trouble } from "./trouble.ts";

export interface ClaimSetting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly trouble: Trouble;
  readonly specs: Specs;
  /** What to ask for besides worker, number and runtimes. */
  readonly request: Pick<AttemptRequest, "lifetimeMs" | "workSpecs" | "availableGb">;
  readonly runtimes: readonly Runtime[];
  readonly maxAttempts: number;
  /** How long one request waits for work. */
  readonly waitMs: number;
  /** The least time between two requests that found nothing; and the wait where slots are too few for all runtimes. */
  readonly pollMs: number;
  /** Told of every answer that has attempts, when it comes. */
  readonly onClaimed: (rows: readonly AttemptRow[]) => void;
  /** Gives back what was claimed and cannot be run. */
  readonly release: (rows: readonly AttemptRow[]) => Promise<void>;
}

/** Runtimes that are asked for in one request. */
interface Group {
  readonly runtimes: readonly Runtime[];
  readonly maxAttempts: number;
  /** A slot waits at the coordinator for this group. */
  waiting: boolean;
  /** The last claim was answered in full: there is probably more. */
  plenty: boolean;
}

/** A batch to run. Its places in the runtimes are held until `done`. */
export interface Claimed {
  readonly rows: readonly AttemptRow[];
  readonly spec: KnownSpec;
  readonly runtimes: readonly Runtime[];
  readonly done: () => void;
  /** Whether it is worth while to claim the next one already. */
  readonly plenty: () => boolean;
  /** Claims the next one for the same slot without waiting for work, or for trouble to pass. */
  readonly ahead: () => Promise<Claimed | null>;
}

export class Claimer {
  readonly #setting: ClaimSetting;
  readonly #groups: readonly Group[];
  readonly #places = new Places();
  /** Slots that wait for their turn, the first to come first. */
  readonly #line: (() => void)[] = [];
  /** By slot, the name of a request that may have been carried out, though its answer was lost. */
  readonly #unanswered = new Map<string, string>();
  #turn = 0;
  #requests = 0;
  readonly #chance: string;

  constructor(setting: ClaimSetting) {
    this.#setting = setting;
    const draw = (): string => setting.random().toString(36).slice(2);
    this.#chance = draw() + draw();
    const sizes = new Map<number, Runtime[]>();
    for (const runtime of setting.runtimes) {
      const size = Math.min(setting.maxAttempts, runtime.maxAttempts ?? setting.maxAttempts);
      sizes.set(size, [...(sizes.get(size) ?? []), runtime]);
    }
    this.#groups = [...sizes].map(([maxAttempts, runtimes]) => ({
      runtimes,
      maxAttempts,
      waiting: false,
      plenty: false,
    }));
  }

  /** The next batch for this slot, in whose name it is claimed. Null when the signal aborts. Never rejects. */
  async next(worker: string, signal: AbortSignal): Promise<Claimed | null> {
    const { clock, pollMs, waitMs } = this.#setting;
    while (!signal.aborted) {
      const group = this.#toAsk();
      if (group === undefined) {
        await this.#standInLine(signal);
        continue;
      }
      this.#turn = this.#groups.indexOf(group) + 1;
      if (group.plenty) {
        const claimed = await this.#claim(group, worker, 0, [], signal);
        if (claimed !== null) return claimed;
        continue;
      }
      group.waiting = true;
      const since = clock.now();
      let claimed: Claimed | null = null;
      try {
        const wait = this.#toAsk() === undefined ? waitMs : Math.min(waitMs, pollMs);
        claimed = await this.#claim(group, worker, wait, [], signal);
        // a coordinator that cannot wait is asked once in a while
        if (claimed === null && clock.now() - since < Math.min(wait, pollMs))
          await clock.waitUntil(since + pollMs, signal);
      } finally {
        group.waiting = false;
        this.#wake();
      }
      if (claimed !== null) return claimed;
    }
    // whoever was woken for nothing lets the next one look
    this.#wake();
    return null;
  }

  /** A group that somebody should ask for now; they take turns. */
  #toAsk(): Group | undefined {
    const inTurn = [...this.#groups.slice(this.#turn), ...this.#groups.slice(0, this.#turn)];
    return inTurn.find(
      ({ waiting, plenty, runtimes }) =>
        (!waiting || plenty) && runtimes.some((runtime) => this.#places.hasRoom(runtime)),
    );
  }

  async #standInLine(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const go = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        const at = this.#line.indexOf(go);
        if (at >= 0) this.#line.splice(at, 1);
        resolve();
      };
      this.#line.push(go);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  #wake(): void {
    const all = this.#groups.some(({ plenty }) => plenty);
    for (const go of this.#line.splice(0, all ? this.#line.length : 1)) go();
  }

  async #claim(
    group: Group,
    worker: string,
    waitMs: number,
    given: readonly Runtime[],
    signal: AbortSignal | null,
  ): Promise<Claimed | null> {
    const asked = group.runtimes.filter((runtime) => this.#places.hasRoom(runtime, given));
    if (asked.length === 0) return null;
    this.#places.take(asked);
    let kept: readonly Runtime[] = [];
    try {
      const rows = await this.#request(group, asked, worker, waitMs, signal);
      const [first] = rows;
      if (first === undefined) {
        if (waitMs === 0) group.plenty = false;
        return null;
      }
      this.#setting.onClaimed(rows);
      const spec = await this.#specOf(first.workSpec, asked, signal);
      if (spec === null) {
        await this.#setting.release(rows);
        return null;
      }
      const { maxGetwork } = spec;
      group.plenty = rows.length >= Math.min(group.maxAttempts, maxGetwork > 0 ? maxGetwork : Infinity);
      const runtimes = asked.filter(({ names }) => names.includes(spec.runtime));
      kept = runtimes;
      return {
        rows,
        spec,
        runtimes,
        done: () => this.#give(runtimes),
        plenty: () => group.plenty,
        ahead: () => this.#claim(group, worker, 0, runtimes, null),
      };
    } finally {
      this.#give(asked.filter((runtime) => !kept.includes(runtime)));
    }
  }

  #give(runtimes: readonly Runtime[]): void {
    this.#places.give(runtimes);
    if (runtimes.some(({ capacity }) => capacity !== undefined)) this.#wake();
  }

  /** Null when the work spec is not there any more, or not for any of these. With a signal, asks until it is answered. */
  async #specOf(
    name: string,
    runtimes: readonly Runtime[],
    signal: AbortSignal | null,
  ): Promise<KnownSpec | null> {
    const { specs, trouble } = this.#setting;
    for (let tries = 0, fresh = false; ; tries++) {
      try {
        const spec = await specs.get(name, fresh);
        if (spec === null || runtimes.some(({ names }) => names.includes(spec.runtime))) return spec;
        // it was set again since it was read
        if (fresh) return null;
        fresh = true;
      } catch (error) {
        trouble.met("read a work spec", error);
        if (signal === null || signal.aborted) return null;
        await trouble.pause(tries, signal);
      }
    }
  }

  /**
   * With a signal, asks until it is answered or the signal aborts; without one, once. Each request has a name: when its
   * answer was lost, the next one of the slot goes under the same name and is answered with what that one claimed.
   */
  async #request(
    group: Group,
    asked: readonly Runtime[],
    worker: string,
    waitMs: number,
    signal: AbortSignal | null,
  ): Promise<readonly AttemptRow[]> {
    const { verbs, ns, trouble, request } = this.#setting;
    const requestId = this.#unanswered.get(worker) ?? this.#requestId();
    const ask = {
      ...request,
      worker,
      number: group.maxAttempts,
      runtimes: asked.flatMap(({ names }) => names),
      requestId,
      ...(waitMs > 0 && { waitMs }),
      ...(signal !== null && { signal }),
    };
    for (let tries = 0; ; tries++) {
      try {
        const rows = await verbs.requestAttempts(ns, ask);
        this.#unanswered.delete(worker);
        trouble.over();
        return rows;
      } catch (error) {
        this.#unanswered.set(worker, requestId);
        trouble.met("claim", error);
        if (signal === null) return [];
        if (!signal.aborted) await trouble.pause(tries, signal);
        if (isAborted(signal)) return [];
      }
    }
  }

  /** Chance once for all: to make a text of it costs as much as a claim. */
  #requestId(): string {
    return `${this.#chance}-${this.#requests++}`;
  }
}

/** Asked anew: whether a signal is aborted changes while one waits. */
const isAborted = (signal: AbortSignal): boolean => signal.aborted;

/** Counts the batches of each runtime, those that may come included, against what it can run at once. */
class Places {
  readonly #taken = new Map<Runtime, number>();

  /** `given`: what the asking slot runs now, and will have ended when the next begins. */
  hasRoom(runtime: Runtime, given: readonly Runtime[] = []): boolean {
    if (runtime.capacity === undefined) return true;
    const taken = (this.#taken.get(runtime) ?? 0) - (given.includes(runtime) ? 1 : 0);
    return taken < runtime.capacity;
  }

  take(runtimes: readonly Runtime[]): void {
    for (const runtime of runtimes) this.#taken.set(runtime, (this.#taken.get(runtime) ?? 0) + 1);
  }

  give(runtimes: readonly Runtime[]): void {
    for (const runtime of runtimes) this.#taken.set(runtime, (this.#taken.get(runtime) ?? 0) - 1);
  }
}
