/**
 * Verbs on the wire: every verb is `POST /v1/namespace/{namespace}/{verb}`, in kebab case, with its arguments as members of
 * the body. Verbs over all namespaces are `POST /v1/{verb}`. The namespace is in the path only, where the authorisation
 * check reads it.
 */
import { signatures, verbNames, type Verb } from "../core/index.ts";
import { nameToUrl } from "./url-name.ts";

const segments = Object.fromEntries(
  verbNames.map((verb) => [verb, verb.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase())]),
) as Readonly<Record<Verb, string>>;

/** Without `ns`, the path of the verb over all namespaces. */
export const verbPath = (verb: Verb, ns?: string): string =>
  ns === undefined ? `/v1/${segments[verb]}` : `/v1/namespace/${nameToUrl(ns)}/${segments[verb]}`;

/** The same as a template, for a server's table of routes. */
export const verbTemplate = (verb: Verb): string => `/v1/namespace/{namespace}/${segments[verb]}`;

/** The body of a call: `args` without the namespace. */
export function verbBody(verb: Verb, args: readonly unknown[]): Record<string, unknown> {
  const { params } = signatures[verb];
  const body: Record<string, unknown> = {};
  params.forEach((name, i) => (body[name] = args[i]));
  return Object.assign(body, args[params.length]);
}

/** The arguments of a call, after the namespace. */
export function verbArgs(verb: Verb, body: Readonly<Record<string, unknown>>): unknown[] {
  const { params, optionsAt } = signatures[verb];
  const args = params.map((name) => body[name]);
  if (optionsAt < 0) return args;
  if (args.length === 0) return [body];
  const options: Record<string, unknown> = {};
  for (const name in body) if (name !== "__proto__" && !params.includes(name)) options[name] = body[name];
  return [...args, options];
}
