/** How far a long command is: a bar on a terminal, nothing elsewhere. One line, also in a window of 80 columns. */
import cliProgress from "cli-progress";
import type { Context } from "./context.ts";
import { show } from "./escape.ts";
import { count, duration, rate } from "./units.ts";

export interface ProgressState {
  /** How much of `total` is done, in the same measure: bytes of the input, or units. */
  value: number;
  /** Null when the total is not known. */
  total: number | null;
  /** The number of units, for display. */
  units: number;
}

/** The time span over which the rate is measured. */
const windowMs = 5000;

export class Progress {
  readonly #bar: cliProgress.SingleBar | null;
  readonly #state: () => ProgressState;
  readonly #from: ProgressState;
  readonly #began = performance.now();
  readonly #seen: { at: number; units: number; value: number }[] = [];
  #timer: NodeJS.Timeout | null = null;

  /** Calls `state` four times a second. */
  constructor(context: Context, label: string, state: () => ProgressState, quiet = false) {
    const { stderr } = context.session.streams;
    this.#state = state;
    this.#from = state();
    const shown = stderr.isTTY && !quiet && !context.out.json;
    this.#bar = shown ? this.#begin(stderr, label) : null;
  }

  get seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  /** Removes the bar. Idempotent. */
  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#bar?.stop();
  }

  #begin(stream: NodeJS.WriteStream, label: string): cliProgress.SingleBar {
    const columns = stream.columns || 80;
    const known = this.#from.total !== null;
    // the figures take 50 columns at most: "100% 2,000,000 units 100,000/s ETA 12 min 30 s"; only the name is shortened
    const name = cut(show(label), Math.max(8, columns - 66));
    const bar = new cliProgress.SingleBar({
      format: known ? `${name} {bar} {done} {units} {rate} {left}` : `${name} {units} {rate}`,
      barsize: Math.max(5, Math.min(40, columns - name.length - 52)),
      barCompleteChar: "=",
      barIncompleteChar: "-",
      stream,
      hideCursor: true,
      clearOnComplete: true,
      linewrap: null,
      // no output when the stream is no terminal
      noTTYOutput: false,
      emptyOnZero: true,
    });
    bar.start(Math.max(1, this.#from.total ?? 1), this.#from.value, this.#figures());
    this.#timer = setInterval(() => {
      const { value, total } = this.#state();
      bar.setTotal(Math.max(1, total ?? 1));
      bar.update(Math.min(value, total ?? 1), this.#figures());
    }, 250).unref();
    return bar;
  }

  #figures(): { done: string; units: string; rate: string; left: string } {
    const { value, total, units } = this.#state();
    const now = performance.now();
    this.#seen.push({ at: now, units, value });
    while (this.#seen.length > 2 && now - (this.#seen[0]?.at ?? now) > windowMs) this.#seen.shift();
    const oldest = this.#seen[0] ?? { at: now, units, value };
    const seconds = (now - oldest.at) / 1000;
    const perSecond = seconds > 0 ? (units - oldest.units) / seconds : 0;
    const speed = seconds > 0 ? (value - oldest.value) / seconds : 0;
    const secondsLeft = total !== null && speed > 0 ? Math.ceil((total - value) / speed) : null;
    // tenths of a second are left out
    const left = secondsLeft === null ? "ETA …" : `ETA ${duration(secondsLeft * 1000).replace(/\.\d/, "")}`;
    const percent = total === null || total === 0 ? 0 : Math.min(100, Math.floor((value / total) * 100));
    return {
      done: `${percent}%`.padStart(4),
      units: `${count(units)} units`,
      rate: rate(Math.round(perSecond)),
      left: value >= (total ?? Infinity) ? "" : left,
    };
  }
}

const cut = (text: string, max: number): string =>
  text.length > max ? `…${text.slice(text.length - max + 1)}` : text;
