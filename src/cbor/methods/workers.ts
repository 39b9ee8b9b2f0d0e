/** The Python methods about workers, and the few about the daemon itself. */
import {
  dataToCbor,
  eachRow,
  encodeData,
  type AttemptRow,
  type WorkerQuery,
  type WorkerRow,
} from "../../core/index.ts";
import {
  finite,
  method,
  no,
  nothing,
  number,
  optionalName,
  pair,
  repr,
  RpcError,
  unixSeconds,
  yes,
  type Call,
} from "../call.ts";
import { badArgument } from "../scan.ts";
import { writeData } from "./work-units.ts";

const longestLife = 86_400;

const workerHeartbeat = method(5, 5, async (call, [id, mode, expireSeconds, data, parentId]) => {
  const { coordinate, ns, clock, fencing, settings } = call;
  const name = optionalName(id, "worker_id");
  const parent = optionalName(parentId, "parent");
  if (expireSeconds === undefined) throw badArgument("expire_seconds: missing");
  const asked = finite(expireSeconds, "expire_seconds");
  const life = asked < 0 ? 300 : asked > longestLife ? 3600 : asked;
  await coordinate.updateWorkers(ns, [
    {
      name,
      parent: parent === "" ? null : parent,
      active: true,
      mode: optionalName(mode, "mode"),
      // an empty environment instead of none: this distinguishes a registered worker from one that only requested work
      data: data?.data("data", settings.dataLimits) ?? encodeData({}),
      expiration: clock.now() + Math.round(life * 1000),
    },
  ]);
  fencing.rememberWorker(name);
  if (asked < 0)
    return pair((to) => to.boolean(true), `negative expire time ${asked} defaulted to 5 minutes`);
  if (asked > longestLife)
    return pair((to) => to.boolean(true), `huge expire time ${asked} defaulted to one hour`);
  return yes;
});

const workerUnregister = method(1, 1, async ({ coordinate, ns }, [id]) => {
  const name = optionalName(id, "worker_id");
  const [row] = await coordinate.getWorkers(ns, [name]);
  if (row?.active !== true) return no(`no worker ${repr(name)}`);
  await coordinate.updateWorkers(ns, [{ name, active: false }]);
  return yes;
});

async function listWorkers({ coordinate, ns }: Call, query: WorkerQuery): Promise<WorkerRow[]> {
  const rows: WorkerRow[] = [];
  for await (const row of eachRow((from) => coordinate.listWorkers(ns, { ...query, ...from })))
    rows.push(row);
  return rows;
}

/** The active workers that have registered; a worker that only requested work, or was only named as a parent, has not. */
async function registered(call: Call): Promise<WorkerRow[]> {
  const rows = await listWorkers(call, { active: true });
  return rows.filter(({ mode, data }) => mode !== "" || data !== null);
}

const listWorkerModes = method(0, 0, async (call) => {
  const rows = await registered(call);
  return pair((to) => {
    to.map(rows.length);
    for (const { name, mode } of rows) to.name(name).name(mode);
  });
});

const modeCounts = method(0, 0, async (call) => {
  const counts = new Map<string, number>();
  for (const { mode } of await registered(call)) counts.set(mode, (counts.get(mode) ?? 0) + 1);
  return pair((to) => {
    to.map(counts.size);
    for (const [mode, count] of counts) to.name(mode).number(count);
  });
});

const getWorkerInfo = method(1, 1, async ({ coordinate, ns }, [id]) => {
  const [row] = await coordinate.getWorkers(ns, [optionalName(id, "worker_id")]);
  const data = row?.active === true ? row.data : null;
  return pair(data === null ? nothing : (to) => to.raw(dataToCbor(data)));
});

const workerStats = method(0, 0, async (call) => {
  const rows = await registered(call);
  return (to) => {
    to.map(3);
    to.text("num_workers").number(rows.length);
    to.text("num_children").number(rows.filter(({ parent }) => parent !== null).length);
    to.text("num_expirable").number(rows.length);
  };
});

/** The units that each child holds now. The caller may end these jobs, as a parent does when they are overdue. */
const getChildWorkUnits = method(1, 1, async (call, [id]) => {
  const { coordinate, ns, fencing } = call;
  const parent = optionalName(id, "worker_id");
  const children = new Map<string, AttemptRow[]>();
  for (const { name } of await listWorkers(call, { parent, active: true })) children.set(name, []);
  const held = eachRow((from) => coordinate.listWorkerAttempts(ns, parent, { which: "children", ...from }));
  // a child that has left is not shown: its record is gone, and the parent could not find it
  for await (const attempt of held)
    if (attempt.status === "pending") children.get(attempt.worker)?.push(attempt);
  for (const attempts of children.values()) fencing.remember(attempts);
  fencing.rememberWorker(parent);
  return pair((to) => {
    to.map(children.size);
    for (const [name, attempts] of children) {
      to.name(name).array(attempts.length);
      for (const attempt of attempts) {
        to.map(5);
        to.text("work_spec_name").name(attempt.workSpec);
        to.text("work_unit_key").nameBytes(attempt.workUnit);
        writeData(to.text("work_unit_data"), attempt.data);
        to.text("worker_id").name(attempt.worker);
        // always a number: Python treats null as long overdue, and kills the child
        to.text("expires").number(unixSeconds(attempt.expirationTime));
      }
    }
  });
});

const getConfig = method(0, 0, async ({ settings }) => {
  const { config } = settings;
  if (config === null) throw new RpcError("no config to get");
  return pair((to) => to.raw(dataToCbor(config)));
});

const now = method(0, 0, async ({ clock }) => number(unixSeconds(clock.now())));

export const workerMethods = {
  worker_heartbeat: workerHeartbeat,
  worker_unregister: workerUnregister,
  list_worker_modes: listWorkerModes,
  mode_counts: modeCounts,
  get_worker_info: getWorkerInfo,
  worker_stats: workerStats,
  get_child_work_units: getChildWorkUnits,
  get_config: getConfig,
  now,
};
