/** Which workers can run which work specs, and what the others lack. */
import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ScheduleRequest, WorkerRow } from "../../core/index.ts";
import { client } from "../data/connection.ts";
import { every } from "../data/live.ts";
import { toldOf } from "../data/workers.ts";
import { plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "./icon.tsx";
import { Link, Name } from "./text.tsx";

/** For each kind of worker that says what it asks for: what the scheduler would give it, and why not. */
export function WhoCanRun({ workers }: { workers: readonly WorkerRow[] }): ReactNode {
  const { ns, look } = useHere();
  const kinds = new Map<string, { request: ScheduleRequest; workers: number; title: string }>();
  for (const worker of workers) {
    for (const request of toldOf(worker).asks ?? []) {
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
        <span className="dim">explain, for each kind of worker that exists</span>
      </header>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Work spec</th>
              <th scope="col">Needs runtime</th>
              <th className="r lo" scope="col">
                Needs GB
              </th>
              {columns.map(({ title, workers: number }) => (
                <th key={title} className="r" scope="col">
                  {title} · {plural(number, "worker")}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {look.specs.map(({ name, meta }) => (
              <tr key={name} data-row tabIndex={-1}>
                <td>
                  <Link to={{ ns, page: "spec", spec: name }} className="name">
                    <Name text={name} max={32} />
                  </Link>
                </td>
                <td>
                  <code>{meta.runtime === "" ? "" : visible(meta.runtime)}</code>
                </td>
                <td className="r lo">{meta.minGb === 0 ? <span className="z">0</span> : meta.minGb}</td>
                {answers.map(({ data }, i) => {
                  const one = data?.find(({ workSpec }) => workSpec === name);
                  return (
                    <td key={i} className="r">
                      {one === undefined ? (
                        ""
                      ) : one.excluded === null ||
                        one.excluded === "no_work" ||
                        one.excluded === "enough_running" ||
                        one.excluded === "continuous_not_due" ||
                        one.excluded === "schedule_not_due" ||
                        one.excluded === "continuous_pending" ? (
                        <span className="yes" title={one.reason}>
                          <Icon name="tick" label="can" />{" "}
                          {one.excluded === null ? "" : <span className="dim">{short[one.excluded]}</span>}
                        </span>
                      ) : (
                        <span
                          className={
                            one.excluded === "other_runtime" ||
                            one.excluded === "no_task" ||
                            one.excluded === "needs_memory"
                              ? "no"
                              : "lim"
                          }
                          title={visible(one.reason)}
                        >
                          {short[one.excluded] ?? visible(one.reason)}
                        </span>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const short: Readonly<Record<string, string>> = {
  no_work: "no work now",
  enough_running: "has its share",
  continuous_not_due: "not due",
  schedule_not_due: "not due",
  continuous_pending: "runs",
  paused: "paused",
  no_weight: "no weight",
  other_runtime: "other runtime",
  needs_memory: "needs more memory",
  no_task: "has no such task",
  other_work_spec: "takes other work specs",
  max_running: "at its max_running",
  lower_priority: "lower priority",
  preempted: "successors first",
};
