/** The daemon's health, latency and resource use, from /readyz and, where permitted, /metrics. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { readText } from "./connection.ts";
import { every } from "./live.ts";

export interface Health {
  readonly ready: boolean;
  readonly message: string;
  /** The response time of the store, measured here. */
  readonly ms: number;
}

export function useHealth(): UseQueryResult<Health> {
  return useQuery({
    queryKey: ["health"],
    queryFn: async () => {
      const start = performance.now();
      try {
        await readText("/readyz");
        return { ready: true, message: "The store responds.", ms: performance.now() - start };
      } catch (error) {
        return {
          ready: false,
          message: error instanceof Error ? error.message : String(error),
          ms: performance.now() - start,
        };
      }
    },
    refetchInterval: every(5000),
  });
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Parses the text format, one sample per line; label values are quoted, with \\, \" and \n escaped. */
function readMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const labels: Record<string, string> = {};
    for (const [, key = "", value = ""] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[key] = value.replace(/\\(.)/g, (_all, one: string) => (one === "n" ? "\n" : one));
    samples.push({ name: match[1] ?? "", labels, value: Number(match[3]) });
  }
  return samples;
}

interface VerbFigures {
  readonly verb: string;
  readonly calls: number;
  readonly meanMs: number;
  /** The 99th percentile, as the upper bound of its bucket. */
  readonly p99Ms: number;
  readonly errors: number;
}

export interface SystemFigures {
  readonly residentBytes: number;
  readonly heapBytes: number;
  readonly loopMeanMs: number;
  readonly loopP99Ms: number;
  readonly waitingRequests: number;
  readonly watchers: number;
  readonly verbs: readonly VerbFigures[];
}

function figuresOf(samples: readonly Sample[]): SystemFigures {
  const one = (name: string): number => samples.find((sample) => sample.name === name)?.value ?? 0;
  const verbs = new Map<
    string,
    { calls: number; sum: number; buckets: [number, number][]; errors: number }
  >();
  const of = (verb: string) => {
    const found = verbs.get(verb) ?? { calls: 0, sum: 0, buckets: [], errors: 0 };
    verbs.set(verb, found);
    return found;
  };
  for (const { name, labels, value } of samples) {
    const verb = labels.verb ?? "";
    if (name === "coordinate_verb_seconds_count") of(verb).calls = value;
    else if (name === "coordinate_verb_seconds_sum") of(verb).sum = value;
    else if (name === "coordinate_verb_seconds_bucket" && labels.le !== "+Inf")
      of(verb).buckets.push([Number(labels.le), value]);
    else if (name === "coordinate_verb_errors_total") of(verb).errors += value;
  }
  return {
    residentBytes: one("process_resident_memory_bytes"),
    heapBytes: one("nodejs_heap_size_used_bytes"),
    loopMeanMs: one("nodejs_eventloop_lag_mean_seconds") * 1000,
    loopP99Ms: one("nodejs_eventloop_lag_p99_seconds") * 1000,
    waitingRequests: one("coordinate_waiting_requests"),
    watchers: one("coordinate_event_watchers"),
    verbs: [...verbs]
      .map(([verb, { calls, sum, buckets, errors }]) => ({
        verb,
        calls,
        meanMs: calls === 0 ? 0 : (sum / calls) * 1000,
        p99Ms:
          (buckets.sort((a, b) => a[0] - b[0]).find(([, below]) => below >= calls * 0.99)?.[0] ?? Infinity) *
          1000,
        errors,
      }))
      .sort((a, b) => b.calls - a.calls),
  };
}

export function useFigures(enabled: boolean): UseQueryResult<SystemFigures> {
  return useQuery({
    queryKey: ["figures"],
    queryFn: async () => figuresOf(readMetrics(await readText("/metrics"))),
    enabled,
    refetchInterval: every(5000),
  });
}
