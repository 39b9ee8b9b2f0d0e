/** `coordinate mode`: sets what workers should do: run, idle or terminate. They finish what they hold first. */
import { CoordinateError, desiredStates, type Coordinate, type DesiredState } from "../../core/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { quote } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { counted } from "../units.ts";
import { listWorkers } from "../worker-list.ts";

interface Options {
  worker?: string[];
}

export default command<Options>({
  define: (it) => {
    it.argument("[mode]", `${desiredStates.join(", ")}; for a worker also default: the mode of its namespace`)
      .option("--worker <name>", "only this worker; may be repeated", repeated)
      .addHelpText("after", "\nWithout a mode, shows the current mode and what the workers report.");
  },
  run: async (context, { args: [word], options }) => {
    const { coordinate, ns } = await context.work();
    const names = options.worker ?? [];
    if (names.length > 0) {
      const rows = await coordinate.getWorkers(ns, names);
      const missing = names.find((_name, i) => (rows[i] ?? null) === null);
      if (missing !== undefined) throw new CoordinateError("no_such_worker", quote(missing));
    }
    if (word === undefined) return showMode(context, coordinate, ns, names);
    const desired = readMode(word, names.length > 0);
    if (names.length > 0)
      await coordinate.updateWorkers(
        ns,
        names.map((name) => ({ name, desired })),
      );
    else await coordinate.setNamespace(ns, { desired: desired ?? "run" });
    const { out } = context;
    if (out.json) out.printJson({ mode: desired ?? "default", workers: names });
    else {
      out.line(`set mode to '${word}'${names.length > 0 ? ` for ${names.map(quote).join(", ")}` : ""}`);
      const held = until(desired, names.length > 0);
      if (held !== "") out.remark(held);
    }
    return exit.done;
  },
});

/** Says how long the mode applies, and how to end it. */
function until(desired: DesiredState | null, ofWorker: boolean): string {
  if (desired === null || desired === "run") return "";
  const what = desired === "idle" ? "take no more work" : "exit";
  if (!ofWorker)
    return `All workers of the namespace ${what} when they have finished their current units. This also applies to workers that start later, until coordinate mode run.`;
  return desired === "idle"
    ? "It takes no more work after its current units, until coordinate mode run --worker NAME, or default."
    : "It exits when it has finished its current units. A worker that starts again under this name runs.";
}

function readMode(word: string, ofWorker: boolean): DesiredState | null {
  if (ofWorker && word === "default") return null;
  const mode = desiredStates.find((one) => one === word.toLowerCase());
  if (mode === undefined)
    throw new UsageError(`expected ${desiredStates.join(", ")}${ofWorker ? " or default" : ""}, got ${word}`);
  return mode;
}

async function showMode(
  { out }: Context,
  coordinate: Coordinate,
  ns: string,
  names: readonly string[],
): Promise<number> {
  if (names.length > 0) {
    const rows = (await coordinate.getWorkers(ns, names)).filter((row) => row !== null);
    if (out.json) out.printJson(rows.map(({ name, mode, desired }) => ({ name, mode, desired })));
    else
      for (const { name, mode, desired } of rows)
        out.line(`${quote(name)}: desired ${desired}, reports ${quote(mode)}`);
    return exit.done;
  }
  const { settings } = await coordinate.getNamespace(ns);
  const { rows } = await listWorkers(coordinate, ns, { active: true }, 100_000);
  const modes = new Map<string, number>();
  for (const { mode } of rows) modes.set(mode, (modes.get(mode) ?? 0) + 1);
  if (out.json) out.printJson({ mode: settings.desired, workers: Object.fromEntries(modes) });
  else {
    out.line(settings.desired.toUpperCase());
    const said = [...modes]
      .map(([mode, count]) => `${count} ${mode === "" ? "without a mode" : quote(mode)}`)
      .join(", ");
    out.remark(
      rows.length === 0 ? "No worker is active." : `${counted(rows.length, "active worker")}: ${said}`,
    );
  }
  return exit.done;
}
