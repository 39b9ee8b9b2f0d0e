/**
 * What happens, as it happens: one stream of events of the namespace on the screen. An event says which kinds of data
 * are out of date; what is on the screen of them is then read again, at most every so often however much happens.
 * A tab that is not looked at holds no stream. Space holds the picture.
 */
import { useEffect, useSyncExternalStore } from "react";
import type { QueryClient } from "@tanstack/react-query";
import { backOffMs } from "../../core/index.ts";
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
  | "namespaces";

const kindsOf: Readonly<Record<StreamedEvent["type"], readonly Kind[]>> = {
  workUnits: ["counts", "units", "unit", "explain", "queues", "failures", "batches"],
  attempts: ["counts", "units", "unit", "held", "explain", "queues", "failures", "batches"],
  workSpecs: ["specs", "counts", "explain"],
  workers: ["workers"],
  namespace: ["namespaces", "workers", "specs", "counts"],
  swept: ["counts", "units", "unit", "held", "explain"],
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
  ],
};

/** The least time between two reads of one kind. Counts are cheap and looked at most. */
const spacingMs: Readonly<Record<Kind, number>> = {
  counts: 700,
  unit: 700,
  units: 800,
  specs: 500,
  queues: 1000,
  workers: 1000,
  held: 2000,
  explain: 3000,
  failures: 3000,
  batches: 1000,
  namespaces: 1000,
};

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
  readonly #readAt = new Map<Kind, number>();
  readonly #timers = new Map<Kind, ReturnType<typeof setTimeout>>();
  readonly #waiting = new Set<Kind>();

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  read = (): LiveState => this.#state;

  get held(): boolean {
    return this.#held;
  }

  watch(ns: string, cache: QueryClient): () => void {
    this.#ns = ns;
    this.#cache = cache;
    const looked = (): void => (document.hidden ? this.#close() : this.#open());
    document.addEventListener("visibilitychange", looked);
    looked();
    return () => {
      document.removeEventListener("visibilitychange", looked);
      this.#close();
    };
  }

  /** Holds the picture, or lets it go on: what was missed is read then. */
  hold(held: boolean): void {
    this.#held = held;
    if (held) this.#set({ state: "held" });
    else {
      this.#set({ state: this.#stop === null ? "connecting" : "live" });
      for (const kind of this.#waiting) this.#refresh(kind);
      this.#waiting.clear();
    }
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
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  async #follow(ns: string, signal: AbortSignal): Promise<void> {
    let after: string | undefined;
    const ended = (): boolean => signal.aborted;
    for (let tries = 0; !ended(); tries++) {
      try {
        const events = client.events(ns, {
          signal,
          ...(after !== undefined && { after }),
          onOpen: () => {
            tries = 0;
            this.#set({ state: this.#held ? "held" : "live", heard: Date.now() });
            // what happened before the stream began, or while it was away, was not told
            if (after === undefined) this.#changed("reset");
          },
        });
        for await (const event of events) {
          after = event.id;
          this.#set({ heard: Date.now() });
          this.#changed(event.type);
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

  #changed(type: StreamedEvent["type"]): void {
    for (const kind of kindsOf[type]) {
      if (this.#held) this.#waiting.add(kind);
      else this.#refresh(kind);
    }
  }

  /** At once when the last read is long ago, else when its time has come; once for all events until then. */
  #refresh(kind: Kind): void {
    if (this.#timers.has(kind)) return;
    const due = Math.max(60, (this.#readAt.get(kind) ?? 0) + spacingMs[kind] - Date.now());
    const timer = setTimeout(() => {
      this.#timers.delete(kind);
      this.#readAt.set(kind, Date.now());
      void this.#cache?.invalidateQueries({ queryKey: [kind, this.#ns] }, { cancelRefetch: false });
    }, due);
    this.#timers.set(kind, timer);
  }
}

export const live = new Live();

export const useLive = (): LiveState => useSyncExternalStore(live.subscribe, live.read);

/** Follows a namespace as long as the caller is on the screen. */
export function useFollow(ns: string, cache: QueryClient, token: string | null): void {
  useEffect(() => live.watch(ns, cache), [ns, cache, token]);
}

/** Data that is read again by itself, besides what events say: other daemons on the same store tell their own part. */
export const every =
  (ms: number): (() => number | false) =>
  () =>
    live.held ? false : ms;
