/** `coordinate lock`: locks on paths of a tree: shows the holders, takes, renews, releases and clears locks. */
import { hostname } from "node:os";
import { eachRow, type Lock, type LockPath, type LockRefusal } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { duration, readDuration, relative } from "../units.ts";

interface Options {
  owner?: string;
  for?: string;
}

const actions = ["show", "take", "renew", "release", "clear"] as const;

export default command<Options>({
  define: (it) => {
    it.argument("<action>", actions.join(", "))
      .argument("[path...]", "such as nightly/import, or a JSON list of labels")
      .option("--owner <name>", "take, renew, release: owner of the lock (default: this host's name)")
      .option("--for <time>", "take, renew: how long (default: 1m)")
      .addHelpText(
        "after",
        "\nshow without a path lists all locks. take locks all paths or none; it exits with 1 if another owner holds one of them, or a path above or below it." +
          "\nclear breaks all locks at and below a path, regardless of their owner.",
      );
  },
  run: async (context, { args: [action, ...words], options }) => {
    if (!actions.some((one) => one === action))
      throw new UsageError(`expected one of ${actions.join(", ")}, got ${action ?? ""}`);
    const paths = words.map(readPath);
    if (paths.length === 0 && action !== "show")
      throw new UsageError(`lock ${action ?? ""}: expected a path`);
    const owner = options.owner ?? hostname();
    const timeoutMs = readDuration(options.for ?? "60", "--for");
    if (timeoutMs === 0) throw new UsageError("--for: expected more than 0");
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const settle = (refusal: LockRefusal | null, done: string): number => {
      if (out.json) out.printJson({ done: refusal === null, refused: refusal });
      if (refusal !== null) throw refused(refusal, action ?? "");
      if (!out.json) out.line(done);
      return exit.done;
    };
    const named = paths.map(textOf).join(", ");
    switch (action) {
      case "show":
        return paths.length === 0
          ? showAll(context)
          : show(context, paths, await coordinate.readLocks(ns, paths));
      case "take":
        return settle(
          await coordinate.lock(ns, { owner, paths, timeoutMs }),
          `${named}: taken by ${quote(owner)} for ${duration(timeoutMs)}`,
        );
      case "renew":
        return settle(
          await coordinate.renewLocks(ns, { owner, paths, timeoutMs }),
          `${named}: ${quote(owner)} holds it for another ${duration(timeoutMs)}`,
        );
      case "release":
        return settle(await coordinate.unlock(ns, { owner, paths }), `${named}: released`);
      default:
        for (const path of paths) await coordinate.clearLocks(ns, path);
        return settle(null, `${named}: cleared`);
    }
  },
});

function show({ out }: Context, paths: readonly LockPath[], owners: readonly (string | null)[]): number {
  if (out.json) out.printJson(paths.map((path, i) => ({ path, owner: owners[i] ?? null })));
  else paths.forEach((path, i) => out.line(`${textOf(path)}: ${owner(owners[i] ?? null)}`));
  return exit.done;
}

async function showAll(context: Context): Promise<number> {
  const { out } = context;
  const { coordinate, ns } = await context.work();
  const locks: Lock[] = [];
  for await (const lock of eachRow((from) => coordinate.listLocks(ns, from))) locks.push(lock);
  const now = Date.now();
  if (out.json) out.printJson(locks);
  else
    out.table(
      [{ head: "Path", min: 20 }, { head: "Owner", min: 12 }, { head: "Ends" }],
      locks.map(({ path, owner, deadline }) => [textOf(path), owner, relative(deadline, now)]),
    );
  return exit.done;
}

const owner = (name: string | null): string => (name === null ? "(unlocked)" : quote(name));

function refused({ path, owner }: LockRefusal, action: string): CommandError {
  const free = action === "take" ? "a path above or below it is locked" : "it is not locked";
  const holder = owner === null ? free : `${quote(owner)} holds it`;
  return new CommandError(`${textOf(path)}: cannot ${action}: ${holder}`, "nothing was changed");
}

const textOf = (path: LockPath): string => (path.length === 0 ? "/" : path.map(quote).join("/"));

/** Labels between slashes; a label with a slash in it needs the JSON form. */
function readPath(text: string): LockPath {
  if (!text.startsWith("[")) return text.split("/").filter((label) => label !== "");
  try {
    const path = JSON.parse(text) as unknown;
    if (Array.isArray(path) && path.every((label): label is string => typeof label === "string")) return path;
  } catch {
    // the error is thrown below, in our own words
  }
  throw new UsageError(`expected a JSON list of labels, got ${text}`);
}
