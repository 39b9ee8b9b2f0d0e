/** `coordinate worker NAME`: shows the record of one worker, and what it works on. */
import { CoordinateError } from "../../core/index.ts";
import type { Context } from "../context.ts";
import { quote, show } from "../escape.ts";
import { exit } from "../failure.ts";
import { duration, relative, time } from "../units.ts";
import { environment } from "./workers.ts";

const few = 20;

export async function showWorker(context: Context, name: string): Promise<number> {
  const { out } = context;
  const { coordinate, ns } = await context.work();
  const [row] = await coordinate.getWorkers(ns, [name]);
  if (row === null || row === undefined) throw new CoordinateError("no_such_worker", quote(name));
  const [active, children, all] = await Promise.all([
    coordinate.listWorkerAttempts(ns, name, { which: "active", limit: few }),
    coordinate.listWorkers(ns, { parent: name, limit: few }),
    coordinate.listWorkerAttempts(ns, name, { which: "all", limit: few }),
  ]);
  if (out.json) {
    out.printJson({
      ...row,
      attempts: active.rows,
      children: children.rows.map((child) => child.name),
      recent: all.rows,
    });
    return exit.done;
  }
  const now = Date.now();
  out.line(`${out.paint("bold", show(row.name))}  ${row.active ? "active" : "not active"}`);
  const facts: [label: string, text: string][] = [
    ["Mode", row.mode],
    ["Desired", row.desired],
    ["Parent", row.parent ?? ""],
    ["Children", children.rows.map((child) => child.name).join(", ") + (children.next === null ? "" : ", …")],
    [
      "Last seen",
      row.lastUpdate === 0 ? "never" : `${time(row.lastUpdate, now)}, ${relative(row.lastUpdate, now)}`,
    ],
    ["Expires", row.expiration === 0 ? "" : `${time(row.expiration, now)}, ${relative(row.expiration, now)}`],
  ];
  for (const [label, text] of facts) if (text !== "") out.line(`  ${`${label}:`.padEnd(11)} ${show(text)}`);
  const entries = environment(row);
  if (entries.length > 0) out.line("  Environment:");
  for (const [key, value] of entries) out.line(`    ${show(key)}: ${show(value)}`);
  out.line();
  const attempts = all.rows.length > 0 ? all.rows : active.rows;
  if (attempts.length === 0) out.line("No attempts yet.");
  else
    out.table(
      [
        { head: "Work spec", min: 8 },
        { head: "Work unit", min: 8 },
        { head: "Status" },
        { head: "Started" },
        { head: "Took", align: "right" },
      ],
      attempts.map((attempt) => [
        attempt.workSpec,
        attempt.workUnit,
        attempt.status,
        time(attempt.startTime, now),
        duration((attempt.endTime === 0 ? now : attempt.endTime) - attempt.startTime),
      ]),
    );
  if (all.next !== null) out.remark("… and more");
  return exit.done;
}
