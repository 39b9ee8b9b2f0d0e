/**
 * Events: the changes in a namespace, in order, for watchers. A decorator around the verbs makes the events. The log keeps
 * the last ones, so that a watcher that lost its connection can continue. If a namespace has had no watcher for a minute,
 * no events are made or kept, and a verb costs one more lookup in an empty map.
 *
 * A daemon reports only the changes made through it. If several share a store, each reports its own.
 */
import { setTimeout } from "node:timers/promises";
import {
  callVerb,
  override,
  shape,
  workSpecName,
  type Coordinate,
  type TallyRow,
  type Verb,
  type WorkSpecRef,
} from "../core/index.ts";
import { HttpError } from "./errors.ts";
import { writeEvent, type CoordinateEvent } from "./events-text.ts";
import type { Call, Route } from "./route.ts";

export type { CoordinateEvent } from "./events-text.ts";

/** An event whose items are made only if there is a watcher. */
export interface RecordedEvent extends Omit<CoordinateEvent, "items"> {
  items?: () => readonly unknown[];
}

export interface EventSink {
  /** Whether events of the namespace have a watcher. If not, they need not be made. */
  wanted(ns: string): boolean;
  add(ns: string, event: RecordedEvent): void;
}

/** The most names or ids in one event. */
const shown = 100;

type EventBody = Omit<RecordedEvent, "verb" | "time">;

/** The verbs that change something, and the event of each. */
const told: {
  readonly [V in keyof Coordinate]?: (
    args: Parameters<Coordinate[V]>,
    answer: Awaited<ReturnType<Coordinate[V]>>,
  ) => EventBody;
} = {
  setNamespace: () => ({ type: "namespace" }),
  deleteNamespace: () => ({ type: "namespace" }),
  setWorkSpecs: (_args, rows) => ({ type: "workSpecs", ...some(rows, ({ name }) => name) }),
  setWorkSpecMeta: ([, ref]) => ({ type: "workSpecs", count: 1, items: () => [workSpecName(ref)] }),
  deleteWorkSpecs: ([, refs]) => ({ type: "workSpecs", ...some(refs, workSpecName) }),
  addWorkUnits: ([, ref], rows) => ({
    type: "workUnits",
    workSpec: workSpecName(ref),
    ...some(rows, ({ name, status, created }) => ({ name, status, created })),
  }),
  setWorkUnitPriorities: ([, ref], count) => units(ref, count),
  setWorkUnitDelays: ([, ref], count) => units(ref, count),
  resetWorkUnits: ([, ref], count) => units(ref, count),
  cancelWorkUnits: ([, ref], count) => units(ref, count),
  deleteWorkUnits: ([, ref], count) => units(ref, count),
  requestAttempts: (_args, rows) => attempts(rows),
  makeAttempts: (_args, rows) => attempts(rows),
  settleAttempts: ([, changes], rows) => ({
    type: "attempts",
    count: rows.reduce((count, { changed }) => (changed ? count + 1 : count), 0),
    items: () =>
      rows
        .flatMap((row, i) => (row.changed ? [{ ...row, progress: changes[i]?.progress }] : []))
        .slice(0, shown)
        .map(({ attempt, status, outputs, progress }) => ({
          attempt,
          status,
          outputs,
          ...(progress !== undefined && { progress }),
        })),
  }),
  updateWorkers: (_args, rows) => ({
    type: "workers",
    ...some(rows, ({ name, active, mode, desired }) => ({ name, active, mode, desired })),
  }),
};

const units = (ref: WorkSpecRef, count: number): EventBody => ({
  type: "workUnits",
  workSpec: workSpecName(ref),
  count,
});

const attempts = (rows: Awaited<ReturnType<Coordinate["requestAttempts"]>>): EventBody => ({
  type: "attempts",
  ...some(rows, ({ id, workSpec, workUnit, worker, status }) => ({
    attempt: id,
    workSpec,
    workUnit,
    worker,
    status,
  })),
});

function some<Item>(
  items: readonly Item[],
  show: (item: Item) => unknown,
): { count: number; items: () => unknown[] } {
  return { count: items.length, items: () => items.slice(0, shown).map(show) };
}

/** Wraps the verbs so that their changes are added to the sink as events. */
export function observe(inner: Coordinate, sink: EventSink, now: () => number): Coordinate {
  const wrapped: Record<string, unknown> = {};
  for (const [verb, tell] of Object.entries(told)) {
    wrapped[verb] = async (...args: unknown[]): Promise<unknown> => {
      const answer = await callVerb(inner, verb as Verb, args);
      const ns = args[0] as string;
      if (sink.wanted(ns)) {
        const event = (tell as (args: unknown[], answer: unknown) => EventBody)(args, answer);
        if (event.count !== 0) sink.add(ns, { verb, time: now(), ...event });
      }
      return answer;
    };
  }
  return override(inner, wrapped);
}

/** Under continuous changes, gathered events are sent at most this often, at whole multiples of this time. */
const steadyMs = 1000;

export interface GatherOptions {
  readonly gatherMs: number;
  /** Reads the counts of the namespace, which are sent after each change of them. */
  readonly tally?: (() => Promise<readonly TallyRow[]>) | undefined;
}

/** The watchers of one namespace that want only the types of changes. */
interface Gatherers {
  readonly notes: Set<(event: RecordedEvent) => void>;
  /** The number of events since the first of these watchers came. */
  changes: number;
  /** The counts after so many events, as text: watchers of the same changes share one read. */
  counted: { readonly changes: number; readonly text: Promise<string> } | null;
}

export interface EventLogOptions {
  /** Events kept per namespace. Default 10,000. */
  size?: number;
  /** Characters of events kept per namespace. Default 8 million. */
  maxCharacters?: number;
  /** How long events are kept after the last watcher left, so that it can continue. Default a minute. */
  idleMs?: number;
  now?: () => number;
}

interface Watched {
  /** Distinguishes this log from earlier ones, whose event numbers are not valid here. */
  epoch: string;
  /** The number of the last event. The ring has the events from `dropped` + 1 to `last`. */
  last: number;
  dropped: number;
  ring: string[];
  characters: number;
  watchers: Set<() => void>;
  leftAt: number;
}

export class EventLog implements EventSink {
  readonly #size: number;
  readonly #maxCharacters: number;
  readonly #idleMs: number;
  readonly #now: () => number;
  readonly #spaces = new Map<string, Watched>();
  readonly #gatherers = new Map<string, Gatherers>();
  #epochs = 0;

  constructor(options: EventLogOptions = {}) {
    this.#size = options.size ?? 10_000;
    this.#maxCharacters = options.maxCharacters ?? 8_000_000;
    this.#idleMs = options.idleMs ?? 60_000;
    this.#now = options.now ?? Date.now;
  }

  wanted(ns: string): boolean {
    return this.#gatherers.has(ns) || this.#isKept(ns);
  }

  #isKept(ns: string): boolean {
    if (this.#spaces.size === 0) return false;
    const watched = this.#spaces.get(ns);
    if (watched === undefined) return false;
    if (watched.watchers.size > 0 || this.#now() - watched.leftAt < this.#idleMs) return true;
    this.#spaces.delete(ns);
    return false;
  }

  /** The namespaces that have watchers, or had some within `idleMs`. */
  watched(): string[] {
    return [...new Set([...this.#spaces.keys(), ...this.#gatherers.keys()])].filter((ns) => this.wanted(ns));
  }

  get watchers(): number {
    let count = 0;
    for (const { watchers } of this.#spaces.values()) count += watchers.size;
    for (const gatherers of this.#gatherers.values()) count += gatherers.notes.size;
    return count;
  }

  add(ns: string, recorded: RecordedEvent): void {
    const gatherers = this.#gatherers.get(ns);
    if (gatherers !== undefined) {
      gatherers.changes += 1;
      for (const note of gatherers.notes) note(recorded);
    }
    const watched = this.#spaces.get(ns);
    if (watched === undefined || !this.#isKept(ns)) return;
    const { items, ...event } = recorded;
    const text = writeEvent(`${watched.epoch}.${watched.last + 1}`, {
      ...event,
      ...(items !== undefined && { items: items() }),
    });
    while (
      watched.dropped < watched.last &&
      (watched.last - watched.dropped === this.#size ||
        watched.characters + text.length > this.#maxCharacters)
    )
      this.#dropOldest(watched);
    watched.ring[watched.last % this.#size] = text;
    watched.last += 1;
    watched.characters += text.length;
    for (const wake of watched.watchers) wake();
  }

  #dropOldest(watched: Watched): void {
    const at = watched.dropped % this.#size;
    watched.characters -= watched.ring[at]?.length ?? 0;
    watched.ring[at] = "";
    watched.dropped += 1;
  }

  /** The text of the events after event `after`, or from now on, until the signal aborts. */
  async *watch(ns: string, after: string | undefined, signal: AbortSignal): AsyncGenerator<string> {
    let watched = this.#spaces.get(ns);
    if (watched === undefined) {
      const epoch = `${this.#now().toString(36)}${(this.#epochs += 1).toString(36)}`;
      watched = { epoch, last: 0, dropped: 0, ring: [], characters: 0, watchers: new Set(), leftAt: 0 };
      this.#spaces.set(ns, watched);
    }
    let wake = (): void => undefined;
    const poke = (): void => wake();
    watched.watchers.add(poke);
    signal.addEventListener("abort", poke);
    try {
      let sent = startAfter(watched, after);
      // sends the current position at once, before any event
      if (sent === null) yield this.#reset(watched, (sent = watched.last));
      else yield `: watching\nid: ${watched.epoch}.${sent}\n\n`;
      while (!signal.aborted) {
        if (sent < watched.dropped) yield this.#reset(watched, (sent = watched.last));
        else if (sent < watched.last) {
          let text = "";
          // in pieces: text that a watcher does not read stays in memory
          while (sent < watched.last && text.length < pieceLength)
            text += watched.ring[sent++ % this.#size] ?? "";
          yield text;
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      signal.removeEventListener("abort", poke);
      watched.watchers.delete(poke);
      watched.leftAt = this.#now();
    }
  }

  /**
   * Text for a watcher that wants only the types of changes, until the signal aborts. The first change is sent at once. Changes
   * within the next `gatherMs` are sent together, as one event per type with the sum of the counts. Under continuous changes, all
   * watchers get their events at the same moments, further apart.
   */
  async *gather(ns: string, { gatherMs, tally }: GatherOptions, signal: AbortSignal): AsyncGenerator<string> {
    const counts = new Map<CoordinateEvent["type"], number>();
    let wake = (): void => undefined;
    const note = ({ type, count = 0 }: RecordedEvent): void => {
      counts.set(type, (counts.get(type) ?? 0) + count);
      wake();
    };
    const gatherers = this.#gatherers.get(ns) ?? { notes: new Set(), changes: 0, counted: null };
    this.#gatherers.set(ns, gatherers);
    gatherers.notes.add(note);
    const stop = (): void => wake();
    signal.addEventListener("abort", stop);
    try {
      yield ": watching\n\n";
      for (let isSteady = false; !signal.aborted; isSteady = true) {
        if (counts.size === 0) {
          isSteady = false;
          await new Promise<void>((resolve) => (wake = resolve));
        }
        const time = this.#now();
        const texts = [...counts].map(([type, count]) => writeEvent(null, { type, verb: "", time, count }));
        const isCounted = [...counts.keys()].some((type) => type !== "workers");
        counts.clear();
        if (isCounted && tally !== undefined) texts.push(await this.#tallyText(gatherers, tally));
        if (texts.length > 0) yield texts.join("");
        const pauseMs = isSteady ? untilSteady(this.#now(), gatherMs) : gatherMs;
        // an abort ends the pause, and then the loop
        await setTimeout(pauseMs, undefined, { ref: false, signal }).catch(() => undefined);
      }
    } finally {
      signal.removeEventListener("abort", stop);
      gatherers.notes.delete(note);
      if (gatherers.notes.size === 0) this.#gatherers.delete(ns);
    }
  }

  #tallyText(gatherers: Gatherers, tally: NonNullable<GatherOptions["tally"]>): Promise<string> {
    const { changes, counted } = gatherers;
    if (counted?.changes === changes) return counted.text;
    const text = tally().then(
      (items) => writeEvent(null, { type: "tally", verb: "", time: this.#now(), items }),
      // the store does not answer: the counts are sent after the next change
      () => "",
    );
    gatherers.counted = { changes, text };
    return text;
  }

  /** Tells a watcher that it missed events and must reload its state. */
  #reset({ epoch }: Watched, number: number): string {
    return writeEvent(`${epoch}.${number}`, { type: "reset", verb: "", time: this.#now() });
  }
}

/** The time until the next moment for events of continuous changes, but at least `gatherMs`. */
function untilSteady(now: number, gatherMs: number): number {
  const spacing = Math.max(steadyMs, gatherMs);
  const wait = spacing - (now % spacing);
  return wait < gatherMs ? wait + spacing : wait;
}

/** The number of the event to continue after; null if the log no longer has it. */
function startAfter({ epoch, last, dropped }: Watched, after: string | undefined): number | null {
  if (after === undefined) return last;
  const [given, number] = after.split(".");
  const at = /^\d{1,15}$/.test(number ?? "") ? Number(number) : NaN;
  return given === epoch && at <= last && at >= dropped ? at : null;
}

/** Characters of events that are sent to a watcher at once. */
const pieceLength = 16 * 1024;

/** How long a watcher may read nothing before its connection is closed. It may reconnect and continue. */
const stallMs = 30_000;

/** The maximum number of watchers. */
const maxWatchers = 1000;

export const eventRoutes = (log: EventLog, pingMs = 15_000): readonly Route[] => [
  {
    id: "events",
    method: "GET",
    path: "/v1/namespace/{namespace}/events",
    scope: "read",
    family: "stream",
    summary:
      "Streams the events of a namespace as server-sent events. With Last-Event-ID, continues after that event. With gather, " +
      "sends only the types of changes, each at most once per that many milliseconds, with the number of changed objects. With " +
      "gather and tally=true, an event of type tally follows each change of units; its items are the answer of that verb.",
    query: { gather: shape.integer, tally: shape.boolean() },
    answerType: "text/event-stream",
    handle: async (call) => {
      if (log.watchers >= maxWatchers)
        throw new HttpError(
          "too_many_requests",
          `The limit of ${maxWatchers} event streams is reached; try again later`,
        );
      const { reply, request } = call;
      const given = request.headers["last-event-id"];
      const gatherMs = readGather(call.query("gather")[0]);
      const tally = readTally(call);
      const gone = call.gone();
      reply.hijack();
      const { raw } = reply;
      raw.writeHead(200, {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        // a proxy that buffers would delay events
        "x-accel-buffering": "no",
      });
      // lets both ends notice a dead connection, and the server a token that was revoked or has expired
      const ping = setInterval(() => {
        if (call.identity.may("read", call.ns)) raw.write(": ping\n\n");
        else raw.destroy();
      }, pingMs);
      try {
        const texts =
          gatherMs === null
            ? log.watch(call.ns, typeof given === "string" ? given : undefined, gone)
            : log.gather(call.ns, { gatherMs, tally }, gone);
        for await (const text of texts) {
          if (raw.write(text)) continue;
          // the socket's timeout restarts when the peer reads something; without a listener it closes the connection
          raw.socket?.setTimeout(stallMs);
          await drained(raw, gone);
          raw.socket?.setTimeout(0);
        }
      } finally {
        clearInterval(ping);
        raw.end();
      }
      return undefined;
    },
  },
];

function readGather(text: string | undefined): number | null {
  if (text === undefined) return null;
  const ms = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (ms >= 50 && ms <= 60_000) return ms;
  throw new HttpError(
    "bad_request",
    `gather: expected 50 to 60000 milliseconds, got ${JSON.stringify(text)}`,
  );
}

function readTally(call: Call): GatherOptions["tally"] {
  const [text = "false"] = call.query("tally");
  if (text === "false") return undefined;
  if (text === "true") return () => call.coordinate.tally(call.ns);
  throw new HttpError("bad_request", `tally: expected true or false, got ${JSON.stringify(text)}`);
}

/** Waits for a slow watcher to read. If the ring drops unsent events meanwhile, the watcher gets a `reset`. */
async function drained(raw: NodeJS.WritableStream, gone: AbortSignal): Promise<void> {
  if (gone.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      raw.off("drain", done);
      gone.removeEventListener("abort", done);
      resolve();
    };
    raw.once("drain", done);
    gone.addEventListener("abort", done, { once: true });
  });
}
