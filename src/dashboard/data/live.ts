/**
 * Live updates: one event stream for the namespace on the screen. An event names the kinds of data that are out of date. The
 * visible queries of these kinds are then read again, at limited rates however many events arrive. The counts by status arrive in
 * the stream itself. A hidden tab closes its stream. The space key pauses updates.
 */
import { useEffect, useSyncExternalStore } from "react";
import type { QueryClient } from "@tanstack/react-query";
import { backOffMs, type TallyRow } from "../../core/index.ts";
import type { StreamedEvent } from "../../rest/client.ts";
import { client, isUnauthorized } from "./connection.ts";

/** Kinds of data: the first part of their query keys. */
type Kind =
  | "counts"
  | "units"
  | "unit"
  | "matching"
  | "specs"
  | "explain"
  | "workers"
  | "held"
  | "queues"
  | "failures"
  | "batches"
  | "batchUnits"
  | "limits"
  | "partitions"
  | "namespaces";

/** What every change of units may change. */
const unitKinds: readonly Kind[] = ["units", "unit", "matching", "explain", "batchUnits", "partitions"];

const kindsOf: Readonly<Record<StreamedEvent["type"], readonly Kind[]>> = {
  workUnits: [...unitKinds, "queues", "failures", "batches"],
  attempts: [...unitKinds, "held", "queues", "failures", "batches", "limits"],
  workSpecs: ["specs", "explain", "limits", "partitions"],
  workers: ["workers"],
  namespace: ["namespaces", "workers", "specs", "explain"],
  swept: [...unitKinds, "specs", "held"],
  tally: [],
  reset: [
    ...unitKinds,
    "counts",
    "specs",
    "workers",
    "held",
    "queues",
    "failures",
    "namespaces",
    "batches",
    "limits",
  ],
};

/** The daemon reports a type of change at once, and then at most this often. */
const gatherMs = 400;

/**
 * The minimum time between two reads of one kind: for the first change after a pause, and the upper bound while changes keep
 * coming. Counts are cheap and looked at most; data that costs the daemon most is read least often.
 */
const spacingMs: Readonly<Record<Kind, readonly [afterPause: number, steady: number]>> = {
  counts: [500, 1000],
  unit: [700, 1000],
  units: [700, 10_000],
  matching: [1000, 10_000],
  specs: [500, 1000],
  queues: [1000, 2000],
  workers: [1000, 5000],
  held: [1000, 30_000],
  explain: [1000, 30_000],
  failures: [1000, 30_000],
  batches: [1000, 3000],
  batchUnits: [1000, 30_000],
  limits: [1000, 3000],
  partitions: [700, 5000],
  namespaces: [1000, 1000],
};

/** After this long without an event of a kind, the next event counts as a single change again. */
const pauseMs = 2000;

/** Receives the counts of a namespace from the stream. */
type OnCounts = (ns: string, rows: readonly TallyRow[]) => void;

export interface LiveState {
  readonly state: "connecting" | "live" | "held" | "lost";
  /** When the daemon last sent something; 0 before. */
  readonly heard: number;
}

class Live {
  #state: LiveState = { state: "connecting", heard: 0 };
  readonly #listeners = new Set<() => void>();
  #held = false;
  #stop: AbortController | null = null;
  #ns: string | null = null;
  #cache: QueryClient | null = null;
  #onCounts: OnCounts = () => undefined;
  /** For each kind: the time of the last read, the minimum time until the next one, and the time of the last event. */
  readonly #reads = new Map<Kind, { at: number; spacing: number; heard: number }>();
  readonly #timers = new Map<Kind, ReturnType<typeof setTimeout>>();

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  read = (): LiveState => this.#state;

  get held(): boolean {
    return this.#held;
  }

  watch(ns: string, cache: QueryClient, onCounts: OnCounts): () => void {
    this.#ns = ns;
    this.#cache = cache;
    this.#onCounts = onCounts;
    const looked = (): void => (document.hidden ? this.#close() : this.#open());
    document.addEventListener("visibilitychange", looked);
    looked();
    return () => {
      document.removeEventListener("visibilitychange", looked);
      this.#close();
    };
  }

  /** Pauses or resumes updates; resuming reads everything on the screen again. */
  hold(held: boolean): void {
    this.#held = held;
    this.#set({ state: held ? "held" : this.#stop === null ? "connecting" : "live" });
    const cache = this.#cache;
    if (cache === null) return;
    // an observer reads its refetch interval again only when its options are set
    for (const query of cache.getQueryCache().findAll({ type: "active" }))
      for (const observer of query.observers) observer.setOptions(observer.options);
    if (held) {
      this.#forgetTimers();
      // a pending response may show later changes, so it is cancelled, unless its query has no data yet
      void cache.cancelQueries({ predicate: ({ state }) => state.data !== undefined });
    } else void cache.invalidateQueries();
  }

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }

  #open(): void {
    if (this.#stop !== null || this.#ns === null) return;
    this.#stop = new AbortController();
    // not awaited: it ends by its signal and handles its own errors
    void this.#follow(this.#ns, this.#stop.signal);
  }

  #close(): void {
    this.#stop?.abort();
    this.#stop = null;
    this.#forgetTimers();
  }

  #forgetTimers(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  async #follow(ns: string, signal: AbortSignal): Promise<void> {
    const ended = (): boolean => signal.aborted;
    for (let tries = 0; !ended(); tries++) {
      try {
        const events = client.events(ns, {
          signal,
          gatherMs,
          tally: true,
          onOpen: () => {
            tries = 0;
            this.#set({ state: this.#held ? "held" : "live", heard: Date.now() });
            // read everything: events from before the stream opened, or while it was interrupted, were missed
            this.#changed("reset");
          },
        });
        for await (const event of events) {
          this.#set({ heard: Date.now() });
          if (event.type === "tally") this.#counted(ns, event.items as readonly TallyRow[]);
          else this.#changed(event.type);
        }
      } catch (error) {
        if (isUnauthorized(error)) {
          // the session query then asks for a token
          await this.#cache?.invalidateQueries({ queryKey: ["session"] });
        }
      }
      if (ended()) return;
      this.#set({ state: "lost" });
      await new Promise((resolve) => setTimeout(resolve, backOffMs(tries, 500, 10_000)));
    }
  }

  #counted(ns: string, rows: readonly TallyRow[]): void {
    if (this.#held) return;
    this.#onCounts(ns, rows);
  }

  #changed(type: StreamedEvent["type"]): void {
    if (this.#held) return;
    for (const kind of kindsOf[type])
      this.#refresh(kind, type === "workSpecs" || type === "namespace" || type === "reset");
  }

  /**
   * Reads a kind at once when the last read is long ago, otherwise when its minimum time has passed; one read covers all events
   * until then. While events keep coming, the time between reads doubles. `prompt` is for rare events that change much.
   */
  #refresh(kind: Kind, prompt = false): void {
    const now = Date.now();
    const [afterPause, steady] = spacingMs[kind];
    const read = this.#reads.get(kind) ?? { at: 0, spacing: afterPause, heard: 0 };
    if (prompt || now - read.heard > pauseMs) read.spacing = afterPause;
    read.heard = now;
    this.#reads.set(kind, read);
    if (this.#timers.has(kind) && !prompt) return;
    clearTimeout(this.#timers.get(kind));
    const timer = setTimeout(
      () => {
        this.#timers.delete(kind);
        read.at = Date.now();
        read.spacing = Math.min(steady, read.spacing * 2);
        void this.#cache?.invalidateQueries(
          { queryKey: [kind, this.#ns], predicate: ({ state }) => isDue(state) },
          { cancelRefetch: false },
        );
      },
      Math.max(60, read.at + read.spacing - now),
    );
    this.#timers.set(kind, timer);
  }
}

/** A list is read again page by page: with n pages, at most once every n - 1 seconds. */
function isDue({ data, dataUpdatedAt }: { data: unknown; dataUpdatedAt: number }): boolean {
  const pages = (data as { pages?: unknown } | undefined)?.pages;
  return !Array.isArray(pages) || Date.now() - dataUpdatedAt >= (pages.length - 1) * 1000;
}

export const live = new Live();

export const useLive = (): LiveState => useSyncExternalStore(live.subscribe, live.read);

/** Follows a namespace while the calling component is mounted. */
export function useFollow(
  ns: string,
  cache: QueryClient,
  token: string | null,
  onCounts: (cache: QueryClient) => OnCounts,
): void {
  useEffect(() => live.watch(ns, cache, onCounts(cache)), [ns, cache, token, onCounts]);
}

/** A refetch interval besides the events: the stream has no events of other daemons on the same store. */
export const every =
  (ms: number): (() => number | false) =>
  () =>
    live.held ? false : ms;
