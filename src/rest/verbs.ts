/**
 * The verbs of Coordinate on the complete wire, as a table: which scope may ask, which arguments the body names, and
 * whether a request whose answer was lost may be sent again. Server, client, OpenAPI and the tests of who may do
 * what all read it. It needs no other module, so that a client does not load a server.
 *
 * Every verb is `POST /v1/namespace/{namespace}/{verb}`, in kebab case; the two that look at all namespaces are
 * `POST /v1/{verb}`. The namespace is in the path only, where the one check of who may do what finds it.
 */
import type { Coordinate } from "../core/index.ts";

/** What a token may do in a namespace. `work` and `write` include `read`; `admin` includes everything. */
export const scopes = ["read", "work", "write", "admin"] as const;
export type Scope = (typeof scopes)[number];

export type Verb = Exclude<keyof Coordinate, "close">;

export interface VerbRow {
  scope: Scope;
  /** The arguments after the namespace, each a member of the body. */
  params: readonly string[];
  /** The last argument is made of all other members of the body. */
  rest?: boolean;
  /**
   * `same`: doing it twice is doing it once. `id`: it is when both carry one request id. `never`: the second would
   * do more, or answer something else; a lost answer is then an unknown outcome.
   */
  repeat: "same" | "id" | "never";
  /** The last argument may say `waitMs`: the answer then takes as long as it takes. */
  waits?: boolean;
  /** It may go through millions of units, a slice at a time: the answer takes longer than others. */
  slow?: boolean;
  /** It looks at all namespaces; the answer shows those that the caller may read. */
  global?: boolean;
}

export const verbs = {
  listNamespaces: { scope: "read", params: [], repeat: "same", global: true },
  getNamespace: { scope: "read", params: [], repeat: "same" },
  setNamespace: { scope: "admin", params: ["settings"], repeat: "same" },
  deleteNamespace: { scope: "admin", params: [], repeat: "same" },

  setWorkSpecs: { scope: "write", params: ["specs"], rest: true, repeat: "same" },
  getWorkSpecs: { scope: "read", params: ["workSpecs"], repeat: "same" },
  listWorkSpecs: { scope: "read", params: [], rest: true, repeat: "same" },
  setWorkSpecMeta: { scope: "write", params: ["workSpec", "change"], repeat: "same" },
  deleteWorkSpecs: { scope: "write", params: ["workSpecs"], repeat: "never" },

  addWorkUnits: { scope: "write", params: ["workSpec", "units"], rest: true, repeat: "id" },
  getWorkUnits: { scope: "read", params: ["workSpec", "names"], repeat: "same" },
  listWorkUnits: { scope: "read", params: ["workSpec"], rest: true, repeat: "same" },
  countWorkUnits: { scope: "read", params: ["workSpec", "selection"], repeat: "same", slow: true },
  awaitWorkUnits: {
    scope: "read",
    params: ["workSpec", "names"],
    rest: true,
    repeat: "same",
    waits: true,
  },
  setWorkUnitPriorities: {
    scope: "write",
    params: ["workSpec", "selection", "change"],
    repeat: "never",
    slow: true,
  },
  setWorkUnitDelays: {
    scope: "write",
    params: ["workSpec", "selection", "notBefore"],
    repeat: "same",
    slow: true,
  },
  resetWorkUnits: { scope: "write", params: ["workSpec", "selection"], repeat: "never", slow: true },
  deleteWorkUnits: { scope: "write", params: ["workSpec", "selection"], repeat: "never", slow: true },

  requestAttempts: { scope: "work", params: [], rest: true, repeat: "id", waits: true },
  makeAttempts: { scope: "work", params: ["requests"], repeat: "never" },
  settleAttempts: { scope: "work", params: ["changes"], repeat: "same" },
  getAttempts: { scope: "read", params: ["ids"], repeat: "same" },
  listUnitAttempts: { scope: "read", params: ["workSpec", "workUnit"], repeat: "same" },
  listWorkerAttempts: { scope: "read", params: ["worker"], rest: true, repeat: "same" },

  updateWorkers: { scope: "work", params: ["changes"], repeat: "same" },
  getWorkers: { scope: "read", params: ["names"], repeat: "same" },
  listWorkers: { scope: "read", params: [], rest: true, repeat: "same" },

  takeMessages: { scope: "write", params: ["queue"], rest: true, repeat: "id", waits: true },
  countMessages: { scope: "read", params: ["queues"], repeat: "same" },
  listQueues: { scope: "read", params: [], rest: true, repeat: "same" },
  clearQueue: { scope: "write", params: ["queue"], repeat: "never", slow: true },

  putActions: { scope: "write", params: ["actions"], repeat: "same" },
  getActions: { scope: "read", params: ["keys"], repeat: "same" },
  listActions: { scope: "read", params: [], rest: true, repeat: "same" },
  deleteActions: { scope: "write", params: ["keys"], repeat: "never" },

  tally: { scope: "read", params: [], repeat: "same" },
  waitingSince: { scope: "read", params: [], repeat: "same" },
  explain: { scope: "read", params: [], rest: true, repeat: "same" },

  lock: { scope: "work", params: [], rest: true, repeat: "never" },
  lockSome: { scope: "work", params: [], rest: true, repeat: "never" },
  renewLocks: { scope: "work", params: [], rest: true, repeat: "same" },
  unlock: { scope: "work", params: [], rest: true, repeat: "never" },
  readLocks: { scope: "read", params: ["paths"], repeat: "same" },
  clearLocks: { scope: "write", params: ["path"], repeat: "same" },
} as const satisfies Record<Verb, VerbRow>;

export const verbNames = Object.keys(verbs) as readonly Verb[];

/** Whether the call may take as long as it says; `args` with the namespace. */
export function isWait(verb: Verb, args: readonly unknown[]): boolean {
  const row: VerbRow = verbs[verb];
  const last =
    row.waits === true ? (args[row.params.length + 1] as { waitMs?: unknown } | undefined) : undefined;
  return last?.waitMs !== undefined;
}

export const kebab = (verb: string): string => verb.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());

/** The body of a call: `args` without the namespace. */
export function verbBody(verb: Verb, args: readonly unknown[]): Record<string, unknown> {
  const row: VerbRow = verbs[verb];
  const body: Record<string, unknown> = {};
  row.params.forEach((name, i) => (body[name] = args[i]));
  if (row.rest === true) Object.assign(body, args[row.params.length]);
  return body;
}

/** The arguments of a call, after the namespace. */
export function verbArgs(verb: Verb, body: Readonly<Record<string, unknown>>): unknown[] {
  const row: VerbRow = verbs[verb];
  const args = row.params.map((name) => body[name]);
  if (row.rest !== true) return args;
  if (args.length === 0) return [body];
  const rest: Record<string, unknown> = {};
  for (const name in body) if (name !== "__proto__" && !row.params.includes(name)) rest[name] = body[name];
  return [...args, rest];
}
