/** A workload: the cases in which systems are measured. Cases run in turns, once in each repetition. */
import type { Postgres } from "../servers.ts";
import { systemOf, type Place, type System, type SystemName } from "../systems.ts";

/** The size of a run. */
export interface Scale {
  readonly quick: boolean;
  /** Multiplies numbers of units and seconds; below 1 for a run that only shows that everything works. */
  readonly factor: number;
}

export interface Measured {
  value: number;
  detail?: Record<string, number>;
}

export interface Case {
  readonly system: System;
  readonly name: string;
  readonly unit: string;
  /** Measured in the first repetition only, because it takes long. */
  readonly once?: boolean;
  measure(at: Place, postgres: Postgres): Promise<Measured>;
}

export interface Workload {
  readonly name: string;
  readonly title: string;
  /** A description of the measurement, printed with the table. */
  readonly about: string;
  cases(scale: Scale): readonly Case[];
}

export const scaled = (count: number, { factor }: Scale, min = 1): number =>
  Math.max(min, Math.round(count * factor));

/** The same case for several systems. */
export function forSystems(
  names: readonly SystemName[],
  build: (system: System) => Omit<Case, "system">,
): Case[] {
  return names.map((name) => {
    const system = systemOf(name);
    return { system, ...build(system) };
  });
}
