/** Why a work spec runs or does not, in words, for the workers that exist. */
import type { ReactNode } from "react";
import { hasSchedule, type FailureRow, type WorkUnitStatus } from "../../core/index.ts";
import { withError, type Words } from "../attention.ts";
import { useFailures } from "../data/failures.ts";
import type { NamespaceLook, SpecRow } from "../data/look.ts";
import { daemonNow } from "../data/session.ts";
import { count, duration, percent, plural, rate, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon, type IconName } from "./icon.tsx";
import { Link } from "./text.tsx";
import { Sentence } from "./words.tsx";
import type { Route } from "../route.ts";
import { scheduleWords } from "./schedule-words.ts";

interface Said {
  readonly icon: IconName;
  readonly tone: string;
  readonly head: string;
  readonly words: Words;
  readonly act?: { readonly label: string; readonly to: Route };
}

/** `explain` in words: the state, its evidence, and where to act on it. */
function statements(
  ns: string,
  { name, condition, counts, meta, explained, rates, held }: SpecRow,
  look: NamespaceLook,
  failures: readonly FailureRow[],
): Said[] {
  const said: Said[] = [];
  if (condition !== null && condition.kind !== "paused") {
    said.push({
      icon: condition.icon,
      tone: condition.level === "critical" ? "failed" : "blocked",
      head: `${condition.title}.`,
      words: withError(condition, failures),
      ...(condition.kind === "nobody" && {
        act: { label: "View workers", to: { ns, page: "workers" } as const },
      }),
    });
  }
  if (counts.pending > 0) {
    const workers = new Set(held.map(({ worker }) => worker)).size;
    said.push({
      icon: "pending",
      tone: "pending",
      head: `${plural(counts.pending, "unit")} running${workers > 0 ? ` on ${plural(workers, "worker")}` : ""}.`,
      words: rates.out > 0 ? [`${rate(rates.out)} units end per second.`] : [],
      act: { label: "View units", to: { ns, page: "units", spec: name, filters: { status: "pending" } } },
    });
  }
  if (explained !== undefined) {
    const excluded = explained.excluded;
    said.push(
      excluded === null
        ? {
            icon: "finished",
            tone: "finished",
            head: `A worker that requests work now gets a unit of it with ${percent(explained.chance)} probability.`,
            words: [
              "Weight ",
              { strong: String(explained.weight) },
              ", priority ",
              { strong: String(explained.priority) },
              ".",
            ],
          }
        : {
            icon: excluded === "paused" ? "paused" : excluded === "no_work" ? "available" : "blocked",
            tone: excluded === "no_work" ? "available" : "blocked",
            // a condition above has said why; that of a paused work spec is not listed
            head:
              excluded !== "paused" && condition?.kind === excluded
                ? "Not scheduled now."
                : `Not scheduled now: ${explained.reason}.`,
            words: [advice[excluded] ?? ""],
            ...(excluded === "limit" && {
              act: { label: "View limits", to: { ns, page: "limits" } as const },
            }),
          },
    );
  }
  if (counts.available === 0 && (counts.delayed > 0 || counts.blocked > 0)) {
    const status: WorkUnitStatus = counts.delayed > 0 ? "delayed" : "blocked";
    said.push({
      icon: status,
      tone: status,
      head: `${plural(counts.delayed + counts.blocked, "unit")} cannot run yet.`,
      words: [
        counts.delayed > 0 ? `${count(counts.delayed)} delayed until a set time. ` : "",
        counts.blocked > 0 ? `${count(counts.blocked)} waiting for other units.` : "",
      ],
      act: { label: "View units", to: { ns, page: "units", spec: name, filters: { status } } },
    });
  }
  if (look.workers === 0 && condition?.kind !== "nobody")
    said.push({
      icon: "workers",
      tone: "blocked",
      head: "No worker is active.",
      words: ["Units of this namespace wait until a worker starts."],
      act: { label: "Workers", to: { ns, page: "workers" } },
    });
  if (hasSchedule(meta.schedule))
    said.push({
      icon: "sched",
      tone: "available",
      head: meta.paused
        ? "Its schedule creates no units while it is paused."
        : meta.nextRun === 0
          ? "Its schedule has ended."
          : meta.nextRun > daemonNow()
            ? `Its schedule creates the next unit in ${duration(meta.nextRun - daemonNow())}.`
            : "Its schedule creates the next unit now.",
      words: [{ code: scheduleWords(meta.schedule) }],
      act: { label: "Schedules", to: { ns, page: "schedules" } },
    });
  if (meta.continuous)
    said.push({
      icon: "cont",
      tone: "available",
      head: `Continuous: creates a unit every ${duration(meta.intervalMs)}.`,
      words: [
        meta.nextContinuous > daemonNow()
          ? `Next in ${duration(meta.nextContinuous - daemonNow())}.`
          : "Next when a worker requests work.",
      ],
    });
  return said;
}

const advice: Readonly<Record<string, string>> = {
  paused: "Resume it to hand out its waiting units.",
  breaker: "It continues by itself when a probe succeeds. Resume it to continue at once.",
  no_weight: "Set a weight above 0.",
  max_running: "More units can start when a running one ends, or when you raise max_running.",
  rate: "More units can start when its rate allows it, or when you change the rate.",
  limit: "More units can start when the limit allows it, or when you change the limit.",
  partitions: "More units can start when a limit of their partitions allows it.",
  lower_priority: "Its units are handed out when the others have no work, or when you raise its priority.",
  enough_running: "It is scheduled again when some of its units end, or when other work specs catch up.",
  other_runtime: "The worker does not support its runtime.",
  no_work: "New units can be claimed at once.",
};

export function WhatGoesOn({ spec, look }: { spec: SpecRow; look: NamespaceLook }): ReactNode {
  const { ns } = useHere();
  const failures = useFailures(ns, spec.name, spec.counts.failed > 0);
  return (
    <section className="card" aria-label="Current state">
      <header>
        <h2>Current state</h2>
        <span className="grow" />
        <span className="dim">from explain, for any worker</span>
      </header>
      <ul className="explain">
        {statements(ns, spec, look, failures.data ?? []).map(({ icon, tone, head, words, act }) => (
          <li key={head}>
            <span className={`t-${tone}`}>
              <Icon name={icon} />
            </span>
            <span>
              <b>{visible(head)}</b> <Sentence words={words} />
            </span>
            {act === undefined ? (
              <span />
            ) : (
              <Link to={act.to} className="btn s q">
                {act.label}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
