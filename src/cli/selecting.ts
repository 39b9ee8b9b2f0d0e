/** Selects units of a work spec other than by name: by prefix, label, error group, and how long ago they ended. */
import type { Tally, WorkUnitSelection } from "../core/index.ts";
import type { Command } from "./command.ts";
import type { Context } from "./context.ts";
import { counted, readDuration } from "./units.ts";

export interface SelectingOptions {
  prefix?: string;
  label?: string;
  error?: string;
  since?: string;
}

export const defineSelecting = (command: Command): Command =>
  command
    .option("--prefix <text>", "units whose names begin with this text")
    .option("--label <label>", "units with this label")
    .option("--error <fingerprint>", "failed units of this error group; coordinate failures lists the groups")
    .option("--since <time>", "units that ended within this time, such as 90s, 15m, 12h, 7d");

export function readSelecting({ prefix, label, error, since }: SelectingOptions): WorkUnitSelection {
  return {
    ...(prefix !== undefined && { prefix }),
    ...(label !== undefined && { label }),
    ...(error !== undefined && { error }),
    ...(since !== undefined && { endedSince: Date.now() - readDuration(since, "--since") }),
  };
}

/** Prints how many units a change affects, before the change is made. */
export async function showCount(
  context: Context,
  workSpec: string,
  selection: WorkUnitSelection,
): Promise<number> {
  const { coordinate, ns } = await context.work();
  const counts: Tally = await coordinate.countWorkUnits(ns, workSpec, selection);
  const total = Object.values(counts).reduce((sum, one) => sum + one, 0);
  if (!context.out.json && !context.compat) context.out.remark(`${counted(total, "unit")} selected.`);
  return total;
}
