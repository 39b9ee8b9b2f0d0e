/**
 * A model of the whole life of a unit, small enough to verify by reading: plain lists that are searched from end to end, and a
 * second implementation of every rule. It shares no code with the engine or a store except the conversion of names to bytes.
 *
 * Each verb is one call. Messages about ended units come in the order of its changes. Consequences for dependents come after
 * them, level by level, in the order of unit ids. A change to a unit with pending consequences applies them first.
 */
import { nameToBytes } from "../../src/core/index.ts";

/** `periodMs` and `burst` are always given. */
export interface ModelRate {
  limit?: number;
  periodMs?: number;
  burst?: number;
}

export type ModelAction = "finish" | "fail" | "error" | "retry" | "expire" | "renew";

export interface ModelAttempt {
  unit: ModelUnit;
  number: number;
  worker: string;
  status: "pending" | "expired" | "finished" | "failed" | "retryable";
  /** Null if the time is not guaranteed: a failure caused by a lease that expired some time ago. */
  start: number | null;
  end: number | null;
  expiration: number | null;
  data: string | null;
  late: boolean;
  /** Why the attempt failed the unit; null if it did not. */
  reason: string | null;
  /** The attempt no longer holds the unit. */
  replaced: boolean;
  /** The attempt lost the unit while it was running, and its worker has not settled it since. */
  lost: boolean;
}

export interface ModelNeed {
  unit: ModelUnit;
  hard: boolean;
  /** Once met, it stays met, whatever happens to that unit. */
  met: boolean;
}

export interface ModelUnit {
  /** Ascending, in the order in which units were made. */
  id: number;
  spec: string;
  name: string;
  data: string | null;
  priority: number;
  notBefore: number;
  created: number;
  attempts: ModelAttempt[];
  /** Attempts since the unit was added or reset, except those returned as untried. */
  tries: number;
  needs: ModelNeed[];
  queues: readonly string[];
  labels: readonly string[];
  partition: string;
  /** Overrides the setting of its work spec; 0 is unlimited. */
  maxRetries: number | undefined;
  /** `deadline`: when the unit becomes late. `expires`: when it fails unless it has started. 0 is never. */
  deadline: number;
  expires: number;
  /** The unit was still waiting at its deadline. From then on it is claimed first. */
  late: boolean;
  /** The aging points of its work spec when the unit started to wait. */
  behind: number;
  /** When the unit was last added again or reset; 0 is never. */
  since: number;
  /** The attempt whose output made the unit. */
  origin: ModelAttempt | null;
  deleted: boolean;
}

export interface ModelBreaker {
  failures: number;
  min: number;
  windowMs: number;
  pauseMs: number;
  probes: number;
  slow: boolean;
}

/** The outcomes that a breaker has counted, and since when it is open (null: closed). */
export interface ModelTrip {
  outcomes: { at: number; good: boolean }[];
  from: number;
  since: number | null;
  until: number;
  left: number;
  good: number;
}

export const noTrip = (): ModelTrip => ({ outcomes: [], from: 0, since: null, until: 0, left: 0, good: 0 });

/** Closes the breaker, after an operator's request or successful probes. */
export function closeBreaker({ trip }: ModelSpec): void {
  if (trip.since === null) return;
  trip.from = Math.max(trip.since, trip.from) + 1;
  trip.since = null;
  trip.outcomes = [];
}

/** The priority points that units gain per minute, since when, and the points gained before that. */
export interface ModelAging {
  pace: number;
  since: number;
  points: number;
}

const gained = ({ pace, since, points }: ModelAging, at: number): number =>
  points + (at > since ? (pace * (at - since)) / 60_000 : 0);

/** Changes the pace. Units keep the points that they have gained. */
export const changedAging = (old: ModelAging, pace: number, now: number): ModelAging =>
  pace === old.pace ? old : { pace, since: now, points: gained(old, now) };

export interface ModelSpec {
  name: string;
  then: string;
  paused: boolean;
  weight: number;
  /** The priority of the work spec among work specs, not that of its units. */
  priority: number;
  /** The labels that a worker must have. */
  requires: readonly string[];
  aging: ModelAging;
  maxRunning: number;
  maxGetwork: number;
  maxRetries: number;
  maxRunningPerPartition: number;
  rate: ModelRate;
  ratePerPartition: ModelRate;
  order: boolean;
  fair: boolean;
  weights: Readonly<Record<string, number>>;
  limits: readonly string[];
  /** The partition that was served last. `full` and `fullOf` below are when the token buckets are full again. */
  cursor: string;
  /** The number of units that this partition has had in its turn. */
  turn: number;
  full: number;
  fullOf: Map<string, number>;
  breaker: ModelBreaker | null;
  trip: ModelTrip;
  /** Linear backoff: each wait is longer by this many milliseconds; null if not set. */
  backoff: number | null;
  maxWaiting: number;
  retention: Partial<Record<"finished" | "failed", { maxAge?: number; maxCount?: number }>>;
  removed: { finished: number; failed: number };
}

export interface ModelMessage {
  spec: string;
  unit: string;
  number: number;
  status: "finished" | "failed";
  data: string | null;
  /** Null if the time is not guaranteed. */
  at: number | null;
  /** The call that sent the message. If `loose`, the order within the call is not guaranteed. */
  call: number;
  loose: boolean;
}

export interface ModelPut {
  name: string;
  data: string | null;
  priority: number;
  delay: number;
  /** Undefined keeps the dependencies of the unit. */
  needs?: { spec: string; name: string; hard: boolean }[];
  queues: readonly string[];
  labels: readonly string[];
  partition?: string;
  maxRetries?: number | undefined;
  /** In milliseconds from now; undefined is never. */
  deadline?: number | undefined;
  expires?: number | undefined;
  /** What happens if the unit exists; undefined is `update`. */
  conflict?: "replace" | "data" | "ignore" | "refuse" | undefined;
}

/** A limit that work specs share. */
export interface ModelLimit {
  maxRunning: number;
  rate: ModelRate;
  full: number;
}

/** A record that a worker started an attempt of a work spec, or worked on one for `ms`. */
interface ModelWork {
  spec: ModelSpec;
  at: number;
  /** Null for a start. */
  ms: number | null;
  /** Whether a sweep has written the record to the history, which is kept for a day. */
  recorded: boolean;
}

/** The measurements of each work spec, used for two seconds; and mean durations that had to be read from the history of the last day. */
interface ModelReading {
  until: number;
  measured: Map<ModelSpec, { started: number; workedMs: number; meanMs: number | null }>;
  ofDay: Map<ModelSpec, number | null>;
}

export interface ModelExplained {
  workSpec: string;
  excluded: string | null;
  weight: number;
  priority: number;
  hasWork: boolean;
  pending: number;
  /** Null for excluded work specs. */
  score: number | null;
  chance: number;
  targetShare: number;
  measuredShare: number | null;
  meanMs: number | null;
}

const minute = 60_000;
const floorTo = (time: number, step: number): number => Math.floor(time / step) * step;
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** A version as one number, for the few small components that the tests use. */
const versionOf = (text: string): number => sum(text.split(".").map((part, i) => Number(part) / 1000 ** i));

function meets(labels: readonly string[], requirement: string): boolean {
  const [, name, relation = "", wanted = ""] = /^(\w+)(?:(>=|<=|!=|[=<>])(.+))?$/.exec(requirement) ?? [];
  const values = labels.flatMap((label) => {
    const [own, value = ""] = label.split("=");
    return own === name ? [value] : [];
  });
  if (relation === "!=") return values.every((value) => value !== wanted);
  return values.some((value) => {
    if (relation === "") return true;
    if (relation === "=") return value === wanted;
    const [has, needs] = [versionOf(value), versionOf(wanted)];
    if (has === needs) return relation.endsWith("=");
    return has > needs === relation.startsWith(">");
  });
}

export type ModelStatus = "available" | "delayed" | "blocked" | "pending" | "finished" | "failed";

const isRunningOrEnded = (status: string): status is "pending" | "finished" | "failed" =>
  status === "pending" || status === "finished" || status === "failed";

/** The time until the bucket is full again. One that a slower rate left empty has one token. */
const filling = ({ limit = 0, periodMs = 0, burst = 0 }: ModelRate, full: number, now: number): number =>
  full - now > (burst * periodMs) / limit + 60_000
    ? ((burst - 1) * periodMs) / limit
    : Math.max(0, full - now);

const tokensOf = (rate: ModelRate, full: number, now: number): number => {
  const { limit = 0, periodMs = 0, burst = 0 } = rate;
  if (limit === 0) return Infinity;
  return Math.floor(burst - (filling(rate, full, now) * limit) / periodMs + 1e-6);
};

const takeTokens = (rate: ModelRate, full: number, now: number, count: number): number => {
  const { limit = 0, periodMs = 0 } = rate;
  return limit === 0 || count === 0 ? full : now + filling(rate, full, now) + (count * periodMs) / limit;
};

/** Whether the partition that was served last may have more units in its turn. */
const goesOn = ({ fair, weights, cursor, turn }: ModelSpec): boolean =>
  fair && turn > 0 && turn < (weights[cursor] ?? 1);

/** Late units first, by deadline; then by priority including aging points. */
function moreUrgent(a: ModelUnit, b: ModelUnit): number {
  if (a.late || b.late) return a.late && b.late ? a.deadline - b.deadline : a.late ? -1 : 1;
  return b.priority - b.behind - (a.priority - a.behind);
}

export const isLaned = ({ maxRunningPerPartition, ratePerPartition, order, fair }: ModelSpec): boolean =>
  maxRunningPerPartition > 0 || (ratePerPartition.limit ?? 0) > 0 || order || fair;

/** The status of an attempt after each action with which a worker reports its outcome. */
const outcomes = { finish: "finished", fail: "failed", error: "retryable", retry: "retryable" };

const withMembers = (data: string | null, members: object): string =>
  JSON.stringify({ ...(JSON.parse(data ?? "{}") as object), ...members });

const tracebackOf = (data: string | null): string | null =>
  (JSON.parse(data ?? "{}") as { traceback?: string }).traceback ?? null;

/** The data without the traces of the failure, when a finish replaces a failure. */
const withoutFailure = (data: string, exhausted: boolean): string => {
  const members = JSON.parse(data) as Record<string, unknown>;
  delete members.traceback;
  delete members.failed_dependency;
  if (exhausted) {
    delete members.last_error;
    delete members.tries;
  }
  return JSON.stringify(members);
};

const tooOften = (error: string | null, tries: number): object => ({
  traceback: "too many retries",
  ...(error !== null && { last_error: error }),
  tries,
});

export class Model {
  now = 0;
  specs: ModelSpec[] = [];
  units: ModelUnit[] = [];
  queues = new Map<string, ModelMessage[]>();
  limits = new Map<string, ModelLimit>();
  /** Whether weights are shares of worker time. */
  sharesTime = false;
  /** The number of units that became late, and are claimed first or have failed. */
  lateUnits = 0;
  #works: ModelWork[] = [];
  #recordedUntil = 0;
  #reading: ModelReading = { until: 0, measured: new Map(), ofDay: new Map() };
  #lastId = 0;
  #call = 0;
  #loose = false;
  /** Units that ended or were deleted in this call and whose dependents have not been updated yet. */
  #ended: ModelUnit[] = [];
  /** The time that attempts and messages get; null while it is not guaranteed. */
  #moment: number | null = 0;

  // ---- reading

  spec(name: string): ModelSpec | undefined {
    return this.specs.find((spec) => spec.name === name);
  }

  find(spec: string, name: string): ModelUnit | undefined {
    return this.units.find((unit) => unit.spec === spec && unit.name === name);
  }

  /** The attempt that holds the unit, if any. */
  current(unit: ModelUnit): ModelAttempt | undefined {
    const last = unit.attempts.at(-1);
    return last?.replaced === false ? last : undefined;
  }

  status(unit: ModelUnit): ModelStatus {
    const attempt = this.current(unit);
    if (attempt !== undefined && isRunningOrEnded(attempt.status)) return attempt.status;
    if (unit.needs.some((need) => this.needState(need) !== "met")) return "blocked";
    return unit.notBefore > this.now ? "delayed" : "available";
  }

  needState({ unit, hard, met }: ModelNeed): "met" | "open" | "broken" {
    if (met) return "met";
    const failed = unit.deleted || this.current(unit)?.status === "failed";
    if (failed) return hard ? "broken" : "met";
    return this.current(unit)?.status === "finished" ? "met" : "open";
  }

  list(spec: string): ModelUnit[] {
    return this.units
      .filter((unit) => unit.spec === spec)
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }

  counts(spec: string): Record<ModelStatus, number> {
    const counts = { available: 0, delayed: 0, blocked: 0, pending: 0, finished: 0, failed: 0 };
    for (const unit of this.list(spec)) counts[this.status(unit)]++;
    return counts;
  }

  /** The attempts that a worker has not settled, in the order of units; lost ones until their lease would have expired. */
  held(worker: string): ModelAttempt[] {
    return this.units
      .flatMap(({ attempts }) => attempts)
      .filter((attempt) => attempt.worker === worker)
      .filter(
        (attempt) => attempt.status === "pending" || (attempt.lost && (attempt.expiration ?? 0) > this.now),
      );
  }

  // ---- calls

  #begin(loose = false): void {
    this.#call++;
    this.#loose = loose;
    this.#moment = this.now;
  }

  #tell(unit: ModelUnit, attempt: ModelAttempt): void {
    if (attempt.status !== "finished" && attempt.status !== "failed") return;
    for (const queue of unit.queues) {
      const messages = this.queues.get(queue) ?? [];
      this.queues.set(queue, messages);
      messages.push({
        spec: unit.spec,
        unit: unit.name,
        number: attempt.number,
        status: attempt.status,
        data: attempt.data ?? unit.data,
        at: this.#moment,
        call: this.#call,
        loose: this.#loose,
      });
    }
  }

  #end(unit: ModelUnit, attempt: ModelAttempt): void {
    this.#tell(unit, attempt);
    this.#ended.push(unit);
  }

  /** Applies the consequences of ended units to their dependents, level by level. */
  #follow(): void {
    while (this.#ended.length > 0) {
      const ended = new Set(this.#ended);
      this.#ended = [];
      const dependents = this.units
        .filter((unit) => unit.needs.some((need) => ended.has(need.unit)))
        .sort((a, b) => a.id - b.id);
      for (const unit of dependents)
        for (const need of unit.needs) if (ended.has(need.unit)) need.met = this.needState(need) === "met";
      for (const unit of dependents) this.#wait(unit);
    }
  }

  /** Fails a waiting unit if a dependency is broken or the unit has expired; marks it as late if its deadline has passed. */
  #wait(unit: ModelUnit): void {
    if (isRunningOrEnded(this.status(unit))) return;
    const broken = unit.needs.find((need) => this.needState(need) === "broken")?.unit;
    if (broken !== undefined) this.#failBroken(unit, broken);
    else if (unit.expires > 0 && unit.expires <= this.now) this.#failLate(unit);
    else if (unit.deadline > 0 && unit.deadline <= this.now && !unit.late) {
      unit.late = true;
      this.lateUnits++;
    }
  }

  /** Fails an expired unit. The failure is dated back to the expiry, or to the last time the unit was added or tried, if later. */
  #failLate(unit: ModelUnit): void {
    const moment = this.#moment;
    // the time at which a dependency ended is not always guaranteed
    const times = [unit.expires, unit.created, unit.since, unit.attempts.at(-1)?.end ?? 0];
    this.#moment = unit.needs.length > 0 ? null : Math.max(...times);
    if (!unit.late) this.lateUnits++;
    this.#fail(unit, "", "late", {
      traceback: `late: not begun by ${new Date(unit.expires).toISOString()}`,
    });
    this.#moment = moment;
  }

  #failBroken(unit: ModelUnit, broken: ModelUnit): void {
    const how = broken.deleted ? "was deleted" : "failed";
    this.#fail(unit, "", "dependency", {
      traceback: `dependency ${broken.name} of work spec ${broken.spec} ${how}`,
      failed_dependency: broken.name,
    });
  }

  /**
   * Whether consequences are pending for the unit: it ended in this call and others depend on it, or it is blocked, directly or over
   * other blocked units, by one that ended.
   */
  #isConcerned(unit: ModelUnit): boolean {
    const seen = new Set<ModelUnit>();
    const reaches = (one: ModelUnit): boolean => {
      if (seen.has(one) || isRunningOrEnded(this.status(one))) return false;
      seen.add(one);
      // also true for a unit whose last dependency has just ended: it has not been unblocked yet
      return one.needs.some((need) => !need.met && (this.#ended.includes(need.unit) || reaches(need.unit)));
    };
    const isAwaited = (): boolean => this.units.some(({ needs }) => needs.some((need) => need.unit === unit));
    return (this.#ended.includes(unit) && isAwaited()) || reaches(unit);
  }

  #beforeChange(unit: ModelUnit | undefined): void {
    if (unit === undefined || !this.#isConcerned(unit)) return;
    // only the consequences for the unit itself are guaranteed to come before this change, not those of other units in this call
    this.#loose = true;
    for (const messages of this.queues.values())
      for (const message of messages) if (message.call === this.#call) message.loose = true;
    this.#follow();
  }

  // ---- transitions

  /** Takes the unit away from its attempt. */
  #supersede(unit: ModelUnit): void {
    const attempt = this.current(unit);
    if (attempt === undefined) return;
    attempt.replaced = true;
    if (attempt.status !== "pending") return;
    attempt.status = "expired";
    attempt.end = this.now;
    attempt.lost = true;
  }

  #attempt(unit: ModelUnit, worker: string, lease: number): ModelAttempt {
    this.#supersede(unit);
    const before = unit.attempts.at(-1)?.end ?? 0;
    const waited = unit.needs.flatMap((need) => this.current(need.unit)?.end ?? []);
    const start = Math.max(this.now, before, ...waited);
    const attempt: ModelAttempt = {
      unit,
      number: unit.attempts.length + 1,
      worker,
      status: "pending",
      start,
      end: 0,
      expiration: start + lease,
      data: unit.data,
      late: false,
      reason: null,
      replaced: false,
      lost: false,
    };
    unit.attempts.push(attempt);
    return attempt;
  }

  /** Fails the unit with an attempt that no worker ran. */
  #fail(unit: ModelUnit, worker: string, reason: string, noted: object): void {
    const attempt = this.#attempt(unit, worker, 0);
    attempt.status = "failed";
    attempt.reason = reason;
    attempt.start = attempt.end = attempt.expiration = this.#moment;
    attempt.data = withMembers(unit.data, noted);
    this.#end(unit, attempt);
  }

  /** Fails a unit that has used all its retries. */
  #exhaust(unit: ModelUnit, worker: string): void {
    const last = this.current(unit);
    const error =
      last?.status === "expired"
        ? `the lease of worker ${last.worker} ended`
        : tracebackOf(last?.data ?? null);
    this.#fail(unit, worker, "exhausted", tooOften(error, unit.tries));
  }

  /** Advances the clock: leases expire, and waiting units may become late or fail. */
  advance(ms: number): void {
    this.now += ms;
    this.#begin(true);
    this.#moment = null;
    // first deadlines and expiries, in the order of time; then expired leases
    const passed = (time: number): boolean => time > 0 && time <= this.now;
    const timer = ({ deadline, expires }: ModelUnit): number => (passed(expires) ? expires : deadline);
    const rung = this.units
      .filter((unit) => passed(unit.expires) || passed(unit.deadline))
      .sort((a, b) => timer(a) - timer(b) || a.id - b.id);
    for (const unit of rung) this.#wait(unit);
    this.#follow();
    const late = this.units.filter((unit) => {
      const attempt = this.current(unit);
      return attempt?.status === "pending" && (attempt.expiration ?? 0) <= this.now;
    });
    for (const unit of late) {
      const attempt = this.current(unit);
      if (attempt === undefined) continue;
      attempt.status = "expired";
      attempt.end = attempt.expiration;
    }
    // in the order in which the leases expired
    late.sort((a, b) => (this.current(a)?.end ?? 0) - (this.current(b)?.end ?? 0) || a.id - b.id);
    for (const unit of late) this.#wait(unit);
    this.#follow();
  }

  // ---- adding

  /** The error code with which the add is refused, or null. */
  refusal(spec: string, puts: readonly ModelPut[]): string | null {
    const { maxWaiting = 0 } = this.spec(spec) ?? {};
    if (this.spec(spec) === undefined) return "no_such_work_spec";
    for (const [i, { name, conflict }] of puts.entries())
      if (
        conflict === "refuse" &&
        (this.find(spec, name) ?? puts.slice(0, i).find((put) => put.name === name))
      )
        return "name_exists";
    const { available, delayed, blocked } = this.counts(spec);
    const more = new Set(
      puts
        .filter((put) => {
          const unit = this.find(spec, put.name);
          return unit === undefined || (this.#comesBack(unit, put) && put.conflict !== "ignore");
        })
        .map(({ name }) => name),
    );
    if (maxWaiting > 0 && more.size > maxWaiting) return "too_large";
    if (maxWaiting > 0 && more.size > 0 && available + delayed + blocked + more.size > maxWaiting)
      return "queue_full";
    const key = (spec: string, name: string): string => JSON.stringify([spec, name]);
    const edges = new Map<string, string[]>();
    for (const unit of this.units)
      edges.set(
        key(unit.spec, unit.name),
        unit.needs.filter((need) => !need.unit.deleted).map((need) => key(need.unit.spec, need.unit.name)),
      );
    const names = new Set([...edges.keys(), ...puts.map(({ name }) => key(spec, name))]);
    for (const [i, { name, needs, conflict }] of puts.entries()) {
      if (needs === undefined) continue;
      if (needs.some((need) => !names.has(key(need.spec, need.name)))) return "bad_dependency";
      const there = this.find(spec, name) ?? puts.slice(0, i).find((put) => put.name === name);
      if (there !== undefined && (conflict === "data" || conflict === "ignore")) continue;
      edges.set(
        key(spec, name),
        needs.map((need) => key(need.spec, need.name)),
      );
    }
    for (const { name, needs } of puts) {
      if (needs === undefined) continue;
      const start = key(spec, name);
      const reached = new Set<string>();
      const work = [...(edges.get(start) ?? [])];
      for (let at = work.pop(); at !== undefined; at = work.pop()) {
        if (at === start) return "dependency_cycle";
        if (reached.has(at)) continue;
        reached.add(at);
        work.push(...(edges.get(at) ?? []));
      }
    }
    return null;
  }

  add(spec: string, puts: readonly ModelPut[]): { name: string; created: boolean; status: ModelStatus }[] {
    this.#begin();
    const made = new Set<ModelUnit>();
    // units may depend on others of the same call, in any order
    const units = puts.map(({ name }) => {
      const there = this.find(spec, name);
      if (there !== undefined) return there;
      const unit = this.#make(spec, name);
      made.add(unit);
      return unit;
    });
    const answers = puts.map((put, i) => {
      const unit = units[i];
      if (unit === undefined) throw new Error("unreachable");
      const created = made.delete(unit);
      if (!created) this.#beforeChange(unit);
      if (created || put.conflict !== "ignore") this.#put(unit, put, null, created);
      return { name: put.name, created, unit, status: this.status(unit) };
    });
    this.#follow();
    return answers;
  }

  #make(spec: string, name: string): ModelUnit {
    const unit: ModelUnit = {
      id: ++this.#lastId,
      spec,
      name,
      data: null,
      priority: 0,
      notBefore: 0,
      created: this.now,
      attempts: [],
      tries: 0,
      needs: [],
      queues: [],
      labels: [],
      partition: "",
      maxRetries: undefined,
      deadline: 0,
      expires: 0,
      late: false,
      behind: 0,
      since: 0,
      origin: null,
      deleted: false,
    };
    this.units.push(unit);
    return unit;
  }

  #comesBack(unit: ModelUnit, { conflict }: ModelPut): boolean {
    const status = this.status(unit);
    return status === "finished" || status === "failed" || (status === "pending" && conflict === "replace");
  }

  #put(unit: ModelUnit, put: ModelPut, origin: ModelAttempt | null, created = false): void {
    this.#beforeChange(unit);
    const again = this.#comesBack(unit, put);
    if (again) {
      this.#supersede(unit);
      unit.tries = 0;
      unit.since = this.now;
    }
    unit.data = put.data;
    if (put.conflict === "data" && !created) {
      this.#wait(unit);
      return;
    }
    unit.behind = this.#place(unit, put, created || again);
    unit.priority = put.priority;
    unit.notBefore = put.delay > 0 ? this.now + put.delay : 0;
    unit.deadline = put.deadline === undefined ? 0 : this.now + put.deadline;
    unit.expires = put.expires === undefined ? 0 : this.now + put.expires;
    unit.late = false;
    unit.queues = put.queues;
    unit.labels = put.labels;
    unit.partition = put.partition ?? "";
    unit.maxRetries = put.maxRetries;
    if (origin !== null) unit.origin = origin;
    if (put.needs !== undefined)
      unit.needs = put.needs.map(({ spec, name, hard }) => {
        const target = this.find(spec, name);
        if (target === undefined) throw new Error("unreachable");
        // a dependency that has just ended counts as ended, before its other consequences are applied
        const need = { unit: target, hard, met: false };
        need.met = this.needState(need) === "met";
        return need;
      });
    this.#wait(unit);
  }

  /** The aging points of the unit's work spec at this time. */
  #pointsAt(unit: ModelUnit, time: number): number {
    const aging = this.spec(unit.spec)?.aging;
    return aging === undefined ? 0 : gained(aging, time);
  }

  /** The aging points from which the unit counts: a unit that already waits keeps its gain, unless it is delayed again. */
  #place(unit: ModelUnit, { delay }: ModelPut, fresh: boolean): number {
    const aging = this.spec(unit.spec)?.aging;
    if (aging === undefined) return 0;
    const place = gained(aging, this.now + delay);
    if (fresh || delay > 0) return place;
    return Math.min(unit.behind, place);
  }

  // ---- choosing

  /** The first rule that excludes the work spec, or null. `labels` are those of the worker; undefined matches all. */
  #excluded(spec: ModelSpec, only: string | undefined, labels: readonly string[] | undefined): string | null {
    const { available, pending } = this.counts(spec.name);
    const limits = this.#limitsOf(spec);
    const probes = this.now >= spec.trip.until ? (spec.breaker?.probes ?? 0) : spec.trip.left;
    const rules: [string, boolean][] = [
      ["paused", spec.paused],
      ["no_weight", spec.weight <= 0],
      ["other_work_spec", only !== undefined && only !== spec.name],
      ["needs_labels", labels !== undefined && !spec.requires.every((one) => meets(labels, one))],
      ["max_running", spec.maxRunning > 0 && pending >= spec.maxRunning],
      ["breaker", spec.breaker !== null && spec.trip.since !== null && probes <= 0],
      ["rate", tokensOf(spec.rate, spec.full, this.now) < 1],
      ["partitions", available > 0 && this.#best(spec.name) === undefined],
      ["limit", limits.some((one) => one.maxRunning > 0 && one.running >= one.maxRunning)],
      ["limit", limits.some(({ rate, full }) => tokensOf(rate, full, this.now) < 1)],
      ["no_work", available === 0],
    ];
    return rules.find(([, applies]) => applies)?.[0] ?? null;
  }

  /** The work specs whose units a worker with these labels may get. */
  open(labels: readonly string[]): ModelSpec[] {
    return this.specs.filter((spec) => this.#excluded(spec, undefined, labels) === null);
  }

  /** For every work spec, in name order: whether it may be chosen for `number` units, and its score. */
  #judge(
    only: string | undefined,
    labels: readonly string[] | undefined,
    number: number,
  ): { spec: ModelSpec; excluded: string | null; score: number; pending: number }[] {
    const judged = [...this.specs]
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map((spec) => ({
        spec,
        excluded: this.#excluded(spec, only, labels),
        score: 0,
        pending: this.counts(spec.name).pending,
      }));
    const highest = Math.max(
      ...judged.filter(({ excluded }) => excluded === null).map(({ spec }) => spec.priority),
    );
    for (const one of judged)
      if (one.excluded === null && one.spec.priority < highest) one.excluded = "lower_priority";
    const left = judged.filter(({ excluded }) => excluded === null);
    const weights = sum(left.map(({ spec }) => spec.weight));
    const running = sum(left.map(({ pending }) => pending));
    const means = left.flatMap(({ spec }) => this.#reading.measured.get(spec)?.meanMs ?? []);
    const usual = means.length === 0 ? 1 : sum(means) / means.length;
    for (const one of left) {
      const { weight } = one.spec;
      const mean = this.#reading.measured.get(one.spec)?.meanMs ?? usual;
      const isEnough = this.sharesTime
        ? one.pending >= (weight / weights) * (running + number) + number
        : weight * (running + 1) <= weights * one.pending;
      if (isEnough) one.excluded = "enough_running";
      else
        one.score = this.sharesTime
          ? weight / Math.max(1, mean)
          : weight * (running + 1) - weights * one.pending;
    }
    return judged;
  }

  /** The attempts that a request gets: from the work spec `only`, or from one chosen by `draw`, from 0 to 1. */
  request(request: {
    only?: string | undefined;
    labels: readonly string[];
    number: number;
    lease: number;
    worker: string;
    draw: number;
  }): ModelAttempt[] {
    const { only, labels, number, lease, worker, draw } = request;
    for (;;) {
      if (this.sharesTime) this.#measure(false);
      const open = this.#judge(only, labels, number).filter(({ excluded }) => excluded === null);
      const total = sum(open.map(({ score }) => score));
      const before = (i: number): number => sum(open.slice(0, i + 1).map(({ score }) => score));
      const chosen = open.find((_, i) => draw * total < before(i)) ?? open.at(-1);
      if (chosen === undefined) return [];
      const given = this.claim(chosen.spec.name, number, lease, worker);
      if (given.length > 0) return given;
      // all its units had used their retries: choose again
    }
  }

  explain(labels: readonly string[] | undefined): ModelExplained[] {
    const { measured } = this.#measure(true);
    const judged = this.#judge(undefined, labels, 1);
    const total = sum(judged.map(({ score }) => score));
    const draws = judged.filter(({ excluded }) => excluded === null || excluded === "enough_running");
    const weights = sum(draws.map(({ spec }) => spec.weight));
    const doneBy = (spec: ModelSpec): number =>
      measured.get(spec)?.[this.sharesTime ? "workedMs" : "started"] ?? 0;
    const done = sum(judged.map(({ spec }) => doneBy(spec)));
    return judged.map((one) => {
      const { spec, excluded, score, pending } = one;
      return {
        workSpec: spec.name,
        excluded,
        weight: spec.weight,
        priority: spec.priority,
        hasWork: this.counts(spec.name).available > 0,
        pending,
        score: excluded === null ? score : null,
        chance: excluded === null ? score / total : 0,
        targetShare: draws.includes(one) ? spec.weight / weights : 0,
        measuredShare: done === 0 ? null : doneBy(spec) / done,
        meanMs: measured.get(spec)?.meanMs ?? null,
      };
    });
  }

  /** The work of the last ten minutes: the weight halves with each minute of age, and a minute counts for at most 20 attempts. */
  #measure(fresh: boolean): ModelReading {
    if (!fresh && this.now < this.#reading.until) return this.#reading;
    const reading: ModelReading = { until: this.now + 2000, measured: new Map(), ofDay: new Map() };
    for (const spec of this.specs) {
      const works = this.#works.filter((one) => one.spec === spec);
      const recent = works.filter(({ at }) => floorTo(at, minute) >= floorTo(this.now - 10 * minute, minute));
      const steps = [...new Set(recent.map(({ at }) => floorTo(at, minute)))].map((time) => {
        const ofStep = recent.filter(({ at }) => floorTo(at, minute) === time);
        const spans = ofStep.flatMap(({ ms }) => ms ?? []);
        const weight = 2 ** (-Math.max(0, this.now - time - minute) / minute);
        const counted = weight * Math.min(20, spans.length);
        const mean = spans.length === 0 ? 0 : sum(spans) / spans.length;
        return { weight, started: ofStep.length - spans.length, workedMs: sum(spans), counted, mean };
      });
      const counted = sum(steps.map((one) => one.counted));
      const known = this.#reading.ofDay.get(spec);
      let meanMs: number | null;
      if (counted > 0) meanMs = sum(steps.map((one) => one.counted * one.mean)) / counted;
      else {
        const from = floorTo(this.now - 24 * 60 * minute, 15 * minute);
        const day = works
          .filter(({ at, recorded }) => recorded && floorTo(at, 15 * minute) >= from)
          .flatMap(({ ms }) => ms ?? []);
        meanMs = known === undefined ? (day.length === 0 ? null : sum(day) / day.length) : known;
        reading.ofDay.set(spec, meanMs);
      }
      reading.measured.set(spec, {
        started: sum(steps.map((one) => one.weight * one.started)),
        workedMs: sum(steps.map((one) => one.weight * one.workedMs)),
        meanMs,
      });
    }
    return (this.#reading = reading);
  }

  /** Records the work of all complete steps of ten seconds. */
  #record(): void {
    const until = floorTo(this.now, 10_000);
    if (until > this.#recordedUntil)
      for (const work of this.#works) if (work.at < until) work.recorded = true;
    this.#recordedUntil = until;
  }

  #note(name: string, ms: number | null): void {
    const spec = this.spec(name);
    if (spec !== undefined) this.#works.push({ spec, at: this.now, ms, recorded: false });
  }

  // ---- claiming

  claim(specName: string, count: number, lease: number, worker: string): ModelAttempt[] {
    this.#begin();
    const spec = this.spec(specName);
    if (spec === undefined || spec.paused) return [];
    let places = count;
    if (spec.maxGetwork > 0) places = Math.min(places, spec.maxGetwork);
    if (spec.maxRunning > 0) places = Math.min(places, spec.maxRunning - this.counts(specName).pending);
    places = Math.min(places, tokensOf(spec.rate, spec.full, this.now));
    if (spec.breaker !== null && spec.trip.since !== null)
      places = Math.min(places, this.now >= spec.trip.until ? spec.breaker.probes : spec.trip.left);
    for (const { maxRunning, running, rate, full } of this.#limitsOf(spec)) {
      places = Math.min(places, tokensOf(rate, full, this.now));
      if (maxRunning > 0) places = Math.min(places, maxRunning - running);
    }
    const limit = places;
    const given: ModelAttempt[] = [];
    while (given.length === 0 && limit > 0) {
      for (places = limit; places > 0; places--) {
        const unit = this.#best(specName);
        if (unit === undefined) return this.#paid(spec, given);
        if (this.#isExhausted(unit)) {
          this.#exhaust(unit, worker);
          this.#follow();
        } else {
          given.push(this.#attempt(unit, worker, lease));
          this.#note(specName, null);
          unit.tries++;
          if (isLaned(spec)) {
            const { partition } = unit;
            spec.turn = partition === spec.cursor && goesOn(spec) ? spec.turn + 1 : 1;
            spec.cursor = partition;
            spec.fullOf.set(
              partition,
              takeTokens(spec.ratePerPartition, spec.fullOf.get(partition) ?? 0, this.now, 1),
            );
          }
        }
      }
    }
    return this.#paid(spec, given);
  }

  #paid(spec: ModelSpec, given: ModelAttempt[]): ModelAttempt[] {
    spec.full = takeTokens(spec.rate, spec.full, this.now, given.length);
    const { breaker, trip } = spec;
    if (breaker !== null && trip.since !== null && given.length > 0) {
      if (this.now >= trip.until) {
        trip.left = breaker.probes;
        trip.until = this.now + breaker.pauseMs;
      }
      trip.left -= given.length;
    }
    for (const { limit } of this.#limitsOf(spec))
      limit.full = takeTokens(limit.rate, limit.full, this.now, given.length);
    return given;
  }

  /** The shared limits of a work spec, each with the number of running units. */
  #limitsOf(spec: ModelSpec): (ModelLimit & { limit: ModelLimit; running: number })[] {
    return [...new Set(spec.limits)].flatMap((name) => {
      const limit = this.limits.get(name);
      const running = this.specs
        .filter((one) => one.limits.includes(name))
        .reduce((sum, one) => sum + this.counts(one.name).pending, 0);
      return limit === undefined ? [] : [{ ...limit, limit, running }];
    });
  }

  #best(name: string): ModelUnit | undefined {
    const spec = this.spec(name);
    const units = this.list(name);
    const first = (some: readonly ModelUnit[]): ModelUnit | undefined =>
      some.filter((unit) => this.status(unit) === "available").sort(moreUrgent)[0];
    if (spec === undefined || !isLaned(spec)) return first(units);
    const open: ModelUnit[] = [];
    for (const partition of new Set(units.map((unit) => unit.partition))) {
      const lane = units.filter((unit) => unit.partition === partition);
      const begun = lane.filter((unit) => this.current(unit) !== undefined && !this.#hasEnded(unit));
      const running = lane.filter((unit) => this.status(unit) === "pending").length;
      if (spec.order && running > 0) continue;
      if (spec.maxRunningPerPartition > 0 && running >= spec.maxRunningPerPartition) continue;
      if (tokensOf(spec.ratePerPartition, spec.fullOf.get(partition) ?? 0, this.now) < 1) continue;
      const unit = first(spec.order && begun.length > 0 ? begun : lane);
      if (unit !== undefined) open.push(unit);
    }
    // the rank of a lane is that of its most urgent unit, even if a unit that has already started goes first
    const rank = (unit: ModelUnit): ModelUnit =>
      first(units.filter((one) => one.partition === unit.partition)) ?? unit;
    const bytes = (text: string): Uint8Array => nameToBytes(text);
    const behind = (unit: ModelUnit): boolean =>
      Buffer.compare(bytes(unit.partition), bytes(spec.cursor)) < (goesOn(spec) ? 0 : 1);
    return open.sort(
      (a, b) =>
        (spec.fair ? 0 : moreUrgent(rank(a), rank(b))) ||
        Number(behind(a)) - Number(behind(b)) ||
        Buffer.compare(bytes(a.partition), bytes(b.partition)),
    )[0];
  }

  #hasEnded(unit: ModelUnit): boolean {
    return this.status(unit) === "finished" || this.status(unit) === "failed";
  }

  #limit(unit: ModelUnit): number {
    return unit.maxRetries ?? this.spec(unit.spec)?.maxRetries ?? 0;
  }

  #isExhausted(unit: ModelUnit): boolean {
    const limit = this.#limit(unit);
    return limit > 0 && unit.tries >= limit;
  }

  make(units: readonly ModelUnit[], lease: number, worker: string): ModelAttempt[] {
    this.#begin();
    return units.map((unit) => {
      unit.tries++;
      this.#note(unit.spec, null);
      return this.#attempt(unit, worker, lease);
    });
  }

  // ---- settling

  settle(
    changes: readonly {
      attempt: ModelAttempt;
      action: ModelAction;
      data: string | null;
      time: number;
      untried: boolean;
      recordTaken: boolean;
    }[],
  ): { error: string | null; changed: boolean; status: string | null }[] {
    this.#begin();
    const ended: { spec: string; start: number; good: boolean }[] = [];
    const answers = changes.map((change) => {
      const { attempt } = change;
      if (attempt.unit.deleted) return { error: "gone", changed: false, status: null };
      this.#beforeChange(attempt.unit);
      const answer = this.#settleOne(change);
      // a worker that renews is still running the unit; one that settles has learned that it lost the unit
      if (change.action !== "renew") attempt.lost = false;
      const { action } = change;
      if (answer.changed && !answer.taken && !(action === "retry" && change.untried) && action in outcomes)
        this.#note(attempt.unit.spec, this.now - (attempt.start ?? 0));
      if (answer.changed && !answer.taken && (action === "finish" || action === "fail" || action === "error"))
        ended.push({ spec: attempt.unit.spec, start: attempt.start ?? 0, good: action === "finish" });
      return { error: answer.error, changed: answer.changed, status: attempt.status };
    });
    this.#follow();
    for (const spec of this.specs)
      this.#countOutcomes(
        spec,
        ended.filter((one) => one.spec === spec.name),
      );
    return answers;
  }

  #countOutcomes(spec: ModelSpec, ended: readonly { start: number; good: boolean }[]): void {
    const { breaker, trip } = spec;
    if (breaker === null || ended.length === 0) return;
    if (trip.since !== null) {
      const probes = ended.filter(({ start }) => start > (trip.since ?? 0));
      if (probes.some(({ good }) => !good)) {
        trip.good = 0;
        if (breaker.slow) return;
        trip.left = 0;
        trip.until = this.now + breaker.pauseMs;
      } else {
        trip.good += probes.length;
        if (probes.length > 0 && trip.good >= breaker.probes) closeBreaker(spec);
      }
      return;
    }
    const at = Math.max(trip.from, this.now - (this.now % (breaker.windowMs / 10)));
    for (const { good } of ended) trip.outcomes.push({ at, good });
    trip.outcomes = trip.outcomes.filter((one) => one.at > this.now - breaker.windowMs);
    const failed = trip.outcomes.filter(({ good }) => !good).length;
    const enough = trip.outcomes.length >= breaker.min;
    if (!enough || ended.every(({ good }) => good) || failed < breaker.failures * trip.outcomes.length)
      return;
    const until = this.now + (breaker.slow ? 1 : breaker.pauseMs);
    Object.assign(trip, { since: this.now, until, left: 0, good: 0 });
  }

  #settleOne({
    attempt,
    action,
    data,
    time,
    untried,
    recordTaken,
  }: {
    attempt: ModelAttempt;
    action: ModelAction;
    data: string | null;
    time: number;
    untried: boolean;
    recordTaken: boolean;
  }): { error: string | null; changed: boolean; taken?: true } {
    const { unit, status } = attempt;
    const outcome = { ...outcomes, expire: "expired", renew: "" }[action];
    const repeated = { error: null, changed: false };
    if (status === outcome || (action === "error" && status === "failed")) return repeated;
    const isOpen = status === "pending" || status === "expired";
    if (!isOpen && !(status === "failed" && action === "finish" && !attempt.replaced))
      return { error: "not_pending", changed: false };
    const release = action === "expire" || (action === "renew" && time <= 0);
    const its = this.spec(unit.spec);
    const maxRunning = its?.maxRunning ?? 0;
    const isFull =
      (maxRunning > 0 && this.counts(unit.spec).pending >= maxRunning) ||
      this.#isLaneFull(unit) ||
      (its !== undefined &&
        this.#limitsOf(its).some((one) => one.maxRunning > 0 && one.running >= one.maxRunning));
    const taken = attempt.replaced && status === "expired" && (attempt.end ?? 0) < (attempt.expiration ?? 0);
    if (taken && recordTaken && ["finish", "fail", "retry"].includes(action)) {
      if (data !== null) attempt.data = data;
      attempt.status = outcome as "finished";
      return { error: null, changed: true, taken: true };
    }
    if (attempt.replaced || (action === "renew" && status === "expired" && time > 0 && isFull)) {
      if (action === "renew" && data !== null) attempt.data = data;
      return { error: "lost_lease", changed: false };
    }
    if (release && status === "expired" && data === null) return repeated;
    if (data !== null) attempt.data = data;
    else if (status === "failed" && attempt.data !== null && attempt.data !== unit.data)
      attempt.data = withoutFailure(attempt.data, attempt.reason === "exhausted");
    if (release) {
      if (status === "pending") this.#release(unit, attempt, untried);
    } else if (action === "renew") {
      attempt.late ||= status === "expired";
      attempt.status = "pending";
      attempt.expiration = this.now + time;
      attempt.end = 0;
    } else {
      attempt.late ||= status === "expired";
      attempt.status = outcome as "finished";
      attempt.reason = action === "fail" ? "error" : null;
      attempt.end = this.now;
      if (action === "error") this.#err(unit, attempt);
      else if (action === "retry") {
        if (untried) unit.tries--;
        unit.notBefore = time > 0 ? this.now + time : 0;
        this.#wait(unit);
      } else this.#end(unit, attempt);
      if (action === "finish") this.#chain(unit, attempt);
    }
    return { error: null, changed: true };
  }

  #isLaneFull({ spec: name, partition }: ModelUnit): boolean {
    const { maxRunningPerPartition = 0, order = false } = this.spec(name) ?? {};
    const running = this.list(name).filter(
      (one) => one.partition === partition && this.status(one) === "pending",
    );
    return (
      (order && running.length > 0) ||
      (maxRunningPerPartition > 0 && running.length >= maxRunningPerPartition)
    );
  }

  #err(unit: ModelUnit, attempt: ModelAttempt): void {
    attempt.data = withMembers(attempt.data, { traceback: "Error: boom" });
    const limit = this.#limit(unit);
    const { backoff = null } = this.spec(unit.spec) ?? {};
    if ((limit > 0 || backoff !== null) && !(limit > 0 && unit.tries >= limit)) {
      const wait = backoff === null ? 1000 * 2 ** (unit.tries - 1) : backoff * unit.tries;
      unit.notBefore = wait > 0 ? this.now + wait : 0;
      this.#wait(unit);
      return;
    }
    attempt.status = "failed";
    attempt.reason = limit > 0 ? "exhausted" : "error";
    if (limit > 0) attempt.data = withMembers(attempt.data, tooOften("Error: boom", unit.tries));
    this.#end(unit, attempt);
  }

  #release(unit: ModelUnit, attempt: ModelAttempt, untried: boolean): void {
    attempt.status = "expired";
    attempt.end = this.now;
    attempt.expiration = Math.min(attempt.expiration ?? 0, this.now);
    if (untried) unit.tries--;
    this.#wait(unit);
  }

  #chain(unit: ModelUnit, attempt: ModelAttempt): void {
    const then = this.spec(this.spec(unit.spec)?.then ?? "");
    if (then === undefined) return;
    const { output = [] } = JSON.parse(attempt.data ?? "{}") as { output?: string[] };
    for (const name of new Set(output)) {
      const there = this.find(then.name, name);
      this.#beforeChange(there);
      const put = { name, data: null, priority: 0, delay: 0, queues: [], labels: [], partition: "" };
      this.#put(there ?? this.#make(then.name, name), put, attempt, there === undefined);
    }
  }

  // ---- changing

  /** Clears the active attempts of these units. Returns how many. */
  reset(units: readonly ModelUnit[]): number {
    this.#begin();
    let count = 0;
    for (const unit of units) {
      this.#beforeChange(unit);
      if (!isRunningOrEnded(this.status(unit))) continue;
      this.#supersede(unit);
      unit.tries = 0;
      unit.since = this.now;
      // a unit that is reset must run now
      unit.expires = 0;
      unit.notBefore = Math.min(unit.notBefore, this.now);
      unit.behind = this.#pointsAt(unit, this.now);
      count++;
    }
    // none fails because of one that is reset, too
    for (const unit of units) {
      this.#beforeChange(unit);
      this.#wait(unit);
    }
    this.#follow();
    return count;
  }

  /** Fails those of these units that have not ended. Returns how many. */
  cancel(units: readonly ModelUnit[], traceback: string): number {
    this.#begin();
    let count = 0;
    for (const unit of units) {
      this.#beforeChange(unit);
      const status = this.status(unit);
      if (status === "finished" || status === "failed") continue;
      this.#fail(unit, "", "cancelled", { traceback });
      count++;
    }
    this.#follow();
    return count;
  }

  delay(units: readonly ModelUnit[], notBefore: number): number {
    const waiting = units.filter((unit) => !isRunningOrEnded(this.status(unit)));
    for (const unit of waiting) {
      unit.notBefore = notBefore;
      const place = this.#pointsAt(unit, Math.max(notBefore, this.now));
      unit.behind = notBefore > this.now ? place : Math.min(unit.behind, place);
    }
    return waiting.length;
  }

  delete(units: readonly ModelUnit[]): number {
    this.#begin();
    this.#remove(units);
    this.#follow();
    return units.length;
  }

  #remove(units: readonly ModelUnit[]): void {
    for (const unit of units) unit.deleted = true;
    this.units = this.units.filter((unit) => !unit.deleted);
    this.#ended.push(...units);
  }

  deleteSpec(name: string): boolean {
    if (this.spec(name) === undefined) return false;
    this.delete(this.list(name));
    this.specs = this.specs.filter((spec) => spec.name !== name);
    return true;
  }

  // ---- housekeeping

  /** Fails units of a work spec that have used all retries, also those that this makes available. Returns whether there were any. */
  #exhaustSpec(spec: string): boolean {
    const isSpent = (unit: ModelUnit): boolean =>
      unit.spec === spec && this.status(unit) === "available" && this.#isExhausted(unit);
    for (let found = false; ; found = true) {
      const spent = this.units
        .filter(isSpent)
        .sort((one, other) => one.tries - other.tries || one.id - other.id);
      if (spent.length === 0) return found;
      for (const unit of spent) {
        if (!isSpent(unit)) continue;
        this.#exhaust(unit, "");
        this.#follow();
      }
    }
  }

  /** Fails units that have used all retries, also those that this makes available; then removes units beyond the retention limits. */
  sweep(): void {
    this.#begin(true);
    // repeat for all work specs, until no failure makes further exhausted units available
    while (this.specs.filter(({ name }) => this.#exhaustSpec(name)).length > 0);
    for (const spec of this.specs)
      for (const status of ["finished", "failed"] as const) {
        const limit = spec.retention[status];
        if (limit === undefined) continue;
        const endOf = (unit: ModelUnit): number => this.current(unit)?.end ?? 0;
        const ended = this.list(spec.name)
          .filter((unit) => this.status(unit) === status)
          .sort((a, b) => endOf(a) - endOf(b) || a.id - b.id);
        const old = ended.filter(
          (unit, i) =>
            (limit.maxAge !== undefined && endOf(unit) <= this.now - limit.maxAge) ||
            (limit.maxCount !== undefined && ended.length - i > limit.maxCount),
        );
        this.#remove(old);
        this.#follow();
        spec.removed[status] += old.length;
      }
    this.#record();
  }
}
