/** One route for every verb of Coordinate, generated from the table of verbs. */
import {
  checkAfterWait,
  endsWithRights,
  serveVerb,
  signatures,
  verbNames,
  verbs,
  type Verb,
  type VerbRow,
  type VerbScope,
} from "../core/index.ts";
import { isAnybody } from "./access.ts";
import { HttpError } from "./errors.ts";
import { checkRights, whilePermitted } from "./rights.ts";
import type { Call, Route } from "./route.ts";
import { verbArgs, verbPath, verbTemplate } from "./verbs.ts";
import { writeWire } from "./wire.ts";

const route = (
  verb: Verb,
  path: string,
  scope: VerbScope | "listed",
  handle: (call: Call) => Promise<unknown>,
): Route => ({
  id: verb,
  method: "POST",
  path,
  scope,
  family: "verb",
  summary: verbs[verb].summary,
  body: signatures[verb].input,
  answer: verbs[verb].answer,
  handle: async (call) => writeWire((await handle(call)) ?? null),
});

const namespaced = (verb: Verb): Route =>
  route(verb, verbTemplate(verb), verbs[verb].scope, async (call) => {
    if (verb === "updateWorkers") checkDesired(call);
    const args = [call.ns, ...verbArgs(verb, verb === "cancelWorkUnits" ? withToken(call) : call.body)];
    const check = (): void => checkRights(call, verbs[verb].scope);
    if (endsWithRights(verb, args))
      return whilePermitted(call.caller.waiting(), check, (signal) =>
        serveVerb(call.coordinate, verb, args, { ...call.caller, waiting: () => signal }),
      );
    const answer = await serveVerb(call.coordinate, verb, args, call.caller);
    await checkAfterWait(call.coordinate, verb, args, answer, check);
    return answer;
  });

/** With scope `work`, workers may only report about themselves. Setting a desired state needs scope `write`. */
function checkDesired({ body, identity, ns }: Call): void {
  const changes = body.changes as readonly { desired?: unknown }[];
  if (changes.some(({ desired }) => desired !== undefined) && !identity.may("write", ns))
    throw new HttpError("forbidden", "Setting a desired state requires scope write in that namespace");
}

/** Adds the token id to `by`, so that a caller cannot hide behind another name. */
function withToken({ body, identity }: Call): Call["body"] {
  if (isAnybody(identity)) return body;
  const by =
    typeof body.by === "string" && body.by !== ""
      ? `${body.by} (token ${identity.id})`
      : `token ${identity.id}`;
  return { ...body, by };
}

/** A verb over all namespaces. Returns only rows of namespaces that the caller may read. */
const overAll = (verb: "listNamespaces" | "tally" | "waitingSince"): Route => {
  const all = route(verb, verbPath(verb), "listed", async (call) => {
    const rows = await call.coordinate[verb]();
    return rows.filter((row) => call.identity.may("read", "namespace" in row ? row.namespace : row.name));
  });
  if (verb === "listNamespaces") return all;
  const summary = `${all.summary.slice(0, -1)}, in all namespaces that the caller may read.`;
  return { ...all, id: `${verb}All`, summary };
};

const row = (verb: Verb): VerbRow => verbs[verb];

export const verbRoutes: readonly Route[] = [
  overAll("listNamespaces"),
  overAll("tally"),
  overAll("waitingSince"),
  ...verbNames.filter((verb) => row(verb).namespace !== "none").map(namespaced),
];
