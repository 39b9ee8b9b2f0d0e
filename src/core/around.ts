/** Wraps every verb in one place: metrics, tracing and the like are steps around the call. */
import type { Coordinate } from "./coordinate.ts";
import { callVerb, verbNames, type Verb } from "./verbs.ts";

/** `next` calls the verb with the same arguments, or with others. */
export type Step = (
  verb: Verb,
  args: readonly unknown[],
  next: (args?: readonly unknown[]) => Promise<unknown>,
) => Promise<unknown>;

export function around(inner: Coordinate, step: Step): Coordinate {
  const wrapped: Record<string, unknown> = { close: () => inner.close() };
  for (const verb of verbNames) {
    wrapped[verb] = (...args: unknown[]) =>
      step(verb, args, (changed = args) => callVerb(inner, verb, changed));
  }
  // the cast is safe: the table lists every verb
  return wrapped as unknown as Coordinate;
}

/** The same verbs, some of them replaced. A plain object: a Proxy would cost every call 100 ns more. */
export function override(inner: Coordinate, replaced: Partial<Coordinate>): Coordinate {
  const all: Record<string, unknown> = {};
  for (const verb of [...verbNames, "close"] as const) {
    all[verb] = replaced[verb] ?? (inner[verb] as (...args: unknown[]) => unknown).bind(inner);
  }
  return all as unknown as Coordinate;
}
