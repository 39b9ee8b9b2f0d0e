/** Which workers can run which work specs, and what the others lack. */
import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Explained, ScheduleRequest, WorkerRow } from "../../core/index.ts";
import { client } from "../data/connection.ts";
import { every } from "../data/live.ts";
import { reportOf } from "../data/workers.ts";
import { plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "./icon.tsx";
import { Table } from "./table.tsx";
import { Link, Name } from "./text.tsx";

/** For each distinct request that workers report: the work specs that the scheduler would give it, and why not the others. */
export function WhoCanRun({ workers }: { workers: readonly WorkerRow[] }): ReactNode {
  const { ns, look } = useHere();
  const kinds = new Map<string, { request: ScheduleRequest; workers: number; title: string }>();
  for (const worker of workers) {
    for (const request of reportOf(worker).asks ?? []) {
      const key = JSON.stringify(request);
      const runtimes = (request.runtimes ?? []).map((one) => (one === "" ? "(none)" : visible(one)));
      const title = [runtimes.join(", "), ...(request.labels ?? []).map(visible)].join(" · ");
      const kind = kinds.get(key) ?? { request, workers: 0, title };
      kinds.set(key, { ...kind, workers: kind.workers + 1 });
    }
  }
  const columns = [...kinds.values()].slice(0, 4);
  const answers = useQueries({
    queries: columns.map(({ request }) => ({
      queryKey: ["explain", ns, request],
      queryFn: () => client.explain(ns, request),
      refetchInterval: every(15_000),
    })),
  });
  if (columns.length === 0 || look.specs === undefined || look.specs.length === 0) return null;
  return (
    <section className="card cm" aria-label="Who can run what">
      <header>
        <h2>Who can run what</h2>
        <span className="grow" />
        <span className="dim">from explain, for each kind of active worker</span>
      </header>
      <Table
        heads={[
          "Work spec",
          "Requires",
          { text: "Min. GB", className: "r lo" },
          ...columns.map(({ title, workers: number }) => ({
            text: `${title} · ${plural(number, "worker")}`,
            className: "r",
          })),
        ]}
      >
        {look.specs.map(({ name, meta }) => (
          <tr key={name} data-row tabIndex={-1}>
            <td>
              <Link to={{ ns, page: "spec", spec: name }} className="name">
                <Name text={name} max={32} />
              </Link>
            </td>
            <td>
              <code>{visible([meta.runtime, ...meta.requires].filter((one) => one !== "").join(", "))}</code>
            </td>
            <td className="r lo">{meta.minGb === 0 ? <span className="z">0</span> : meta.minGb}</td>
            {answers.map(({ data }, i) => {
              const one = data?.find(({ workSpec }) => workSpec === name);
              return (
                <td key={i} className="r">
                  {one === undefined ? null : <Verdict explained={one} />}
                </td>
              );
            })}
          </tr>
        ))}
      </Table>
    </section>
  );
}

/**
 * "yes": such a worker can run it, now or when there is work. "no": it cannot. "held": it could, but something holds the work
 * spec back.
 */
const verdicts: Readonly<
  Record<NonNullable<Explained["excluded"]>, readonly [verdict: "yes" | "no" | "held", words: string]>
> = {
  no_work: ["yes", "no work now"],
  enough_running: ["yes", "at its share"],
  continuous_not_due: ["yes", "not due"],
  schedule_not_due: ["yes", "not due"],
  continuous_pending: ["yes", "running"],
  other_runtime: ["no", "other runtime"],
  needs_memory: ["no", "needs more memory"],
  needs_labels: ["no", "lacks a label"],
  no_task: ["no", "has no such task"],
  other_work_spec: ["no", "takes other work specs"],
  paused: ["held", "paused"],
  not_before: ["held", "starts later"],
  no_weight: ["held", "no weight"],
  max_running: ["held", "at its max_running"],
  breaker: ["held", "held by its breaker"],
  rate: ["held", "at its rate"],
  limit: ["held", "at a shared limit"],
  partitions: ["held", "partitions are full"],
  lower_priority: ["held", "lower priority"],
  preempted: ["held", "successors first"],
};

function Verdict({ explained: { excluded, reason } }: { explained: Explained }): ReactNode {
  const [verdict, words] = excluded === null ? (["yes", ""] as const) : verdicts[excluded];
  if (verdict === "yes")
    return (
      <span className="yes" title={visible(reason)}>
        <Icon name="tick" label="can" /> <span className="dim">{words}</span>
      </span>
    );
  return (
    <span className={verdict === "no" ? "no" : "lim"} title={visible(reason)}>
      {words}
    </span>
  );
}
