/**
 * The routes of the Go server, for which its client needs no changes. Where the Go server has bugs, these routes do what
 * its interface promises instead; docs/rest.md lists the differences.
 */
import {
  CoordinateError,
  eachPage,
  serveVerb,
  shape,
  throwChanged,
  type AttemptAction,
  type AttemptRequest,
  type AttemptRow,
  type Data,
  type Page,
  type PageStart,
  type Shape,
  type WorkerRow,
  type WorkSpecRow,
  type WorkUnitRow,
  type WorkUnitSelection,
  type WorkUnitStatus,
} from "../core/index.ts";
import { HttpError } from "./errors.ts";
import {
  attemptListText,
  attemptResponseText,
  attemptText,
  countsText,
  namespaceListText,
  namespaceText,
  namespaceUrl,
  rootText,
  summaryText,
  workerListText,
  workerText,
  workSpecListText,
  workSpecMetaText,
  workSpecText,
  workSpecUrl,
  workUnitListText,
  workUnitText,
  workUnitUrl,
} from "./go-text.ts";
import {
  readGoBoolean,
  readGoDuration,
  readGoFloat,
  readGoInteger,
  readGoList,
  readGoText,
  readGoTime,
} from "./go-values.ts";
import { nameFromUrl } from "./url-name.ts";
import type { Answer, Call, Method, Route } from "./route.ts";

/** A list without `limit` is built in memory. Longer lists must be requested in pages. */
const longestList = 100_000;

// ---- request bodies: unknown fields are ignored, null is the same as absent, numbers may be quoted

const numeric: Shape = { type: ["number", "string", "null"] };
const text: Shape = { type: ["string", "null"] };
const flag: Shape = { type: ["boolean", "null"] };
const texts: Shape = { type: ["array", "null"], items: { type: ["string", "null"] } };
const dictionary: Shape = {
  type: ["object", "string", "null"],
  description: "A JSON object, or a CBOR map in base64",
};
const some = (properties: Record<string, Shape>): Shape => ({ type: "object", properties });

const unitMeta: Shape = {
  type: ["object", "null"],
  properties: { priority: numeric, not_before: text },
};
const workUnitBody = some({ name: text, data: dictionary, meta: unitMeta, active_attempt_url: text });
const workSpecBody = some({ data: dictionary });
const metaBody = some({
  priority: numeric,
  weight: numeric,
  paused: flag,
  continuous: flag,
  min_memory_gb: numeric,
  interval: numeric,
  next_continuous: text,
  max_running: numeric,
  max_attempts_returned: numeric,
  max_retries: numeric,
});
const workerBody = some({
  parent: text,
  active: flag,
  mode: text,
  data: dictionary,
  expiration: text,
  last_update: text,
});
const requestBody = some({
  available_gb: numeric,
  lifetime: numeric,
  number_of_work_units: numeric,
  work_specs: texts,
  runtimes: texts,
});
const makeBody = some({ work_spec: text, work_unit: text, lifetime: numeric });
const completionBody = some({ data: dictionary, extend_duration: numeric, delay: numeric });

const unitQuery = {
  name: shape.list(shape.text()),
  status: shape.list(shape.text()),
  previous: shape.text(),
  limit: shape.text(),
};

// ---- helpers of the handlers

const N = "/namespace/{namespace}";
const S = `${N}/work_spec/{spec}`;
const U = `${S}/work_unit/{unit}`;
const W = `${N}/worker/{worker}`;
const A = `${N}/attempt/{attempt}`;

type Row = Omit<Route, "id" | "method" | "path" | "family">;

const row = (id: string, line: string, rest: Row): Route => {
  const [method, path] = line.split(" ") as [Method, string];
  return { id: `go.${id}`, method, path, family: "go", ...rest };
};

const bodyData = (call: Call): Data | null => (call.body.data ?? null) as Data | null;

async function spec(call: Call): Promise<WorkSpecRow> {
  const name = call.param("spec");
  const [found] = await call.coordinate.getWorkSpecs(call.ns, [name]);
  if (found === null || found === undefined) throw new CoordinateError("no_such_work_spec", name);
  return found;
}

async function unit(call: Call, name = call.param("unit")): Promise<WorkUnitRow> {
  const [found] = await call.coordinate.getWorkUnits(call.ns, call.param("spec"), [name]);
  if (found === null || found === undefined) throw new CoordinateError("no_such_work_unit", name);
  return found;
}

/** Creates a missing worker, since the Go client creates its worker by reading it. A caller with scope `read` alone creates none. */
async function worker(call: Call): Promise<WorkerRow> {
  const name = call.param("worker");
  const [found] = await call.coordinate.getWorkers(call.ns, [name]);
  if (found !== null && found !== undefined) return found;
  if (!call.identity.may("work", call.ns)) throw new CoordinateError("no_such_worker", name);
  const [made] = await call.coordinate.updateWorkers(call.ns, [{ name, active: true }]);
  if (made === undefined) throw new CoordinateError("no_such_worker", name);
  return made;
}

async function all<Item>(read: (from: PageStart) => Promise<Page<Item>>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const rows of eachPage(read)) {
    for (const item of rows) items.push(item);
    if (items.length > longestList)
      throw new CoordinateError(
        "too_large",
        `the list has more than ${longestList} items; request it in pages with limit`,
      );
  }
  return items;
}

async function workerAnswer(call: Call, found: WorkerRow): Promise<string> {
  const children = await all((from) => call.coordinate.listWorkers(call.ns, { parent: found.name, ...from }));
  return workerText(
    call.ns,
    found,
    children.map(({ name }) => name),
  );
}

const attemptsOf =
  (which: "active" | "all" | "children") =>
  async (call: Call): Promise<string> => {
    const { name } = await worker(call);
    const attempts = await all((from) =>
      call.coordinate.listWorkerAttempts(call.ns, name, { which, ...from }),
    );
    return attemptListText(call.ns, attempts);
  };

async function attempt(call: Call): Promise<AttemptRow> {
  const id = call.param("attempt");
  const [found] = await call.coordinate.getAttempts(call.ns, [id]);
  if (found === null || found === undefined) throw await missingAttempt(call, id);
  return found;
}

/**
 * `gone` for an attempt of a deleted unit, the same as for settling it. To tell, it settles an attempt number of the unit that
 * cannot exist, which changes nothing.
 */
async function missingAttempt(call: Call, id: string): Promise<CoordinateError> {
  const [unitId = ""] = id.split(".");
  const impossibleAttempt = `${unitId}.${Number.MAX_SAFE_INTEGER}`;
  const [asked] = await call.coordinate.settleAttempts(call.ns, [
    { attempt: impossibleAttempt, action: "expire" },
  ]);
  return new CoordinateError(asked?.error === "gone" ? "gone" : "no_such_attempt", id);
}

const settle =
  (action: AttemptAction) =>
  async (call: Call): Promise<null> => {
    const [changed] = await call.coordinate.settleAttempts(call.ns, [
      {
        attempt: call.param("attempt"),
        action,
        data: bodyData(call),
        // a time in the past means no delay
        delayMs: Math.max(0, readGoDuration("delay", call.body.delay)),
        lifetimeMs: readGoDuration("extend_duration", call.body.extend_duration),
        recordTaken: true,
      },
    ]);
    if (changed === undefined) return null;
    // Go promises ErrLostLease only for renewals; otherwise a replaced attempt is not pending
    const isLost = changed.error === "lost_lease" && action !== "renew";
    throwChanged(isLost ? { ...changed, error: "not_pending" } : changed);
    return null;
  };

/** The conditions in the query string of a unit query. */
function selectionOf(call: Call): WorkUnitSelection {
  const selection: WorkUnitSelection = {};
  const names = call.query("name");
  // `any` is Go's zero value: no condition
  const statuses = call.query("status").filter((status) => status !== "any");
  if (names.length > 0) selection.names = names;
  if (statuses.length > 0) selection.statuses = statuses as WorkUnitStatus[];
  // blocked units are shown to Go clients as delayed, so they are found as delayed, too
  if (statuses.includes("delayed")) selection.statuses = [...(statuses as WorkUnitStatus[]), "blocked"];
  if (Object.keys(selection).length === 0) selection.all = true;
  return selection;
}

/** A Go client encodes `previous` like a name in a path; other clients do not. */
function previousOf(call: Call): { previous?: string } {
  const [previous] = call.query("previous");
  if (previous === undefined) return {};
  try {
    return { previous: nameFromUrl(previous) };
  } catch {
    return { previous };
  }
}

function limitOf(call: Call): number | null {
  const [limit] = call.query("limit");
  if (limit === undefined) return null;
  if (!/^[+-]?\d{1,15}$/.test(limit))
    throw new CoordinateError(
      "bad_argument",
      `limit: expected an integer, got ${JSON.stringify(limit.slice(0, 40))}`,
    );
  return Number(limit) > 0 ? Number(limit) : null;
}

async function listUnits(call: Call): Promise<string> {
  const { all: _everything, ...conditions } = selectionOf(call);
  const name = call.param("spec");
  const limit = limitOf(call);
  const start = previousOf(call);
  const read = async (previous: string | undefined, max: number): Promise<Page<WorkUnitRow>> =>
    call.coordinate.listWorkUnits(call.ns, name, {
      ...conditions,
      ...(previous === undefined ? start : { previous }),
      limit: max,
    });
  const rows =
    limit !== null && limit <= longestList
      ? (await read(undefined, limit)).rows
      : await all(({ previous }) => read(previous, 1000));
  return workUnitListText(
    call.ns,
    name,
    rows.map((found) => found.name),
  );
}

const changePriorities =
  (kind: "set" | "adjust") =>
  async (call: Call): Promise<null> => {
    const meta = call.body.meta as Record<string, unknown> | null | undefined;
    if (meta === null || meta === undefined) return null;
    const value = readGoFloat("priority", meta.priority);
    const change = kind === "set" ? { set: value } : { adjust: value };
    await call.coordinate.setWorkUnitPriorities(call.ns, call.param("spec"), await limited(call), change);
    return null;
  };

/** A change with `limit` or `previous` applies to the units that a listing with them would show. */
async function limited(call: Call): Promise<WorkUnitSelection> {
  const selection = selectionOf(call);
  const limit = limitOf(call);
  const start = previousOf(call);
  if (limit === null && start.previous === undefined) return selection;
  const { all: _everything, ...conditions } = selection;
  const rows =
    limit === null
      ? await all((from) =>
          call.coordinate.listWorkUnits(call.ns, call.param("spec"), {
            ...conditions,
            ...start,
            ...from,
          }),
        )
      : (await call.coordinate.listWorkUnits(call.ns, call.param("spec"), { ...conditions, ...start, limit }))
          .rows;
  return { names: rows.map(({ name }) => name) };
}

async function putUnit(call: Call): Promise<null> {
  const { name } = await unit(call);
  const spec = call.param("spec");
  if (call.body.active_attempt_url === "-")
    await call.coordinate.resetWorkUnits(call.ns, spec, { names: [name] });
  const meta = call.body.meta as Record<string, unknown> | null | undefined;
  if (meta === null || meta === undefined) return null;
  const priority = readGoFloat("priority", meta.priority);
  const notBefore = readGoTime("not_before", meta.not_before);
  await call.coordinate.setWorkUnitPriorities(call.ns, spec, { names: [name] }, { set: priority });
  await call.coordinate.setWorkUnitDelays(call.ns, spec, { names: [name] }, notBefore);
  return null;
}

/**
 * Section 10.3: a given parent is set; `active` is a check-in with all fields of the body; without `active` the worker is
 * deactivated. But a client that sets a parent also sends `active: false` and means only the parent.
 */
async function putWorker(call: Call): Promise<null> {
  const { body } = call;
  const { name } = await worker(call);
  const parent = body.parent;
  const active = readGoBoolean(body.active);
  if (parent !== null && parent !== undefined) {
    const given = readGoText("parent", parent);
    await call.coordinate.updateWorkers(call.ns, [{ name, parent: given === "" ? null : given }]);
    if (!active) return null;
  }
  if (!active) {
    await call.coordinate.updateWorkers(call.ns, [{ name, active: false }]);
    return null;
  }
  const lastUpdate = readGoTime("last_update", body.last_update);
  const expiration = readGoTime("expiration", body.expiration);
  await call.coordinate.updateWorkers(call.ns, [
    {
      name,
      active: true,
      mode: readGoText("mode", body.mode),
      data: bodyData(call),
      ...(lastUpdate !== 0 && { lastUpdate }),
      ...(expiration !== 0 && { expiration }),
    },
  ]);
  return null;
}

function created(call: Call, url: string, text: string): Answer {
  call.reply.code(201).header("location", url);
  return text;
}

const readable = (call: Call) => (ns: { name: string }) => call.identity.may("read", ns.name);
const truths = new Set(["1", "t", "y", "true", "on", "yes"]);

const summaries = {
  renew: "Renews",
  expire: "Expires",
  finish: "Finishes",
  fail: "Fails",
  retry: "Retries",
} as const;

// ---- the table

export const goRoutes: readonly Route[] = [
  row("root", "GET /", {
    scope: "open",
    summary: "Returns the links that clients start from.",
    handle: async () => rootText,
  }),
  row("summary", "GET /summary", {
    scope: "listed",
    summary: "Returns the counts of all namespaces that the caller may read.",
    handle: async (call) => {
      const rows = await call.coordinate.tally();
      return summaryText(rows.filter(({ namespace }) => call.identity.may("read", namespace)));
    },
  }),
  row("namespaces", "GET /namespace", {
    scope: "listed",
    summary: "Lists the namespaces that the caller may read.",
    handle: async (call) => {
      const rows = (await call.coordinate.listNamespaces()).filter(readable(call));
      return namespaceListText(rows.map(({ name }) => name));
    },
  }),
  row("namespace.create", "POST /namespace", {
    scope: "listed",
    summary: "Creates a namespace.",
    body: some({ name: text }),
    status: 201,
    handle: async (call) => {
      const name = readGoText("name", call.body.name);
      // the only route with the namespace in the body, as in Go: so it checks the scope itself
      if (!call.identity.may("write", name))
        throw new HttpError("forbidden", "This requires scope write in that namespace");
      await call.coordinate.setNamespace(name, {});
      return created(call, namespaceUrl(name), namespaceText(name));
    },
  }),
  row("namespace", "GET " + N, {
    scope: "read",
    summary: "Returns a namespace. Creates it if the caller has scope work or write.",
    handle: async (call) => {
      if (call.identity.may("work", call.ns) || call.identity.may("write", call.ns)) {
        await call.coordinate.setNamespace(call.ns, {});
      }
      return namespaceText(call.ns);
    },
  }),
  row("namespace.delete", "DELETE " + N, {
    scope: "admin",
    summary: "Deletes a namespace and everything in it.",
    status: 204,
    handle: async (call) => {
      await call.coordinate.deleteNamespace(call.ns);
      return null;
    },
  }),
  row("namespace.summary", `GET ${N}/summary`, {
    scope: "read",
    summary: "Returns the counts of a namespace.",
    handle: async (call) => summaryText(await call.coordinate.tally(call.ns)),
  }),

  row("workSpecs", `GET ${N}/work_spec`, {
    scope: "read",
    summary: "Lists the work specs of a namespace.",
    handle: async (call) => {
      const rows = await all((from) => call.coordinate.listWorkSpecs(call.ns, from));
      return workSpecListText(
        call.ns,
        rows.map(({ name }) => name),
      );
    },
  }),
  row("workSpec.create", `POST ${N}/work_spec`, {
    scope: "write",
    summary: "Creates or replaces a work spec.",
    body: workSpecBody,
    status: 201,
    handle: async (call) => {
      const data = bodyData(call);
      if (data === null) throw new HttpError("bad_request", "Missing data");
      const [made] = await call.coordinate.setWorkSpecs(call.ns, [{ data }], { lenient: true });
      if (made === undefined) throw new CoordinateError("internal");
      return created(call, workSpecUrl(call.ns, made.name), workSpecText(call.ns, made));
    },
  }),
  row("workSpec", "GET " + S, {
    scope: "read",
    summary: "Returns a work spec.",
    handle: async (call) => workSpecText(call.ns, await spec(call)),
  }),
  row("workSpec.put", "PUT " + S, {
    scope: "write",
    summary: "Replaces a work spec's data.",
    body: workSpecBody,
    status: 204,
    handle: async (call) => {
      const { name } = await spec(call);
      const data = bodyData(call);
      if (data !== null) await call.coordinate.setWorkSpecs(call.ns, [{ data, name }], { lenient: true });
      return null;
    },
  }),
  row("workSpec.delete", "DELETE " + S, {
    scope: "write",
    summary: "Deletes a work spec with its units and attempts.",
    status: 204,
    handle: async (call) => {
      const { name } = await spec(call);
      await call.coordinate.deleteWorkSpecs(call.ns, [name]);
      return null;
    },
  }),
  row("workSpec.meta", `GET ${S}/meta`, {
    scope: "read",
    summary: "Returns the metadata of a work spec.",
    query: { counts: shape.text() },
    handle: async (call) => {
      const found = await spec(call);
      const counted = truths.has(call.query("counts")[0]?.toLowerCase() ?? "");
      const rows = counted ? await call.coordinate.tally(call.ns) : [];
      return workSpecMetaText(found, rows.find(({ workSpec }) => workSpec === found.name)?.counts ?? null);
    },
  }),
  row("workSpec.meta.put", `PUT ${S}/meta`, {
    scope: "write",
    summary: "Replaces the metadata of a work spec; absent fields become zero.",
    body: metaBody,
    status: 204,
    handle: async (call) => {
      const { body } = call;
      await call.coordinate.setWorkSpecMeta(call.ns, call.param("spec"), {
        priority: readGoInteger("priority", body.priority),
        weight: readGoInteger("weight", body.weight),
        paused: readGoBoolean(body.paused),
        continuous: readGoBoolean(body.continuous),
        minGb: readGoFloat("min_memory_gb", body.min_memory_gb),
        intervalMs: readGoDuration("interval", body.interval),
        nextContinuous: readGoTime("next_continuous", body.next_continuous),
        maxRunning: readGoInteger("max_running", body.max_running),
        maxGetwork: readGoInteger("max_attempts_returned", body.max_attempts_returned),
        maxRetries: readGoInteger("max_retries", body.max_retries),
      });
      return null;
    },
  }),
  row("workSpec.counts", `GET ${S}/counts`, {
    scope: "read",
    summary: "Returns the number of units by status.",
    handle: async (call) => {
      const { name } = await spec(call);
      const counts = (await call.coordinate.tally(call.ns)).find(({ workSpec }) => workSpec === name)?.counts;
      return counts === undefined ? "{}" : countsText(counts);
    },
  }),
  row("workSpec.summary", `GET ${S}/summary`, {
    scope: "read",
    summary: "Returns the counts of a work spec.",
    handle: async (call) => {
      const { name } = await spec(call);
      return summaryText((await call.coordinate.tally(call.ns)).filter(({ workSpec }) => workSpec === name));
    },
  }),
  row("workUnits.change", `POST ${S}/change`, {
    scope: "write",
    summary: "Sets the priority of the units that match.",
    query: unitQuery,
    body: workUnitBody,
    status: 204,
    handle: changePriorities("set"),
  }),
  row("workUnits.adjust", `POST ${S}/adjust`, {
    scope: "write",
    summary: "Adds to the priority of the units that match.",
    query: unitQuery,
    body: workUnitBody,
    status: 204,
    handle: changePriorities("adjust"),
  }),

  row("workUnits", `GET ${S}/work_unit`, {
    scope: "read",
    summary: "Lists the units that match.",
    query: unitQuery,
    handle: listUnits,
  }),
  row("workUnit.add", `POST ${S}/work_unit`, {
    scope: "write",
    summary: "Adds a work unit.",
    body: workUnitBody,
    status: 201,
    handle: async (call) => {
      const name = readGoText("name", call.body.name);
      const meta = (call.body.meta ?? {}) as Record<string, unknown>;
      const added = await call.coordinate.addWorkUnits(call.ns, call.param("spec"), [
        {
          name,
          data: bodyData(call),
          priority: readGoFloat("priority", meta.priority),
          notBefore: readGoTime("not_before", meta.not_before),
        },
      ]);
      const made = await unit(call, added[0]?.name);
      return created(call, workUnitUrl(call.ns, made.workSpec, made.name), workUnitText(call.ns, made));
    },
  }),
  row("workUnits.delete", `DELETE ${S}/work_unit`, {
    scope: "write",
    summary: "Deletes the units that match; without a condition, all of them.",
    query: unitQuery,
    handle: async (call) => {
      const deleted = await call.coordinate.deleteWorkUnits(call.ns, call.param("spec"), await limited(call));
      return `{"Deleted":${deleted}}`;
    },
  }),
  row("workUnit", "GET " + U, {
    scope: "read",
    summary: "Returns a work unit.",
    handle: async (call) => workUnitText(call.ns, await unit(call)),
  }),
  row("workUnit.put", "PUT " + U, {
    scope: "write",
    summary: "Changes the metadata of a unit, or clears its active attempt.",
    body: workUnitBody,
    status: 204,
    handle: putUnit,
  }),
  row("workUnit.attempts", `GET ${U}/attempts`, {
    scope: "read",
    summary: "Lists the attempts of a unit.",
    handle: async (call) =>
      attemptListText(
        call.ns,
        await call.coordinate.listUnitAttempts(call.ns, call.param("spec"), call.param("unit")),
      ),
  }),
  row("workUnit.numAttempts", `GET ${U}/num-attempts`, {
    scope: "read",
    summary: "Returns how many attempts a unit has.",
    handle: async (call) => String((await unit(call)).attempts),
  }),

  row("workers", `GET ${N}/worker`, {
    scope: "read",
    summary: "Lists the workers of a namespace.",
    handle: async (call) => {
      const rows = await all((from) => call.coordinate.listWorkers(call.ns, from));
      return workerListText(
        call.ns,
        rows.map(({ name }) => name),
      );
    },
  }),
  row("worker", "GET " + W, {
    scope: "read",
    summary: "Returns a worker. Creates it if the caller has scope work.",
    handle: async (call) => workerAnswer(call, await worker(call)),
  }),
  row("worker.put", "PUT " + W, {
    scope: "work",
    summary: "Updates a worker: checks it in, deactivates it, or sets its parent.",
    body: workerBody,
    status: 204,
    handle: putWorker,
  }),
  row("worker.requestAttempts", `POST ${W}/request_attempts`, {
    scope: "work",
    summary: "Claims work.",
    body: requestBody,
    handle: async (call) => {
      const { body } = call;
      const workSpecs = readGoList("work_specs", body.work_specs);
      const runtimes = readGoList("runtimes", body.runtimes);
      const request: AttemptRequest = {
        worker: call.param("worker"),
        number: Math.max(1, readGoInteger("number_of_work_units", body.number_of_work_units)),
        lifetimeMs: Math.max(0, readGoDuration("lifetime", body.lifetime)),
        availableGb: readGoFloat("available_gb", body.available_gb),
        workSpecs,
        runtimes,
      };
      const attempts = await serveVerb(call.coordinate, "requestAttempts", [call.ns, request], call.caller);
      return attemptResponseText(call.ns, attempts);
    },
  }),
  row("worker.makeAttempt", `POST ${W}/make_attempt`, {
    scope: "work",
    summary: "Makes an attempt for the given unit.",
    body: makeBody,
    handle: async (call) => {
      const [made] = await call.coordinate.makeAttempts(call.ns, [
        {
          workSpec: readGoText("work_spec", call.body.work_spec),
          workUnit: readGoText("work_unit", call.body.work_unit),
          worker: call.param("worker"),
          lifetimeMs: Math.max(0, readGoDuration("lifetime", call.body.lifetime)),
        },
      ]);
      if (made === undefined) throw new CoordinateError("internal");
      return attemptText(call.ns, made);
    },
  }),
  row("worker.activeAttempts", `GET ${W}/active_attempts`, {
    scope: "read",
    summary: "Lists the active attempts of a worker.",
    handle: attemptsOf("active"),
  }),
  row("worker.allAttempts", `GET ${W}/all_attempts`, {
    scope: "read",
    summary: "Lists all attempts of a worker.",
    handle: attemptsOf("all"),
  }),
  row("worker.childAttempts", `GET ${W}/child_attempts`, {
    scope: "read",
    summary: "Lists the active attempts of the children of a worker.",
    handle: attemptsOf("children"),
  }),

  row("attempt", "GET " + A, {
    scope: "read",
    summary: "Returns an attempt.",
    handle: async (call) => attemptText(call.ns, await attempt(call)),
  }),
  ...(["renew", "expire", "finish", "fail", "retry"] as const).map((action) =>
    row(`attempt.${action}`, `POST ${A}/${action}`, {
      scope: "work",
      summary: `${summaries[action]} an attempt.`,
      body: completionBody,
      status: 204,
      handle: settle(action),
    }),
  ),
];
