/** The time range on the screen, as the URL states it: a range up to now, or two fixed times. */
import { useHere } from "./here.ts";
import { useNow } from "./parts/text.tsx";
import { go, type Route } from "./route.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

export const ranges = {
  "5m": 5 * minute,
  "15m": 15 * minute,
  "1h": hour,
  "6h": 6 * hour,
  "24h": day,
  "7d": 7 * day,
  "30d": 30 * day,
} as const;
export type Range = keyof typeof ranges;

const names = Object.keys(ranges) as Range[];
const usual: Range = "15m";

export interface Window {
  /** Null for two fixed times. */
  readonly range: Range | null;
  readonly from: number;
  readonly to: number;
}

/** Uses this browser's clock. */
function windowOf({ filters = {} }: Route, now: number): Window {
  const [from = NaN, to = NaN] = (filters.at ?? "")
    .split("-")
    .map((text) => Number.parseInt(text, 36) * 1000);
  if (from < to && from > 0 && to <= now + day) return { range: null, from, to };
  const range = rangeOf(filters.range);
  return { range, from: now - ranges[range], to: now };
}

const rangeOf = (text: string | undefined): Range => names.find((name) => name === text) ?? usual;

export function useWindow(): Window {
  const { route } = useHere();
  useNow();
  return windowOf(route, Date.now());
}

export const inRange = (route: Route, range: Range): Route => ({
  ...route,
  filters: { ...route.filters, at: "", range: range === usual ? "" : range },
});

/** A fixed range between two times, to the second. */
export const between = (route: Route, from: number, to: number): Route => ({
  ...route,
  filters: {
    ...route.filters,
    at: `${Math.floor(from / 1000).toString(36)}-${Math.ceil(to / 1000).toString(36)}`,
  },
});

/** The next longer or shorter range; from two fixed times, back to the range before them. */
export function stepRange(route: Route, by: 1 | -1): void {
  const { range } = windowOf(route, Date.now());
  const at = names.indexOf(rangeOf(route.filters?.range));
  const next = range === null ? names[at] : names[Math.min(names.length - 1, Math.max(0, at + by))];
  go(inRange(route, next ?? usual));
}
