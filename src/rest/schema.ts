/**
 * What the complete wire carries, as schemas: they check requests, and OpenAPI is made of them. They say what a thing
 * is; limits that may be configured, and rules, are the engine's.
 */
import { Type, type TSchema } from "@sinclair/typebox";
import {
  attemptStatuses,
  desiredStates,
  errorCodes,
  schedulingPolicies,
  workUnitStatuses,
  type NameKind,
} from "../core/index.ts";
import type { Verb } from "./verbs.ts";

const oneOf = (values: readonly string[], description?: string): TSchema =>
  Type.Unsafe<string>({
    type: "string",
    enum: [...values],
    ...(description !== undefined && { description }),
  });

const closed = { additionalProperties: false };
const maybe = (schema: TSchema): TSchema => Type.Optional(schema);
const nullable = (schema: TSchema): TSchema => Type.Union([schema, Type.Null()]);
const listOf = (schema: TSchema): TSchema => Type.Array(schema);

/** The title is what a refusal calls it. */
const named = (title: NameKind): TSchema =>
  Type.String({ title, description: "A name; a byte that is not UTF-8 is escaped as \\udc80..\\udcff" });
const namespace = named("namespace");
const workSpec = named("work spec");
const workUnit = named("work unit");
const worker = named("worker");
const queue = named("queue");
const label = named("label");
const action = named("action");
const time = Type.Number({ description: "Milliseconds since 1970; 0 is none" });
const span = Type.Number({ description: "Milliseconds" });
const count = Type.Integer();

/** Checked by the reader, which knows what stood there: by then JSON data is its text and CBOR data its bytes. */
const data = Type.Unsafe<unknown>({
  anyOf: [
    { type: "object", description: "A dictionary, kept as the text it is" },
    { type: "string", contentEncoding: "base64", contentMediaType: "application/cbor" },
    { type: "null" },
  ],
  description: "A data dictionary: a JSON object, or base64 of a CBOR map",
});

const workSpecRef = Type.Union([workSpec, Type.Object({ name: workSpec, id: count }, closed)], {
  description: "A work spec by name; with the id that was seen before, one that was deleted since is gone",
});

const retentionLimit = Type.Object({ maxAgeMs: maybe(span), maxCount: maybe(count) }, closed);

const settableMeta = {
  priority: Type.Number(),
  weight: Type.Number(),
  paused: Type.Boolean(),
  continuous: Type.Boolean(),
  minGb: Type.Number(),
  intervalMs: span,
  nextContinuous: time,
  maxRunning: count,
  maxGetwork: count,
  maxRetries: count,
};

const workSpecMeta = Type.Object({
  ...settableMeta,
  canBeContinuous: Type.Boolean(),
  nextWorkSpecName: Type.String(),
  thenPreempts: Type.Boolean(),
  runtime: Type.String(),
  taskName: Type.String(),
  runsModule: Type.Boolean(),
  retention: Type.Object({ finished: maybe(retentionLimit), failed: maybe(retentionLimit) }),
});

const workSpecRow = Type.Object({ id: count, name: workSpec, data, meta: workSpecMeta });

const attemptRow = Type.Object({
  id: Type.String(),
  workSpec,
  workUnit,
  worker,
  number: count,
  status: oneOf(attemptStatuses),
  active: Type.Boolean(),
  startTime: time,
  endTime: time,
  expirationTime: time,
  data,
  late: Type.Boolean(),
  chainingErrors: listOf(Type.String()),
});

const workUnitStatus = oneOf(workUnitStatuses);

/** One line of a bulk load, too. */
export const workUnitInput = Type.Object(
  {
    name: workUnit,
    data: maybe(data),
    priority: maybe(Type.Number()),
    notBefore: maybe(time),
    delayMs: maybe(span),
    dependencies: maybe(
      listOf(
        Type.Object({ workSpec: maybe(workSpec), workUnit, kind: maybe(oneOf(["hard", "soft"])) }, closed),
      ),
    ),
    queues: maybe(listOf(queue)),
    labels: maybe(listOf(label)),
  },
  closed,
);

export const workUnitRow = Type.Object({
  id: count,
  workSpec,
  name: workUnit,
  status: workUnitStatus,
  data,
  priority: Type.Number(),
  notBefore: time,
  createdTime: time,
  attempts: count,
  activeAttempt: nullable(attemptRow),
  origin: nullable(Type.String()),
  dependencies: listOf(
    Type.Object({ workSpec, workUnit, kind: oneOf(["hard", "soft"]), status: nullable(workUnitStatus) }),
  ),
  queues: listOf(queue),
  labels: listOf(label),
});

const conditions = {
  names: maybe(listOf(workUnit)),
  statuses: maybe(listOf(workUnitStatus)),
  prefix: maybe(Type.String()),
  label: maybe(label),
};

const selection = Type.Object(
  {
    ...conditions,
    all: maybe(Type.Boolean({ description: "Every unit; needed when nothing else is said" })),
  },
  closed,
);

const paging = {
  previous: maybe(Type.String({ description: "The `next` of the page before" })),
  limit: maybe(count),
};
const page = (row: TSchema): TSchema => Type.Object({ rows: listOf(row), next: nullable(Type.String()) });

const desired = oneOf(desiredStates);

const workerRow = Type.Object({
  name: worker,
  parent: nullable(worker),
  active: Type.Boolean(),
  mode: Type.String(),
  data,
  lastUpdate: time,
  expiration: time,
  desired,
});

const workerChange = Type.Object(
  {
    name: worker,
    parent: maybe(nullable(worker)),
    active: maybe(Type.Boolean()),
    mode: maybe(Type.String()),
    data: maybe(data),
    lastUpdate: maybe(time),
    expiration: maybe(time),
    desired: maybe(nullable(desired)),
  },
  closed,
);

const schedule = {
  workSpecs: maybe(listOf(Type.String())),
  runtimes: maybe(listOf(Type.String())),
  tasks: maybe(listOf(Type.String())),
  availableGb: maybe(Type.Number()),
};

const requestId = maybe(
  Type.String({
    description:
      "Names this request, so that it may be repeated when its answer was lost; at most 200 characters",
  }),
);

const message = Type.Object({
  seq: count,
  queue,
  workSpec,
  workUnit,
  attempt: nullable(Type.String()),
  status: oneOf(["finished", "failed"]),
  data,
  at: time,
});

const lockPath = listOf(Type.String());
const lockRequest = { owner: Type.String(), timeoutMs: maybe(span), paths: listOf(lockPath) };
const lockRefusal = nullable(Type.Object({ path: lockPath, owner: nullable(Type.String()) }));

const settings = { policy: oneOf(schedulingPolicies), desired };
const namespaceRow = Type.Object({ name: namespace, settings: Type.Object(settings) });

const tally = Type.Object(Object.fromEntries(workUnitStatuses.map((status) => [status, count])));

const body = (members: Record<string, TSchema>): TSchema => Type.Object(members, closed);

export interface VerbSchema {
  /** One sentence for the reader of the document. */
  summary: string;
  body: TSchema;
  answer: TSchema;
}

export const verbSchemas: Readonly<Record<Verb, VerbSchema>> = {
  listNamespaces: {
    summary: "The namespaces that the caller may read, in name order.",
    body: body({}),
    answer: listOf(namespaceRow),
  },
  getNamespace: {
    summary: "The settings of a namespace; of one that does not exist, the defaults.",
    body: body({}),
    answer: namespaceRow,
  },
  setNamespace: {
    summary: "Changes settings of a namespace, and creates it.",
    body: body({ settings: Type.Partial(Type.Object(settings), closed) }),
    answer: namespaceRow,
  },
  deleteNamespace: {
    summary: "Deletes a namespace and all that is in it.",
    body: body({}),
    answer: Type.Null(),
  },
  setWorkSpecs: {
    summary: "Creates work specs or replaces their data, all or none.",
    body: body({
      specs: listOf(Type.Object({ data, name: maybe(workSpec) }, closed)),
      keepMeta: maybe(Type.Boolean({ description: "Keeps the metadata that operators set by hand" })),
    }),
    answer: listOf(workSpecRow),
  },
  getWorkSpecs: {
    summary: "Work specs by name, null where there is none.",
    body: body({ workSpecs: listOf(workSpecRef) }),
    answer: listOf(nullable(workSpecRow)),
  },
  listWorkSpecs: {
    summary: "A page of work specs, in name order.",
    body: body(paging),
    answer: page(workSpecRow),
  },
  setWorkSpecMeta: {
    summary: "Changes what an operator may change of a work spec; answers the resulting metadata.",
    body: body({ workSpec: workSpecRef, change: Type.Partial(Type.Object(settableMeta), closed) }),
    answer: workSpecMeta,
  },
  deleteWorkSpecs: {
    summary: "Deletes work specs with their units and attempts; answers per name whether it was there.",
    body: body({ workSpecs: listOf(workSpecRef) }),
    answer: listOf(Type.Boolean()),
  },
  addWorkUnits: {
    summary: "Adds work units, all or none; one that exists gets the new data.",
    body: body({ workSpec: workSpecRef, units: listOf(workUnitInput), requestId }),
    answer: listOf(
      Type.Object({ name: workUnit, id: count, created: Type.Boolean(), status: workUnitStatus }),
    ),
  },
  getWorkUnits: {
    summary: "Work units by name, null where there is none.",
    body: body({ workSpec: workSpecRef, names: listOf(workUnit) }),
    answer: listOf(nullable(workUnitRow)),
  },
  listWorkUnits: {
    summary: "A page of work units that match, in name order.",
    body: body({ workSpec: workSpecRef, ...conditions, ...paging }),
    answer: page(workUnitRow),
  },
  countWorkUnits: {
    summary: "How many of the selected units there are, by status.",
    body: body({ workSpec: workSpecRef, selection }),
    answer: tally,
  },
  awaitWorkUnits: {
    summary:
      "Work units by name, null where there is none. With waitMs, waits that long for all of them to have ended.",
    body: body({ workSpec: workSpecRef, names: listOf(workUnit), waitMs: maybe(span) }),
    answer: listOf(nullable(workUnitRow)),
  },
  setWorkUnitPriorities: {
    summary: "Sets or adjusts the priority of the selected units; answers how many.",
    body: body({
      workSpec: workSpecRef,
      selection,
      change: Type.Union([
        Type.Object({ set: Type.Number({ title: "priority" }) }, closed),
        Type.Object({ adjust: Type.Number({ title: "priority" }) }, closed),
      ]),
    }),
    answer: count,
  },
  setWorkUnitDelays: {
    summary: "Sets when the selected waiting units may run; answers how many.",
    body: body({ workSpec: workSpecRef, selection, notBefore: time }),
    answer: count,
  },
  resetWorkUnits: {
    summary: "Clears the active attempt of the selected units, which become available; answers how many.",
    body: body({ workSpec: workSpecRef, selection }),
    answer: count,
  },
  deleteWorkUnits: {
    summary: "Deletes the selected units with their attempts; answers how many.",
    body: body({ workSpec: workSpecRef, selection }),
    answer: count,
  },
  requestAttempts: {
    summary:
      "Asks for work: attempts of one work spec, or none. With waitMs, waits that long for work to come.",
    body: body({
      worker,
      number: maybe(count),
      lifetimeMs: maybe(span),
      waitMs: maybe(span),
      requestId,
      ...schedule,
    }),
    answer: listOf(attemptRow),
  },
  makeAttempts: {
    summary: "Makes attempts for given units, wherever they stand; all or none.",
    body: body({
      requests: listOf(Type.Object({ workSpec, workUnit, worker, lifetimeMs: maybe(span) }, closed)),
    }),
    answer: listOf(attemptRow),
  },
  settleAttempts: {
    summary: "Finishes, fails, retries, expires and renews; each change by itself, answers per item.",
    body: body({
      changes: listOf(
        Type.Object(
          {
            attempt: Type.String(),
            action: oneOf(["finish", "fail", "retry", "expire", "renew"]),
            data: maybe(data),
            delayMs: maybe(span),
            lifetimeMs: maybe(span),
            untried: maybe(Type.Boolean()),
          },
          closed,
        ),
      ),
    }),
    answer: listOf(
      Type.Object({
        attempt: Type.String(),
        error: nullable(oneOf(errorCodes)),
        changed: Type.Boolean(),
        status: nullable(oneOf(attemptStatuses)),
        expirationTime: time,
        outputs: count,
        chainingErrors: listOf(Type.String()),
      }),
    ),
  },
  getAttempts: {
    summary: "Attempts by id, null where there is none.",
    body: body({ ids: listOf(Type.String()) }),
    answer: listOf(nullable(attemptRow)),
  },
  listUnitAttempts: {
    summary: "All attempts of a unit, in the order they were made.",
    body: body({ workSpec: workSpecRef, workUnit }),
    answer: listOf(attemptRow),
  },
  listWorkerAttempts: {
    summary: "Attempts of a worker: active ones, all, or the active ones of its children.",
    body: body({ worker, which: oneOf(["active", "all", "children"]), ...paging }),
    answer: page(attemptRow),
  },
  updateWorkers: {
    summary: "Check-ins of workers and other changes, all or none; answers the resulting workers.",
    body: body({ changes: listOf(workerChange) }),
    answer: listOf(workerRow),
  },
  getWorkers: {
    summary: "Workers by name, null where there is none.",
    body: body({ names: listOf(worker) }),
    answer: listOf(nullable(workerRow)),
  },
  listWorkers: {
    summary: "A page of workers that match, in name order. With parent or root, one level of the tree.",
    body: body({
      names: maybe(listOf(worker)),
      prefix: maybe(Type.String()),
      active: maybe(Type.Boolean()),
      root: maybe(Type.Boolean()),
      parent: maybe(worker),
      ...paging,
    }),
    answer: page(workerRow),
  },
  takeMessages: {
    summary:
      "Takes messages out of a queue, in order, or none. With waitMs, waits that long for the first to come.",
    body: body({ queue, max: maybe(count), waitMs: maybe(span), requestId }),
    answer: listOf(message),
  },
  countMessages: {
    summary: "How many messages each queue has.",
    body: body({ queues: listOf(queue) }),
    answer: listOf(count),
  },
  listQueues: {
    summary: "A page of the queues that have messages, in name order.",
    body: body(paging),
    answer: page(Type.Object({ name: queue, messages: count, oldest: time })),
  },
  clearQueue: {
    summary: "Removes all messages of a queue; answers how many.",
    body: body({ queue }),
    answer: count,
  },
  putActions: {
    summary: "Stores records, all or none; a key that has other data is refused. Answers which were new.",
    body: body({ actions: listOf(Type.Object({ key: action, data }, closed)) }),
    answer: listOf(Type.Boolean()),
  },
  getActions: {
    summary: "Records by key, null where there is none.",
    body: body({ keys: listOf(action) }),
    answer: listOf(nullable(Type.Object({ key: action, data, createdTime: time }))),
  },
  listActions: {
    summary: "A page of records, in the order of keys.",
    body: body(paging),
    answer: page(Type.Object({ key: action, data, createdTime: time })),
  },
  deleteActions: {
    summary: "Deletes records; answers per key whether it was there.",
    body: body({ keys: listOf(action) }),
    answer: listOf(Type.Boolean()),
  },
  waitingSince: {
    summary: "Per work spec with available units, since when one of them has waited.",
    body: body({}),
    answer: listOf(Type.Object({ namespace, workSpec, since: time, exact: Type.Boolean() })),
  },
  tally: {
    summary: "Exact counts per work spec and status.",
    body: body({}),
    answer: listOf(
      Type.Object({
        namespace,
        workSpec,
        counts: tally,
        removed: Type.Object({ finished: count, failed: count }),
      }),
    ),
  },
  explain: {
    summary: "For every work spec, why this request would or would not be given work from it.",
    body: body(schedule),
    answer: listOf(
      Type.Object({
        workSpec,
        excluded: nullable(Type.String()),
        reason: Type.String(),
        priority: Type.Number(),
        weight: Type.Number(),
        available: count,
        pending: count,
        score: Type.Number(),
        chance: Type.Number(),
      }),
    ),
  },
  lock: {
    summary: "Locks all paths or none; answers what was refused, or null.",
    body: body(lockRequest),
    answer: lockRefusal,
  },
  lockSome: {
    summary: "Locks each path by itself, in order; answers which were granted.",
    body: body(lockRequest),
    answer: listOf(Type.Boolean()),
  },
  renewLocks: {
    summary: "Extends locks, all or none; answers what was refused, or null.",
    body: body(lockRequest),
    answer: lockRefusal,
  },
  unlock: {
    summary: "Releases locks, all or none; answers what was refused, or null.",
    body: body({ owner: Type.String(), paths: listOf(lockPath) }),
    answer: lockRefusal,
  },
  readLocks: {
    summary: "The owner of exactly each path, or null.",
    body: body({ paths: listOf(lockPath) }),
    answer: listOf(nullable(Type.String())),
  },
  clearLocks: {
    summary: "Releases everything at and below a path, whoever holds it.",
    body: body({ path: lockPath }),
    answer: Type.Null(),
  },
};

export const errorDocument = Type.Object(
  {
    error: Type.String({
      description: "The code as the Go client knows it; `error` for what it has no code for",
    }),
    code: Type.String({ description: "What went wrong, in one word of the table of errors" }),
    message: Type.String(),
    value: maybe(Type.String({ description: "The name of what is missing, the field that is wrong" })),
  },
  { description: "Every answer that is not 2xx" },
);
