/**
 * Kinds of random operations. A step is plain data: the kind and its arguments. The objects that it refers to are looked up when
 * it is performed, so that most steps take effect. For each kind a floor sets the share that must take effect.
 */
import fc from "fast-check";
import type { Measure } from "./measure.ts";

/** One step of a history. */
export type Step = { readonly do: string } & Readonly<Record<string, unknown>>;

/** How many of the requested changes took effect. */
export type Accepted = readonly [accepted: number, asked: number];

interface Operation<Subject> {
  weight: number;
  floor: number;
  steps: fc.Arbitrary<Step>;
  perform: (subject: Subject, args: object) => Promise<Accepted | boolean>;
}

export class Operations<Subject> {
  readonly #operations = new Map<string, Operation<Subject>>();
  readonly #measureOf: (subject: Subject) => Measure;

  constructor(measureOf: (subject: Subject) => Measure) {
    this.#measureOf = measureOf;
  }

  /** `weight`: the relative frequency of the kind; 0 is never. `floor`: the share that must be accepted over many runs. */
  define<Args extends object>(
    kind: string,
    weight: number,
    floor: number,
    args: fc.Arbitrary<Args>,
    perform: (subject: Subject, args: Args) => Promise<Accepted | boolean>,
  ): void {
    this.#operations.set(kind, {
      weight,
      floor,
      steps: args.map((one) => ({ do: kind, ...one })),
      perform: (subject, given) => perform(subject, given as Args),
    });
  }

  get floors(): ReadonlyMap<string, number> {
    return new Map([...this.#operations].map(([kind, { floor }]) => [kind, floor]));
  }

  /** Histories of up to `maxLength` steps. `also` overrides the weights of kinds, for example of those with weight 0. */
  histories(maxLength: number, also: Readonly<Record<string, number>> = {}): fc.Arbitrary<Step[]> {
    const drawn = [...this.#operations].flatMap(([kind, { weight, steps }]) => {
      const often = also[kind] ?? weight;
      return often > 0 ? [{ weight: often, arbitrary: steps }] : [];
    });
    return fc.array(fc.oneof(...drawn), { minLength: 1, maxLength, size: "max" });
  }

  steps(kind: string): fc.Arbitrary<Step> {
    return this.#find(kind).steps;
  }

  async perform(subject: Subject, { do: kind, ...args }: Step): Promise<void> {
    const answer = await this.#find(kind).perform(subject, args);
    const [accepted, asked] = typeof answer === "boolean" ? [answer ? 1 : 0, 1] : answer;
    this.#measureOf(subject).note(kind, accepted, asked);
  }

  #find(kind: string): Operation<Subject> {
    const found = this.#operations.get(kind);
    if (found === undefined) throw new Error(`no such operation: ${kind}`);
    return found;
  }
}
