/** The Python methods about work units. */
import { Buffer } from "node:buffer";
import {
  cborData,
  CoordinateError,
  dataToCbor,
  firstPages,
  nextTurn,
  type Data,
  type WorkUnitInput,
  type WorkUnitRow,
  type WorkUnitSelection,
  type WorkUnitStatus,
} from "../../core/index.ts";
import {
  emptyList,
  finite,
  inBand,
  list,
  method,
  names,
  no,
  nothing,
  number,
  Options,
  pair,
  RpcError,
  specName,
  unixSeconds,
  yes,
  type Call,
  type Result,
} from "../call.ts";
import { Item } from "../item.ts";
import type { Writer } from "../write.ts";

/** The status numbers of the old protocol. A delayed unit becomes available by itself, so it counts as available. */
const statusNumbers: Readonly<Record<WorkUnitStatus, number>> = {
  available: 1,
  delayed: 1,
  blocked: 2,
  pending: 3,
  finished: 4,
  failed: 5,
};

function statusesOf(numbers: readonly number[]): WorkUnitStatus[] {
  const all = Object.entries(statusNumbers) as [WorkUnitStatus, number][];
  return all.filter(([, value]) => numbers.includes(value)).map(([status]) => status);
}

/** Units are read in slices of this many, so that a batch of a million does not block all other callers. */
const turn = 5000;

const addWorkUnits = method(2, 2, async (call, [name, items]) =>
  inBand(
    (to) => to.boolean(false),
    async () => {
      const { coordinate, ns, fencing, settings } = call;
      const spec = specName(name);
      let units: WorkUnitInput[] = [];
      const add = async (): Promise<void> => {
        await coordinate.addWorkUnits(ns, spec, units);
        for (const unit of units) fencing.forget(spec, unit.name);
        units = [];
      };
      let read = 0;
      let tooMany = false;
      for (const item of list(items, "work units")) {
        // if there are more units than one call may have, all are checked before the first is added
        if (tooMany) readUnit(item, settings);
        else units.push(readUnit(item, settings));
        if (units.length > settings.maxItems) {
          tooMany = true;
          units = [];
        }
        if (++read % turn === 0) await nextTurn();
      }
      if (tooMany) {
        for (const item of list(items, "work units")) {
          units.push(readUnit(item, settings));
          if (units.length < settings.maxItems) continue;
          await add();
          await nextTurn();
        }
      }
      await add();
      return yes;
    },
  ),
);

const noData = cborData(Uint8Array.of(0xa0));

/** A key alone, or a list or tuple of key, data, metadata and priority. */
function readUnit(item: Item, { dataLimits }: Call["settings"]): WorkUnitInput {
  if (item.kind === "string") return { name: item.text("work unit key"), data: noData };
  if (item.kind !== "list") throw new RpcError("work unit not a list");
  const [key, data, meta, fourth] = item.some(4);
  if (key === undefined || data === undefined) throw new RpcError("too few parameters to work unit");
  const unit: WorkUnitInput = {
    name: key.text("work unit key"),
    data: data.data("work unit data", dataLimits),
  };
  const options = new Options(meta);
  const priority = fourth === undefined || fourth.isNull ? options.get("priority") : fourth;
  const delay = options.number("delay");
  if (priority !== undefined) {
    if (priority.kind !== "number") throw new RpcError("priority must be a number");
    unit.priority = finite(priority, "priority");
  }
  // a negative delay counts as none, as it always did for these clients
  if (delay !== undefined) unit.delayMs = Math.max(0, Math.round(delay * 1000));
  return unit;
}

const defaultLimit = 1000;

const getWorkUnits = method(2, 2, async ({ coordinate, ns, settings }, [name, item]) =>
  inBand(emptyList, async () => {
    const spec = specName(name);
    const options = new Options(item);
    const keys = options.names("work_unit_keys", settings.maxItems) ?? [];
    if (keys.length > 0) return unitList(present(await coordinate.getWorkUnits(ns, spec, keys)));
    const states = readStates(options.get("state"));
    const limit = options.integer("limit") ?? defaultLimit;
    const previous = options.text("start");
    const query = states === null ? {} : { statuses: statusesOf(states) };
    const pages = firstPages(
      limit > 0 ? limit : Infinity,
      (page) => coordinate.listWorkUnits(ns, spec, { ...query, ...page }),
      previous === undefined ? {} : { previous },
    );
    const rows: WorkUnitRow[] = [];
    let bytes = 0;
    for await (const page of pages) {
      rows.push(...page.rows);
      for (const { name, data } of page.rows) bytes += name.length + (data?.length ?? 0);
      if (bytes > settings.maxAnswerBytes)
        throw new CoordinateError("too_large", `an answer of more than ${settings.maxAnswerBytes} bytes`);
    }
    return unitList(rows);
  }),
);

/** One number or a list of them; null for none, which means no filter. */
function readStates(item: Item | undefined): number[] | null {
  if (item === undefined) return null;
  if (item.kind === "number") return [item.number("state")];
  let empty = true;
  const states = new Set<number>();
  for (const one of list(item, "state")) {
    empty = false;
    const state = one.number("state");
    // a number that is no status matches nothing: it is dropped, so that a list of a million of them is not kept
    if (state >= 1 && state <= 5) states.add(state);
  }
  return empty ? null : [...states];
}

const present = (rows: readonly (WorkUnitRow | null)[]): WorkUnitRow[] => rows.filter((row) => row !== null);

/** A list of tuples: Python slices the list and compares the tuples. */
function unitList(rows: readonly WorkUnitRow[]): Result {
  return pair((to) => {
    to.array(rows.length);
    for (const { name, data } of rows) writeData(to.tuple(2).nameBytes(name), data);
  });
}

/** Writes an empty dictionary for a unit without data: Python looks for keys in it, and null means that there is no unit. */
export function writeData(to: Writer, data: Data | null): void {
  to.raw(dataToCbor(data ?? noData));
}

const getWorkUnitStatus = method(2, 2, async ({ coordinate, ns, settings }, [name, keys]) =>
  inBand(nothing, async () => {
    const spec = specName(name);
    const rows = await coordinate.getWorkUnits(ns, spec, names(keys, "work_unit_keys", settings.maxItems));
    return pair((to) => {
      to.array(rows.length);
      for (const row of rows) writeStatus(to, row);
    });
  }),
);

function writeStatus(to: Writer, row: WorkUnitRow | null): void {
  if (row === null) {
    to.null();
    return;
  }
  const active = row.activeAttempt;
  const traceback = row.status === "failed" && row.data !== null ? tracebackOf(row.data) : null;
  to.map(2 + Number(active !== null) + Number(traceback !== null));
  to.text("status").number(statusNumbers[row.status]);
  to.text("expiration");
  if (active === null) to.null();
  else to.number(unixSeconds(row.status === "pending" ? active.expirationTime : active.endTime));
  if (active !== null) to.text("worker_id").name(active.worker);
  if (traceback !== null) to.text("traceback").raw(traceback);
}

/** The traceback exactly as it was stored: a client that wrote bytes does not expect text. */
function tracebackOf(data: Data): Buffer | null {
  const bytes = dataToCbor(data);
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return new Item(whole, 0).get("traceback")?.slice() ?? null;
}

const countWorkUnits = method(1, 1, async ({ coordinate, ns }, [name]) =>
  inBand(nothing, async () => {
    const spec = specName(name);
    const row = (await coordinate.tally(ns)).find(({ workSpec }) => workSpec === spec);
    if (row === undefined) {
      const [found] = await coordinate.getWorkSpecs(ns, [spec]);
      if (found === null || found === undefined) throw new CoordinateError("no_such_work_spec", spec);
    }
    const counts = new Map<number, number>();
    const add = (status: WorkUnitStatus, count: number): void => {
      const at = statusNumbers[status];
      if (count > 0) counts.set(at, (counts.get(at) ?? 0) + count);
    };
    if (row !== undefined) {
      for (const [status, count] of Object.entries(row.counts)) add(status as WorkUnitStatus, count);
      // archived units stay in the counts
      add("finished", row.removed.finished);
      add("failed", row.removed.failed);
    }
    return pair((to) => {
      to.map(counts.size);
      for (const [status, count] of [...counts].sort(([a], [b]) => a - b)) to.number(status).number(count);
    });
  }),
);

const prioritizeWorkUnits = method(2, 2, async ({ coordinate, ns, settings }, [name, item]) =>
  inBand(
    (to) => to.boolean(false),
    async () => {
      const spec = specName(name);
      const options = new Options(item);
      const keys = options.names("work_unit_keys", settings.maxItems);
      if (keys === undefined) return no("missing work_unit_keys");
      const priority = options.number("priority");
      const adjustment = options.number("adjustment");
      const change = priority !== undefined ? { set: priority } : { adjust: adjustment ?? 0 };
      // called even if nothing changes: the work spec may be missing
      await coordinate.setWorkUnitPriorities(ns, spec, { names: keys }, change);
      return yes;
    },
  ),
);

const delWorkUnits = method(2, 2, async ({ coordinate, ns, settings }, [name, item]) =>
  inBand(number(0), async () => {
    const spec = specName(name);
    const selection = readSelection(new Options(item), settings.maxItems);
    // called even if nothing is selected: the work spec may be missing
    const deleted = await coordinate.deleteWorkUnits(ns, spec, selection ?? { names: [] });
    return pair(number(deleted), selection === null ? "no usable options to del_work_units" : null);
  }),
);

/** Null when the options have no condition: then nothing is selected, and not everything. */
function readSelection(options: Options, max: number): WorkUnitSelection | null {
  if (options.boolean("all") === true) return { all: true };
  const keys = options.names("work_unit_keys", max);
  const states = readStates(options.get("state"));
  if (keys === undefined && states === null) return null;
  return {
    ...(keys !== undefined && { names: keys }),
    ...(states !== null && { statuses: statusesOf(states) }),
  };
}

export const workUnitMethods = {
  add_work_units: addWorkUnits,
  get_work_units: getWorkUnits,
  get_work_unit_status: getWorkUnitStatus,
  count_work_units: countWorkUnits,
  prioritize_work_units: prioritizeWorkUnits,
  del_work_units: delWorkUnits,
};
