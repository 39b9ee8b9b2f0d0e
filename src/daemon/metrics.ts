/**
 * Metrics for Prometheus. `coordinate_work_units` and `coordinate_summary_seconds` have the names of the Go daemon. Unlike
 * its gauges they are recomputed for every scrape, so that deleted work specs disappear. No label ever has the name of a
 * unit or a worker.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry, type Metric } from "prom-client";
import {
  around,
  eachRow,
  isTripped,
  isWait,
  type AddedWorkUnit,
  type AttemptChanged,
  type AttemptRow,
  type BreakerEvent,
  type Coordinate,
  type Swept,
} from "../core/index.ts";
import type { Answered } from "../rest/index.ts";

/** The maximum number of series. Beyond it, only the work specs with the most units, or the longest wait, are shown. */
const maxSeries = 5000;
const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface MetricsSources {
  coordinate: Coordinate;
  /** The clock of the store's times. */
  now: () => number;
  /** The number of requests that wait: for work, for messages, for units to end. */
  waiting: () => number;
  /** The number of units that were late since the daemon started. */
  late: () => number;
  watchers: () => number;
}

/** One series of a histogram. */
class Series {
  readonly buckets = new Float64Array(seconds.length);
  sum = 0;
  count = 0;

  observe(value: number): void {
    this.sum += value;
    this.count += 1;
    // buckets are cumulated at a scrape
    for (let i = 0; i < seconds.length; i++) {
      if (value > seconds[i]!) continue;
      this.buckets[i]! += 1;
      return;
    }
  }
}

/**
 * A fast histogram, since every request updates one. That of the library looks up labels in a new object each time, which
 * was the most expensive part of a single claim. This one needs two map lookups and an addition.
 */
class FastHistogram<Label extends string> {
  readonly name: string;
  readonly #help: string;
  readonly #labels: readonly Label[];
  readonly #series = new Map<string, { labels: readonly string[]; series: Series }>();

  constructor(registry: Registry, name: string, help: string, labels: readonly Label[]) {
    this.name = name;
    this.#help = help;
    this.#labels = labels;
    // the registry uses only the name and `get` of a metric
    registry.registerMetric({ name, get: async () => this.#get() } as unknown as Metric);
  }

  of(...labels: readonly string[]): Series {
    const key = labels.join("\u0000");
    let found = this.#series.get(key);
    if (found === undefined) this.#series.set(key, (found = { labels, series: new Series() }));
    return found.series;
  }

  #get(): object {
    const values: object[] = [];
    for (const { labels, series } of this.#series.values()) {
      const named = Object.fromEntries(this.#labels.map((label, i) => [label, labels[i]]));
      const add = (ending: string, value: number, le?: string): void => {
        values.push({
          metricName: this.name + ending,
          labels: le === undefined ? named : { le, ...named },
          value,
        });
      };
      let sum = 0;
      for (const [i, bound] of seconds.entries()) add("_bucket", (sum += series.buckets[i]!), String(bound));
      add("_bucket", series.count, "+Inf");
      add("_sum", series.sum);
      add("_count", series.count);
    }
    return { name: this.name, help: this.#help, type: "histogram", values, aggregator: "sum" };
  }
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #requests: FastHistogram<"route" | "status">;
  readonly #verbs: FastHistogram<"verb">;
  readonly #errors: Counter<"verb" | "code">;
  readonly #added: Counter;
  readonly #claimed: Counter;
  readonly #settled: Counter<"status">;
  readonly #swept: Counter<"what">;
  readonly #breakers: Counter<"what">;
  /** Counted here and added to the counters at a scrape: a lookup of labels costs a microsecond. */
  #claimedNow = 0;
  #addedNow = 0;
  readonly #settledNow = new Map<string, number>();

  constructor() {
    const registers = [this.#registry];
    // the default timer fires 100 times a second, which would be most of the cost of an idle daemon
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 200 });
    const counter = <Label extends string>(
      name: string,
      help: string,
      labelNames: Label[] = [],
    ): Counter<Label> => new Counter({ name, help, labelNames, registers });
    this.#requests = new FastHistogram(
      this.#registry,
      "coordinate_http_request_seconds",
      "Duration of requests in seconds, including long polls",
      ["route", "status"],
    );
    this.#verbs = new FastHistogram(
      this.#registry,
      "coordinate_verb_seconds",
      "Time of the store and the engine per verb in seconds, without waiting for work",
      ["verb"],
    );
    this.#errors = counter("coordinate_verb_errors_total", "Verbs that were refused or failed", [
      "verb",
      "code",
    ]);
    this.#added = counter("coordinate_work_units_added_total", "Work units added");
    this.#claimed = counter("coordinate_attempts_claimed_total", "Attempts claimed by workers");
    this.#settled = counter(
      "coordinate_attempts_settled_total",
      "Attempts settled or renewed, by resulting status",
      ["status"],
    );
    this.#swept = counter(
      "coordinate_swept_total",
      "Objects handled by housekeeping, such as expired leases",
      ["what"],
    );
    this.#breakers = counter(
      "coordinate_breaker_changes_total",
      "Breakers of work specs that tripped or closed in this daemon",
      ["what"],
    );
  }

  breaker({ state }: BreakerEvent): void {
    this.#breakers.inc({ what: state.since === undefined ? "closed" : "tripped" });
  }

  /** Adds the metrics that are read from the store at each scrape. */
  watch({ coordinate, now, waiting, late, watchers }: MetricsSources): void {
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
        if (rows.length > maxSeries) rows.sort((a, b) => total(b) - total(a));
        for (const { namespace, workSpec, counts } of rows.slice(0, maxSeries)) {
          for (const [status, count] of Object.entries(counts)) {
            if (count > 0) this.set({ namespace, work_spec: workSpec, status }, count);
          }
        }
      },
    });
    new Gauge({
      name: "coordinate_queue_age_seconds",
      help: "Age of the longest waiting available work unit, at least",
      labelNames: ["namespace", "work_spec"],
      registers,
      async collect() {
        const rows = await coordinate.waitingSince();
        this.reset();
        if (rows.length > maxSeries) rows.sort((a, b) => a.since - b.since);
        for (const { namespace, workSpec, since } of rows.slice(0, maxSeries))
          this.set({ namespace, work_spec: workSpec }, Math.max(0, now() - since) / 1000);
      },
    });
    new Gauge({
      name: "coordinate_breaker_tripped",
      help: "1 for each work spec whose breaker is tripped",
      labelNames: ["namespace", "work_spec"],
      registers,
      async collect() {
        this.reset();
        for (const { name: namespace } of await coordinate.listNamespaces())
          for await (const { name, meta } of eachRow((from) => coordinate.listWorkSpecs(namespace, from)))
            if (isTripped(meta)) this.set({ namespace, work_spec: name }, 1);
      },
    });
    new Counter({
      name: "coordinate_late_work_units_total",
      help: "Work units that missed their deadline in this daemon: they were moved to the front, or failed",
      registers,
      collect() {
        this.reset();
        this.inc(late());
      },
    });
    new Gauge({
      name: "coordinate_waiting_requests",
      help: "Requests waiting for work, for messages or for work units to end",
      registers,
      collect() {
        this.set(waiting());
      },
    });
    new Gauge({
      name: "coordinate_event_watchers",
      help: "Open event streams",
      registers,
      collect() {
        this.set(watchers());
      },
    });
  }

  answered({ route, status, ms }: Answered): void {
    this.#requests.of(route?.id ?? "none", classes[Math.floor(status / 100)] ?? "other").observe(ms / 1000);
  }

  swept(done: Swept): void {
    for (const what of ["expired", "due", "exhausted", "retired", "generated", "workers"] as const) {
      if (done[what] > 0) this.#swept.inc({ what }, done[what]);
    }
  }

  /** Wraps the verbs to measure them. */
  measure(inner: Coordinate): Coordinate {
    return around(inner, async (verb, args, next) => {
      const start = performance.now();
      try {
        const answer = await next();
        if (!isWait(verb, args)) {
          this.#verbs.of(verb).observe((performance.now() - start) / 1000);
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
    if (verb === "addWorkUnits") this.#addedNow += (answer as AddedWorkUnit[]).length;
    else if (verb === "requestAttempts") this.#claimedNow += (answer as AttemptRow[]).length;
    else if (verb === "settleAttempts") {
      for (const { changed, status } of answer as AttemptChanged[]) {
        if (changed && status !== null) this.#settledNow.set(status, (this.#settledNow.get(status) ?? 0) + 1);
      }
    }
  }

  text(): Promise<string> {
    this.#added.inc(this.#addedNow);
    this.#claimed.inc(this.#claimedNow);
    this.#addedNow = this.#claimedNow = 0;
    for (const [status, count] of this.#settledNow) this.#settled.inc({ status }, count);
    this.#settledNow.clear();
    return this.#registry.metrics();
  }
}

const classes = ["", "1xx", "2xx", "3xx", "4xx", "5xx"];
