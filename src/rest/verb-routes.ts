/** The complete wire: every verb of Coordinate, one route each, straight from the tables. */
import { CoordinateError, type AttemptRow, type Coordinate, type WorkUnitRow } from "../core/index.ts";
import { verbSchemas } from "./schema.ts";
import { HttpError } from "./errors.ts";
import type { Call, Route } from "./route.ts";
import { kebab, verbArgs, verbNames, verbs, type Verb, type VerbRow } from "./verbs.ts";
import { writeWire } from "./wire.ts";

type AnyVerb = (...args: unknown[]) => Promise<unknown>;

/** The body has passed the verb's schema, which is what makes the arguments fit. */
export const askVerb = (coordinate: Coordinate, verb: Verb, args: readonly unknown[]): Promise<unknown> =>
  (coordinate[verb] as AnyVerb).apply(coordinate, [...args]);

const namespaced = (verb: Verb): Route => {
  const row: VerbRow = verbs[verb];
  const { body, answer, summary } = verbSchemas[verb];
  return {
    id: verb,
    method: "POST",
    path: `/v1/namespace/{namespace}/${kebab(verb)}`,
    scope: row.scope,
    family: "verb",
    summary,
    body,
    answer,
    handle: async (call) =>
      writeWire((await askVerb(call.coordinate, verb, [call.ns, ...verbArgs(verb, call.body)])) ?? null),
  };
};

/** A worker that has hung up cannot be told what it was given: the attempts go back at once, not after their lease. */
async function requestAttempts(call: Call): Promise<string> {
  const { coordinate, ns, body } = call;
  const waits = typeof body.waitMs === "number" && body.waitMs > 0;
  const request = { ...body, ...(waits && { signal: call.gone() }) };
  const attempts = (await askVerb(coordinate, "requestAttempts", [ns, request])) as AttemptRow[];
  if (waits && attempts.length > 0 && call.request.raw.socket.destroyed) {
    await coordinate.settleAttempts(
      ns,
      attempts.map(({ id }) => ({ attempt: id, action: "expire", untried: true })),
    );
    throw new CoordinateError("closed");
  }
  return writeWire(attempts);
}

/** A wait that ends with the caller, or with the server; of the latter the caller is told, and asks another. */
const awaitWorkUnits = async (call: Call): Promise<string> => {
  const signal = call.gone();
  const args = verbArgs("awaitWorkUnits", { ...call.body, signal });
  const rows = (await askVerb(call.coordinate, "awaitWorkUnits", [
    call.ns,
    ...args,
  ])) as (WorkUnitRow | null)[];
  const open = rows.some((row) => row !== null && row.status !== "finished" && row.status !== "failed");
  if (open && signal.aborted) throw new CoordinateError("closed");
  return writeWire(rows);
};

/** What was taken is remembered by its request id: a caller that has hung up asks again with the same. */
const takeMessages = async (call: Call): Promise<string> => {
  const args = verbArgs("takeMessages", { ...call.body, signal: call.gone() });
  return writeWire(await askVerb(call.coordinate, "takeMessages", [call.ns, ...args]));
};

/** A worker reports of itself; to tell it, or others, what to do is an operator's business. */
async function updateWorkers(call: Call): Promise<string> {
  const changes = call.body.changes as readonly { desired?: unknown }[];
  if (changes.some(({ desired }) => desired !== undefined) && !call.identity.may("write", call.ns))
    throw new HttpError("forbidden", "This needs scope write in that namespace: it sets a desired state");
  return writeWire(await askVerb(call.coordinate, "updateWorkers", [call.ns, changes]));
}

const special: Partial<Record<Verb, (call: Call) => Promise<string>>> = {
  requestAttempts,
  updateWorkers,
  awaitWorkUnits,
  takeMessages,
};

const overAll = (
  verb: "listNamespaces" | "tally" | "waitingSince",
  nameOf: (row: never) => string,
): Route => ({
  id: verb === "listNamespaces" ? verb : `${verb}All`,
  method: "POST",
  path: `/v1/${kebab(verb)}`,
  scope: "listed",
  family: "verb",
  summary: {
    listNamespaces: verbSchemas.listNamespaces.summary,
    tally: "Exact counts of all namespaces that the caller may read.",
    waitingSince: "The same of all namespaces that the caller may read.",
  }[verb],
  body: verbSchemas[verb].body,
  answer: verbSchemas[verb].answer,
  handle: async (call) => {
    const rows = (await call.coordinate[verb]()) as never[];
    return writeWire(rows.filter((row) => call.identity.may("read", nameOf(row))));
  },
});

export const verbRoutes: readonly Route[] = [
  overAll("listNamespaces", ({ name }: { name: string }) => name),
  overAll("tally", ({ namespace }: { namespace: string }) => namespace),
  overAll("waitingSince", ({ namespace }: { namespace: string }) => namespace),
  ...verbNames
    .filter((verb) => verb !== "listNamespaces")
    .map((verb) => {
      const handle = special[verb];
      return handle === undefined ? namespaced(verb) : { ...namespaced(verb), handle };
    }),
];
