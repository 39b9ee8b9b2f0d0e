/**
 * The verbs of `Coordinate` as a table: who may call each, its parameters, whether it may be repeated, what it answers, and
 * one sentence about it. Both clients and both servers, OpenAPI, `coordinate rpc`, the audit and the metrics read it.
 *
 * To add a verb: declare it in coordinate.ts, implement it in engine.ts, describe it here.
 */
import type { ActionInput, ActionRow } from "./action.ts";
import {
  attemptActions,
  attemptStatuses,
  failReasons,
  givenReasons,
  type AttemptChange,
  type AttemptChanged,
  type AttemptProgress,
  type AttemptRow,
  type NextTry,
} from "./attempt.ts";
import {
  logLevels,
  type AttemptLines,
  type AttemptLinesOf,
  type AttemptLog,
  type LogLine,
  type LogLineInput,
  type LogQuery,
} from "./attempt-log.ts";
import type {
  AddWorkUnitsOptions,
  AttemptMake,
  AttemptRequest,
  AwaitOptions,
  CancelOptions,
  Coordinate,
  FailureQuery,
  LockQuery,
  LockRequest,
  RequestOptions,
  SetWorkSpecOptions,
  TakeOptions,
  WaitOptions,
  WorkerAttemptQuery,
  WorkSpecInput,
} from "./coordinate.ts";
import {
  batchActions,
  batchConditions,
  type BatchCondition,
  type BatchInput,
  type BatchRow,
  type BatchThen,
} from "./batch.ts";
import type { SharedLimitInput, SharedLimitRow } from "./limits.ts";
import type { PartitionRow } from "./partition-row.ts";
import type { Rate } from "./partitions.ts";
import type { Data } from "./data.ts";
import { checkOptions } from "./check-options.ts";
import { errorCodes } from "./errors.ts";
import type { FailurePoint, FailureRow } from "./failure.ts";
import type { History, HistoryChange, HistoryPoint, HistoryQuery, HistorySeries, Spread } from "./history.ts";
import type { Lock, LockPath, LockRefusal } from "./lock.ts";
import type { NameKind } from "./names.ts";
import { schedulingPolicies, shareKinds, type NamespaceRow, type NamespaceSettings } from "./namespace.ts";
import type { Page, PageQuery } from "./page.ts";
import type { QueueMessage, QueueRow } from "./queue.ts";
import { backoffKinds, type Backoff, type RetryPolicy } from "./retry.ts";
import type { Explained, ScheduleRequest } from "./scheduler.ts";
import {
  allOptional,
  boolean,
  checkShape,
  closed,
  either,
  input,
  integer,
  list,
  maybe,
  nothing,
  nullable,
  number,
  object,
  objectOf,
  oneOf,
  text,
  type AnyMembers,
  type Members,
  type Shape,
} from "./shape.ts";
import {
  metaFields,
  settableFields,
  type FieldKind,
  type MetaField,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
} from "./work-spec-fields.ts";
import type { WorkSpecRef, WorkSpecRow } from "./work-spec.ts";
import {
  conflictPolicies,
  workUnitStatuses,
  type AddedWorkUnit,
  type Tally,
  type TallyRow,
  type WaitingSinceRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "./work-unit.ts";
import { desiredStates, type WorkerChange, type WorkerQuery, type WorkerRow } from "./worker.ts";

/** What a token may do in a namespace. `work` and `write` include `read`; `admin` includes everything. */
export const scopes = ["read", "work", "write", "admin"] as const;
export type VerbScope = (typeof scopes)[number];

export type Verb = Exclude<keyof Coordinate, "close">;
export type Verbs = Pick<Coordinate, Verb>;

export interface VerbRow<Answer = unknown> {
  readonly scope: VerbScope;
  /** One sentence for people. */
  readonly summary: string;
  /** `none`: the verb is about all namespaces. `optional`: without a namespace it is. Answers contain only those that the caller may read. */
  readonly namespace?: "none" | "optional";
  /** The arguments after the namespace, in order. */
  readonly params?: Readonly<Record<string, Shape>>;
  /** The members of the options, an object that is the last argument. It is optional if all its members are. */
  readonly options?: AnyMembers;
  readonly answer: Shape<Answer>;
  /**
   * `same`: the verb is idempotent. `id`: it is idempotent for the same request id. `never`: a repeated call would do more, or
   * answer something else; after a lost answer the outcome is unknown.
   */
  readonly repeat: "same" | "id" | "never";
  /** It may go through millions of units, a slice at a time, and so take longer than others. */
  readonly slow?: true;
}

// ---- values

const named = (title: NameKind): Shape<string> =>
  text({ title, description: "A name. Bytes that are not UTF-8 are escaped as \\udc80 to \\udcff" });
const namespace = named("namespace");
const workSpec = named("work spec");
const workUnit = named("work unit");
const worker = named("worker");
const queue = named("queue");
const label = named("label");
const partition = named("partition");
const limit = named("limit");
const action = named("action");
const time = number({ description: "Milliseconds since 1970; 0 means none" });
const span = number({ description: "Milliseconds" });

/** Text when it is JSON, bytes when it is CBOR; on a wire that has objects, an object. */
const data: Shape<Data> = {
  anyOf: [
    { type: "object", description: "A JSON object, stored as the text that was sent" },
    { type: "string", contentEncoding: "base64", contentMediaType: "application/cbor" },
    { type: "null" },
  ],
  description: "A data dictionary: a JSON object, or base64 of a CBOR map",
};

const paging: Members<PageQuery> = {
  previous: maybe(text({ description: "The `next` of the previous page" })),
  limit: maybe(integer),
};
const page = <Row>(row: Shape<Row>): Shape<Page<Row>> =>
  object<Page<Row>>({ rows: list(row), next: nullable(text()) });

const requestOptions: Members<RequestOptions> = {
  requestId: maybe(
    text({
      description:
        "Identifies this request, so that it can be repeated safely if the answer was lost; at most 200 characters",
    }),
  ),
};
/** `signal` stays on the caller's side of a wire. */
const waitOptions: Members<Omit<WaitOptions, "signal">> = { waitMs: maybe(span) };

// ---- namespaces and work specs

const desired = oneOf(desiredStates);
const policy = oneOf(schedulingPolicies);
const share = oneOf(shareKinds);
const namespaceRow = object<NamespaceRow>({
  name: namespace,
  settings: object<NamespaceSettings>({ policy, share, desired }),
});

const workSpecRef: Shape<WorkSpecRef> = either(
  workSpec,
  input<{ name: string; id: number }>({ name: workSpec, id: integer }),
  "A work spec by name. With the id that was read before, a work spec that has been deleted since is `gone`, even if a new one has its name",
);

const fieldShapes: Readonly<Record<Exclude<FieldKind, "object">, Shape>> = {
  number: number(),
  amount: number(),
  share: number(),
  count: integer,
  boolean: boolean(),
  text: text(),
  arguments: {},
  duration: span,
  time,
  times: list(time),
  names: list(text()),
  weights: objectOf({}),
  choice: text(),
};
const fieldShape = ({ kind, keys = {}, words }: MetaField): Shape => {
  if (kind === "object") return fieldsShape(Object.values(keys) as MetaField[]);
  return kind === "choice" ? oneOf(words as readonly string[]) : fieldShapes[kind];
};
/** All members optional: for fields that are objects, and for changes. */
const fieldsShape = (rows: readonly MetaField[]): Shape =>
  objectOf(Object.fromEntries(rows.map((row) => [row.field, maybe(fieldShape(row))])));

const workSpecMeta: Shape<WorkSpecMeta> = objectOf(
  Object.fromEntries(metaFields.map((row) => [row.field, fieldShape(row)])),
);
const workSpecMetaChange: Shape<WorkSpecMetaChange> = closed(fieldsShape(settableFields));
const workSpecRow = object<WorkSpecRow>({ id: integer, name: workSpec, data, meta: workSpecMeta });

// ---- attempts

const attemptStatus = oneOf(attemptStatuses);
const attemptRow = object<AttemptRow>({
  id: text(),
  workSpec,
  workUnit,
  worker,
  number: integer,
  status: attemptStatus,
  active: boolean(),
  startTime: time,
  endTime: time,
  expirationTime: time,
  data,
  late: boolean(),
  chainingErrors: list(text()),
  progress: nullable(object<AttemptProgress>({ done: number(), note: text() })),
});
const logLevel = oneOf(logLevels);
const attemptLines: Members<AttemptLines> = {
  first: maybe(integer),
  lines: list(input<LogLineInput>({ text: text(), level: maybe(logLevel), time: maybe(time) })),
};
const attemptLog = object<AttemptLog>({
  attempt: text(),
  first: integer,
  total: integer,
  lines: list(object<LogLine>({ time, level: logLevel, text: text() })),
});
const attemptChange = input<AttemptChange>({
  attempt: text(),
  action: oneOf(attemptActions),
  data: maybe(data),
  delayMs: maybe(span),
  lifetimeMs: maybe(span),
  untried: maybe(boolean()),
  error: maybe(text()),
  reason: maybe(oneOf(givenReasons)),
  progress: maybe(input<AttemptProgress>({ done: number(), note: text() })),
  log: maybe(input<AttemptLines>(attemptLines)),
  recordTaken: maybe(boolean()),
});
const attemptChanged = object<AttemptChanged>({
  attempt: text(),
  error: nullable(oneOf(errorCodes)),
  changed: boolean(),
  status: nullable(attemptStatus),
  expirationTime: time,
  outputs: integer,
  chainingErrors: list(text()),
  retry: maybe(object<NextTry>({ delayMs: span, left: nullable(integer) })),
});
const schedule: Members<ScheduleRequest> = {
  workSpecs: maybe(list(text())),
  runtimes: maybe(list(text())),
  tasks: maybe(list(text())),
  modules: maybe(boolean()),
  availableGb: maybe(number()),
  labels: maybe(list(text())),
};

// ---- work units

const workUnitStatus = oneOf(workUnitStatuses);
const dependencyKind = oneOf(["hard", "soft"]);

const retryMembers: Members<RetryPolicy> = {
  attempts: maybe(integer),
  backoff: maybe(
    input<Backoff>({
      kind: maybe(oneOf(backoffKinds)),
      delayMs: maybe(span),
      maxMs: maybe(span),
      jitter: maybe(number()),
    }),
  ),
};
const rateMembers: Members<Rate> = { limit: maybe(number()), periodMs: maybe(span), burst: maybe(integer) };
const limitInput = input<SharedLimitInput>({
  name: limit,
  maxRunning: maybe(integer),
  rate: maybe(input<Rate>(rateMembers)),
});
const limitRow = object<SharedLimitRow>({
  name: limit,
  maxRunning: integer,
  rate: object<Rate>(rateMembers),
  running: integer,
  nextTime: time,
  workSpecs: list(workSpec),
});
const ownRetry = { maxRetries: maybe(integer), retry: maybe(input<RetryPolicy>(retryMembers)) };
const conflict = oneOf(conflictPolicies);

/** Also the shape of a line of a bulk load. */
export const workUnitInput = input<WorkUnitInput>({
  name: workUnit,
  data: maybe(data),
  priority: maybe(number()),
  notBefore: maybe(time),
  delayMs: maybe(span),
  deadline: maybe(time),
  deadlineMs: maybe(span),
  expires: maybe(time),
  expiresMs: maybe(span),
  dependencies: maybe(
    list(
      input<{ workSpec?: string; workUnit: string; kind?: "hard" | "soft" }>({
        workSpec: maybe(workSpec),
        workUnit,
        kind: maybe(dependencyKind),
      }),
    ),
  ),
  queues: maybe(list(queue)),
  labels: maybe(list(label)),
  partition: maybe(partition),
  ...ownRetry,
  batch: maybe(text()),
  onConflict: maybe(conflict),
  debounceMs: maybe(span),
  throttleMs: maybe(span),
});
export const workUnitRow = object<WorkUnitRow>({
  id: integer,
  workSpec,
  name: workUnit,
  status: workUnitStatus,
  reason: nullable(oneOf(failReasons)),
  data,
  priority: number(),
  notBefore: time,
  deadline: maybe(time),
  expires: maybe(time),
  createdTime: time,
  attempts: integer,
  activeAttempt: nullable(attemptRow),
  origin: nullable(text()),
  dependencies: list(
    object<WorkUnitRow["dependencies"][number]>({
      workSpec,
      workUnit,
      kind: dependencyKind,
      status: nullable(workUnitStatus),
    }),
  ),
  queues: list(queue),
  labels: list(label),
  partition,
  ...ownRetry,
});
const conditions: Members<Omit<WorkUnitQuery, "asAdded" | "previous" | "limit">> = {
  names: maybe(list(workUnit)),
  statuses: maybe(list(workUnitStatus)),
  prefix: maybe(text()),
  label: maybe(label),
  error: maybe(text({ description: "The fingerprint of a failure group" })),
  endedSince: maybe(time),
};
const selection = input<WorkUnitSelection>({
  ...conditions,
  all: maybe(boolean("Selects every unit; required if no other condition is given")),
});
const tally = objectOf(
  Object.fromEntries(workUnitStatuses.map((status) => [status, integer])),
) as Shape<Tally>;
const priority = number({ title: "priority" });
const oneOfTrue = boolean() as Shape<true>;

const spread = nullable(object<Spread>({ count: integer, p50: span, p90: span, p99: span }));
const historyPoint = object<HistoryPoint>({
  time,
  added: integer,
  started: integer,
  finished: integer,
  failed: integer,
  retried: integer,
  late: integer,
  expired: integer,
  running: nullable(number()),
  waiting: nullable(number()),
  delayed: nullable(number()),
  blocked: nullable(number()),
  oldestMs: span,
  duration: spread,
  wait: spread,
  changes: list(object<HistoryChange>({ time, workSpec, what: text() })),
});

// ---- workers, queues, actions, locks

const workerRow = object<WorkerRow>({
  name: worker,
  parent: nullable(worker),
  active: boolean(),
  mode: text(),
  data,
  lastUpdate: time,
  expiration: time,
  desired,
});
const workerChange = input<WorkerChange>({
  name: worker,
  parent: maybe(nullable(worker)),
  active: maybe(boolean()),
  mode: maybe(text()),
  data: maybe(data),
  lastUpdate: maybe(time),
  expiration: maybe(time),
  desired: maybe(nullable(desired)),
});
const message = object<QueueMessage>({
  seq: integer,
  queue,
  workSpec,
  workUnit,
  attempt: nullable(text()),
  status: oneOf(["finished", "failed"]),
  data,
  at: time,
});
const actionRow = object<ActionRow>({ key: action, data, createdTime: time });
const batchCondition = oneOf(batchConditions);
const batchInput = input<BatchInput>({
  name: text(),
  then: maybe(
    nullable(
      input<{ workSpec: string; workUnit?: string; on?: BatchCondition }>({
        workSpec,
        workUnit: maybe(workUnit),
        on: maybe(batchCondition),
      }),
    ),
  ),
  sealed: maybe(boolean()),
  parent: maybe(text()),
});
const batchRow = object<BatchRow>({
  name: text(),
  createdTime: time,
  sealed: boolean(),
  total: integer,
  finished: integer,
  failed: integer,
  then: nullable(object<BatchThen>({ workSpec, workUnit, on: batchCondition })),
  parent: nullable(text()),
  doneTime: time,
});
const lockPath: Shape<LockPath> = list(text());
const lockRequest: Members<LockRequest> = {
  owner: text(),
  timeoutMs: maybe(span),
  paths: list(lockPath),
};
const lockRefusal = nullable(object<LockRefusal>({ path: lockPath, owner: nullable(text()) }));

// ---- the table

export const verbs: { readonly [V in Verb]: VerbRow<Awaited<ReturnType<Coordinate[V]>>> } = {
  listNamespaces: {
    scope: "read",
    namespace: "none",
    answer: list(namespaceRow),
    repeat: "same",
    summary: "Lists the namespaces that the caller may read, in name order.",
  },
  getNamespace: {
    scope: "read",
    answer: namespaceRow,
    repeat: "same",
    summary: "Returns the settings of a namespace, or the defaults if it does not exist.",
  },
  setNamespace: {
    scope: "admin",
    params: {
      settings: input<Partial<NamespaceSettings>>({
        policy: maybe(policy),
        share: maybe(share),
        desired: maybe(desired),
      }),
    },
    answer: namespaceRow,
    repeat: "same",
    summary: "Changes settings of a namespace, and creates it if it does not exist.",
  },
  deleteNamespace: {
    scope: "admin",
    answer: nothing,
    repeat: "same",
    summary: "Deletes a namespace and everything in it.",
  },

  setWorkSpecs: {
    scope: "write",
    params: { specs: list(input<WorkSpecInput>({ data, name: maybe(workSpec) })) },
    options: {
      keepMeta: maybe(boolean("Keeps metadata that was set by hand")),
      lenient: maybe(
        boolean(
          "Accepts values of the wrong type for keys that are newer than the Go and Python clients, as the user's own data",
        ),
      ),
    } satisfies Members<SetWorkSpecOptions>,
    answer: list(workSpecRow),
    repeat: "same",
    summary: "Creates work specs or replaces their data, all or none.",
  },
  getWorkSpecs: {
    scope: "read",
    params: { workSpecs: list(workSpecRef) },
    answer: list(nullable(workSpecRow)),
    repeat: "same",
    summary: "Returns work specs by name, null for each that does not exist.",
  },
  listWorkSpecs: {
    scope: "read",
    options: paging,
    answer: page(workSpecRow),
    repeat: "same",
    summary: "Lists work specs, in name order, a page at a time.",
  },
  setWorkSpecMeta: {
    scope: "write",
    params: { workSpec: workSpecRef, change: workSpecMetaChange },
    answer: workSpecMeta,
    repeat: "same",
    summary: "Changes metadata of a work spec that can be set by hand; returns the resulting metadata.",
  },
  deleteWorkSpecs: {
    scope: "write",
    params: { workSpecs: list(workSpecRef) },
    answer: list(boolean()),
    repeat: "never",
    summary: "Deletes work specs with their units and attempts; returns for each name whether it existed.",
  },

  addWorkUnits: {
    scope: "write",
    params: { workSpec: workSpecRef, units: list(workUnitInput) },
    options: {
      ...requestOptions,
      ...waitOptions,
      onConflict: maybe(conflict),
    } satisfies Members<Omit<AddWorkUnitsOptions, "signal">>,
    answer: list(
      object<AddedWorkUnit>({
        name: workUnit,
        id: integer,
        created: boolean(),
        status: workUnitStatus,
        ignored: maybe(oneOfTrue),
      }),
    ),
    repeat: "id",
    summary:
      "Adds work units, all or none. An existing unit gets the new data, unless onConflict says otherwise.",
  },
  getWorkUnits: {
    scope: "read",
    params: { workSpec: workSpecRef, names: list(workUnit) },
    answer: list(nullable(workUnitRow)),
    repeat: "same",
    summary: "Returns work units by name, null for each that does not exist.",
  },
  listWorkUnits: {
    scope: "read",
    params: { workSpec: workSpecRef },
    options: {
      ...conditions,
      asAdded: maybe(boolean("Returns the data that the units were added with, not as changed by attempts")),
      ...paging,
    } satisfies Members<WorkUnitQuery>,
    answer: page(workUnitRow),
    repeat: "same",
    summary: "Lists the work units that match, in name order, a page at a time.",
  },
  countWorkUnits: {
    scope: "read",
    params: { workSpec: workSpecRef, selection },
    answer: tally,
    repeat: "same",
    slow: true,
    summary: "Counts the selected units by status.",
  },
  awaitWorkUnits: {
    scope: "read",
    params: { workSpec: workSpecRef, names: list(workUnit) },
    options: {
      ...waitOptions,
      any: maybe(boolean("Waits for one unit to end, not for all")),
    } satisfies Members<Omit<AwaitOptions, "signal">>,
    answer: list(nullable(workUnitRow)),
    repeat: "same",
    summary:
      "Returns work units by name, null for each that does not exist. With waitMs, waits up to that long for all of them to end.",
  },
  setWorkUnitPriorities: {
    scope: "write",
    params: {
      workSpec: workSpecRef,
      selection,
      change: either(
        input<{ set: number }>({ set: priority }),
        input<{ adjust: number }>({ adjust: priority }),
      ),
    },
    answer: integer,
    repeat: "never",
    slow: true,
    summary: "Sets or adjusts the priority of the selected units; returns how many.",
  },
  setWorkUnitDelays: {
    scope: "write",
    params: { workSpec: workSpecRef, selection, notBefore: time },
    answer: integer,
    repeat: "same",
    slow: true,
    summary: "Sets the earliest start of the selected units that wait; returns how many.",
  },
  resetWorkUnits: {
    scope: "write",
    params: { workSpec: workSpecRef, selection },
    answer: integer,
    repeat: "never",
    slow: true,
    summary:
      "Clears the active attempts of the selected units, which become available again; returns how many.",
  },
  cancelWorkUnits: {
    scope: "write",
    params: { workSpec: workSpecRef, selection },
    options: {
      by: maybe(text({ description: "Who cancels the units, for people to read" })),
      why: maybe(text({ description: "Why the units are cancelled, for people to read" })),
    } satisfies Members<CancelOptions>,
    answer: integer,
    repeat: "never",
    slow: true,
    summary:
      "Cancels the selected units that have not ended, running ones included: they fail. Returns how many.",
  },
  deleteWorkUnits: {
    scope: "write",
    params: { workSpec: workSpecRef, selection },
    answer: integer,
    repeat: "never",
    slow: true,
    summary: "Deletes the selected units with their attempts; returns how many.",
  },

  requestAttempts: {
    scope: "work",
    options: {
      worker,
      number: maybe(integer),
      lifetimeMs: maybe(span),
      ...waitOptions,
      ...requestOptions,
      ...schedule,
    } satisfies Members<Omit<AttemptRequest, "signal">>,
    answer: list(attemptRow),
    repeat: "id",
    summary:
      "Claims work: returns attempts of one work spec, or none. With waitMs, waits up to that long for work.",
  },
  makeAttempts: {
    scope: "work",
    params: {
      requests: list(input<AttemptMake>({ workSpec, workUnit, worker, lifetimeMs: maybe(span) })),
    },
    answer: list(attemptRow),
    repeat: "never",
    summary: "Makes attempts for the given units, whatever their status; all or none.",
  },
  settleAttempts: {
    scope: "work",
    params: { changes: list(attemptChange) },
    answer: list(attemptChanged),
    repeat: "same",
    summary:
      "Finishes, fails, retries, expires and renews attempts. Changes are independent; returns one result per change.",
  },
  getAttempts: {
    scope: "read",
    params: { ids: list(text()) },
    answer: list(nullable(attemptRow)),
    repeat: "same",
    summary: "Returns attempts by id, null for each that does not exist.",
  },
  listUnitAttempts: {
    scope: "read",
    params: { workSpec: workSpecRef, workUnit },
    answer: list(attemptRow),
    repeat: "same",
    summary: "Lists all attempts of a unit, in the order they were made.",
  },
  writeAttemptLogs: {
    scope: "work",
    params: { logs: list(input<AttemptLinesOf>({ attempt: text(), ...attemptLines })) },
    answer: list(boolean()),
    repeat: "never",
    summary:
      "Stores log lines of tasks, up to a limit per attempt; returns for each item whether the attempt exists.",
  },
  getAttemptLogs: {
    scope: "read",
    params: { ids: list(text()) },
    options: { after: maybe(integer) } satisfies Members<LogQuery>,
    answer: list(nullable(attemptLog)),
    repeat: "same",
    summary: "Returns the log lines of attempts, null for each attempt that does not exist.",
  },
  listWorkerAttempts: {
    scope: "read",
    params: { worker },
    options: {
      which: oneOf(["active", "all", "children"]),
      ...paging,
    } satisfies Members<WorkerAttemptQuery>,
    answer: page(attemptRow),
    repeat: "same",
    summary:
      "Lists the attempts of a worker: its active ones, all of them, or the active ones of its children.",
  },

  updateWorkers: {
    scope: "work",
    params: { changes: list(workerChange) },
    answer: list(workerRow),
    repeat: "same",
    summary: "Records check-ins of workers and other changes, all or none; returns the resulting workers.",
  },
  getWorkers: {
    scope: "read",
    params: { names: list(worker) },
    answer: list(nullable(workerRow)),
    repeat: "same",
    summary: "Returns workers by name, null for each that does not exist.",
  },
  listWorkers: {
    scope: "read",
    options: {
      names: maybe(list(worker)),
      prefix: maybe(text()),
      active: maybe(boolean()),
      root: maybe(boolean()),
      parent: maybe(worker),
      ...paging,
    } satisfies Members<WorkerQuery>,
    answer: page(workerRow),
    repeat: "same",
    summary:
      "Lists the workers that match, in name order, a page at a time. With parent or root, one level of the tree.",
  },

  takeMessages: {
    scope: "write",
    params: { queue },
    options: {
      max: maybe(integer),
      ...waitOptions,
      ...requestOptions,
    } satisfies Members<Omit<TakeOptions, "signal">>,
    answer: list(message),
    repeat: "id",
    summary:
      "Removes messages from a queue and returns them in order. With waitMs, waits up to that long for the first one.",
  },
  countMessages: {
    scope: "read",
    params: { queues: list(queue) },
    answer: list(integer),
    repeat: "same",
    summary: "Returns how many messages each queue has.",
  },
  listQueues: {
    scope: "read",
    options: paging,
    answer: page(object<QueueRow>({ name: queue, messages: integer, oldest: time })),
    repeat: "same",
    summary: "Lists the queues that have messages, in name order, a page at a time.",
  },
  clearQueue: {
    scope: "write",
    params: { queue },
    answer: integer,
    repeat: "never",
    slow: true,
    summary: "Removes all messages of a queue; returns how many.",
  },

  putActions: {
    scope: "write",
    params: { actions: list(input<ActionInput>({ key: action, data })) },
    answer: list(boolean()),
    repeat: "same",
    summary:
      "Stores records, all or none. A key that exists with different data is refused. Returns which were new.",
  },
  getActions: {
    scope: "read",
    params: { keys: list(action) },
    answer: list(nullable(actionRow)),
    repeat: "same",
    summary: "Returns records by key, null for each that does not exist.",
  },
  listActions: {
    scope: "read",
    options: paging,
    answer: page(actionRow),
    repeat: "same",
    summary: "Lists records, in key order, a page at a time.",
  },
  deleteActions: {
    scope: "write",
    params: { keys: list(action) },
    answer: list(boolean()),
    repeat: "never",
    summary: "Deletes records; returns for each key whether it existed.",
  },

  listFailures: {
    scope: "read",
    options: { workSpec: maybe(workSpec) } satisfies Members<FailureQuery>,
    answer: list(
      object<FailureRow>({
        workSpec,
        fingerprint: text(),
        error: text(),
        count: integer,
        firstTime: time,
        lastTime: time,
        example: workUnit,
        tries: integer,
        trend: list(object<FailurePoint>({ time, count: integer })),
      }),
    ),
    repeat: "same",
    summary: "Lists the failed units of one work spec, or of all, grouped by error.",
  },
  listPartitions: {
    scope: "read",
    params: { workSpec: workSpecRef },
    options: paging,
    answer: page(
      object<PartitionRow>({
        partition,
        waiting: integer,
        running: integer,
        first: nullable(workUnit),
        held: nullable(oneOf(["max_running_per_partition", "rate_per_partition", "order"])),
        until: time,
        reason: text(),
      }),
    ),
    repeat: "same",
    summary:
      "Lists the partitions of a work spec, a page at a time: how many units wait and run in each, and what holds it back.",
  },
  setBatches: {
    scope: "write",
    params: { batches: list(batchInput) },
    answer: list(batchRow),
    repeat: "same",
    summary: "Creates batches, or updates the given fields of existing ones.",
  },
  getBatches: {
    scope: "read",
    params: { names: list(text()) },
    answer: list(nullable(batchRow)),
    repeat: "same",
    summary: "Returns batches by name, null for each that does not exist.",
  },
  listBatches: {
    scope: "read",
    options: paging,
    answer: page(batchRow),
    repeat: "same",
    summary: "Lists batches, in name order, a page at a time.",
  },
  deleteBatches: {
    scope: "write",
    params: { names: list(text()) },
    answer: list(boolean()),
    repeat: "never",
    summary: "Deletes batches; their units stay. Returns for each name whether it existed.",
  },
  setLimits: {
    scope: "write",
    params: { limits: list(limitInput) },
    answer: list(limitRow),
    repeat: "same",
    summary: "Creates or replaces limits that work specs of the namespace can share; other limits stay.",
  },
  listLimits: {
    scope: "read",
    answer: list(limitRow),
    repeat: "same",
    summary: "Lists the shared limits of a namespace, in name order, with how many units run under each.",
  },
  deleteLimits: {
    scope: "write",
    params: { names: list(limit) },
    answer: list(boolean()),
    repeat: "never",
    summary: "Deletes shared limits; returns for each name whether it existed.",
  },
  changeBatch: {
    scope: "write",
    params: { batch: text(), action: oneOf(batchActions) },
    answer: integer,
    repeat: "same",
    slow: true,
    summary:
      "Cancels the units of a batch that have not ended, or retries those that failed, child batches included; returns how many.",
  },

  tally: {
    scope: "read",
    namespace: "optional",
    answer: list(
      object<TallyRow>({
        namespace,
        workSpec,
        counts: tally,
        removed: object<TallyRow["removed"]>({ finished: integer, failed: integer }),
      }),
    ),
    repeat: "same",
    summary: "Returns exact counts per work spec and status.",
  },
  waitingSince: {
    scope: "read",
    namespace: "optional",
    answer: list(object<WaitingSinceRow>({ namespace, workSpec, since: time, exact: boolean() })),
    repeat: "same",
    summary: "Returns since when units have waited, for each work spec with available units.",
  },
  history: {
    scope: "read",
    options: {
      workSpecs: maybe(list(workSpec)),
      each: maybe(boolean("Adds a series for every work spec to that of the namespace")),
      from: maybe(time),
      lastMs: maybe(span),
      to: maybe(time),
      points: maybe(integer),
    } satisfies Members<HistoryQuery>,
    answer: object<History>({
      from: time,
      to: time,
      stepMs: span,
      series: list(object<HistorySeries>({ workSpec: nullable(workSpec), points: list(historyPoint) })),
    }),
    repeat: "same",
    summary:
      "Returns statistics over time, in steps: units added, started and ended, how many ran and waited, run and wait times.",
  },
  explain: {
    scope: "read",
    options: schedule,
    answer: list(
      object<Explained>({
        workSpec,
        excluded: nullable(text() as Shape<NonNullable<Explained["excluded"]>>),
        reason: text(),
        priority: number(),
        weight: number(),
        available: integer,
        pending: integer,
        score: number(),
        chance: number(),
        share,
        targetShare: number(),
        measuredShare: nullable(number()),
        meanMs: nullable(number()),
      }),
    ),
    repeat: "same",
    summary: "Explains for every work spec why this request would or would not get work from it.",
  },

  lock: {
    scope: "work",
    options: lockRequest,
    answer: lockRefusal,
    repeat: "never",
    summary: "Locks all paths or none; returns the path that was refused and its owner, or null.",
  },
  lockSome: {
    scope: "work",
    options: lockRequest,
    answer: list(boolean()),
    repeat: "never",
    summary: "Locks each path independently, in order; returns which were granted.",
  },
  renewLocks: {
    scope: "work",
    options: lockRequest,
    answer: lockRefusal,
    repeat: "same",
    summary: "Extends locks, all or none; returns the path that was refused and its owner, or null.",
  },
  unlock: {
    scope: "work",
    options: { owner: text(), paths: list(lockPath) } satisfies Members<Pick<LockRequest, "owner" | "paths">>,
    answer: lockRefusal,
    repeat: "never",
    summary: "Releases locks, all or none; returns the path that was refused and its owner, or null.",
  },
  readLocks: {
    scope: "read",
    params: { paths: list(lockPath) },
    answer: list(nullable(text())),
    repeat: "same",
    summary: "Returns the owner of each path, not of paths above or below it; null if it is not locked.",
  },
  listLocks: {
    scope: "read",
    options: { path: maybe(lockPath), ...paging } satisfies Members<LockQuery>,
    answer: page(object<Lock>({ path: lockPath, owner: text(), deadline: time })),
    repeat: "same",
    summary: "Lists the locks at and below a path, in the order of their labels, a page at a time.",
  },
  clearLocks: {
    scope: "write",
    params: { path: lockPath },
    answer: nothing,
    repeat: "same",
    summary: "Releases all locks at and below a path, whoever owns them.",
  },
};

export const verbNames = Object.keys(verbs) as readonly Verb[];

export const isVerb = (name: string): name is Verb => Object.hasOwn(verbs, name);

// ---- what follows from the table

interface Signature {
  /** The names of the arguments after the namespace, without the options. */
  readonly params: readonly string[];
  /** Fewest and most arguments, with the namespace. */
  readonly counts: readonly [min: number, max: number];
  /** Where the options stand among the arguments, with the namespace; -1 where there are none. */
  readonly optionsAt: number;
  /** The options include `waitMs`: the answer may take that long. */
  readonly waits: boolean;
  /** A wait in this process may have a signal as well. */
  readonly optionNames: readonly string[];
  /** The name and shape of each argument after the namespace. */
  readonly shapes: readonly (readonly [name: string, shape: Shape])[];
  /** All arguments after the namespace, as one object. */
  readonly input: Shape;
}

function signature({ namespace, params = {}, options }: VerbRow): Signature {
  const names = Object.keys(params);
  const before = (namespace === "none" ? 0 : 1) + names.length;
  const needed = (namespace === undefined ? 1 : 0) + names.length;
  return {
    params: names,
    counts: [
      needed + (options === undefined || allOptional(options) ? 0 : 1),
      before + (options === undefined ? 0 : 1),
    ],
    optionsAt: options === undefined ? -1 : before,
    waits: options?.waitMs !== undefined,
    optionNames: [...Object.keys(options ?? {}), ...(options?.waitMs === undefined ? [] : ["signal"])],
    shapes: [
      ...Object.entries(params),
      ...(options === undefined ? [] : [["options", objectOf(options)] as const]),
    ],
    input: closed(objectOf({ ...params, ...options })),
  };
}

export const signatures = Object.fromEntries(
  Object.entries(verbs).map(([verb, row]) => [verb, signature(row)]),
) as Readonly<Record<Verb, Signature>>;

/** Throws `bad_name` or `bad_argument` for an argument of a type that the engine cannot read. `args` include the namespace. */
export function checkArguments(verb: Verb, args: readonly unknown[]): void {
  signatures[verb].shapes.forEach(([name, shape], i) => {
    if (args.length > i + 1) checkShape(shape, args[i + 1], name);
  });
}

/** The options of a call; an empty object where there are none. `args` include the namespace, here and below. */
export function optionsOf(verb: Verb, args: readonly unknown[]): Readonly<Record<string, unknown>> {
  const given = args[signatures[verb].optionsAt];
  return typeof given === "object" && given !== null ? (given as Record<string, unknown>) : {};
}

/** A copy of the arguments with other options, for a verb that has options. */
export function withOptions(verb: Verb, args: readonly unknown[], options: object): unknown[] {
  const changed = [...args];
  changed[signatures[verb].optionsAt] = options;
  return changed;
}

/** Whether the call has a `waitMs`, and may take that long. */
export function isWait(verb: Verb, args: readonly unknown[]): boolean {
  if (!signatures[verb].waits) return false;
  const { waitMs } = optionsOf(verb, args);
  return typeof waitMs === "number" && waitMs > 0;
}

/** Throws `bad_argument` for an option that the verb does not have. */
export function checkVerbOptions(verb: Verb, options: object): void {
  checkOptions(verb, options, signatures[verb].optionNames);
}

type AnyVerb = (...args: unknown[]) => Promise<unknown>;

/** Calls a verb by its name. The caller has checked that the arguments fit. */
export const callVerb = (coordinate: Verbs, verb: Verb, args: readonly unknown[]): Promise<unknown> =>
  (coordinate[verb] as AnyVerb).apply(coordinate, [...args]);
