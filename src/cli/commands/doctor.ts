/** `coordinate doctor`: checks everything that can be wrong, and says what to do about it. */
import { accessSync, constants, statfsSync, statSync } from "node:fs";
import path from "node:path";
import type { Coordinate, TallyRow } from "../../core/index.ts";
import { version } from "../../daemon/version.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, show } from "../escape.ts";
import { explainConnection } from "../explain-connection.ts";
import { CommandError, exit } from "../failure.ts";
import type { Opened } from "../open.ts";
import type { Style } from "../table.ts";
import { ableWorkers } from "../able-workers.ts";
import { aboutEmptyNamespace } from "../naming.ts";
import { bytes, count, counted, duration } from "../units.ts";
import { listWorkers } from "../worker-list.ts";
import { stuckSpecs, stuckText } from "./explain.ts";

type Grade = "ok" | "note" | "wrong";

interface Finding {
  about: string;
  grade: Grade;
  text: string;
  /** What to do; empty when there is nothing to do. */
  advice: string;
}

type Tell = (about: string, grade: Grade, text: string, advice?: string) => void;

const styles: Readonly<Record<Grade, Style>> = { ok: "green", note: "yellow", wrong: "red" };

export default command<{ deep?: boolean }>({
  define: (it) => {
    it.option("--deep", "check the whole SQLite file for damage").addHelpText(
      "after",
      "\nExits with 1 when something is wrong. Notes do not change the exit code.",
    );
  },
  run: async (context, { options }) => {
    const findings: Finding[] = [];
    const tell: Tell = (about, grade, text, advice = "") => findings.push({ about, grade, text, advice });
    aboutNode(tell);
    const opened = await reach(context, tell);
    if (opened !== null) {
      if (opened.rest !== null) await aboutDaemon(context, tell);
      if (opened.sqlite !== null) await aboutSqlite(opened, tell, options.deep === true);
      await aboutRights(context, opened, tell);
      const tellFirst: Tell = (about, grade, text, advice = "") =>
        findings.unshift({ about, grade, text, advice });
      await aboutWork(context, tell, tellFirst);
    }
    print(context, findings);
    return findings.some(({ grade }) => grade === "wrong") ? exit.failed : exit.done;
  },
});

function print({ out }: Context, findings: readonly Finding[]): void {
  if (out.json) {
    out.printJson(findings);
    return;
  }
  for (const { about, grade, text, advice } of findings) {
    const mark = out.paint(styles[grade], grade.padEnd(5));
    out.sentence(`${mark}  ${about.padEnd(11)}${text}`, " ".repeat(18));
    if (advice !== "") out.sentence(`${" ".repeat(18)}${advice}`, " ".repeat(18));
  }
}

function aboutNode(tell: Tell): void {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const old = major < 20 || (major === 20 && minor < 19);
  if (old) tell("version", "wrong", `Node ${process.versions.node}`, "Coordinate needs Node 20.19 or later.");
  else tell("version", "ok", `coordinate ${version} on Node ${process.versions.node}`);
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Opens the target and sends a small request; on failure returns null and reports a finding. */
async function reach(context: Context, tell: Tell): Promise<Opened | null> {
  try {
    const opened = await context.opened();
    const start = performance.now();
    await opened.coordinate.getNamespace(await context.namespace());
    const took = performance.now() - start;
    tell("reach", took > 1000 ? "note" : "ok", `${show(opened.where)} answers in ${duration(took)}`);
    return opened;
  } catch (error) {
    const { address, backend } = await context.target();
    const where = backend ?? address ?? "http://127.0.0.1:5980";
    const told = await explainConnection(error, context.session.target);
    tell("reach", "wrong", `${show(where)}: ${messageOf(told)}`, adviceOf(told, backend !== undefined));
    return null;
  }
}

function adviceOf(error: unknown, store: boolean): string {
  if (error instanceof CommandError) return `${error.hint[0]?.toUpperCase() ?? ""}${error.hint.slice(1)}.`;
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
  if (code === "unauthorized")
    return "Set COORDINATE_TOKEN or --token. coordinate token create creates a token.";
  if (code === "forbidden")
    return "This token has no access to the namespace; coordinate token list shows its namespaces and scopes.";
  if (code === "not_coordinate")
    return "Another program answers at this address; a daemon serves REST on port 5980.";
  if (store) return "Check the path and its permissions. Only one process at a time can own an SQLite store.";
  return "Start a daemon with coordinate serve, or give its address with --address or COORDINATE_ADDRESS.";
}

/** Checks the daemon's version and whether its clock agrees with ours. */
async function aboutDaemon(context: Context, tell: Tell): Promise<void> {
  const { address = "http://127.0.0.1:5980" } = await context.target();
  const [first = ""] = address.split(",");
  if (!/^https?:/.test(first)) return;
  try {
    const sent = Date.now();
    const answer = await fetch(new URL("/openapi.json", first), { signal: AbortSignal.timeout(5000) });
    const received = Date.now();
    const document = (await answer.json()) as { info?: { version?: string } };
    const theirs = document.info?.version ?? "unknown";
    if (theirs === version) tell("daemon", "ok", `version ${theirs}`);
    else
      tell(
        "daemon",
        "note",
        `version ${theirs}, this is ${version}`,
        "Upgrade both to the same version, the daemon first.",
      );
    const date = Date.parse(answer.headers.get("date") ?? "");
    // the Date header is in whole seconds: assume the middle of the second
    const skew = date + 500 - (sent + received) / 2;
    if (Number.isNaN(date)) tell("clock", "note", "the daemon does not send its time");
    else if (Math.abs(skew) > 2500 + (received - sent))
      tell(
        "clock",
        "note",
        `the daemon's clock differs from this one by ${duration(Math.abs(skew))}`,
        "Times shown here are off by that much. Synchronize both clocks, for example with NTP.",
      );
    else tell("clock", "ok", "agrees with the daemon's");
  } catch (error) {
    tell("daemon", "note", `its version is unknown: ${messageOf(error)}`);
  }
}

async function aboutSqlite({ sqlite, where }: Opened, tell: Tell, deep: boolean): Promise<void> {
  if (sqlite === null) return;
  const file = where.slice("sqlite:".length);
  const facts = await sqlite.statistics();
  tell(
    "store",
    "ok",
    `${bytes(facts.fileBytes)}, ${counted(facts.units, "unit")}, SQLite ${facts.sqliteVersion} (${facts.driver}), schema ${facts.schemaVersion}`,
  );
  if (facts.logBytes > Math.max(256 * 1024 * 1024, facts.fileBytes))
    tell(
      "store",
      "note",
      `the write-ahead log has ${bytes(facts.logBytes)}`,
      "A long-running reader keeps it from shrinking.",
    );
  const free = facts.freePages * facts.pageSize;
  if (free > facts.fileBytes / 2 && free > 64 * 1024 * 1024)
    tell(
      "store",
      "note",
      `${bytes(free)} of the file is unused`,
      "Replace the file with a backup of it, which is smaller.",
    );
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0)
    tell(
      "rights",
      "note",
      `${file} can be read by other users (mode ${mode.toString(8)})`,
      `chmod 600 ${file}`,
    );
  try {
    accessSync(path.dirname(path.resolve(file)), constants.W_OK);
    accessSync(file, constants.W_OK);
  } catch {
    tell(
      "rights",
      "wrong",
      `${file} or its directory is not writable for this user`,
      "Run as its owner; SQLite also creates files next to it.",
    );
  }
  const disk = statfsSync(path.dirname(path.resolve(file)));
  const room = disk.bavail * disk.bsize;
  if (room < Math.max(256 * 1024 * 1024, facts.fileBytes / 10))
    tell(
      "disk",
      "wrong",
      `only ${bytes(room)} free`,
      "A full disk makes the store refuse work: free some space, or move the store.",
    );
  else tell("disk", "ok", `${bytes(room)} free`);
  if (!deep) return;
  const { ok, problems } = await sqlite.check();
  if (ok) tell("store", "ok", "checked: no damage");
  else
    tell(
      "store",
      "wrong",
      `damaged: ${problems.slice(0, 3).join("; ")}`,
      "Restore a backup, and check the disk.",
    );
}

/** Tries one harmless call per scope to find out what the token allows. */
async function aboutRights(context: Context, { rest, coordinate }: Opened, tell: Tell): Promise<void> {
  if (rest === null) return;
  const ns = await context.namespace();
  const tries: [scope: string, call: () => Promise<unknown>][] = [
    ["read", () => coordinate.getWorkSpecs(ns, [])],
    ["work", () => coordinate.settleAttempts(ns, [])],
    ["write", () => coordinate.deleteWorkSpecs(ns, [])],
  ];
  const may: string[] = [];
  const mayNot: string[] = [];
  for (const [scope, call] of tries)
    await call().then(
      () => may.push(scope),
      () => mayNot.push(scope),
    );
  const { token } = await context.target();
  const who = token === undefined ? "without a token you" : "this token";
  if (mayNot.length === 0) tell("rights", "ok", `${who} may ${may.join(", ")}`);
  else
    tell(
      "rights",
      "note",
      `${who} may ${may.join(", ") || "nothing"}, but not ${mayNot.join(", ")}`,
      "coordinate token create --scope creates one with more rights.",
    );
}

/** Checks whether waiting work can be done. Work that no worker can take is reported first. */
async function aboutWork(context: Context, tell: Tell, tellFirst: Tell): Promise<void> {
  const { coordinate, ns } = await context.work();
  let tally: TallyRow[];
  try {
    tally = await coordinate.tally(ns);
  } catch (error) {
    tell("work", "wrong", messageOf(error));
    return;
  }
  if (tally.length === 0) {
    tell(
      "work",
      "note",
      await aboutEmptyNamespace(coordinate, ns),
      "coordinate namespaces lists all namespaces.",
    );
    return;
  }
  const sum = (status: "available" | "pending" | "failed"): number =>
    tally.reduce((all, { counts }) => all + counts[status], 0);
  tell(
    "work",
    "ok",
    `${counted(tally.length, "work spec")}, ${counted(sum("available"), "unit")} available, ${count(sum("pending"))} pending`,
  );
  const failed = tally.filter(({ counts }) => counts.failed > 0);
  if (failed.length > 0) {
    const [worst] = [...failed].sort((a, b) => b.counts.failed - a.counts.failed);
    tell(
      "work",
      "note",
      `${counted(sum("failed"), "unit")} failed, most in ${quote(worst?.workSpec ?? "")}`,
      `coordinate work_units ${quote(worst?.workSpec ?? "")} -s failed --details -n 3`,
    );
  }
  await aboutPaused(coordinate, ns, tally, tell);
  const { rows } = await listWorkers(coordinate, ns, { active: true }, 1000);
  const { settings } = await coordinate.getNamespace(ns);
  const explained = await coordinate.explain(ns, {});
  const stuck = stuckSpecs(explained, await ableWorkers(coordinate, ns, rows));
  if (stuck.length === 0 || rows.length > 0) tell("workers", "ok", `${count(rows.length)} active`);
  if (stuck.length > 0 && rows.length === 0)
    tellFirst(
      "workers",
      "note",
      `work is waiting and no worker is active: ${stuckText(stuck)}`,
      "coordinate worker starts one.",
    );
  else if (stuck.length > 0)
    tellFirst(
      "workers",
      // not a problem when an operator told the workers to idle or terminate
      settings.desired === "run" ? "wrong" : "note",
      `work is waiting and no active worker can take it: ${stuckText(stuck)}`,
      `coordinate explain ${quote(stuck[0]?.workSpec ?? "")} shows why.`,
    );
  if (settings.desired !== "run")
    tell(
      "workers",
      "note",
      `all workers were told to ${settings.desired}`,
      "Start them again with coordinate mode run.",
    );
}

async function aboutPaused(
  coordinate: Coordinate,
  ns: string,
  tally: readonly TallyRow[],
  tell: Tell,
): Promise<void> {
  const { rows } = await coordinate.listWorkSpecs(ns, { limit: 1000 });
  const waiting = new Map(tally.map(({ workSpec, counts }) => [workSpec, counts.available]));
  const paused = rows.filter(({ name, meta }) => meta.paused && (waiting.get(name) ?? 0) > 0);
  if (paused.length > 0)
    tell(
      "work",
      "note",
      `${paused
        .map(({ name }) => quote(name))
        .slice(0, 5)
        .join(", ")}: paused, and units are waiting`,
      `coordinate resume ${quote(paused[0]?.name ?? "")}`,
    );
}
