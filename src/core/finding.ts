/**
 * Finds work for one request: reads which work specs may hand out units now, lets the scheduler choose one, and claims from it.
 * The counts behind a choice may be out of date, so if the claim gets nothing, the scheduler chooses again.
 */
import type { AttemptRow } from "./attempt.ts";
import { isTripped } from "./breaker.ts";
import { latestTime } from "./check.ts";
import { decodeData } from "./data.ts";
import { nextTurn, type Clock, type Random } from "./clock.ts";
import { holdByLimits } from "./limits.ts";
import { compareNames } from "./names.ts";
import { RecentWorkReader } from "./recent-work.ts";
import type { Ask } from "./requests.ts";
import { specTryLimit } from "./retry.ts";
import { runsDue } from "./schedule.ts";
import { choose, explainChoice, type Candidate, type Explained, type ScheduleRequest } from "./scheduler.ts";
import type { Claim, Store } from "./store.ts";
import { timely } from "./timely.ts";
import { knowsTask, missingWorkSpec, taskOf, type WorkSpecMeta } from "./work-spec.ts";

/** When to look again for units that another transaction holds locked. */
const lockedMs = 500;

export class WorkFinder {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #pollMs: number;
  readonly #maxItems: number;
  readonly #recent: RecentWorkReader;

  constructor(store: Store, clock: Clock, random: Random, options: { pollMs: number; maxItems: number }) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#pollMs = options.pollMs;
    this.#maxItems = options.maxItems;
    this.#recent = new RecentWorkReader(store);
  }

  /** Looks for work once; `again` is when to look again if no change is reported until then. */
  async find(ns: string, ask: Ask): Promise<{ found: AttemptRow[] | null; again: number }> {
    let failed: Candidate | null = null;
    // if the chosen work spec has nothing, choose again with fresh counts, but not for ever
    for (let tries = 0; ; tries++) {
      const now = this.#clock.now();
      const found = await this.#store.candidates(ns, { requestId: ask.requestId, fresh: tries > 0 }, now);
      const { settings, repeated, look, limits = [] } = found;
      const candidates = holdByLimits(found.candidates, limits, now);
      if (repeated !== null && repeated.length > 0) return { found: repeated, again: 0 };
      if (asksForTasks(ask.schedule) && (await this.#deriveTasks(ns, candidates))) continue;
      // the same order over every store, so that the same random draw gives the same choice
      candidates.sort(byName);
      const open = tries < 3 ? candidates : candidates.filter(({ id }) => id !== failed?.id);
      const { policy, share } = settings;
      const recent = share === "time" ? await this.#recent.read(ns, candidates, now) : null;
      const chosen = choose(open, ask.schedule, now, this.#random, policy, recent, ask.number);
      // cached candidates are good enough for a claim, but not to conclude that there is no work
      if (chosen === null && look !== undefined) continue;
      if (chosen === null || tries > 8)
        // units that were counted but not claimed are locked by another transaction; their release sends no notification
        return {
          found: null,
          again: Math.min(now + (failed === null ? this.#pollMs : lockedMs), whenDue(candidates, now)),
        };
      const attempts = await this.#claim(ns, chosen, ask, look);
      if (attempts.length > 0) return { found: attempts, again: 0 };
      failed = chosen;
    }
  }

  async explain(ns: string, request: ScheduleRequest): Promise<Explained[]> {
    const now = this.#clock.now();
    const ask = { requestId: null, fresh: true, topPriorities: true };
    const found = await this.#store.candidates(ns, ask, now);
    const { settings, limits = [] } = found;
    const candidates = holdByLimits(found.candidates, limits, now);
    if (asksForTasks(request) && (await this.#deriveTasks(ns, candidates))) return this.explain(ns, request);
    const { policy, share } = settings;
    const recent = await this.#recent.read(ns, candidates, now, true);
    return explainChoice(candidates.sort(byName), request, now, policy, share, recent);
  }

  /** Adds the task fields that an earlier version did not store to the metadata of work specs. Returns whether any were missing. */
  async #deriveTasks(ns: string, candidates: readonly Candidate[]): Promise<boolean> {
    const refs = candidates.filter(({ meta }) => !knowsTask(meta)).map(({ name, id }) => ({ name, id }));
    if (refs.length === 0) return false;
    const rows = (await this.#store.getWorkSpecs(ns, refs)).filter((row) => row !== null);
    await this.#store.putWorkSpecs(
      ns,
      rows.map(({ id, name, data }) => {
        // only these two: what an earlier version accepted in the other keys may be refused now
        const task = taskOf(decodeData(data), name);
        const meta = (old: WorkSpecMeta | null): WorkSpecMeta => {
          if (old === null) throw missingWorkSpec(name);
          return { ...old, ...task };
        };
        return { ref: { name, id }, data: null, meta };
      }),
    );
    return true;
  }

  async #claim(
    ns: string,
    { id, name, meta, pending }: Candidate,
    ask: Ask,
    look: number | undefined,
  ): Promise<AttemptRow[]> {
    let limit = Math.min(ask.number, this.#maxItems);
    if (meta.maxGetwork > 0) limit = Math.min(limit, meta.maxGetwork);
    if (meta.maxRunning > 0) limit = Math.min(limit, meta.maxRunning - pending);
    const claim: Claim = {
      workSpec: { name, id },
      worker: ask.worker,
      limit,
      lifetimeMs: ask.lifetimeMs,
      maxRetries: specTryLimit(meta),
      requestId: ask.requestId,
    };
    if (look !== undefined) claim.look = look;
    for (;;) {
      const { attempts, more } = await timely(this.#clock, (now) => this.#store.claim(ns, claim, now));
      if (!more) return attempts;
      await nextTurn();
    }
  }
}

/** Whether the choice depends on the task or module of a work spec. */
const asksForTasks = ({ tasks, modules }: ScheduleRequest): boolean =>
  tasks !== undefined || modules === true;

const byName = (a: Candidate, b: Candidate): number => compareNames(a.name, b.name);

/**
 * The earliest time at which a unit is due, a lease or a hold ends, a tripped breaker probes, a work spec starts or may generate a
 * unit, or a schedule has a run.
 */
function whenDue(candidates: readonly Candidate[], now: number): number {
  let due = latestTime;
  for (const { meta, nextDue, held } of candidates) {
    if (nextDue > 0) due = Math.min(due, nextDue);
    if (held !== undefined && held !== null && held.until > now) due = Math.min(due, held.until);
    if (meta.continuous && meta.nextContinuous > now) due = Math.min(due, meta.nextContinuous);
    if (meta.notBefore > now) due = Math.min(due, meta.notBefore);
    const { until = 0 } = meta.breakerState;
    if (isTripped(meta) && until > now) due = Math.min(due, until);
    if (runsDue(meta) > 0) due = Math.min(due, runsDue(meta));
  }
  return due;
}
