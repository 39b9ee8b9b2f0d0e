/** Units: found by prefix, status, label, failure group and time; loaded page by page; changed one by one or all that match. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type SyntheticEvent, type ReactNode } from "react";
import { workUnitStatuses, type WorkUnitRow } from "../../core/index.ts";
import { sayError } from "../data/connection.ts";
import { useLive } from "../data/live.ts";
import { useFailures } from "../data/failures.ts";
import {
  errorLine,
  errorOf,
  isCounted,
  total,
  useMatching,
  useUnits,
  type UnitFilter,
} from "../data/units.ts";
import { commandLine, count, duration, percent, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { AddUnits } from "../parts/add-units.tsx";
import { BulkBar, type Selected } from "../parts/bulk-bar.tsx";
import { Icon } from "../parts/icon.tsx";
import { Menu } from "../parts/menu.tsx";
import { AttemptGlyph, StatusGlyph, statusOrder } from "../parts/status.tsx";
import { Ago, Command, Link, Name, Trouble } from "../parts/text.tsx";
import { WorkerAttempts } from "../parts/worker-attempts.tsx";
import { go, type Route } from "../route.ts";
import "./units.css";

export default function Units(): ReactNode {
  const { ns, route, look } = useHere();
  const { specs } = look;
  if (specs === undefined) return null;
  const first = [...specs].sort((a, b) => total(b.counts) - total(a.counts))[0];
  if (first === undefined)
    return (
      <section className="card blank">
        <h1>No units yet</h1>
        <p>Units belong to a work spec. Create one first:</p>
        <Command text={commandLine(ns, "flow", "flow.yaml")} />
      </section>
    );
  const worker = route.filters?.worker ?? "";
  if (worker !== "") return <WorkerAttempts key={worker} worker={worker} />;
  const spec = route.spec ?? first.name;
  return <List key={`${ns} ${spec}`} spec={spec} />;
}

function readFilter(filters: Readonly<Record<string, string | undefined>> = {}): UnitFilter {
  const wanted = (filters.status ?? "").split(",");
  return {
    statuses: workUnitStatuses.filter((status) => wanted.includes(status)),
    prefix: filters.prefix ?? "",
    label: filters.label ?? "",
    error: filters.error ?? "",
    withinMs: spans[filters.within ?? ""] ?? 0,
  };
}

/** The maximum time since a unit ended, by its name in the URL. */
const spans: Readonly<Record<string, number>> = {
  "15m": 900_000,
  "1h": 3_600_000,
  "24h": 86_400_000,
  "7d": 604_800_000,
};

function List({ spec }: { spec: string }): ReactNode {
  const { ns, route, look, may } = useHere();
  const filter = useMemo(() => readFilter(route.filters), [route.filters]);
  const units = useUnits(ns, spec, filter);
  const counts = look.byName.get(spec)?.counts;
  const matching = useMatching(ns, spec, filter, !isCounted(filter));
  const [selected, setSelected] = useSelection(filter);
  const rows = useMemo(() => units.data?.pages.flatMap((page) => page.rows) ?? [], [units.data]);
  const isAdding = route.filters?.add === "1";
  const show = (filters: Record<string, string | undefined>): void =>
    go({ ns, page: "units", spec, filters: { ...route.filters, ...filters } });
  const exact = isCounted(filter)
    ? counts &&
      (filter.statuses.length === 0
        ? total(counts)
        : filter.statuses.reduce((sum, one) => sum + counts[one], 0))
    : matching.data && total(matching.data);
  const tabs = isCounted(filter) ? counts : undefined;
  // a failure group has only failed units, and the time filter is for the end of failed units
  const at = (status: string): Route => ({
    ns,
    page: "units",
    spec,
    filters: { ...route.filters, status, error: "", ...(status !== "failed" && { within: "" }) },
  });
  const failedOnly = filter.error !== "" || (filter.statuses.length === 1 && filter.statuses[0] === "failed");
  return (
    <>
      <h1 className="sr">Units</h1>
      <div className="qbar">
        <Search spec={spec} filter={filter} show={show} />
        {may("write") && (
          <button type="button" className="btn" onClick={() => show({ add: "1" })}>
            <Icon name="plus" />
            Add units
          </button>
        )}
      </div>
      <section className={selected.kind === "none" ? "card ul" : "card ul selecting"} aria-label="Units">
        <header className="fac">
          <Link to={at("")} {...(filter.statuses.length === 0 && filter.error === "" && { current: true })}>
            All
          </Link>
          {statusOrder.map((status) => (
            <Link
              key={status}
              to={at(status)}
              {...(filter.statuses.length === 1 && filter.statuses[0] === status && { current: true })}
            >
              <StatusGlyph status={status} />
              {status[0]!.toUpperCase() + status.slice(1)}{" "}
              {tabs !== undefined && <span className="fn">{count(tabs[status])}</span>}
            </Link>
          ))}
          <span className="grow" />
          {failedOnly && (
            <label className="pick">
              <span className="dim">ended</span>
              <select
                value={route.filters?.within ?? ""}
                onChange={(event) => show({ within: event.target.value })}
              >
                <option value="">any time</option>
                {Object.entries(spans).map(([word, ms]) => (
                  <option key={word} value={word}>
                    in the last {duration(ms)}
                  </option>
                ))}
              </select>
            </label>
          )}
          <span className="dim" aria-live="polite">
            {exact === undefined ? "counting…" : `${count(exact)} matching, by name`}
          </span>
        </header>
        {units.error !== null && <Trouble text={sayError(units.error)} />}
        <SelectionNote selected={selected} shown={rows.length} exact={exact} onChange={setSelected} />
        <Rows spec={spec} rows={rows} units={units} selected={selected} onSelect={setSelected} />
      </section>
      {selected.kind !== "none" && (
        <BulkBar
          ns={ns}
          spec={spec}
          filter={filter}
          selected={selected}
          onDone={() => setSelected({ kind: "none" })}
        />
      )}
      {isAdding && may("write") && (
        <AddUnits
          ns={ns}
          spec={spec}
          onClose={() =>
            go({ ns, page: "units", spec, filters: { ...route.filters, add: "" } }, { replace: true })
          }
        />
      )}
    </>
  );
}

/** The selected units. A selection lasts as long as its filter: with another, it would contain units that nobody sees. */
function useSelection(filter: UnitFilter): [Selected, (next: Selected) => void] {
  const [made, setMade] = useState<{ filter: UnitFilter; selected: Selected }>();
  return [
    made?.filter === filter ? made.selected : { kind: "none" },
    (selected) => setMade({ filter, selected }),
  ];
}

function Search(props: {
  spec: string;
  filter: UnitFilter;
  show: (filters: Record<string, string | undefined>) => void;
}): ReactNode {
  const { ns, look, route } = useHere();
  const { spec, filter, show } = props;
  const [text, setText] = useState(filter.prefix);
  const asked = useRef(filter.prefix);
  // Back and links change the URL: the text field follows it
  if (asked.current !== filter.prefix) {
    asked.current = filter.prefix;
    if (text.trim() !== filter.prefix) setText(filter.prefix);
  }
  useEffect(() => {
    if (text === filter.prefix || /^(label|worker):/.test(text)) return undefined;
    const timer = setTimeout(() => {
      asked.current = text;
      go(
        { ns, page: "units", spec, filters: { ...route.filters, prefix: text } },
        { replace: filter.prefix !== "" },
      );
    }, 60);
    return () => clearTimeout(timer);
  });
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    const [, key, value] = /^(label|worker):(.+)$/.exec(text.trim()) ?? [];
    if (key === undefined || value === undefined) return;
    setText("");
    asked.current = "";
    show({ [key]: value, prefix: "" });
  };
  return (
    <form className="qbox" role="search" onSubmit={submit}>
      <Icon name="search" />
      <Menu
        className="flt pickable"
        label="Work spec"
        button={
          <>
            <span className="dim">spec</span>
            <b>
              <Name text={spec} max={28} />
            </b>
            <Icon name="chev" />
          </>
        }
        items={(look.specs ?? [])
          .map(({ name }) => name)
          .sort()
          .map((name) => ({
            key: name,
            label: <Name text={name} max={48} />,
            selected: name === spec,
            run: () => go({ ns, page: "units", spec: name, filters: { ...route.filters } }),
          }))}
      />
      {filter.statuses.map((status) => (
        <Chip
          key={status}
          name="status"
          onRemove={() => show({ status: filter.statuses.filter((one) => one !== status).join(",") })}
        >
          <StatusGlyph status={status} /> {status}
        </Chip>
      ))}
      {filter.error !== "" && (
        <Chip name="error" onRemove={() => show({ error: "" })}>
          <ErrorName spec={spec} fingerprint={filter.error} />
        </Chip>
      )}
      {filter.label !== "" && (
        <Chip name="label" onRemove={() => show({ label: "" })}>
          <Name text={filter.label} max={40} />
        </Chip>
      )}
      <input
        data-search
        className="mono"
        aria-label="Name begins with"
        placeholder="Name begins with…"
        value={text}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
      />
      <span className="hint">or label:, worker:</span>
      <kbd>/</kbd>
    </form>
  );
}

function Chip({
  name,
  onRemove,
  children,
}: {
  name: string;
  onRemove: () => void;
  children: ReactNode;
}): ReactNode {
  return (
    <span className="flt">
      <span className="dim">{name}</span>
      <b>{children}</b>
      <button type="button" aria-label={`Remove the filter ${name}`} onClick={onRemove}>
        <Icon name="x" />
      </button>
    </span>
  );
}

/** The error of a failure group; its fingerprint when the group is empty by now. */
function ErrorName({ spec, fingerprint }: { spec: string; fingerprint: string }): ReactNode {
  const { ns } = useHere();
  const groups = useFailures(ns, spec, true);
  const group = groups.data?.find((one) => one.fingerprint === fingerprint);
  return <Name text={group?.error ?? fingerprint} max={48} mono />;
}

function SelectionNote(props: {
  selected: Selected;
  shown: number;
  exact: number | undefined;
  onChange: (next: Selected) => void;
}): ReactNode {
  const { selected, shown, exact, onChange } = props;
  if (selected.kind === "none") return null;
  const none = (
    <button type="button" className="plain l" onClick={() => onChange({ kind: "none" })}>
      Clear selection
    </button>
  );
  if (selected.kind === "all") {
    return (
      <div className="selbar">
        <b>All {exact === undefined ? "" : count(exact)} matching units are selected</b>, including those not
        on the screen. {none}
      </div>
    );
  }
  return (
    <div className="selbar">
      <b>{plural(selected.names.size, "unit")} selected.</b>{" "}
      {exact !== undefined &&
        exact > selected.names.size &&
        selected.names.size >= Math.min(shown, exact) && (
          <>
            <button type="button" className="plain l" onClick={() => onChange({ kind: "all" })}>
              Select all {count(exact)} matching units
            </button>{" "}
            ·{" "}
          </>
        )}
      {none}
    </div>
  );
}

const rowHeight = 29;

function Rows(props: {
  spec: string;
  rows: readonly WorkUnitRow[];
  units: ReturnType<typeof useUnits>;
  selected: Selected;
  onSelect: (next: Selected) => void;
}): ReactNode {
  const { ns, may, route } = useHere();
  const { rows, units, selected, onSelect, spec } = props;
  const box = useRef<HTMLDivElement>(null);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = units;
  const virtual = useVirtualizer({
    count: rows.length + (hasNextPage ? 1 : 0),
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    // a jump renders all rows again, at 1 to 2 ms each
    overscan: 4,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= rows.length - 20 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, rows.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const canSelect = may("write") || may("read");
  const isOn = (name: string): boolean =>
    selected.kind === "all" || (selected.kind === "some" && selected.names.has(name));
  const toggle = (name: string): void => {
    const names = new Set(
      selected.kind === "some" ? selected.names : selected.kind === "all" ? rows.map((row) => row.name) : [],
    );
    if (names.has(name)) names.delete(name);
    else names.add(name);
    onSelect(names.size === 0 ? { kind: "none" } : { kind: "some", names });
  };
  const allOn = rows.length > 0 && (selected.kind === "all" || rows.every(({ name }) => isOn(name)));
  if (rows.length === 0 && !units.isFetching && !hasNextPage) return <Nothing spec={spec} />;
  return (
    <div className="rows" ref={box} role="table" aria-label="Units" aria-rowcount={rows.length} tabIndex={0}>
      <div className="rhead" role="row">
        <span role="columnheader" className="ck">
          {canSelect && (
            <input
              type="checkbox"
              aria-label="Select all on the screen"
              checked={allOn}
              onChange={() =>
                onSelect(
                  allOn ? { kind: "none" } : { kind: "some", names: new Set(rows.map(({ name }) => name)) },
                )
              }
            />
          )}
        </span>
        <span role="columnheader">Unit</span>
        <span role="columnheader" className="u-tries">
          Last attempt
        </span>
        <span role="columnheader" className="u-err">
          {route.filters?.status === "failed" || route.filters?.error !== undefined ? "Error" : "Details"}
        </span>
        <span role="columnheader" className="u-worker">
          Worker
        </span>
        <span role="columnheader" className="u-label">
          Labels
        </span>
        <span role="columnheader" className="r u-prio">
          Priority
        </span>
        <span role="columnheader" className="r u-ran">
          Run time
        </span>
        <span role="columnheader" className="r">
          When
        </span>
      </div>
      <div className="rbody" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, start, key }) => {
          const unit = rows[index];
          if (unit === undefined)
            return (
              <div className="row more" key={key} role="row" style={{ transform: `translateY(${start}px)` }}>
                <span role="cell">Loading…</span>
              </div>
            );
          return (
            <div
              className={isOn(unit.name) ? "row sel" : "row"}
              key={key}
              role="row"
              aria-rowindex={index + 1}
              data-row
              tabIndex={-1}
              style={{ transform: `translateY(${start}px)` }}
            >
              <UnitRow
                ns={ns}
                unit={unit}
                on={isOn(unit.name)}
                canSelect={canSelect}
                onToggle={() => toggle(unit.name)}
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** Many names share the part before the last slash or colon: it is shown dimmed. */
function splitName(name: string): [string, string] {
  const at = Math.max(name.lastIndexOf("/"), name.lastIndexOf(":")) + 1;
  return at > 0 && at < name.length ? [name.slice(0, at), name.slice(at)] : ["", name];
}

function whenOf(unit: WorkUnitRow): number {
  const { activeAttempt, status, notBefore, createdTime } = unit;
  if (status === "delayed") return notBefore;
  if (activeAttempt === null) return createdTime;
  return activeAttempt.endTime === 0 ? activeAttempt.startTime : activeAttempt.endTime;
}

function UnitRow(props: {
  ns: string;
  unit: WorkUnitRow;
  on: boolean;
  canSelect: boolean;
  onToggle: () => void;
}): ReactNode {
  const { ns, unit, on, canSelect, onToggle } = props;
  const [before, after] = splitName(visible(unit.name));
  const attempt = unit.activeAttempt;
  const error = unit.status === "failed" ? errorLine(errorOf(unit.data) ?? "") : "";
  const waits = unit.dependencies.filter(({ status }) => status !== "finished").length;
  const says =
    error !== ""
      ? error
      : unit.status === "blocked"
        ? `waits for ${plural(waits, "unit")}`
        : unit.status === "available" && unit.attempts > 0
          ? `tried ${unit.attempts === 1 ? "once" : `${unit.attempts} times`} before`
          : attempt?.status === "pending" && attempt.progress !== null
            ? `${percent(attempt.progress.done)} ${attempt.progress.note}`
            : "";
  return (
    <>
      <span role="cell" className="ck">
        {canSelect && (
          <input
            type="checkbox"
            aria-label={`Select ${visible(unit.name).slice(0, 80)}`}
            checked={on}
            onChange={onToggle}
          />
        )}
      </span>
      <span role="cell" className="un">
        <Link to={{ ns, page: "unit", spec: unit.workSpec, unit: unit.name }} title={visible(unit.name)}>
          <StatusGlyph status={unit.status} />
          {before !== "" && (
            <code className="dim before" dir="ltr">
              {before}
            </code>
          )}
          <code className="after" dir="ltr">
            {after === "" ? "(empty name)" : after}
          </code>
        </Link>
      </span>
      <span role="cell" className="u-tries">
        {attempt === null ? (
          <span className="z">{unit.attempts === 0 ? "none" : unit.attempts}</span>
        ) : (
          <>
            <AttemptGlyph status={attempt.status} label={attempt.status} />{" "}
            <span className="dim">{unit.attempts}</span>
          </>
        )}
      </span>
      <span role="cell" className="u-err">
        <code title={visible(says)}>{visible(says).slice(0, 200)}</code>
      </span>
      <span role="cell" className="u-worker">
        {attempt !== null && attempt.worker !== "" && (
          <Link
            to={{ ns, page: "units", spec: unit.workSpec, filters: { worker: attempt.worker } }}
            title="Units of this worker"
          >
            <Name text={attempt.worker} max={20} />
          </Link>
        )}
      </span>
      <span role="cell" className="u-label">
        {unit.labels.slice(0, 2).map((label) => (
          <Link
            key={label}
            to={{ ns, page: "units", spec: unit.workSpec, filters: { label } }}
            className="lab"
          >
            <Name text={label} max={16} />
          </Link>
        ))}
      </span>
      <span role="cell" className="r u-prio">
        {unit.priority === 0 ? <span className="z">0</span> : unit.priority}
      </span>
      <span role="cell" className="r u-ran">
        {attempt !== null && attempt.endTime > 0 ? (
          duration(attempt.endTime - attempt.startTime)
        ) : (
          <span className="z">–</span>
        )}
      </span>
      <span role="cell" className="r mid">
        <Ago time={whenOf(unit)} />
      </span>
    </>
  );
}

function Nothing({ spec }: { spec: string }): ReactNode {
  const { route, ns } = useHere();
  const { state } = useLive();
  const filtered = ["status", "prefix", "label", "error", "within"].some(
    (key) => (route.filters?.[key] ?? "") !== "",
  );
  return (
    <div className="blank">
      {filtered ? (
        <p>
          No units of <Name text={spec} /> match.{" "}
          <Link to={{ ns, page: "units", spec }} className="l">
            Show all
          </Link>
        </p>
      ) : (
        <>
          <p>
            <Name text={spec} /> has no units. Add some here, or from a file:
          </p>
          <Command text={commandLine(ns, "addwork", spec, "-u", "units.jsonl")} />
        </>
      )}
      {state === "live" && <p className="dim">New units appear here as they are added.</p>}
    </div>
  );
}
