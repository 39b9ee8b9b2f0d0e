/** Describes the schedule of a work spec in words. */
import type { Schedule } from "../../core/index.ts";
import { duration, exactTime, plural } from "../format.ts";

/** "0 3 * * *, Europe/Brussels; overlapping runs wait". */
export function scheduleWords(schedule: Schedule): string {
  const { cron, timezone, everyMs, at, end, jitterMs, catchUp, overlap } = schedule;
  return [
    cron !== undefined && `${cron}, ${timezone ?? "UTC"}`,
    everyMs !== undefined && `every ${duration(everyMs)}`,
    at !== undefined && `on ${plural(at.length, "date")}`,
    overlap === "skip" && "skips overlapping runs",
    overlap === "wait" && "overlapping runs wait",
    catchUp !== undefined &&
      catchUp !== 1 &&
      (catchUp === 0 ? "missed runs are skipped" : `catches up on ${catchUp} missed runs`),
    jitterMs !== undefined && jitterMs > 0 && `spread over ${duration(jitterMs)}`,
    end !== undefined && `until ${exactTime(end).slice(0, 16).replace("T", " ")} UTC`,
  ]
    .filter((part) => part !== false)
    .join("; ");
}
