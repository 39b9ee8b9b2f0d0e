/**
 * What if there were more workers, or other weights? Replays recorded arrivals and durations in steps, with another number of
 * slots and other weights. Pure: the same record and plan give the same answer.
 *
 * It is a model of averages. Within a step, the slots of a runtime go to the highest priority first, and within a priority by
 * weight, up to `max_running`; a work spec that needs less leaves the rest to the others. Waits shorter than a step count as
 * zero. Units that follow from other units arrive when they arrived in the record.
 */
import type { HistoryPoint } from "../core/index.ts";

export interface LoadSpec {
  readonly name: string;
  readonly runtime: string;
  readonly priority: number;
  readonly weight: number;
  /** 0 is no limit. */
  readonly maxRunning: number;
  readonly paused: boolean;
  /** How long one attempt occupies a slot. */
  readonly durationMs: number;
  /** The units that waited at the start of the record. */
  readonly waiting: number;
  /** Units that arrived in each step, retries included. */
  readonly arrivals: readonly number[];
}

export interface Load {
  readonly stepMs: number;
  readonly specs: readonly LoadSpec[];
}

export interface Plan {
  /** By runtime. */
  readonly slots: Readonly<Record<string, number>>;
  /** By work spec; one that is not named keeps its weight. */
  readonly weights: Readonly<Record<string, number>>;
}

export interface Waits {
  readonly p50: number;
  readonly p90: number;
}

export interface Outcome {
  /** The waits of the units that began; null when none did. */
  readonly waits: Waits | null;
  /** The waiting units at the end of each step. */
  readonly backlog: readonly number[];
  readonly began: number;
  readonly left: number;
}

interface Queue {
  readonly spec: LoadSpec;
  readonly weight: number;
  /** Units by the step of their arrival, oldest first. */
  readonly cohorts: { step: number; units: number }[];
  waiting: number;
  /** How many units began, by the number of steps that they waited. */
  readonly waited: Map<number, number>;
  readonly backlog: number[];
  began: number;
}

/** Amounts below this count as zero: sums of shares are not exact. */
const min = 1e-9;

export function simulate({ stepMs, specs }: Load, plan: Plan): Map<string, Outcome> {
  const steps = Math.max(0, ...specs.map(({ arrivals }) => arrivals.length));
  const queues = specs.map((spec): Queue => ({
    spec,
    weight: spec.paused ? 0 : (plan.weights[spec.name] ?? spec.weight),
    cohorts: [],
    waiting: 0,
    waited: new Map(),
    backlog: [],
    began: 0,
  }));
  const pools = byRuntime(queues);
  for (let step = 0; step < steps; step++) {
    for (const queue of queues)
      arrive(queue, step, (queue.spec.arrivals[step] ?? 0) + (step === 0 ? queue.spec.waiting : 0));
    for (const [runtime, pool] of pools) share(pool, plan.slots[runtime] ?? 0, step, stepMs);
    for (const queue of queues) queue.backlog.push(queue.waiting);
  }
  return new Map(
    queues.map(({ spec, waited, backlog, began, waiting }) => [
      spec.name,
      { waits: waitsOf(waited, stepMs), backlog, began, left: Math.round(waiting) },
    ]),
  );
}

function byRuntime(queues: readonly Queue[]): Map<string, Queue[]> {
  const pools = new Map<string, Queue[]>();
  for (const queue of queues)
    pools.set(queue.spec.runtime, [...(pools.get(queue.spec.runtime) ?? []), queue]);
  return pools;
}

function arrive(queue: Queue, step: number, units: number): void {
  if (units <= 0) return;
  queue.cohorts.push({ step, units });
  queue.waiting += units;
}

/** Distributes the slots of one runtime in one step, by priority and weight. */
function share(pool: readonly Queue[], slots: number, step: number, stepMs: number): void {
  let free = slots;
  const priorities = [...new Set(pool.map(({ spec }) => spec.priority))].sort((a, b) => b - a);
  for (const priority of priorities) {
    let asking = pool
      .filter(({ spec, weight, waiting }) => spec.priority === priority && weight > 0 && waiting > 0)
      .map((queue) => ({ queue, given: 0, wanted: wants(queue, stepMs) }));
    // each pass satisfies at least one, or distributes all free slots
    while (asking.length > 0 && free > min) {
      const weight = asking.reduce((sum, { queue }) => sum + queue.weight, 0);
      const part = free / weight;
      for (const one of asking) {
        const more = Math.min(one.queue.weight * part, one.wanted - one.given);
        one.given += more;
        free -= more;
        begin(one.queue, (more * stepMs) / Math.max(1, one.queue.spec.durationMs), step);
      }
      asking = asking.filter(({ given, wanted }) => wanted - given > min);
    }
  }
}

/** The slots that would start all waiting units in this step. */
const wants = ({ spec, waiting }: Queue, stepMs: number): number =>
  Math.min(
    (waiting * Math.max(1, spec.durationMs)) / stepMs,
    spec.maxRunning > 0 ? spec.maxRunning : Infinity,
  );

function begin(queue: Queue, units: number, step: number): void {
  let left = Math.min(units, queue.waiting);
  queue.began += left;
  queue.waiting = Math.max(0, queue.waiting - left);
  while (left > min) {
    const [first] = queue.cohorts;
    if (first === undefined) return;
    const taken = Math.min(left, first.units);
    queue.waited.set(step - first.step, (queue.waited.get(step - first.step) ?? 0) + taken);
    first.units -= taken;
    left -= taken;
    if (first.units <= min) queue.cohorts.shift();
  }
}

function waitsOf(waited: ReadonlyMap<number, number>, stepMs: number): Waits | null {
  const sorted = [...waited].sort(([a], [b]) => a - b);
  const all = sorted.reduce((sum, [, units]) => sum + units, 0);
  if (all <= min) return null;
  const at = (part: number): number => {
    let left = all * part;
    for (const [steps, units] of sorted) if ((left -= units) <= min) return steps * stepMs;
    return (sorted.at(-1)?.[0] ?? 0) * stepMs;
  };
  return { p50: at(0.5), p90: at(0.9) };
}

/** The mean duration, from the stored percentiles: the area under the line through them. */
export function meanDuration(points: readonly Pick<HistoryPoint, "duration">[]): number {
  let sum = 0;
  let units = 0;
  for (const { duration } of points) {
    if (duration === null) continue;
    const { count, p50, p90, p99 } = duration;
    sum += count * (0.375 * p50 + 0.2 * (p50 + p90) + 0.045 * (p90 + p99) + 0.01 * p99);
    units += count;
  }
  return units === 0 ? 0 : sum / units;
}

/** The mean of the measured waits, each step weighted by the units that began in it. */
export function measuredWaits(points: readonly Pick<HistoryPoint, "wait">[]): Waits | null {
  let units = 0;
  let p50 = 0;
  let p90 = 0;
  for (const { wait } of points) {
    if (wait === null) continue;
    units += wait.count;
    p50 += wait.count * wait.p50;
    p90 += wait.count * wait.p90;
  }
  return units === 0 ? null : { p50: p50 / units, p90: p90 / units };
}
