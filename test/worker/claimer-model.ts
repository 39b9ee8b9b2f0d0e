/**
 * The claimer on a simulated clock: random runtimes, sizes, capacities, slots, durations and arrivals, against a coordinator that
 * waits, is slow, fails, or cannot wait. Checked at every event: no unit is available for more than a second while a free slot could run
 * it.
 */
import assert from "node:assert/strict";
import { seededRandom, type AttemptRequest, type AttemptRow, type Clock } from "../../src/index.ts";
import { Alarms } from "../../src/worker/alarms.ts";
import { Claimer, type Runnable, type Taken } from "../../src/worker/claimer.ts";
import { silentLogger } from "../../src/worker/log.ts";
import type { Runtime } from "../../src/worker/runtime.ts";
import { Outage } from "../../src/worker/outage.ts";

/** A clock that jumps from one event to the next. */
class EventClock implements Clock {
  #now = 1_000_000;
  readonly #waits = new Set<{ time: number; wake: () => void }>();

  now(): number {
    return this.#now;
  }

  waitUntil(time: number, signal?: AbortSignal): Promise<void> {
    if (time <= this.#now || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wait = {
        time,
        wake: () => {
          this.#waits.delete(wait);
          signal?.removeEventListener("abort", wait.wake);
          resolve();
        },
      };
      this.#waits.add(wait);
      signal?.addEventListener("abort", wait.wake, { once: true });
    });
  }

  /** Advances to the next time for which there is a wait, but not past `limit`. */
  step(limit: number): void {
    let next = limit;
    for (const { time } of this.#waits) next = Math.min(next, time);
    this.#now = Math.max(this.#now, next);
    for (const wait of [...this.#waits]) if (wait.time <= this.#now) wait.wake();
  }
}

const settleDown = async (): Promise<void> => {
  // let promises settle, then the callbacks that they scheduled
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

interface Kind {
  runtime: Runtime;
  /** The maximum number of concurrent runs. Default: the number of slots. */
  capacity: number;
  bulk: boolean;
  durationMs: () => number;
  available: number;
  running: number;
  /** Since when a unit has been available that a free slot could run, without any claim; null if there is no such unit. */
  stalledSince: number | null;
}

export interface Stall {
  seed: number;
  text: string;
}

/** Returns the longest stall of a random schedule, in milliseconds. Throws if a unit was lost, run twice or left over. */
export async function runSchedule(
  seed: number,
): Promise<{ stallMs: number; description: string; claims: number }> {
  const random = seededRandom(seed);
  const pick = <Item>(...items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!;
  const clock = new EventClock();
  const alarms = new Alarms(clock);
  const slots = pick(1, 1, 2, 3, 4, 10);
  const latency = pick(0, 0, 1, 20, 150);
  const failing = pick(0, 0, 0, 0.1);
  const canWait = random() < 0.9;
  const maxAttempts = pick(1, 2, 10, 1000);
  const idleSlot = random() < 0.15;
  const kinds: Kind[] = Array.from({ length: pick(1, 2, 3, 3, 4) }, (_, i) => {
    const capacity = pick(undefined, 1, 2, 3);
    const size = pick(undefined, 1, 5);
    const scale = pick(0, 1, 30, 300, 3000, 10_000);
    const runtime: Runtime = {
      names: [`r${i}`],
      ...(capacity !== undefined && { capacity }),
      ...(size !== undefined && { maxAttempts: size }),
      task: () => null,
      close: () => Promise.resolve(),
    };
    return {
      runtime,
      capacity: capacity ?? slots,
      bulk: random() < 0.4,
      durationMs: () => scale * (random() < 0.1 ? 5 : 0.5 + random()),
      available: 0,
      running: 0,
      stalledSince: null,
    };
  });
  const kindOf = (name: string): Kind => kinds.find(({ runtime }) => runtime.names[0] === name)!;
  const description = JSON.stringify({
    slots,
    latency,
    failing,
    canWait,
    maxAttempts,
    idleSlot,
    kinds: kinds.map(({ capacity, runtime, bulk }) => ({ capacity, size: runtime.maxAttempts, bulk })),
  });

  // ---- the coordinator

  let unit = 0;
  let added = 0;
  let finished = 0;
  let claims = 0;
  const waiters = new Set<() => void>();
  const answers = new Map<string, AttemptRow[]>();
  const put = (kind: Kind, count: number): void => {
    kind.available += count;
    for (const wake of [...waiters]) wake();
  };
  const requestAttempts = async (_ns: string, ask: AttemptRequest): Promise<AttemptRow[]> => {
    await clock.waitUntil(clock.now() + latency * random());
    if (random() < failing / 2) throw new Error("the connection broke");
    const rows = await claim(ask);
    await clock.waitUntil(clock.now() + latency * random());
    if (random() < failing / 2) throw new Error("the answer was lost");
    answers.delete(ask.requestId ?? "");
    return rows;
  };
  const claim = async (ask: AttemptRequest): Promise<AttemptRow[]> => {
    const repeated = answers.get(ask.requestId ?? "");
    if (repeated !== undefined) return repeated;
    const deadline = clock.now() + (canWait ? (ask.waitMs ?? 0) : 0);
    for (;;) {
      const ready = (ask.runtimes ?? []).map(kindOf).filter(({ available }) => available > 0);
      const kind = ready[Math.floor(random() * ready.length)];
      if (kind !== undefined) {
        const count = Math.min(kind.available, ask.number ?? 1);
        kind.available -= count;
        kind.stalledSince = null;
        claims++;
        const rows = Array.from({ length: count }, () =>
          row(kind, ++unit, clock.now(), ask.lifetimeMs ?? 60_000),
        );
        answers.set(ask.requestId ?? "", rows);
        return rows;
      }
      if (clock.now() >= deadline || ask.signal?.aborted === true) return [];
      const wake = new AbortController();
      const ring = (): void => wake.abort();
      waiters.add(ring);
      ask.signal?.addEventListener("abort", ring);
      await clock.waitUntil(deadline, wake.signal);
      waiters.delete(ring);
      ask.signal?.removeEventListener("abort", ring);
    }
  };

  // ---- the worker

  class Piece implements Runnable {
    readonly kind: Kind;
    readonly rows: readonly AttemptRow[];
    readonly settled: () => void;

    constructor(kind: Kind, rows: readonly AttemptRow[], settled: () => void) {
      this.kind = kind;
      this.rows = rows;
      this.settled = settled;
    }

    async release(): Promise<void> {
      await clock.waitUntil(clock.now() + latency);
      put(this.kind, this.rows.length);
      this.settled();
    }
  }
  const names = Array.from({ length: slots }, (_, i) => `w/${i + 1}`);
  let working: readonly string[] = names;
  const claimer = new Claimer<Piece>({
    verbs: { requestAttempts },
    ns: "",
    clock,
    random,
    alarms,
    outage: new Outage(clock, random, silentLogger),
    specs: {
      get: async (name) => {
        if (random() < 0.2) await clock.waitUntil(clock.now() + latency);
        return { name, data: {}, runtime: name, maxGetwork: 0, tryLimit: 0 };
      },
    },
    request: { lifetimeMs: pick(1000, 60_000, 900_000) },
    runtimes: kinds.map(({ runtime }) => runtime),
    maxAttempts,
    waitMs: 30_000,
    pollMs: 1000,
    ahead: random() < 0.8,
    holdMs: pick(800, 800, 80),
    working: () => working,
    isBehind: () => false,
    onClaimed: () => undefined,
    open: (rows, { name }, settled) => {
      const kind = kindOf(name);
      let left = kind.bulk ? 1 : rows.length;
      const one = (): void => {
        if (--left === 0) settled();
      };
      const runs = kind.bulk ? [new Piece(kind, rows, one)] : rows.map((own) => new Piece(kind, [own], one));
      return { runs, runtime: kind.runtime, atLeast: kind.bulk ? pick(1, 100) : null };
    },
    release: (rows) => {
      put(kindOf(rows[0]!.workSpec), rows.length);
      return Promise.resolve();
    },
  });
  const busy = new Set<string>();
  const stop = new AbortController();
  const runSlot = async (slot: string): Promise<void> => {
    while (!stop.signal.aborted) {
      if (!working.includes(slot)) {
        await clock.waitUntil(clock.now() + 100, stop.signal);
        continue;
      }
      const taken: Taken<Piece> | null = claimer.take() ?? (await claimer.next(slot));
      if (taken === null) continue;
      const { run, ended } = taken;
      const { kind } = run;
      busy.add(slot);
      kind.running++;
      assert.ok(kind.running <= kind.capacity, "more runs than the runtime's capacity");
      for (const _ of run.rows) await clock.waitUntil(clock.now() + kind.durationMs());
      finished += run.rows.length;
      kind.running--;
      busy.delete(slot);
      run.settled();
      ended();
    }
  };
  const running = names.map(runSlot);

  // ---- the schedule: bursts of work, and a slot that is set to idle

  const arrivals = Array.from({ length: pick(1, 3, 6) }, () => ({
    at: clock.now() + random() * 40_000,
    kind: pick(...kinds),
    count: pick(1, 1, 3, 10, 40),
  })).sort((a, b) => a.at - b.at);
  const idleAt = clock.now() + 5000;
  const end = clock.now() + 20_000_000;
  let stallMs = 0;
  const look = (): void => {
    const free = working.filter((slot) => !busy.has(slot)).length;
    for (const kind of kinds) {
      const could = kind.available > 0 && free > 0 && kind.running < kind.capacity;
      if (!could) kind.stalledSince = null;
      else {
        kind.stalledSince ??= clock.now();
        stallMs = Math.max(stallMs, clock.now() - kind.stalledSince);
      }
    }
  };
  for (;;) {
    await settleDown();
    look();
    const [next] = arrivals;
    if (next === undefined && finished === added) break;
    assert.ok(clock.now() < end, `work is left over: ${added - finished} of ${added} units; ${description}`);
    if (idleSlot && slots > 1 && clock.now() >= idleAt && working.length === slots) {
      working = names.slice(1);
      claimer.withdraw(names[0]!);
      claimer.slotsChanged();
      continue;
    }
    clock.step(next?.at ?? end);
    // time has passed: count it as a stall for units that could have started before
    look();
    if (next !== undefined && clock.now() >= next.at) {
      arrivals.shift();
      added += next.count;
      put(next.kind, next.count);
    }
  }
  assert.equal(finished, added, "a unit ran twice");
  stop.abort();
  claimer.stop();
  alarms.close();
  // wait for the running claims and units
  const over = new AbortController();
  void Promise.all([claimer.drained(), ...running]).then(() => over.abort());
  for (let i = 0; !over.signal.aborted; i++) {
    assert.ok(i < 1000, `the claimer does not stop; ${description}`);
    clock.step(clock.now() + 60_000);
    await settleDown();
  }
  // subtract the latency of requests, and the retry delays if requests may fail
  const allowed = failing > 0 ? 6000 : 0;
  return { stallMs: Math.max(0, stallMs - 4 * latency - allowed), description, claims };
}

const row = (kind: Kind, id: number, now: number, lifetimeMs: number): AttemptRow => ({
  id: `${id}.1`,
  workSpec: kind.runtime.names[0]!,
  workUnit: `u${id}`,
  worker: "w",
  number: 1,
  status: "pending",
  active: true,
  startTime: now,
  endTime: 0,
  expirationTime: now + lifetimeMs,
  data: null,
  late: false,
  chainingErrors: [],
  progress: null,
});
