/** A namespace, a manual clock, and workers that are stopped when the test ends. */
import assert from "node:assert/strict";
import { onTestFinished } from "vitest";
import { handles, Engine, ManualClock, seededRandom, type Coordinate } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import type { Namespace } from "../../src/objects/index.ts";
import { Worker, type Logger, type WorkerEvents, type WorkerOptions } from "../../src/worker/index.ts";

export interface Line {
  level: string;
  message: string;
  details: Record<string, unknown>;
}

/** A logger that records its lines. */
export function recorder(lines: Line[], base: object = {}): Logger {
  const at =
    (level: string) =>
    (first: string | object, message = ""): void => {
      const details = typeof first === "string" ? base : { ...base, ...first };
      lines.push({ level, message: typeof first === "string" ? first : message, details: { ...details } });
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (details) => recorder(lines, { ...base, ...details }),
  };
}

export type Told = {
  [Name in keyof WorkerEvents]: { type: Name } & WorkerEvents[Name][0];
}[keyof WorkerEvents];

/** All events except those that occur for every unit. */
const heard = [
  "failed",
  "lost",
  "refused",
  "released",
  "retried",
  "started",
  "stopped",
  "stopping",
  "timedOut",
  "unsettled",
] as const satisfies (keyof WorkerEvents)[];

export interface Bench {
  clock: ManualClock;
  coordinate: Coordinate;
  ns: Namespace;
  lines: Line[];
  /** The events of the workers, with the name of the event as `type`. */
  events: Told[];
  /** Starts a worker over the namespace, on the manual clock. */
  start: (options: WorkerOptions, over?: Coordinate) => Worker;
  /** Advances the clock, and lets everything run that waits for that time. */
  advance: (ms: number) => Promise<void>;
  /** The status of a unit. */
  status: (spec: string, unit: string) => Promise<string>;
  data: (spec: string, unit: string) => Promise<Record<string, unknown>>;
}

export function bench(): Bench {
  let seed = 1;
  const clock = new ManualClock();
  const coordinate = new Engine(new MemoryStore(), { clock, random: seededRandom(1) });
  const ns = handles(coordinate).namespace("test");
  const lines: Line[] = [];
  const events: Told[] = [];
  const start = (options: WorkerOptions, over: Coordinate = coordinate): Worker => {
    const worker = new Worker(handles(over).namespace("test"), {
      clock,
      // request ids are random: those of two workers must differ
      random: seededRandom(++seed),
      log: recorder(lines),
      name: "w",
      concurrency: 1,
      ...options,
    });
    for (const type of heard) worker.on(type, (event: object) => events.push({ type, ...event } as Told));
    const running = worker.run();
    onTestFinished(async () => {
      void worker.stop();
      await worker.stop();
      await running;
    });
    return worker;
  };
  const unit = async (spec: string, name: string) => {
    const [row] = await coordinate.getWorkUnits("test", spec, [name]);
    assert.ok(row !== undefined && row !== null);
    return row;
  };
  return {
    clock,
    coordinate,
    ns,
    lines,
    events,
    start,
    advance: async (ms) => {
      await turns();
      clock.advance(ms);
      await turns();
    },
    status: async (spec, name) => (await unit(spec, name)).status,
    data: async (spec, name) => (await ns.workSpec(spec).workUnit(name)).data,
  };
}

/** Lets everything run that is ready. */
export async function turns(count = 30): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits for a condition, in real time. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  seconds = 20,
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** A promise and the function that resolves it. */
export function gate<Value = void>(): { promise: Promise<Value>; open: (value: Value) => void } {
  let open: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((resolve) => (open = resolve));
  return { promise, open };
}

/** Replaces some verbs and passes the others on. */
export function wrapped(inner: Coordinate, replaced: Partial<Coordinate>): Coordinate {
  return new Proxy(inner, {
    get: (target, key) => {
      const own: unknown = Reflect.get(replaced, key);
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Stops the worker at once. */
export async function silentlyStopped(worker: Worker): Promise<void> {
  void worker.stop();
  await worker.stop();
}
