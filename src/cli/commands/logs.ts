/** `coordinate logs`: what the tasks of a unit logged, attempt by attempt; with `--follow`, as they log it. */
import type { AttemptLog, AttemptRow, Coordinate, LogLine } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, showText } from "../escape.ts";
import { every } from "../every.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { defineNaming, readNaming, requireWorkSpec, type NamingOptions } from "../naming.ts";
import type { Style } from "../table.ts";
import { counted, time } from "../units.ts";

interface Options extends NamingOptions {
  attempt?: string;
  all?: boolean;
  follow?: boolean;
}

/** The poll interval of `--follow`. */
const followMs = 1000;

export default command<Options>({
  define: (it) => {
    defineNaming(it, "some")
      .option("--attempt <number>", "logs of this attempt (default: the last one)")
      .option("--all", "logs of all attempts")
      .option("-f, --follow", "print new lines until the unit has ended");
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    const [unit] = units;
    if (unit === undefined || units.length > 1) throw new UsageError("expected the name of one work unit");
    if (options.attempt !== undefined && options.all === true)
      throw new UsageError("--attempt and --all: use only one of them");
    const wanted = options.attempt === undefined ? null : Number(options.attempt);
    if (wanted !== null && !(Number.isSafeInteger(wanted) && wanted > 0))
      throw new UsageError(`--attempt: expected a number of 1 or more, got ${quote(options.attempt ?? "")}`);
    await requireWorkSpec(context, workSpec);
    const { coordinate, ns } = await context.work();
    const [row] = await coordinate.getWorkUnits(ns, workSpec, [unit]);
    if (row === null || row === undefined)
      throw new CommandError(`No such work unit ${quote(unit)} in ${quote(workSpec)}`);
    const printer = new Printer(context, coordinate, ns);
    const chosen = (attempts: readonly AttemptRow[]): readonly AttemptRow[] =>
      wanted !== null
        ? attempts.filter(({ number }) => number === wanted)
        : options.all === true
          ? attempts
          : attempts.slice(-1);
    const attempts = chosen(await coordinate.listUnitAttempts(ns, workSpec, unit));
    if (wanted !== null && attempts.length === 0)
      throw new CommandError(`${quote(unit)} has no attempt ${wanted}`);
    if (attempts.length === 0 && options.follow !== true) context.out.remark("No attempts yet.");
    await printer.print(attempts);
    if (options.follow !== true) {
      if (printer.isEmpty && attempts.length > 0) context.out.remark("The task logged nothing.");
      return exit.done;
    }
    const ended = new AbortController();
    await every(followMs, Infinity, AbortSignal.any([context.signal, ended.signal]), async () => {
      const [now] = await coordinate.getWorkUnits(ns, workSpec, [unit]);
      // read the status before the last poll of the logs, so that no line written until then is missed
      const isOver =
        now === null || now === undefined || now.status === "finished" || now.status === "failed";
      if (now !== null && now !== undefined)
        await printer.print(chosen(await coordinate.listUnitAttempts(ns, workSpec, unit)));
      if (isOver) ended.abort();
    });
    return exit.done;
  },
});

const styles: Readonly<Record<LogLine["level"], Style | undefined>> = {
  debug: undefined,
  info: undefined,
  warn: "yellow",
  error: "red",
};

/** Prints the log lines that it has not printed yet. */
class Printer {
  readonly #context: Context;
  readonly #coordinate: Coordinate;
  readonly #ns: string;
  /** The number of the last printed line, by attempt. */
  readonly #printed = new Map<string, number>();
  #last: string | null = null;

  constructor(context: Context, coordinate: Coordinate, ns: string) {
    this.#context = context;
    this.#coordinate = coordinate;
    this.#ns = ns;
  }

  get isEmpty(): boolean {
    return this.#last === null;
  }

  async print(attempts: readonly AttemptRow[]): Promise<void> {
    for (const attempt of attempts) {
      const after = this.#printed.get(attempt.id) ?? 0;
      const [log] = await this.#coordinate.getAttemptLogs(this.#ns, [attempt.id], { after });
      if (log === null || log === undefined || log.lines.length === 0) continue;
      this.#show(attempt, log, after);
      this.#printed.set(attempt.id, log.total);
    }
  }

  #show(attempt: AttemptRow, { first, lines }: AttemptLog, after: number): void {
    const { out } = this.#context;
    if (out.json) {
      lines.forEach((line, i) =>
        out.printJson({ attempt: attempt.id, number: attempt.number, line: first + i, ...line }, 0),
      );
      this.#last = attempt.id;
      return;
    }
    if (this.#last !== null && this.#last !== attempt.id) out.line();
    if (this.#last !== attempt.id && attempt.number > 1)
      out.remark(`Attempt ${attempt.number}, by ${quote(attempt.worker)}:`);
    this.#last = attempt.id;
    if (first > after + 1) out.remark(`(${counted(first - after - 1, "line")} dropped)`);
    const now = Date.now();
    for (const line of lines) {
      const level = line.level === "info" ? "" : `${line.level}: `;
      const [head = "", ...rest] = showText(line.text).split("\n");
      out.line(`${out.paint("dim", time(line.time, now))}  ${out.paint(styles[line.level], level + head)}`);
      for (const more of rest) out.line(`  ${more}`);
    }
  }
}
