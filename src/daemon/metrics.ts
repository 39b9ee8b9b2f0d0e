/**
 * Metrics for Prometheus. `coordinate_work_units` and `coordinate_summary_seconds` are named as the Go daemon names
 * them; unlike its gauges these are counted anew for every scrape, so that what is gone is gone. No label ever holds
 * the name of a unit or a worker.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { AttemptChanged, AttemptRow, AddedWorkUnit, Coordinate, Tidied } from "../core/index.ts";
import { around, type Route } from "../rest/index.ts";

/** More series than this are of no use to anybody: the specs with the most units are shown. */
const mostSeries = 5000;
const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface MetricsSources {
  coordinate: Coordinate;
  /** Requests that wait for work. */
  waiting: () => number;
  watchers: () => number;
}

interface Observer {
  observe(value: number): void;
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #requests: Histogram<"route" | "status">;
  readonly #verbs: Histogram<"verb">;
  readonly #errors: Counter<"verb" | "code">;
  readonly #added: Counter;
  readonly #claimed: Counter;
  readonly #settled: Counter<"status">;
  readonly #tidied: Counter<"what">;
  readonly #bound = new Map<string, Observer>();

  constructor() {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    const counter = <Label extends string>(
      name: string,
      help: string,
      labelNames: Label[] = [],
    ): Counter<Label> => new Counter({ name, help, labelNames, registers });
    this.#requests = new Histogram({
      name: "coordinate_http_request_seconds",
      help: "Seconds until a request was answered, long polls included",
      labelNames: ["route", "status"],
      buckets: seconds,
      registers,
    });
    this.#verbs = new Histogram({
      name: "coordinate_verb_seconds",
      help: "Seconds that the store and the engine took for a verb; waits for work are left out",
      labelNames: ["verb"],
      buckets: seconds,
      registers,
    });
    this.#errors = counter("coordinate_verb_errors_total", "Verbs that were refused or failed", [
      "verb",
      "code",
    ]);
    this.#added = counter("coordinate_work_units_added_total", "Work units added");
    this.#claimed = counter("coordinate_attempts_claimed_total", "Attempts handed out");
    this.#settled = counter(
      "coordinate_attempts_settled_total",
      "Attempts settled or renewed, by the status they got",
      ["status"],
    );
    this.#tidied = counter(
      "coordinate_tidied_total",
      "What housekeeping found: expired leases and the like",
      ["what"],
    );
  }

  /** What is asked of the store when somebody scrapes. */
  watch({ coordinate, waiting, watchers }: MetricsSources): void {
    const registers = [this.#registry];
    const summary = new Histogram({
      name: "coordinate_summary_seconds",
      help: "Seconds required to gather coordinate summary",
      buckets: [0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64],
      registers,
    });
    new Gauge({
      name: "coordinate_work_units",
      help: "Number of coordinate work units",
      labelNames: ["namespace", "work_spec", "status"],
      registers,
      async collect() {
        const end = summary.startTimer();
        const rows = await coordinate.tally();
        end();
        this.reset();
        const total = (row: (typeof rows)[number]): number =>
          Object.values(row.counts).reduce((a, b) => a + b, 0);
        if (rows.length > mostSeries) rows.sort((a, b) => total(b) - total(a));
        for (const { namespace, workSpec, counts } of rows.slice(0, mostSeries)) {
          for (const [status, count] of Object.entries(counts)) {
            if (count > 0) this.set({ namespace, work_spec: workSpec, status }, count);
          }
        }
      },
    });
    new Gauge({
      name: "coordinate_waiting_requests",
      help: "Requests that wait for work",
      registers,
      collect() {
        this.set(waiting());
      },
    });
    new Gauge({
      name: "coordinate_event_watchers",
      help: "Open streams of events",
      registers,
      collect() {
        this.set(watchers());
      },
    });
  }

  answered(route: Route | null, status: number, elapsedMs: number): void {
    const id = route?.id ?? "none";
    const kind = `${Math.floor(status / 100)}xx`;
    const key = `${id} ${kind}`;
    let bound = this.#bound.get(key);
    // finding the labels again costs a microsecond each time
    if (bound === undefined) this.#bound.set(key, (bound = this.#requests.labels(id, kind)));
    bound.observe(elapsedMs / 1000);
  }

  tidied(done: Tidied): void {
    for (const what of ["expired", "due", "exhausted", "retired", "workers"] as const) {
      if (done[what] > 0) this.#tidied.inc({ what }, done[what]);
    }
  }

  /** The same verbs, measured. */
  measure(inner: Coordinate): Coordinate {
    const verbs = new Map<string, Observer>();
    return around(inner, async (verb, args, next) => {
      const start = performance.now();
      try {
        const answer = await next();
        if (verb !== "requestAttempts" || (args[1] as { waitMs?: number }).waitMs === undefined) {
          let bound = verbs.get(verb);
          if (bound === undefined) verbs.set(verb, (bound = this.#verbs.labels(verb)));
          bound.observe((performance.now() - start) / 1000);
        }
        this.#count(verb, answer);
        return answer;
      } catch (error) {
        const code = error instanceof Error && "code" in error ? String(error.code) : "internal";
        this.#errors.inc({ verb, code });
        throw error;
      }
    });
  }

  #count(verb: string, answer: unknown): void {
    if (verb === "addWorkUnits") this.#added.inc((answer as AddedWorkUnit[]).length);
    else if (verb === "requestAttempts") this.#claimed.inc((answer as AttemptRow[]).length);
    else if (verb === "settleAttempts") {
      for (const { changed, status } of answer as AttemptChanged[]) {
        if (changed && status !== null) this.#settled.inc({ status });
      }
    }
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
