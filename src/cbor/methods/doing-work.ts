/** The Python methods to get work and to report its outcome. */
import {
  serveVerb,
  type AttemptAction,
  type AttemptChanged,
  type AttemptRequest,
  type AttemptRow,
  type Data,
  type WorkUnitRow,
} from "../../core/index.ts";
import {
  callerOf,
  inBand,
  method,
  no,
  Options,
  optionalName,
  pair,
  repr,
  RpcError,
  specName,
  yes,
  type Call,
  type Result,
} from "../call.ts";
import { badArgument } from "../scan.ts";
import type { Writer } from "../write.ts";
import { writeData } from "./work-units.ts";

/** The range of leases, in seconds. */
const shortestLease = 1;
const longestLease = 86_400;
/** For requests below the shortest lease, and for renewals without a lease time. */
const renewedLease = 300;
const defaultLease = 900;

const getWork = method(1, 2, async (call, [id, item]) => {
  const { coordinate, ns, fencing } = call;
  const worker = optionalName(id, "worker_id");
  const options = new Options(item);
  const maxJobs = options.number("max_jobs");
  const request: AttemptRequest = {
    worker,
    number: Math.min(Math.max(1, Math.trunc(maxJobs ?? 1)), 1_000_000),
    lifetimeMs: readLease(options.number("lease_time")) * 1000,
    // Python workers run only Python: no work specs of other runtimes
    runtimes: [""],
  };
  const specs = options.names("work_spec_names", 10_000);
  const availableGb = options.number("available_gb");
  if (specs !== undefined) request.workSpecs = specs;
  if (availableGb !== undefined && availableGb > 0) request.availableGb = availableGb;
  const attempts = await serveVerb(coordinate, "requestAttempts", [ns, request], callerOf(call));
  fencing.rememberWorker(worker);
  fencing.remember(attempts);
  // a single job is answered as a tuple; any other requested number, 0 included, as a list
  if (maxJobs === undefined || maxJobs === 1) return pair((to) => writeJob(to, attempts[0]));
  return pair((to) => {
    to.array(attempts.length);
    for (const attempt of attempts) writeJob(to, attempt);
  });
});

function readLease(asked: number | undefined): number {
  if (asked === undefined) return defaultLease;
  return asked < shortestLease ? renewedLease : Math.min(asked, longestLease);
}

function writeJob(to: Writer, attempt: AttemptRow | undefined): void {
  to.tuple(3);
  if (attempt === undefined) to.null().null().null();
  else writeData(to.name(attempt.workSpec).nameBytes(attempt.workUnit), attempt.data);
}

const status = { none: 0, available: 1, pending: 3, finished: 4, failed: 5 } as const;
const statuses: readonly number[] = Object.values(status);

interface Update {
  spec: string;
  key: string;
  status: number;
  data: Data | null;
  /** The length of the lease from now, in milliseconds; 0 or less gives it back. */
  leaseMs: number;
  worker: string | undefined;
  /** Exactly what an operator's `retry` sends: `{lease_time: 0, status: 1}`. No worker sends this. */
  isRetry: boolean;
}

const lostLease = no("lost lease");
const unchanged = no();

/**
 * The current and the requested status of a unit together decide what is done. Whether the caller may do it depends on the
 * attempt that is meant (see fencing.ts), and on the verb, which knows whether that attempt is still active.
 */
const updateWorkUnit = method(2, 3, async (call, [name, key, item]) =>
  inBand(
    (to) => to.boolean(false),
    async () => {
      const options = new Options(item);
      const lease = options.number("lease_time");
      const update: Update = {
        spec: specName(name),
        key: key?.text("work unit key") ?? "",
        status: options.number("status") ?? status.none,
        data: options.get("data")?.data("data", call.settings.dataLimits) ?? null,
        leaseMs: Math.min(lease ?? renewedLease, longestLease) * 1000,
        worker: options.text("worker_id"),
        isRetry: options.number("status") === status.available && lease === 0 && options.size === 2,
      };
      const known = call.fencing.known(update.spec, update.key);
      return known === null ? updateUnknown(call, update) : updateKnown(call, update, known);
    },
  ),
);

/** The action for a pending attempt. `checkStatus` has already refused numbers that are no status. */
function actionOf({ status: wanted, leaseMs }: Update): AttemptAction {
  if (wanted === status.finished) return "finish";
  if (wanted === status.failed) return "fail";
  if (wanted === status.available || leaseMs <= 0) return "expire";
  return "renew";
}

/** The connection was given an attempt of this unit: the update is about that attempt, whatever the status of the unit is by now. */
async function updateKnown(call: Call, update: Update, attempt: string): Promise<Result> {
  const { fencing } = call;
  checkStatus(update.status, null);
  // giving back or renewing a unit that has ended is an operator's request, and is about the unit
  const action = actionOf(update);
  if (action === "expire" || action === "renew") {
    const row = await findUnit(call, update);
    if (row === null) return noSuchUnit(update);
    if (row.status === "finished" || row.status === "failed") return updateEnded(call, update, row);
  }
  const changed = await settle(call, update, attempt, action);
  if (action === "expire") fencing.forget(update.spec, update.key);
  if (changed.error !== "no_such_attempt" && changed.error !== "gone") return answer(changed);
  // the unit was deleted; a unit of its name that was added since is another one
  return (await findUnit(call, update)) === null ? noSuchUnit(update) : lostLease;
}

/** The connection was given no attempt of this unit: the status of the unit decides what is meant, if the connection may update it. */
async function updateUnknown(call: Call, update: Update): Promise<Result> {
  const { coordinate, ns, fencing } = call;
  const row = await findUnit(call, update);
  if (row === null) return noSuchUnit(update);
  if (row.status === "finished" || row.status === "failed") return updateEnded(call, update, row);
  checkStatus(update.status, null);
  const active = row.activeAttempt;
  if (active === null) return updateWaiting(call, update, row);
  // the retry of an operator takes the unit from its worker on purpose
  const isMeant = update.isRetry || (await fencing.accepts(coordinate, ns, row, active, update.worker));
  if (!isMeant) return lostLease;
  return answer(await settle(call, update, active.id, actionOf(update)));
}

/** Updates a waiting unit. To end it, makes a new attempt and settles that, unless an expired attempt may still be settled late. */
async function updateWaiting(call: Call, update: Update, row: WorkUnitRow): Promise<Result> {
  const { coordinate, ns, fencing } = call;
  if (update.status === status.none || update.status === status.available) {
    if (update.data === null) return unchanged;
    const { name, priority, notBefore, partition } = row;
    const unit = { name, data: update.data, priority, notBefore, partition };
    await coordinate.addWorkUnits(ns, update.spec, [unit]);
    return yes;
  }
  if (fencing.mode === "strict" && row.attempts > 0 && update.status !== status.pending) {
    const history = await coordinate.listUnitAttempts(ns, update.spec, update.key);
    const latest = history.reduce<AttemptRow | null>(
      (a, b) => (a === null || b.number > a.number ? b : a),
      null,
    );
    if (latest?.status === "expired") {
      if (!(await fencing.accepts(coordinate, ns, row, latest, update.worker))) return lostLease;
      const changed = await settle(call, update, latest.id, actionOf(update));
      // the attempt was cleared and is not just late: no worker holds the unit, so a new attempt may be made
      if (changed.error !== "lost_lease") return answer(changed);
    }
  }
  const [made] = await coordinate.makeAttempts(ns, [
    {
      workSpec: update.spec,
      workUnit: update.key,
      worker: update.worker ?? "",
      lifetimeMs: update.leaseMs > 0 ? update.leaseMs : renewedLease * 1000,
    },
  ]);
  if (made === undefined) return unchanged;
  fencing.remember([made]);
  if (update.status === status.pending && update.data === null) return yes;
  return answer(await settle(call, update, made.id, actionOf(update)));
}

/** Updates an ended unit. A failed unit can become finished, and an ended one available again; nothing else changes it. */
async function updateEnded(call: Call, update: Update, row: WorkUnitRow): Promise<Result> {
  const { coordinate, ns, fencing } = call;
  checkStatus(update.status, row.status === "finished" ? "finished" : "failed");
  if (update.status === status.available) {
    const reset = await coordinate.resetWorkUnits(ns, update.spec, { names: [update.key] });
    fencing.forget(update.spec, update.key);
    return reset > 0 ? yes : unchanged;
  }
  const active = row.activeAttempt;
  if (row.status === "finished" || update.status !== status.finished || active === null) return unchanged;
  if (!(await fencing.accepts(coordinate, ns, row, active, update.worker))) return lostLease;
  return answer(await settle(call, update, active.id, "finish"));
}

function checkStatus(wanted: number, ended: "finished" | "failed" | null): void {
  const known = statuses.includes(wanted);
  if (ended !== null && (!known || wanted === status.pending))
    throw new RpcError(`update_work_unit cannot change ${ended} unit`);
  if (!known) throw new RpcError("update_work_unit invalid status");
}

async function findUnit({ coordinate, ns }: Call, { spec, key }: Update): Promise<WorkUnitRow | null> {
  const [row] = await coordinate.getWorkUnits(ns, spec, [key]);
  return row ?? null;
}

const noSuchUnit = ({ key }: Update): Result => no(`no such work unit key=${repr(key)}`);

async function settle(
  { coordinate, ns }: Call,
  { data, leaseMs }: Update,
  attempt: string,
  action: AttemptAction,
): Promise<AttemptChanged> {
  const change = { attempt, action, data, ...(action === "renew" && { lifetimeMs: leaseMs }) };
  const [changed] = await coordinate.settleAttempts(ns, [change]);
  if (changed === undefined) throw badArgument("settle answered nothing");
  return changed;
}

/** A change that was made before, or cannot be undone, is answered with a harmless false; a lost lease with a message. */
function answer({ error, changed }: AttemptChanged): Result {
  if (error === null) return changed ? yes : unchanged;
  return error === "lost_lease" ? lostLease : error === "not_pending" ? unchanged : no(error);
}

export const doingWorkMethods = { get_work: getWork, update_work_unit: updateWorkUnit };
