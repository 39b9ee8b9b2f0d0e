/**
 * Looks for work and claims it. Concurrent requests of a few units each share one statement and one commit, a look may come from the
 * cache, and a repeated request gets the same answer.
 */
import {
  defaultNamespaceSettings,
  hasBreaker,
  hasFlowRules,
  hasLanes,
  pairKey,
  workerLifetimeMs,
  type Candidates,
  type CandidatesRequest,
  type Claim,
} from "../core/index.ts";
import { readAttempts } from "./attempts.ts";
import { readCandidates, readTopPriorities } from "./candidates.ts";
import { Caution } from "./caution.ts";
import { claimUnits, heldLanes, readAnswer, type Claimed, type ClaimHints } from "./claims.ts";
import type { Context } from "./context.ts";
import { Floors } from "./floor.ts";
import { readLimits } from "./limits.ts";
import { LookCache } from "./looks.ts";
import { few, Merges } from "./merge.ts";

interface LookCall {
  requestId: string | null;
  now: number;
}

interface ClaimCall {
  claim: Claim;
  now: number;
}

const noClaim: Claimed = { attempts: [], more: false };

export class ClaimRequests {
  readonly #context: Context;
  readonly #looks = new LookCache();
  readonly #lookMerges = new Merges<LookCall, Candidates>(1000);
  readonly #claimMerges = new Merges<ClaimCall, Claimed>(100);
  /** Claims in progress, by request id: a repeated request gets the same answer. */
  readonly #claiming = new Map<string, Promise<Claimed>>();
  readonly #hints: ClaimHints = {
    floors: new Floors(),
    limited: new Set(),
    flow: new Set(),
    tried: new Caution(),
    // a claim that is not plain costs a statement and no error
    lanes: new Caution(4),
    workers: new Map(),
  };

  constructor(context: Context) {
    this.#context = context;
  }

  /** Units were added: what was seen before is outdated. */
  unitsAdded(ns: string): void {
    this.#looks.delete(ns);
  }

  /** Workers were removed: the next claim of each creates it again. */
  workersRemoved(): void {
    this.#hints.workers.clear();
  }

  async candidates(
    ns: string,
    { requestId, fresh, topPriorities = false }: CandidatesRequest,
    now: number,
  ): Promise<Candidates> {
    const earlier = fresh || !this.#context.fastPaths ? null : this.#looks.usable(ns);
    // a copy for each caller, which may sort it
    if (earlier !== null)
      return { ...earlier.answer, candidates: [...earlier.answer.candidates], look: earlier.number };
    const look = (asked: readonly LookCall[]): Promise<Candidates[]> =>
      this.#candidates(
        ns,
        asked.map((one) => one.requestId),
        Math.max(...asked.map((one) => one.now)),
      );
    const answer = await this.#lookMerges.ask(ns, { requestId, now }, look);
    if (fresh) await this.#holdLanes(ns, answer, requestId, now);
    if (topPriorities) await readTopPriorities(this.#context.db, answer.candidates);
    return answer;
  }

  /**
   * Looks whether all partitions of a work spec are held. This is later than the look, which callers share: what holds them may be a
   * claim of the same request.
   */
  async #holdLanes(ns: string, answer: Candidates, requestId: string | null, now: number): Promise<void> {
    const { db } = this.#context;
    const laned = answer.candidates.filter(({ meta, available }) => hasLanes(meta) && available > 0);
    for (const candidate of laned)
      candidate.held ??= await db.transaction((tx) => heldLanes(tx, candidate.id, now), { repeatable: true });
    if (requestId !== null && answer.repeated === null && laned.some(({ held }) => held !== null))
      answer.repeated = await readAnswer(db, ns, requestId, now);
  }

  /** One look for all requests, with the attempts that each repeated request was given before. */
  async #candidates(ns: string, requestIds: readonly (string | null)[], now: number): Promise<Candidates[]> {
    // catch up on overdue work first, except on what other transactions have locked
    for (let tries = 0; ; tries++) {
      const read = await readCandidates(this.#context.db, ns, requestIds, now);
      if (read === null)
        return requestIds.map(() => ({ settings: defaultNamespaceSettings, candidates: [], repeated: null }));
      const past = read.candidates.filter(({ nextDue }) => nextDue > 0 && nextDue <= now);
      if (past.length === 0 || tries === 3) {
        for (const { id, meta } of read.candidates) {
          const { limited, flow } = this.#hints;
          if (meta.maxRunning > 0 || meta.continuous) limited.add(id);
          else limited.delete(id);
          if (hasFlowRules(meta)) flow.add(id);
          else flow.delete(id);
        }
        if (read.candidates.some(({ meta }) => hasLanes(meta))) this.#context.laned.add(ns);
        else this.#context.laned.delete(ns);
        if (read.candidates.some(({ meta }) => hasBreaker(meta))) this.#context.counted.add(ns);
        else this.#context.counted.delete(ns);
        const { settings, candidates, repeated, arrivals } = read;
        for (const { id, available } of candidates)
          if (available > 0) await this.#hints.floors.look(this.#context.db, id, arrivals.get(id) ?? -1);
        if (!this.#context.borrowed)
          this.#looks.remember(ns, read.only, { settings, candidates, repeated: null });
        const limited = candidates.some(({ meta }) => meta.limits.length > 0);
        const limits = limited ? await readLimits(this.#context.db, ns) : undefined;
        const answers: Candidates[] = [];
        for (const [i] of requestIds.entries()) {
          const keys = repeated.get(i);
          answers.push({
            settings,
            candidates: [...candidates],
            ...(limits !== undefined && { limits }),
            repeated: keys === undefined ? null : await readAttempts(this.#context.db, ns, keys, now),
          });
        }
        return answers;
      }
      for (const { id } of past) await this.#context.catchUp(this.#context.db, id, now);
    }
  }

  async claim(ns: string, claim: Claim, now: number): Promise<Claimed> {
    const { requestId } = claim;
    if (requestId === null) return this.#claim(ns, claim, now);
    const key = pairKey(ns, requestId);
    const earlier = this.#claiming.get(key);
    if (earlier !== undefined) return earlier;
    const answer = this.#claim(ns, claim, now);
    this.#claiming.set(key, answer);
    try {
      return await answer;
    } finally {
      this.#claiming.delete(key);
    }
  }

  /** Merges concurrent claims of a few units each into one statement and one commit. */
  async #claim(ns: string, claim: Claim, now: number): Promise<Claimed> {
    const { workSpec, maxRetries, requestId, look } = claim;
    const call = (asked: readonly ClaimCall[]): Promise<Claimed[]> => this.#claims(ns, asked);
    let answer: Claimed;
    if (claim.limit > few || this.#context.borrowed) answer = (await call([{ claim, now }]))[0] ?? noClaim;
    else {
      const key = `${workSpec.id} ${maxRetries} ${requestId === null} ${look === undefined} ${ns}`;
      answer = await this.#claimMerges.ask(key, { claim, now }, call);
    }
    if (answer.stale === true && look !== undefined) this.#looks.refute(ns, look);
    return answer;
  }

  /**
   * Claims of one work spec, all after a fresh look or all after an earlier one. A claim whose earlier look is no longer cached
   * cannot be checked, and claims nothing.
   */
  async #claims(ns: string, asked: readonly ClaimCall[]): Promise<Claimed[]> {
    // before the statement: its attempts are returned, even if the look is dropped meanwhile
    const looks = asked.map(({ claim }) =>
      claim.look === undefined ? null : this.#looks.find(ns, claim.look),
    );
    const holds = asked.map(({ claim }, i) => claim.look === undefined || looks[i] !== null);
    const claiming = {
      db: this.#context.timely,
      ns,
      hints: this.#hints,
      allocate: this.#context.allocate,
      workerLifetimeMs,
      fastPaths: this.#context.fastPaths,
      borrowed: this.#context.borrowed,
      seen: looks.find((look) => look !== null)?.only ?? null,
      now: Math.max(...asked.map(({ now }) => now)),
    };
    const held = asked.filter((_, i) => holds[i]).map(({ claim }) => claim);
    const answers = await claimUnits(claiming, held);
    if (answers.some(({ freed }) => freed === true)) await this.#context.changed(ns);
    let at = 0;
    return holds.map((held) =>
      held ? (answers[at++] ?? noClaim) : { attempts: [], more: false, stale: true },
    );
  }
}
