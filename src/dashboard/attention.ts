/**
 * What needs attention: a pure function from the answers of the verbs to a list sorted by urgency. A condition that will not heal
 * by itself is `critical`; one that an operator should know of is a `warning`. Each has a cause with its evidence.
 */
import {
  explainChoice,
  isTripped,
  processesOf,
  requestsOf,
  unmetRequirement,
  workerRules,
  type AttemptRow,
  type Explained,
  type FailureRow,
  type ScheduleRequest,
  type Tally,
  type WorkerRow,
  type WorkSpecMeta,
} from "../core/index.ts";
import type { Rates } from "./data/counts.ts";
import { count, duration, percent, plural, rate } from "./format.ts";
import type { IconName } from "./parts/icon.tsx";

export interface SpecLook {
  readonly name: string;
  readonly meta: WorkSpecMeta;
  readonly counts: Tally;
  readonly explained: Explained | undefined;
  /** Since when the oldest available unit waits; 0 without one. */
  readonly waitingSince: number;
  readonly rates: Rates;
  /** Its running attempts, as far as they were read. */
  readonly held: readonly AttemptRow[];
}

export interface Around {
  readonly now: number;
  /** Active worker processes; undefined before they were read. */
  readonly workers: number | undefined;
  /** How many of them claim units: the others were asked to drain or to stop. */
  readonly claiming: number;
  /** What those request, each request once; null when one of them does not report its requests. */
  readonly requests: readonly ScheduleRequest[] | null;
}

export function aroundOf(workers: readonly WorkerRow[] | undefined, now: number): Around {
  const processes = processesOf(workers ?? []);
  const claiming = processes.filter(({ desired }) => desired === "run");
  const reports = claiming.map(requestsOf);
  const distinct = new Map(reports.flat().map((request) => [JSON.stringify(request), request]));
  return {
    now,
    workers: workers && processes.length,
    claiming: claiming.length,
    requests: reports.includes(null) ? null : [...distinct.values()].filter((request) => request !== null),
  };
}

type ConditionKind =
  | "nobody"
  | "breaker"
  | "failing"
  | "stuck"
  | "leases"
  | "behind"
  | "paused"
  | "no_weight"
  | "late"
  | "failed";

/** A sentence in pieces: words, emphasised evidence, and code. */
export type Words = readonly (string | { readonly strong: string } | { readonly code: string })[];

export interface Condition {
  readonly kind: ConditionKind;
  readonly level: "critical" | "warning";
  readonly icon: IconName;
  /** A few words: Paused, Failing 3.4 %. */
  readonly title: string;
  readonly cause: Words;
  readonly number: number;
  /** What the number counts, and its age. */
  readonly of: string;
  readonly status: "failed" | "pending" | "available" | "waiting";
}

const minute = 60_000;

/** The rules in the order of urgency; only the first that applies is shown. */
export function conditionOf(spec: SpecLook, around: Around): Condition | null {
  for (const rule of rules) {
    const found = rule(spec, around);
    if (found !== null) return found;
  }
  return null;
}

type Rule = (spec: SpecLook, around: Around) => Condition | null;

const waits = ({ counts: { available, delayed, blocked } }: SpecLook): number =>
  available + delayed + blocked;

const age = (spec: SpecLook, now: number): string =>
  spec.waitingSince > 0
    ? `waiting, ${duration(Math.floor((now - spec.waitingSince) / 1000) * 1000)}`
    : "waiting";

const nobody: Rule = (spec, around) => {
  const { meta, counts } = spec;
  if (meta.paused || !(meta.weight > 0) || counts.available === 0 || counts.pending > 0) return null;
  const cause = unable(spec, around);
  if (cause === null) return null;
  return {
    kind: "nobody",
    level: "critical",
    icon: "nobody",
    title: "No worker can run it",
    cause,
    number: counts.available,
    of: age(spec, around.now),
    status: "available",
  };
};

/** Why no worker can claim its units, by the rules of the scheduler; null when one can, or when that is not known. */
function unable(
  { name, meta, counts }: SpecLook,
  { now, workers, claiming, requests }: Around,
): Words | null {
  if (workers === undefined) return null;
  if (workers === 0) return ["No worker is active. Start one that has a task for it."];
  if (claiming === 0)
    return workers === 1
      ? ["The active worker was asked to drain or stop, and claims no more units."]
      : [
          "All ",
          { strong: count(workers) },
          " active workers were asked to drain or stop: they claim no more units.",
        ];
  if (requests === null || requests.length === 0) return null;
  const { available, pending } = counts;
  const candidate = { id: 0, name, meta, available, pending, topPriority: 0, nextDue: 0 };
  const ranks = requests.map((request) =>
    workerRules.indexOf(explainChoice([candidate], request, now)[0]?.excluded ?? null),
  );
  if (ranks.includes(-1)) return null;
  // the requests that pass the most rules show best what is missing
  const rank = Math.max(...ranks);
  const closest = requests.filter((_, i) => ranks[i] === rank);
  const { needs, lack, lacks, rest = [] } = missing(meta, workerRules[rank] ?? null, closest);
  const draining = workers - claiming;
  return [
    ...needs,
    ...(claiming === 1
      ? [`The ${draining > 0 ? "only worker that claims units" : "active worker"} ${lack}.`]
      : closest.length < requests.length
        ? [`None of the workers that could otherwise run it ${lacks}.`]
        : [
            "None of the ",
            { strong: count(claiming) },
            ` ${draining > 0 ? "workers that claim units" : "active workers"} ${lacks}.`,
          ]),
    ...rest,
    ...(draining > 0
      ? [` ${plural(draining, "other worker")} ${draining === 1 ? "is" : "are"} draining.`]
      : []),
  ];
}

interface Missing {
  /** What the work spec needs. */
  readonly needs: Words;
  /** How one worker does not have it, and how none of several has it. */
  readonly lack: string;
  readonly lacks: string;
  readonly rest?: Words;
}

function missing(
  { runtime, runsModule, taskName, minGb, requires }: WorkSpecMeta,
  rule: (typeof workerRules)[number],
  requests: readonly ScheduleRequest[],
): Missing {
  const shown = (name: string): string => (name === "" ? "(none)" : name);
  switch (rule) {
    case "other_runtime": {
      const others = [...new Set(requests.flatMap(({ runtimes = ["", "node"] }) => runtimes))]
        .map(shown)
        .sort();
      return {
        needs: ["Its runtime is ", { code: shown(runtime) }, ". "],
        lack: "does not support it",
        lacks: "supports it",
        rest: [
          " Supported: ",
          { code: others.slice(0, 3).join(", ") },
          others.length > 3 ? " and others." : ".",
        ],
      };
    }
    case "no_task":
      return runsModule
        ? { needs: ["It runs a module. "], lack: "runs only tasks", lacks: "runs modules" }
        : {
            needs: ["It runs the task ", { code: taskName }, ". "],
            lack: "does not have it",
            lacks: "has it",
          };
    case "needs_memory":
      return {
        needs: ["It needs ", { strong: `${minGb} GB` }, ". "],
        lack: "has less memory",
        lacks: "has as much memory",
      };
    case "needs_labels":
      return {
        needs: ["It requires ", { code: unmetRequirement(requires, requests[0]?.labels ?? []) ?? "" }, ". "],
        lack: "has no matching label",
        lacks: "has a matching label",
      };
    default:
      return { needs: [], lack: "requests only other work specs", lacks: "requests this work spec" };
  }
}

const failing: Rule = ({ counts, rates }) => {
  const share = rates.out > 0 ? rates.failed / rates.out : 0;
  if (counts.failed === 0 || rates.failed < 0.02 || share < 0.02) return null;
  return {
    kind: "failing",
    level: "critical",
    icon: "failed",
    title: `Failing ${percent(share)}`,
    cause: [
      { strong: `${rate(rates.failed)} of ${rate(rates.out)}` },
      " units per second fail. Overall, ",
      { strong: percent(counts.failed / (counts.failed + counts.finished)) },
      " of its ended units have failed.",
    ],
    number: counts.failed,
    of: `failed, ${rate(rates.failed)}/s`,
    status: "failed",
  };
};

/** Units are available and workers are active, but no worker claims a unit. */
const stuck: Rule = (spec, { now, claiming }) => {
  const { counts, explained, rates, waitingSince } = spec;
  if (counts.available === 0 || counts.pending > 0 || explained?.excluded !== null) return null;
  if (claiming === 0 || rates.overMs < 10_000 || rates.out > 0) return null;
  if (waitingSince === 0 || now - waitingSince < minute) return null;
  return {
    kind: "stuck",
    level: "critical",
    icon: "nobody",
    title: "Not being claimed",
    cause: [
      "The scheduler can hand out its units, and ",
      { strong: plural(claiming, "worker") },
      claiming === 1 ? " is" : " are",
      " active, but none claims them.",
    ],
    number: counts.available,
    of: age(spec, now),
    status: "available",
  };
};

/** The remaining time of a lease that was not renewed; a worker renews well before. */
const shortLease = minute;

const leases: Rule = ({ held }, { now }) => {
  const ending = held.filter(
    ({ startTime, expirationTime }) =>
      expirationTime - now < Math.min(shortLease, (expirationTime - startTime) * 0.1),
  );
  if (ending.length === 0) return null;
  const left = Math.min(...ending.map(({ expirationTime }) => expirationTime - now));
  const workers = [...new Set(ending.map(({ worker }) => worker))];
  return {
    kind: "leases",
    level: "warning",
    icon: "lease",
    title: `${plural(ending.length, "lease")} about to expire`,
    cause: [
      "Not renewed. ",
      workers.length === 1 ? "Held by " : `Held by ${workers.length} workers, such as `,
      { code: workers[0] ?? "" },
      ". When a lease expires, another worker can claim the unit.",
    ],
    number: ending.length,
    of: left > 0 ? `pending, ${duration(left)} left` : "pending, lease expired",
    status: "pending",
  };
};

const behind: Rule = (spec, { now }) => {
  const { meta, counts, rates } = spec;
  const grows = rates.added - rates.out;
  if (meta.paused || rates.overMs < 20_000 || counts.available < 100) return null;
  if (grows < 0.5 || grows < rates.added * 0.05) return null;
  const isFull = meta.maxRunning > 0 && counts.pending >= meta.maxRunning;
  return {
    kind: "behind",
    level: "warning",
    icon: "behind",
    title: "Falling behind",
    cause: [
      { strong: `${rate(rates.added)}/s` },
      " added, ",
      { strong: `${rate(rates.out)}/s` },
      " ended. ",
      ...(isFull
        ? ["Running ", { strong: `${count(counts.pending)} of max_running ${count(meta.maxRunning)}` }, "."]
        : [`${plural(counts.pending, "unit")} running; more workers or a higher weight would help.`]),
    ],
    number: counts.available,
    of: age(spec, now),
    status: "available",
  };
};

/** Paused or slowed down by its own breaker. */
const breaker: Rule = (spec, { now }) => {
  const { meta } = spec;
  if (meta.paused || !isTripped(meta)) return null;
  const { failed = 0, ended = 0, error = "", since = now, until = 0 } = meta.breakerState;
  const number = waits(spec);
  return {
    kind: "breaker",
    level: "critical",
    icon: "paused",
    title: meta.breaker.action === "slow" ? "Slowed down by its breaker" : "Paused by its breaker",
    cause: [
      { strong: `${count(failed)} of ${count(ended)}` },
      ` attempts failed. Tripped ${duration(Math.max(0, now - since))} ago.`,
      ...(error === "" ? [] : [" Last error: ", { code: error }, "."]),
      until > now ? ` Next probe in ${duration(until - now)}.` : " The next claimed unit is a probe.",
    ],
    number,
    of: age(spec, now),
    status: "waiting",
  };
};

const paused: Rule = (spec, { now }) => {
  const { meta, counts, rates } = spec;
  const number = waits(spec);
  if (!meta.paused || number === 0) return null;
  return {
    kind: "paused",
    level: "warning",
    icon: "paused",
    title: "Paused",
    cause: [
      counts.pending > 0
        ? `${plural(counts.pending, "running unit")} continue${counts.pending === 1 ? "s" : ""}; `
        : "No units are handed out; ",
      rates.added >= 0.05 ? `${rate(rates.added)}/s are still added.` : "none are added now.",
    ],
    number,
    of: age(spec, now),
    status: "waiting",
  };
};

const noWeight: Rule = (spec, { now }) => {
  const { meta, counts } = spec;
  if (meta.paused || meta.weight > 0 || counts.available === 0) return null;
  return {
    kind: "no_weight",
    level: "warning",
    icon: "paused",
    title: "No weight",
    cause: [
      "Its weight is ",
      { strong: String(meta.weight) },
      ". Only work specs with a weight above 0 are scheduled.",
    ],
    number: counts.available,
    of: age(spec, now),
    status: "available",
  };
};

/** A continuous work spec that should have created a unit long ago. */
const late: Rule = ({ meta, counts }, { now }) => {
  if (!meta.continuous || meta.paused || counts.available + counts.pending > 0 || meta.nextContinuous === 0)
    return null;
  const over = now - meta.nextContinuous;
  if (over < Math.max(minute, meta.intervalMs)) return null;
  return {
    kind: "late",
    level: "warning",
    icon: "lease",
    title: `Late by ${duration(over)}`,
    cause: ["It creates a unit when a worker requests work. No worker has done so since it was due."],
    number: 0,
    of: `due every ${duration(meta.intervalMs)}`,
    status: "available",
  };
};

/** Old failures: they do not increase now, but are many compared with the finished units. */
const failed: Rule = ({ counts }) => {
  const share = counts.failed / Math.max(1, counts.failed + counts.finished);
  if (counts.failed < 5 || share < 0.05) return null;
  return {
    kind: "failed",
    level: "warning",
    icon: "failed",
    title: `${percent(share)} failed`,
    cause: [
      { strong: percent(share) },
      " of its ended units have failed. They are not retried automatically.",
    ],
    number: counts.failed,
    of: "failed",
    status: "failed",
  };
};

/** The cause of a condition about failures, with the most frequent error. */
export function withError(
  { kind, cause }: Pick<Condition, "kind" | "cause">,
  groups: readonly Pick<FailureRow, "error" | "count">[],
): Words {
  const [first] = groups;
  if (first === undefined || (kind !== "failing" && kind !== "failed")) return cause;
  const share = first.count / groups.reduce((sum, group) => sum + group.count, 0);
  return share === 1
    ? [...cause, " All have the error ", { code: first.error }, "."]
    : [...cause, " Most frequent error (", { strong: percent(share) }, "): ", { code: first.error }, "."];
}

const rules: readonly Rule[] = [
  nobody,
  breaker,
  failing,
  stuck,
  leases,
  behind,
  paused,
  noWeight,
  late,
  failed,
];

const order: readonly ConditionKind[] = [
  "nobody",
  "breaker",
  "failing",
  "stuck",
  "leases",
  "behind",
  "paused",
  "no_weight",
  "late",
  "failed",
];

/** The most urgent first; of equal urgency the one with more units, then by name. */
export function byNeed<Row extends { condition: Condition | null; name: string }>(a: Row, b: Row): number {
  const rank = ({ condition }: Row): number =>
    condition === null
      ? order.length * 2
      : order.indexOf(condition.kind) + (condition.level === "critical" ? 0 : order.length);
  return (
    rank(a) - rank(b) ||
    (b.condition?.number ?? 0) - (a.condition?.number ?? 0) ||
    (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  );
}
