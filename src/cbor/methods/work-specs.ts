/** The Python methods about work specs. */
import { Buffer } from "node:buffer";
import { dataToCbor, eachRow, firstRows, type Data, type WorkSpecMetaChange } from "../../core/index.ts";
import {
  inBand,
  method,
  no,
  nothing,
  number,
  Options,
  pair,
  specName,
  yes,
  type Call,
  type Result,
} from "../call.ts";
import { Item } from "../item.ts";
import { badArgument, breakByte, headEnd, indefinite, itemEnd, major } from "../scan.ts";

const setWorkSpec = method(1, 1, async ({ coordinate, ns, settings }, [spec]) => {
  const data = spec?.data("work spec", settings.dataLimits) ?? null;
  if (data === null) throw badArgument("work spec: expected a map, got null");
  await coordinate.setWorkSpecs(ns, [{ data }], { lenient: true });
  return yes;
});

const getWorkSpec = method(1, 1, async ({ coordinate, ns }, [name]) => {
  const given = name?.text("work spec name") ?? "";
  const [row] = given === "" ? [] : await coordinate.getWorkSpecs(ns, [given]);
  return row === null || row === undefined ? nothing : specData(row.data);
});

/** A page starts at the name `start`; the second half of the answer is the name at which the next page starts. */
const listWorkSpecs = method(0, 1, async ({ coordinate, ns }, [item]) => {
  const options = new Options(item);
  const start = options.text("start") ?? "";
  const limit = options.integer("limit") ?? 0;
  const wanted = limit > 0 ? limit : Infinity;
  const [first = null] = start === "" ? [] : await coordinate.getWorkSpecs(ns, [start]);
  const rows = first === null ? [] : [first];
  const others = await firstRows(
    wanted + 1 - rows.length,
    (page) => coordinate.listWorkSpecs(ns, page),
    start === "" ? {} : { previous: start },
  );
  rows.push(...others.rows);
  const next = rows[wanted];
  const shown = rows.slice(0, wanted);
  return (to) => {
    to.array(2).array(shown.length);
    for (const row of shown) specData(row.data)(to);
    if (next === undefined) to.null();
    else to.name(next.name);
  };
});

const delWorkSpec = method(1, 1, async ({ coordinate, ns }, [name]) =>
  inBand(
    (to) => to.boolean(false),
    async () => {
      const given = specName(name);
      const [found] = await coordinate.deleteWorkSpecs(ns, [given]);
      return found === true ? yes : no(`No such work spec ${given}`);
    },
  ),
);

const clear = method(0, 0, async ({ coordinate, ns }) => {
  const specs: string[] = [];
  for await (const { name } of eachRow((from) => coordinate.listWorkSpecs(ns, from))) specs.push(name);
  const deleted = await coordinate.deleteWorkSpecs(ns, specs);
  return number(deleted.filter((found) => found).length);
});

const runnable = 1;
const paused = 2;

const controlWorkSpec = method(2, 2, async ({ coordinate, ns }, [name, item]) =>
  inBand(
    (to) => to.boolean(false),
    async () => {
      const given = specName(name);
      const options = new Options(item);
      const change: WorkSpecMetaChange = {};
      const status = options.integer("status");
      const continuous = options.boolean("continuous");
      const weight = options.number("weight");
      const interval = options.number("interval");
      const maxRunning = options.integer("max_running");
      if (status !== undefined) change.paused = status === paused;
      if (continuous !== undefined) change.continuous = continuous;
      if (weight !== undefined) change.weight = weight;
      if (interval !== undefined) change.intervalMs = Math.round(interval * 1000);
      if (maxRunning !== undefined) change.maxRunning = maxRunning;
      const meta = await coordinate.setWorkSpecMeta(ns, given, change);
      if (continuous !== true || meta.continuous) return yes;
      return pair((to) => to.boolean(true), `cannot make non-continuous work spec ${given} continuous`);
    },
  ),
);

const getWorkSpecMeta = method(1, 1, async ({ coordinate, ns }, [name]) =>
  inBand(nothing, async () => {
    const given = specName(name);
    const [row] = await coordinate.getWorkSpecs(ns, [given]);
    if (row === null || row === undefined) return pair(nothing, `No such work spec ${given}`);
    const { meta } = row;
    return pair((to) => {
      to.map(5);
      to.text("status").number(meta.paused ? paused : runnable);
      to.text("continuous").boolean(meta.continuous);
      // always a float, as in the old daemons: Python divides integers differently
      to.text("interval").float(meta.intervalMs / 1000);
      to.text("max_running").number(meta.maxRunning);
      to.text("weight").number(meta.weight);
    });
  }),
);

/** `archive`: the retention of each spec tells what is kept. The daemon enforces it by itself; this call asks it to do so now. */
const archive = method(0, 1, async ({ settings }: Call) => {
  await settings.archive?.();
  return nothing;
});

/** The data of a spec as it was set, except that `module` and `run_function` are bytes: Python needs bytes to import them. */
function specData(data: Data): Result {
  const bytes = Buffer.from(dataToCbor(data));
  return (to) => to.raw(withByteNames(bytes));
}

function withByteNames(data: Buffer): Uint8Array {
  let changed: Buffer | null = null;
  let key: Item | null = null;
  for (const item of new Item(data, 0).items()) {
    if (key === null) {
      key = item;
      continue;
    }
    const isText = data[item.at]! >> 5 === major.text;
    if (isText && (key.isKey("module") || key.isKey("run_function"))) {
      changed ??= Buffer.from(data);
      makeBytes(changed, item.at);
    }
    key = null;
  }
  return changed ?? data;
}

/** Turns text into a byte string. Only the heads differ: of the string, and of each part of a string of indefinite length. */
function makeBytes(bytes: Buffer, at: number): void {
  const info = bytes[at]! & 31;
  bytes[at] = (major.bytes << 5) | info;
  if (info !== indefinite) return;
  for (let part = headEnd(bytes, at); bytes[part] !== breakByte; part = itemEnd(bytes, part))
    makeBytes(bytes, part);
}

export const workSpecMethods = {
  set_work_spec: setWorkSpec,
  get_work_spec: getWorkSpec,
  list_work_specs: listWorkSpecs,
  del_work_spec: delWorkSpec,
  clear,
  control_work_spec: controlWorkSpec,
  get_work_spec_meta: getWorkSpecMeta,
  archive,
};
