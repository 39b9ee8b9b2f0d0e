/** Actions on the selected units: counts the units, explains the change, and runs it as an operation that can be stopped. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { startOperation, type BulkAction, type BulkTarget } from "../data/bulk.ts";
import { client, sayError } from "../data/connection.ts";
import { rates } from "../data/counts.ts";
import { daemonNow } from "../data/session.ts";
import { queryOf, selectionOf, total, type UnitFilter } from "../data/units.ts";
import { clockTime, count, duration, plural, rate, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { exportUnits } from "./export.ts";
import { Confirm, type Fact } from "./dialog.tsx";
import { Icon } from "./icon.tsx";
import { Name, Trouble } from "./text.tsx";

export type Selected =
  | { readonly kind: "none" }
  | { readonly kind: "all" }
  | { readonly kind: "some"; readonly names: ReadonlySet<string> };

type Asked = BulkAction["kind"] | "export";

export function BulkBar(props: {
  ns: string;
  spec: string;
  filter: UnitFilter;
  selected: Selected;
  onDone: () => void;
}): ReactNode {
  const { may } = useHere();
  const { ns, spec, filter, selected, onDone } = props;
  const [asked, setAsked] = useState<Asked | null>(null);
  const names = selected.kind === "some" ? [...selected.names] : undefined;
  const target: BulkTarget = { ns, spec, ...(names === undefined ? { query: queryOf(filter) } : { names }) };
  return (
    <>
      <div className="bulk" role="toolbar" aria-label="Selected units">
        <span>
          <b>{names === undefined ? "All matching" : plural(names.length, "unit")}</b> in{" "}
          <Name text={spec} max={24} />
        </span>
        <span className="bs" />
        {may("write") && (
          <>
            <button type="button" className="btn p" onClick={() => setAsked("retry")}>
              Retry…
            </button>
            <button type="button" className="btn" onClick={() => setAsked("prioritise")}>
              Prioritise…
            </button>
            <button type="button" className="btn" onClick={() => setAsked("delay")}>
              Delay…
            </button>
          </>
        )}
        <button type="button" className="btn" onClick={() => setAsked("export")}>
          Export…
        </button>
        {may("write") && (
          <>
            <button type="button" className="btn d" onClick={() => setAsked("cancel")}>
              Cancel…
            </button>
            <button type="button" className="btn d" onClick={() => setAsked("delete")}>
              Delete…
            </button>
          </>
        )}
        <span className="grow" />
        <button type="button" className="icon-btn" aria-label="Clear selection" onClick={onDone}>
          <Icon name="x" />
        </button>
      </div>
      {asked !== null && (
        <Ask
          asked={asked}
          target={target}
          filter={filter}
          onClose={() => setAsked(null)}
          onStarted={onDone}
        />
      )}
    </>
  );
}

const verbs: Readonly<Record<Asked, string>> = {
  retry: "Retry",
  delete: "Delete",
  prioritise: "Prioritise",
  delay: "Delay",
  cancel: "Cancel",
  export: "Export",
};

export function Ask(props: {
  asked: Asked;
  target: BulkTarget;
  filter: UnitFilter;
  onClose: () => void;
  onStarted: () => void;
}): ReactNode {
  const { look } = useHere();
  const { asked, target, filter, onClose, onStarted } = props;
  const { ns, spec, names } = target;
  const [priority, setPriority] = useState("10");
  const [delay, setDelay] = useState("0");
  const [pace, setPace] = useState("");
  const [why, setWhy] = useState("");
  const [at] = useState(() => daemonNow());
  const counted = useQuery({
    queryKey: ["asked", ns, spec, names ?? filter],
    queryFn: () => client.countWorkUnits(ns, spec, names === undefined ? selectionOf(filter) : { names }),
    gcTime: 0,
    staleTime: Infinity,
  });
  if (counted.error !== null) return <Trouble text={sayError(counted.error)} />;
  if (counted.data === undefined) return null;
  const tally = counted.data;
  const number = total(tally);
  const title = `${verbs[asked]} ${plural(number, "unit")} of ${visible(spec).slice(0, 40)}`;
  const perSecond = Math.max(0, Number(pace) || 0);
  const start = (action: BulkAction, max?: number): void => {
    startOperation(target, action, {
      title:
        max === undefined
          ? title
          : `${verbs[asked]} the first ${plural(max, "unit")} of ${visible(spec).slice(0, 40)}`,
      total: Math.min(number, max ?? Infinity),
      perSecond,
      ...(max !== undefined && { max }),
    });
    onStarted();
  };
  const action = (): BulkAction => {
    switch (asked) {
      case "prioritise":
        return { kind: "prioritise", priority: Number(priority) || 0 };
      case "delay":
        return { kind: "delay", notBefore: Number(delay) > 0 ? daemonNow() + Number(delay) * 1000 : 0 };
      case "cancel":
        return { kind: "cancel", why: why.trim() };
      case "delete":
        return { kind: "delete" };
      default:
        return { kind: "retry" };
    }
  };
  const facts: Fact[] = [
    {
      term: "Affects",
      text: (
        <>
          <b>{count(number)}</b> {number === 1 ? "unit" : "units"}: {filterWords(target, filter)}. Counted at{" "}
          {clockTime(at)}.
        </>
      ),
    },
  ];
  const { out, overMs } = rates(ns, spec);
  const spent = look.byName.get(spec);
  if (asked === "retry") {
    const idle = tally.available + tally.delayed + tally.blocked;
    facts.push({
      term: "Cost",
      text:
        out > 0.05 && overMs > 0
          ? `About ${duration((number / out) * 1000)} of work at the current rate of ${rate(out)}/s.`
          : "As much work as before. No units of this work spec end now, so there is no estimate.",
    });
    if (tally.pending > 0)
      facts.push({
        term: "Warning",
        text: `${plural(tally.pending, "unit")} running now will be taken from their workers.`,
      });
    else if (idle === number)
      facts.push({ term: "Warning", text: "All of them are already waiting to run: nothing changes." });
    else if (tally.failed > 0 && spent?.condition?.kind === "failing")
      facts.push({
        term: "Warning",
        text: "Units of this work spec are failing now. These will likely fail again.",
      });
    facts.push({
      term: "Undo",
      text: "You can stop at any time; units retried by then stay retried. Attempts are kept, and retries are counted from 0.",
    });
  } else if (asked === "delete") {
    if (tally.pending > 0)
      facts.push({
        term: "Warning",
        text: `The results of ${plural(tally.pending, "unit")} running now will be rejected.`,
      });
    facts.push({
      term: "Undo",
      text: "Not possible: units and attempts are deleted. Export them first if you may need them.",
    });
  } else if (asked === "cancel") {
    const ended = tally.finished + tally.failed;
    facts.push({
      term: "Effect",
      text: "Units that have not ended fail with the reason cancelled. Running tasks are asked to stop.",
    });
    if (ended > 0)
      facts.push({
        term: "Warning",
        text: `${plural(ended, "unit")} that already ended will not change.`,
      });
    facts.push({ term: "Undo", text: "Retry them: they become available again." });
  } else if (asked === "prioritise") {
    facts.push({
      term: "Effect",
      text: "Units of higher priority are handed out first, within this work spec.",
    });
    facts.push({ term: "Undo", text: "Set another priority. The old priorities are not kept." });
  } else if (asked === "delay") {
    facts.push({
      term: "Effect",
      text: "Waiting units are not handed out before then. Other units do not change.",
    });
    facts.push({ term: "Undo", text: "Set a delay of 0: they can run at once." });
  } else {
    facts.push({
      term: "Output",
      text: "A JSON Lines file, one unit per line with its data. It is created in this tab.",
    });
  }
  return (
    <Confirm
      title={title}
      danger={asked === "delete" || asked === "cancel"}
      {...(asked === "delete" && number > 1000 && { typed: spec })}
      lead={
        asked === "retry" && (
          <p className="becomes">
            <span className="chip t-failed">
              <Icon name="failed" />
              ended
            </span>
            becomes
            <span className="chip t-available">
              <Icon name="available" />
              available
            </span>
          </p>
        )
      }
      facts={facts}
      fields={
        <>
          {asked === "prioritise" && (
            <label className="pace">
              Priority{" "}
              <input
                type="number"
                step="any"
                value={priority}
                onChange={(event) => setPriority(event.target.value)}
              />
            </label>
          )}
          {asked === "cancel" && (
            <label className="pace">
              Reason{" "}
              <input
                className="wide"
                value={why}
                maxLength={200}
                placeholder="optional, added to the error"
                onChange={(event) => setWhy(event.target.value)}
              />
            </label>
          )}
          {asked === "delay" && (
            <label className="pace">
              Not before{" "}
              <input type="number" min="0" value={delay} onChange={(event) => setDelay(event.target.value)} />{" "}
              seconds from now
            </label>
          )}
          {asked === "retry" && number > 100 && (
            <label className="pace">
              At most{" "}
              <input
                type="number"
                min="0"
                placeholder="all"
                value={pace}
                onChange={(event) => setPace(event.target.value)}
              />{" "}
              units per second{" "}
              {perSecond > 0 && <span className="dim">{duration((number / perSecond) * 1000)}</span>}
            </label>
          )}
        </>
      }
      also={
        (asked === "retry" || asked === "delete" || asked === "cancel") && number > 10
          ? { label: "Try 10 first", run: () => start(action(), 10) }
          : undefined
      }
      run={async () => {
        if (asked === "export") {
          await exportUnits(target, filter);
          onStarted();
        } else start(action());
      }}
      onClose={onClose}
    />
  );
}

function filterWords(
  { names }: BulkTarget,
  { statuses, prefix, label, error, withinMs }: UnitFilter,
): string {
  if (names !== undefined) return "your selection";
  const words = [
    statuses.length > 0 && statuses.join(" or "),
    prefix !== "" && `name begins with ${visible(prefix).slice(0, 60)}`,
    label !== "" && `labelled ${visible(label)}`,
    error !== "" && "failed with this error",
    withinMs > 0 && `ended in the last ${duration(withinMs)}`,
  ].filter((word) => word !== false);
  return words.length === 0 ? "all units of the work spec" : words.join(", ");
}
