/** The interface to the implementation under test, and the context of a case. */
import assert from "node:assert/strict";
import {
  CoordinateError,
  encodeData,
  type AttemptAction,
  type AttemptChange,
  type AttemptChanged,
  type AttemptRequest,
  type AttemptRow,
  type Coordinate,
  type Data,
  type ErrorCode,
  type Tally,
  type Swept,
  type WorkSpecRow,
  type WorkUnitInput,
  type WorkUnitRow,
} from "../core/index.ts";

/** One opened implementation. All cases share it, each in its own namespace. */
export interface Subject {
  coordinate: Coordinate;
  /** A manual clock, by which the implementation judges all times. */
  clock: { now(): number; advance(ms: number): Promise<void> | void };
  /** Sets the random source of the scheduler; absent where draws cannot be controlled. */
  setRandom?: (random: () => number) => void;
  /** One round of housekeeping; absent where it cannot be called. */
  sweep?: () => Promise<Swept>;
  /** How many requests wait for work; absent where it cannot be known. */
  waiting?: () => number | Promise<number>;
  close(): Promise<void>;
}

export interface Stack {
  name: string;
  open(): Promise<Subject>;
  /** What this stack cannot do, and why: the names of the cases that are skipped. */
  cannot?: readonly { reason: string; tests: readonly string[] }[];
  /**
   * Known defects of this stack: cases that fail today, and why. They are run, and one that passes is an error, so that every fix
   * shortens the list.
   */
  failing?: readonly { reason: string; tests: readonly string[] }[];
}

export interface Case {
  /** A sentence that states the promise. */
  name: string;
  run: (t: Context) => Promise<void>;
}

export interface CaseGroup {
  concept: string;
  cases: readonly Case[];
}

const clean = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A fresh namespace, and shorthands for what cases do often. */
export class Context {
  readonly subject: Subject;
  readonly ns: string;

  constructor(subject: Subject, ns: string) {
    this.subject = subject;
    this.ns = ns;
  }

  get c(): Coordinate {
    return this.subject.coordinate;
  }

  get now(): number {
    return this.subject.clock.now();
  }

  async advance(ms: number): Promise<void> {
    await this.subject.clock.advance(ms);
  }

  async spec(name: string, keys: Record<string, unknown> = {}): Promise<WorkSpecRow> {
    const [row] = await this.c.setWorkSpecs(this.ns, [{ data: encodeData({ name, ...keys }) }]);
    return present(row);
  }

  async getSpec(name: string): Promise<WorkSpecRow> {
    return present((await this.c.getWorkSpecs(this.ns, [name]))[0]);
  }

  async add(spec: string, ...units: (string | WorkUnitInput)[]): Promise<void> {
    await this.c.addWorkUnits(
      this.ns,
      spec,
      units.map((unit) => (typeof unit === "string" ? { name: unit } : unit)),
    );
  }

  async unit(spec: string, name: string): Promise<WorkUnitRow> {
    return present((await this.c.getWorkUnits(this.ns, spec, [name]))[0]);
  }

  async status(spec: string, name: string): Promise<string> {
    return (await this.unit(spec, name)).status;
  }

  /** Names and statuses, in listing order. */
  async statuses(spec: string): Promise<Record<string, string>> {
    const { rows } = await this.c.listWorkUnits(this.ns, spec);
    return Object.fromEntries(rows.map(({ name, status }) => [name, status]));
  }

  async counts(spec: string): Promise<Tally> {
    const rows = await this.c.tally(this.ns);
    return present(rows.find(({ workSpec }) => workSpec === spec)).counts;
  }

  async claim(request: Partial<AttemptRequest> = {}): Promise<AttemptRow[]> {
    return this.c.requestAttempts(this.ns, { worker: "worker", ...request });
  }

  /** Claims one unit and fails when there is none. */
  async claimOne(request: Partial<AttemptRequest> = {}): Promise<AttemptRow> {
    const attempts = await this.claim({ number: 1, ...request });
    assert.equal(attempts.length, 1, "expected one attempt");
    return present(attempts[0]);
  }

  /** The names of the claimed units. */
  async claimNames(request: Partial<AttemptRequest> = {}): Promise<string[]> {
    return (await this.claim({ number: 100, ...request })).map(({ workUnit }) => workUnit);
  }

  async settle(
    attempt: AttemptRow,
    action: AttemptAction,
    more: Partial<AttemptChange> = {},
  ): Promise<AttemptChanged> {
    const [changed] = await this.c.settleAttempts(this.ns, [{ attempt: attempt.id, action, ...more }]);
    return present(changed);
  }

  /** Settles, and fails when the change is refused. */
  async settled(
    attempt: AttemptRow,
    action: AttemptAction,
    more: Partial<AttemptChange> = {},
  ): Promise<AttemptChanged> {
    const changed = await this.settle(attempt, action, more);
    assert.equal(changed.error, null);
    return changed;
  }

  async attempt(id: string): Promise<AttemptRow> {
    return present((await this.c.getAttempts(this.ns, [id]))[0]);
  }

  async attempts(spec: string, unit: string): Promise<AttemptRow[]> {
    return this.c.listUnitAttempts(this.ns, spec, unit);
  }

  /** Expects an error with this code, and a message that names the problem. */
  async refuses(code: ErrorCode, work: Promise<unknown>, mentions?: RegExp): Promise<void> {
    try {
      await work;
    } catch (error) {
      if (!(error instanceof CoordinateError))
        throw new Error(`not a typed error: ${clean(error)}`, { cause: error });
      assert.equal(error.code, code, error.message);
      if (mentions !== undefined) assert.match(error.message, mentions);
      return;
    }
    assert.fail(`expected ${code}, but it succeeded`);
  }

  /** Sets the scheduler's next draws, in order; the last one repeats. */
  draws(...values: number[]): void {
    let at = 0;
    present(this.subject.setRandom)(() => values[Math.min(at++, values.length - 1)] ?? 0);
  }

  /** Sweeps until there is nothing left to do; returns the sums. */
  async sweep(): Promise<Swept> {
    const sweep = present(this.subject.sweep);
    const sum = await sweep();
    while (sum.more) {
      const { expired, due, exhausted, retired, generated, workers, more } = await sweep();
      sum.expired += expired;
      sum.due += due;
      sum.exhausted += exhausted;
      sum.retired += retired;
      sum.generated += generated;
      sum.workers += workers;
      sum.more = more;
    }
    return sum;
  }

  /** Waits until this many requests wait for work. */
  async untilWaiting(count: number): Promise<void> {
    const waiting = present(this.subject.waiting);
    for (let turns = 0; (await waiting()) !== count; turns++) {
      assert.ok(turns < 10_000, `expected ${count} waiting requests, there are ${await waiting()}`);
      // a remote or busy store takes more than a few turns
      await new Promise((resolve) => (turns < 1000 ? setImmediate(resolve) : setTimeout(resolve, 1)));
    }
  }
}

/** Compares data and encoding; a Buffer equals any other Uint8Array with the same bytes. */
export function sameData(actual: Data | null | undefined, expected: Data | null): void {
  const plain = (data: Data | null | undefined): unknown =>
    data instanceof Uint8Array ? `cbor ${Buffer.from(data).toString("hex")}` : data;
  assert.deepEqual(plain(actual), plain(expected));
}

export function present<Value>(value: Value | null | undefined): Value {
  assert.ok(value !== null && value !== undefined, "expected a value");
  return value;
}

/** Turns the rows of a table into cases. */
export function table<Row>(
  rows: readonly Row[],
  name: (row: Row) => string,
  run: (t: Context, row: Row) => Promise<void>,
): Case[] {
  return rows.map((row) => ({ name: name(row), run: (t) => run(t, row) }));
}
