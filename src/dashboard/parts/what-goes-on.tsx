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
function sayings(
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
        act: { label: "See the workers", to: { ns, page: "workers" } as const },
      }),
    });
  }
  if (counts.pending > 0) {
    const workers = new Set(held.map(({ worker }) => worker)).size;
    said.push({
      icon: "pending",
      tone: "pending",
      head: `It is being run: ${count(counts.pending)} at once${workers > 0 ? `, by ${plural(workers, "worker")}` : ""}.`,
      words: rates.out > 0 ? [`${rate(rates.out)}/s end.`] : [],
      act: { label: "See them", to: { ns, page: "units", spec: name, filters: { status: "pending" } } },
    });
  }
  if (explained !== undefined) {
    const excluded = explained.excluded;
    said.push(
      excluded === null
        ? {
            icon: "finished",
            tone: "finished",
            head: `A worker that asks now is given it with a chance of ${percent(explained.chance)}.`,
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
            head: `A worker that asks now is not given it: ${explained.reason}.`,
            words: [advice[excluded] ?? ""],
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
        counts.delayed > 0 ? `${count(counts.delayed)} wait for a time. ` : "",
        counts.blocked > 0 ? `${count(counts.blocked)} wait for other units.` : "",
      ],
      act: { label: "See them", to: { ns, page: "units", spec: name, filters: { status } } },
    });
  }
  if (look.workers === 0 && condition?.kind !== "nobody")
    said.push({
      icon: "workers",
      tone: "blocked",
      head: "No worker is active.",
      words: ["Nobody asks for work in this namespace."],
      act: { label: "Workers", to: { ns, page: "workers" } },
    });
  if (hasSchedule(meta.schedule))
    said.push({
      icon: "sched",
      tone: "available",
      head: meta.paused
        ? "It makes no units by its schedule while it is paused."
        : meta.nextRun === 0
          ? "Its schedule is over."
          : meta.nextRun > daemonNow()
            ? `It makes its next unit in ${duration(meta.nextRun - daemonNow())}.`
            : "It makes its next unit now.",
      words: [{ code: scheduleWords(meta.schedule) }],
      act: { label: "Schedules", to: { ns, page: "schedules" } },
    });
  if (meta.continuous)
    said.push({
      icon: "cont",
      tone: "available",
      head: `It makes a unit of its own every ${duration(meta.intervalMs)}.`,
      words: [
        meta.nextContinuous > daemonNow()
          ? `The next in ${duration(meta.nextContinuous - daemonNow())}.`
          : "The next when a worker asks.",
      ],
    });
  return said;
}

const advice: Readonly<Record<string, string>> = {
  paused: "Resume it, and what waits is handed out by its share.",
  breaker: "It goes on by itself when a probe finishes. Resume it, and it goes on at once.",
  no_weight: "Give it a weight above zero.",
  max_running: "More may run when one of them ends, or after raising max_running.",
  lower_priority: "Its turn comes when those have no work, or with a higher priority.",
  enough_running:
    "It has its share: its turn comes when others have caught up, or when some of its units end.",
  other_runtime: "No worker that was asked about has its runtime.",
  no_work: "Units that are added are handed out at once.",
};

export function WhatGoesOn({ spec, look }: { spec: SpecRow; look: NamespaceLook }): ReactNode {
  const { ns } = useHere();
  const failures = useFailures(ns, spec.name, spec.counts.failed > 0);
  return (
    <section className="card" aria-label="What goes on">
      <header>
        <h2>What goes on</h2>
        <span className="grow" />
        <span className="dim">from explain, for any worker</span>
      </header>
      <ul className="explain">
        {sayings(ns, spec, look, failures.data ?? []).map(({ icon, tone, head, words, act }) => (
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
