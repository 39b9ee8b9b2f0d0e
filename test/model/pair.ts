/** Two engines, one on each store, that get the same calls: every result and every error must be the same. */
import assert from "node:assert/strict";
import {
  CoordinateError,
  type Engine,
  type ManualClock,
  type Page,
  type QueueMessage,
  type WorkSpecRef,
  type WorkSpecRow,
} from "../../src/core/index.ts";
import type { Ids } from "./ids.ts";
import type { Measure } from "./measure.ts";

export interface Pair {
  memory: Engine;
  other: Engine;
  clock: ManualClock;
  ns: string;
  /** The next random number of both schedulers. */
  draw: { value: number };
  measure: Measure;
  /** The number of steps between comparisons of the counts: 1, or more for slow stores. */
  tallyEvery: number;
  /** The mapping between the ids of the two stores. Without it the ids must be the same. */
  ids?: Ids;
  /** Closes the other store and opens it again. */
  reopen: () => Promise<void>;
  /** Sometimes makes the next transaction of the other store fail with `no_space`. Returns a function that ends this. */
  hinder?: () => () => void;
  /** Attempts that were handed out, by their names in the memory store, oldest first. */
  attempts: string[];
  /** The ids that each work spec has had in both stores, by name. */
  specIds: Map<string, { memory: number; other: number }[]>;
  /** A counter for unique request ids. */
  lastRequest: number;
  /** Set once a work spec has had a schedule: its units are made when the store is read, so both stores are read after each step. */
  scheduled?: boolean;
}

/** One of the two engines, as passed to a verb. */
export interface Side {
  engine: Engine;
  ns: string;
  clock: ManualClock;
  /** This store's name of an attempt. */
  attempt: (name: string) => string;
  /** The work spec by its current id, or by its previous one. */
  byId: (spec: string, old: boolean) => WorkSpecRef;
}

export type Verb = (side: Side) => Promise<unknown>;

export function sides(pair: Pair): [memory: Side, other: Side] {
  const { ns, clock, ids } = pair;
  const byId =
    (side: "memory" | "other") =>
    (spec: string, old: boolean): WorkSpecRef => {
      const id = pair.specIds.get(spec)?.at(old ? -2 : -1)?.[side];
      return id === undefined ? spec : { name: spec, id };
    };
  return [
    { engine: pair.memory, ns, clock, attempt: (name) => name, byId: byId("memory") },
    { engine: pair.other, ns, clock, attempt: (name) => ids?.attempt(name) ?? name, byId: byId("other") },
  ];
}

export interface Refusal {
  code: string;
  message: string;
}

export async function outcome(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof CoordinateError) return { code: error.code, message: error.message };
    throw error;
  }
}

export const isRefusal = (answer: unknown): answer is Refusal =>
  typeof answer === "object" && answer !== null && "code" in answer && "message" in answer;

/**
 * Calls both engines, compares the results and returns that of the memory store. `hindered`: false for concurrent calls, of which
 * one may be refused after the others have taken effect.
 */
export async function both(pair: Pair, verb: Verb, { hindered = true } = {}): Promise<unknown> {
  const [memory, other] = sides(pair);
  const expected = await outcome(verb(memory));
  const release = hindered ? pair.hinder?.() : undefined;
  let got = await outcome(verb(other));
  release?.();
  // a call refused with `no_space` has changed nothing: the repeated call must have the expected result
  if (isRefusal(got) && got.code === "no_space") got = await outcome(verb(other));
  compare(pair, got, expected);
  return expected;
}

export function compare(pair: Pair, got: unknown, expected: unknown): void {
  const translated = pair.ids === undefined ? got : pair.ids.translated(got, expected);
  assert.deepStrictEqual(translated, expected);
}

/** Messages without their sequence numbers, which differ between stores. */
export const told = (messages: readonly QueueMessage[]): object[] =>
  messages.map(({ seq: _seq, ...rest }) => rest);

/** Records which ids of the two stores belong to the same work spec. */
export async function learnSpecs(pair: Pair): Promise<void> {
  const [memory, other] = await Promise.all(
    sides(pair).map(async ({ engine, ns }) => (await engine.listWorkSpecs(ns)).rows),
  );
  const found = (rows: readonly WorkSpecRow[] | undefined, name: string): number =>
    rows?.find((row) => row.name === name)?.id ?? 0;
  for (const { name, id } of memory ?? []) {
    const seen = pair.specIds.get(name) ?? [];
    if (seen.at(-1)?.memory !== id)
      pair.specIds.set(name, [...seen, { memory: id, other: found(other, name) }]);
  }
}

/** Removes from the cursor of a page of attempts the position, which differs between stores; the id of the last attempt stays. */
export const withoutPosition = <Row>({ rows, next }: Page<Row>): Page<Row> => ({
  rows,
  next: /^(\d+\.\d+)@[\d,]+$/.exec(next ?? "")?.[1] ?? next,
});

/** Reads all pages, so that each page is compared. */
export async function allPages(
  read: (previous: string | undefined) => Promise<Page<unknown>>,
): Promise<Page<unknown>[]> {
  const pages: Page<unknown>[] = [];
  for (let previous: string | undefined; ;) {
    const page = await read(previous);
    pages.push(withoutPosition(page));
    if (page.next === null) return pages;
    assert.notEqual(page.next, previous, "a page leads to itself");
    previous = page.next;
  }
}
