/**
 * The scheduler chooses the work spec of the next attempt.
 *
 * It is a pure function of candidates, request, time, one random number and recent measurements. First come filters, each with a
 * name, so that every refusal can be explained; then the highest priority; then a weighted draw. See docs/scheduling.md.
 */
import { describeBreaker, probesLeft } from "./breaker.ts";
import type { Random } from "./clock.ts";
import { mayGenerate } from "./continuous.ts";
import type { SchedulingPolicy, ShareKind } from "./namespace.ts";
import { hasRate } from "./partitions.ts";
import { hasSchedule } from "./schedule.ts";
import type { RecentWorks } from "./recent-work.ts";
import { labelsLike, unmetRequirement } from "./worker-labels.ts";
import { currentPriority, isLate } from "./timing.ts";
import type { WorkSpecMeta } from "./work-spec.ts";

/** What the scheduler needs to know of a work spec, and no more. */
export interface Candidate {
  id: number;
  name: string;
  meta: WorkSpecMeta;
  /** Units that may be handed out now. A store may stop counting at 1. */
  available: number;
  pending: number;
  /** The highest priority among the available units; 0 when there are none. */
  topPriority: number;
  /** The earliest time at which a delayed unit is due or a lease ends; 0 when there is none. */
  nextDue: number;
  /** What else holds its units back, if anything. `until` is when that ends by itself; 0 is not by itself. */
  held?: Held | null;
}

export interface Held {
  reason: "rate" | "limit" | "partitions";
  until: number;
  /** The name of the shared limit, if that is the reason. */
  limit?: string;
}

export interface ScheduleRequest {
  /** Only these work specs; empty or absent is all. */
  workSpecs?: readonly string[];
  /** Only work specs of these runtimes, exactly; empty or absent is all. */
  runtimes?: readonly string[];
  /**
   * Only work specs for which the worker has a task: whose `task` key, else whose name, is one of these or matches one that ends in
   * `*`. Their runtime must be "" or "node", unless `runtimes` lists others, and they must not have a `module`. Absent is all;
   * empty is none.
   */
  tasks?: readonly string[];
  /** Leaves out work specs that have neither a runtime nor a `module`. */
  modules?: boolean;
  /** Leaves out work specs that need more memory; absent or 0 is "not stated". */
  availableGb?: number;
  /**
   * The labels of the worker, such as `gpu` or `version=2.3.1`: only work specs whose `requires` they meet. In a request for work,
   * absent is no labels; in `explain`, absent is any worker.
   */
  labels?: readonly string[];
}

/** Why a work spec is not chosen. The order is the order in which the rules are tried. */
export type Exclusion =
  | "paused"
  | "not_before"
  | "no_weight"
  | "other_work_spec"
  | "other_runtime"
  | "no_task"
  | "needs_memory"
  | "needs_labels"
  | "max_running"
  | "breaker"
  | "rate"
  | "limit"
  | "partitions"
  | "no_work"
  | "continuous_pending"
  | "continuous_not_due"
  | "schedule_not_due"
  | "lower_priority"
  | "preempted"
  | "enough_running";

export interface Explained {
  workSpec: string;
  /** Null for a work spec that may be chosen. */
  excluded: Exclusion | null;
  /** One sentence for a person. */
  reason: string;
  priority: number;
  weight: number;
  available: number;
  pending: number;
  /**
   * With shares of choices: weight x (total pending + 1) - total weight x pending. With shares of time: weight / average duration.
   * 0 for work specs that are excluded before the draw.
   */
  score: number;
  /** The chance to be chosen by the next request, 0 to 1. */
  chance: number;
  /** What weights divide in this namespace: choices or time. */
  share: ShareKind;
  /** Its weight as a share of all weights in the draw, 0 to 1. */
  targetShare: number;
  /**
   * Its share among all work specs of the namespace in the last minutes: of the attempts that began, or of the time of those that
   * ended. Null when there were none.
   */
  measuredShare: number | null;
  /** The recent average duration of its attempts; null as long as none has ended. */
  meanMs: number | null;
}

interface Judged {
  candidate: Candidate;
  excluded: Exclusion | null;
  weight: number;
  score: number;
}

/** The rules in order; the first that applies excludes. */
function filter(candidate: Candidate, request: ScheduleRequest, now: number): Exclusion | null {
  const { meta, available, pending } = candidate;
  if (meta.paused) return "paused";
  if (meta.notBefore > now) return "not_before";
  if (!(meta.weight > 0)) return "no_weight";
  if (listed(request.workSpecs) && !request.workSpecs.includes(candidate.name)) return "other_work_spec";
  const runtimes = runtimesOf(request);
  if (runtimes !== null && !runtimes.includes(meta.runtime)) return "other_runtime";
  if (request.tasks !== undefined && !hasTask(request.tasks, meta)) return "no_task";
  if (request.modules === true && meta.runtime === "" && !meta.runsModule) return "no_task";
  if ((request.availableGb ?? 0) > 0 && meta.minGb > (request.availableGb ?? 0)) return "needs_memory";
  if (
    meta.requires.length > 0 &&
    request.labels !== undefined &&
    unmetRequirement(meta.requires, request.labels) !== null
  )
    return "needs_labels";
  if (meta.maxRunning > 0 && pending >= meta.maxRunning) return "max_running";
  if (probesLeft(meta, now) <= 0) return "breaker";
  const { held } = candidate;
  if (held?.reason === "rate" || held?.reason === "limit") return held.reason;
  if (available > 0) return held?.reason ?? null;
  if (mayGenerate(meta, available, pending, now)) return null;
  if (!meta.continuous) return pending === 0 && meta.nextRun > now ? "schedule_not_due" : "no_work";
  return pending > 0 ? "continuous_pending" : "continuous_not_due";
}

const listed = (list: readonly string[] | undefined): list is readonly string[] =>
  list !== undefined && list.length > 0;

/** The runtimes that a request is limited to; null is all. */
function runtimesOf({ runtimes, tasks }: ScheduleRequest): readonly string[] | null {
  if (listed(runtimes)) return runtimes;
  return tasks === undefined ? null : ["", "node"];
}

/** Whether the task of a work spec is among names and patterns. */
const hasTask = (tasks: readonly string[], { taskName, runsModule }: WorkSpecMeta): boolean =>
  !runsModule &&
  tasks.some((name) => name === taskName || (name.endsWith("*") && taskName.startsWith(name.slice(0, -1))));

function judgeAll(
  candidates: readonly Candidate[],
  request: ScheduleRequest,
  now: number,
  policy: SchedulingPolicy,
  recent: RecentWorks | null,
  number: number,
): Judged[] {
  const judged = candidates.map((candidate): Judged => {
    return { candidate, excluded: filter(candidate, request, now), weight: candidate.meta.weight, score: 0 };
  });
  keepHighest(judged, ({ candidate }) => candidate.meta.priority);
  if (policy === "python") preferSuccessors(judged, now);
  const left = judged.filter(({ excluded }) => excluded === null);
  let totalWeight = 0;
  let totalPending = 0;
  for (const { weight, candidate } of left) {
    totalWeight += weight;
    totalPending += candidate.pending;
  }
  if (recent === null) scoreByRunning(left, totalWeight, totalPending);
  else scoreByTime(left, totalWeight, totalPending, recent, number);
  return judged;
}

/** Scores for shares of choices: the choices bring the numbers of running units closer to the ratio of the weights. */
function scoreByRunning(left: readonly Judged[], totalWeight: number, totalPending: number): void {
  for (const one of left) {
    one.score = one.weight * (totalPending + 1) - totalWeight * one.candidate.pending;
    if (one.score <= 0) one.excluded = "enough_running";
  }
}

/**
 * Scores for shares of worker time: a work spec whose attempts take ten times as long is drawn a tenth as often, which is exact for
 * any number of workers. Running units correct for wrong or missing measurements: a work spec with a whole claim more running than
 * its share is passed over.
 */
function scoreByTime(
  left: readonly Judged[],
  totalWeight: number,
  totalPending: number,
  recent: RecentWorks,
  number: number,
): void {
  const means = left.map(({ candidate }) => recent.get(candidate.id)?.meanMs ?? null);
  const measured = means.filter((mean) => mean !== null);
  // work specs without a measurement count as average
  const usual = measured.length === 0 ? 1 : measured.reduce((sum, mean) => sum + mean, 0) / measured.length;
  for (const [i, one] of left.entries())
    if (one.candidate.pending >= (one.weight / totalWeight) * (totalPending + number) + number)
      one.excluded = "enough_running";
    else one.score = one.weight / Math.max(shortestMs, means[i] ?? usual);
}

/** Handing out a unit costs a worker about this much, however short its task is. */
const shortestMs = 1;

function keepHighest(judged: readonly Judged[], rank: (one: Judged) => number): void {
  let highest = -Infinity;
  for (const one of judged) if (one.excluded === null) highest = Math.max(highest, rank(one));
  for (const one of judged) if (one.excluded === null && rank(one) < highest) one.excluded = "lower_priority";
}

/**
 * The `python` policy. The specs with the most urgent unit come first. Among those a spec is passed over while one
 * that follows it has work, unless its `then_preempts` is false or the chain is a loop. Loops count with half
 * their weight and continuous specs with a twentieth, all in one draw, so that none of them starves.
 */
function preferSuccessors(judged: readonly Judged[], now: number): void {
  const byName = new Map(judged.map((one) => [one.candidate.name, one]));
  const successor: Successor = (one) => byName.get(one.candidate.meta.nextWorkSpecName);
  keepHighest(judged, ({ candidate: { meta, topPriority } }) => currentPriority(meta, topPriority, now));
  const able = judged.filter(({ excluded }) => excluded === null);
  // computed for all that may be chosen, before any of them is excluded
  const preempted = able.filter((one) => {
    let preempts = true;
    for (const [at, next] of chain(one, successor)) {
      preempts &&= at.candidate.meta.thenPreempts;
      if (preempts && able.includes(next) && !onLoop(next, successor)) return !onLoop(one, successor);
    }
    return false;
  });
  for (const one of preempted) one.excluded = "preempted";
  for (const one of able) {
    if (onLoop(one, successor)) one.weight /= 2;
    if (one.candidate.meta.continuous) one.weight /= 20;
  }
}

type Successor = (one: Judged) => Judged | undefined;

/** The steps from a spec to those that follow it, up to the end or once around a loop. */
function* chain(start: Judged, successor: Successor): Generator<[at: Judged, next: Judged]> {
  const seen = new Set<Judged>();
  for (
    let at = start, next = successor(at);
    next !== undefined && !seen.has(next);
    at = next, next = successor(at)
  ) {
    seen.add(next);
    yield [at, next];
  }
}

function onLoop(one: Judged, successor: Successor): boolean {
  for (const [, next] of chain(one, successor)) if (next === one) return true;
  return false;
}

/**
 * Chooses a work spec for one more attempt, or null when there is nothing to do. With `recent`, weights are shares of worker time;
 * `number` is how many units are asked for at once.
 */
export function choose(
  candidates: readonly Candidate[],
  request: ScheduleRequest,
  now: number,
  random: Random,
  policy: SchedulingPolicy = "weighted",
  recent: RecentWorks | null = null,
  number = 1,
): Candidate | null {
  const judged = judgeAll(candidates, request, now, policy, recent, number);
  const open = judged.filter(({ excluded }) => excluded === null);
  if (open.length <= 1) return open[0]?.candidate ?? null;
  let total = 0;
  for (const { score } of open) total += score;
  let draw = random() * total;
  for (const { candidate, score } of open) {
    draw -= score;
    if (draw < 0) return candidate;
  }
  // rounding may leave the draw past the last candidate
  return open.at(-1)?.candidate ?? null;
}

/** Says of every work spec why it may be chosen, or why not. */
export function explainChoice(
  candidates: readonly Candidate[],
  request: ScheduleRequest,
  now: number,
  policy: SchedulingPolicy = "weighted",
  share: ShareKind = "choices",
  recent: RecentWorks = new Map(),
): Explained[] {
  const judged = judgeAll(candidates, request, now, policy, share === "time" ? recent : null, 1);
  const doneBy = (id: number): number => recent.get(id)?.[share === "time" ? "workedMs" : "started"] ?? 0;
  const done = candidates.reduce((sum, { id }) => sum + doneBy(id), 0);
  const draws = ({ excluded }: Judged): boolean => excluded === null || excluded === "enough_running";
  let [total, totalWeight] = [0, 0];
  for (const one of judged) {
    if (one.excluded === null) total += one.score;
    if (draws(one)) totalWeight += one.weight;
  }
  return judged.map((one): Explained => {
    const { candidate, excluded, weight, score } = one;
    const { meta, available, pending } = candidate;
    return {
      workSpec: candidate.name,
      excluded,
      reason: reason(candidate, excluded, request, now),
      priority: meta.priority,
      weight,
      available,
      pending,
      score,
      chance: excluded === null ? score / total : 0,
      share,
      targetShare: draws(one) ? weight / totalWeight : 0,
      measuredShare: done === 0 ? null : rounded(doneBy(candidate.id) / done, 6),
      meanMs: rounded(recent.get(candidate.id)?.meanMs ?? null, 3),
    };
  });
}

/** Without the last digits, which depend on the order in which records were added up. */
const rounded = <Value extends number | null>(value: Value, digits: number): Value =>
  (value === null ? value : Number(value.toFixed(digits))) as Value;

function reason(
  { meta, available, pending, held, topPriority }: Candidate,
  excluded: Exclusion | null,
  request: ScheduleRequest,
  now: number,
): string {
  switch (excluded) {
    case null:
      return available > 0
        ? `has available work units${orderText(meta, topPriority)}`
        : "may generate a work unit";
    case "paused":
      return "is paused";
    case "not_before":
      return `starts at ${new Date(meta.notBefore).toISOString()}`;
    case "no_weight":
      return `has weight ${meta.weight}; only weights above 0 are scheduled`;
    case "other_work_spec":
      return "is not one of the requested work specs";
    case "other_runtime":
      return `has runtime ${JSON.stringify(meta.runtime)}; the request is for ${JSON.stringify(runtimesOf(request))}`;
    case "no_task":
      return meta.runsModule
        ? "runs a module; the request is for work specs that run a task"
        : request.tasks === undefined
          ? "runs a task; the request is for work specs that run a module"
          : `runs the task ${JSON.stringify(meta.taskName)}; the request is for ${JSON.stringify(request.tasks)}`;
    case "needs_memory":
      return `needs ${meta.minGb} GB; ${request.availableGb} GB are available`;
    case "needs_labels": {
      const { labels = [] } = request;
      const unmet = unmetRequirement(meta.requires, labels) ?? "";
      return `requires ${unmet}; the worker has ${labelsLike(unmet, labels)}`;
    }
    case "max_running":
      return `has ${pending} pending work units; max_running is ${meta.maxRunning}`;
    case "breaker":
      return describeBreaker(meta, now);
    case "rate":
      return `has reached its rate limit${untilText(held?.until ?? 0, now)}`;
    case "limit":
      return `has reached the shared limit ${held?.limit ?? ""}${untilText(held?.until ?? 0, now)}`;
    case "partitions":
      return `all partitions with work are held back by ${partitionRules(meta)}${untilText(held?.until ?? 0, now)}`;
    case "no_work":
      return hasSchedule(meta.schedule) && meta.nextRun === 0
        ? "has no available work units, and its schedule has no more runs"
        : "has no available work units";
    case "continuous_pending":
      return `generates no work unit while ${pending} are pending`;
    case "continuous_not_due":
      return `generates its next work unit in ${((meta.nextContinuous - now) / 1000).toFixed(1)} s`;
    case "schedule_not_due":
      return `makes its next work unit at ${new Date(meta.nextRun).toISOString()}`;
    case "lower_priority":
      return "other work specs with work have a higher priority";
    case "preempted":
      return "a later work spec of its chain has work and goes first";
    case "enough_running":
      return "has more than its share of pending work units";
  }
}

/** Says what orders the units besides their given priorities. */
function orderText({ aging }: WorkSpecMeta, topPriority: number): string {
  const late = isLate(topPriority) ? "; a unit past its deadline goes first" : "";
  return aging > 0 ? `${late}; waiting units gain ${aging} priority per minute` : late;
}

const untilText = (until: number, now: number): string =>
  until > now ? `; next unit in ${((until - now) / 1000).toFixed(1)} s` : "";

/** The rules of a work spec that may hold a partition back. */
function partitionRules({ maxRunningPerPartition, ratePerPartition, order }: WorkSpecMeta): string {
  const rules = [
    maxRunningPerPartition > 0 ? `max_running_per_partition (${maxRunningPerPartition})` : "",
    hasRate(ratePerPartition) ? "rate_per_partition" : "",
    order === "" ? "" : "order",
  ];
  return rules.filter((rule) => rule !== "").join(" or ");
}
