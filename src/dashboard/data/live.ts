/**
 * What happens, as it happens: one stream of events of the namespace on the screen. An event says which kinds of data
 * are out of date; what is on the screen of them is then read again, at most every so often however much happens. The counts by
 * status come with the stream itself.
 * A tab that is not looked at holds no stream. Space holds the picture.
 */
import { useEffect, useSyncExternalStore } from "react";
import type { QueryClient } from "@tanstack/react-query";
import { backOffMs, type TallyRow } from "../../core/index.ts";
import type { StreamedEvent } from "../../rest/client.ts";
import { client, isUnauthorized } from "./connection.ts";

/** Kinds of data, the first part of their query keys. */
type Kind =
  | "counts"
  | "units"
  | "unit"
  | "specs"
  | "explain"
  | "workers"
  | "held"
  | "queues"
  | "failures"
  | "batches"
  | "limits"
  | "partitions"
  | "namespaces";

const kindsOf: Readonly<Record<StreamedEvent["type"], readonly Kind[]>> = {
  workUnits: ["units", "unit", "explain", "queues", "failures", "batches", "partitions"],
  attempts: ["units", "unit", "held", "explain", "queues", "failures", "batches", "limits", "partitions"],
  workSpecs: ["specs", "explain", "limits", "partitions"],
  workers: ["workers"],
  namespace: ["namespaces", "workers", "specs", "explain"],
  swept: ["units", "unit", "specs", "held", "explain", "partitions"],
  tally: [],
  reset: [
    "counts",
    "units",
    "unit",
    "specs",
    "explain",
    "workers",
    "held",
    "queues",
    "failures",
    "namespaces",
    "batches",
    "limits",
    "partitions",
  ],
};

/** The types of changes are told at once, and then at most so often. */
const gatherMs = 400;

/**
 * The least time between two reads of one kind: of a change after a pause, and at most where changes never cease. Counts are cheap and
 * looked at most; what a daemon works longest for is read least.
 */
const spacingMs: Readonly<Record<Kind, readonly [afterPause: number, steady: number]>> = {
  counts: [500, 1000],
  unit: [700, 1000],
  units: [700, 10_000],
  specs: [500, 1000],
  queues: [1000, 2000],
  workers: [1000, 5000],
  held: [1000, 30_000],
  explain: [1000, 30_000],
  failures: [1000, 30_000],
  batches: [1000, 3000],
  limits: [1000, 3000],
  partitions: [700, 5000],
  namespaces: [1000, 1000],
};

/** After so long without an event of a kind, the next one is a single change again. */
const pauseMs = 2000;

/** Takes the counts of a namespace that the stream told. */
type OnCounts = (ns: string, rows: readonly TallyRow[]) => void;

export interface LiveState {
  readonly state: "connecting" | "live" | "held" | "lost";
  /** When something last came from the daemon; 0 before. */
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
  /** When each kind was last read, how long after that it is read again at the soonest, and when an event of it came. */
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

  /** Holds the picture, or lets it go on: everything on it is read again then. */
  hold(held: boolean): void {
    this.#held = held;
    this.#set({ state: held ? "held" : this.#stop === null ? "connecting" : "live" });
    const cache = this.#cache;
    if (cache === null) return;
    // an observer asks anew whether it reads by itself when its options are set; until then its old interval goes on
    for (const query of cache.getQueryCache().findAll({ type: "active" }))
      for (const observer of query.observers) observer.setOptions(observer.options);
    if (held) {
      this.#forgetTimers();
      // an answer that is on its way may tell of what comes after this moment; what was never read must still appear
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
    // not awaited: it ends by its signal and catches what fails
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
            // what happened before the stream began, or while it was away, was not told
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
          // the session is what asks for a token
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
   * At once when the last read is long ago, else when its time has come; once for all events until then. While events come
   * without a pause, the reads get further apart; what is rare, and changes much, is `prompt`.
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

/** All pages of a list are read again, one after the other: so many seconds apart as there are more than one. */
function isDue({ data, dataUpdatedAt }: { data: unknown; dataUpdatedAt: number }): boolean {
  const pages = (data as { pages?: unknown } | undefined)?.pages;
  return !Array.isArray(pages) || Date.now() - dataUpdatedAt >= (pages.length - 1) * 1000;
}

export const live = new Live();

export const useLive = (): LiveState => useSyncExternalStore(live.subscribe, live.read);

/** Follows a namespace as long as the caller is on the screen. */
export function useFollow(
  ns: string,
  cache: QueryClient,
  token: string | null,
  onCounts: (cache: QueryClient) => OnCounts,
): void {
  useEffect(() => live.watch(ns, cache, onCounts(cache)), [ns, cache, token, onCounts]);
}

/** Data that is read again by itself, besides what events say: other daemons on the same store tell their own part. */
export const every =
  (ms: number): (() => number | false) =>
  () =>
    live.held ? false : ms;
