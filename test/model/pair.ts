/** Two engines, one on each store, that are asked the same: every answer, and every error, must be the same. */
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
  /** What the schedulers of both draw next. */
  draw: { value: number };
  measure: Measure;
  /** After how many steps counts are compared; 1, more where a question costs more. */
  tallyEvery: number;
  /** Which ids of the two belong together; without it they must be the same. */
  ids?: Ids;
  /** Closes the other store and opens it again. */
  reopen: () => Promise<void>;
  /** Lets the next transaction of the other store fail for want of space, now and then; answers how to end that. */
  hinder?: () => () => void;
  /** Attempts that were handed out, by the names that the memory store has for them, oldest first. */
  attempts: string[];
  /** By name of a work spec, the ids that it has had, in both stores. */
  specIds: Map<string, { memory: number; other: number }[]>;
  /** Names for requests that are made once. */
  lastRequest: number;
  /** A work spec has had a schedule: what it makes depends on when somebody looks, so both are looked at after each step. */
  scheduled?: boolean;
}

/** One of the two, as a verb sees it. */
export interface Side {
  engine: Engine;
  ns: string;
  clock: ManualClock;
  /** This store's name of an attempt. */
  attempt: (name: string) => string;
  /** The work spec by the id that it has, or had before the present one. */
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
 * Asks both the same; answers what the memory store answered. `hindered`: false for calls at once, of which one may be refused
 * when the others have taken effect.
 */
export async function both(pair: Pair, verb: Verb, { hindered = true } = {}): Promise<unknown> {
  const [memory, other] = sides(pair);
  const expected = await outcome(verb(memory));
  const release = hindered ? pair.hinder?.() : undefined;
  let got = await outcome(verb(other));
  release?.();
  // what was refused for want of space has left no trace: asked again, it does what it would have done
  if (isRefusal(got) && got.code === "no_space") got = await outcome(verb(other));
  compare(pair, got, expected);
  return expected;
}

export function compare(pair: Pair, got: unknown, expected: unknown): void {
  const translated = pair.ids === undefined ? got : pair.ids.translated(got, expected);
  assert.deepStrictEqual(translated, expected);
}

/** What both stores say of messages: their numbers are their own. */
export const told = (messages: readonly QueueMessage[]): object[] =>
  messages.map(({ seq: _seq, ...rest }) => rest);

/** Notes which ids of the two stores belong to the same work specs. */
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

/** The cursor of a page of attempts has the id of the last one, and a position that is the store's own. */
export const withoutPosition = <Row>({ rows, next }: Page<Row>): Page<Row> => ({
  rows,
  next: /^(\d+\.\d+)@[\d,]+$/.exec(next ?? "")?.[1] ?? next,
});

/** Reads all pages, so that every one of them is compared. */
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
