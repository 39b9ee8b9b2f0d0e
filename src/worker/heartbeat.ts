/**
 * The worker records of a process: one for the process and, as its children, one for each slot. They check in together in one
 * request; the answer has the desired state of each.
 */
import {
  encodeData,
  isCoordinateError,
  isRefusal,
  type Clock,
  type Coordinate,
  type DesiredState,
  type WorkerChange,
  type WorkerRow,
} from "../core/index.ts";
import { environment } from "./environment.ts";
import type { ServerTime } from "./lease.ts";
import type { Outage } from "./outage.ts";

export interface HeartbeatSetting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly name: string;
  readonly parent: string | null;
  readonly slots: readonly string[];
  readonly everyMs: number;
  /** More data for the record of the process; called for every check-in. */
  readonly environment: () => object;
  readonly clock: Clock;
  readonly outage: Outage;
  readonly serverTime: ServerTime;
  /** The mode that the process or a slot reports. */
  readonly modeOf: (worker: string) => string;
  readonly onDesired: (worker: string, desired: DesiredState) => void;
}

export class Heartbeat {
  readonly #setting: HeartbeatSetting;

  constructor(setting: HeartbeatSetting) {
    this.#setting = setting;
  }

  /**
   * The first check-in. Retries until it is answered; rejects only when it is refused or the coordinator was closed, which a retry would
   * not change. Clears a
   * `terminate` that was meant for an earlier process of the same name.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { outage, verbs, ns } = this.#setting;
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const rows = await this.#checkIn();
        const ended = rows.filter(({ desired }) => desired === "terminate");
        if (ended.length > 0) {
          const cleared = ended.map(({ name }) => ({ name, desired: null }));
          this.#applyDesiredState(await verbs.updateWorkers(ns, cleared));
        }
        this.#applyDesiredState(rows.filter(({ desired }) => desired !== "terminate"));
        return;
      } catch (error) {
        if (isRefusal(error) || isForbidden(error) || isCoordinateError(error, "closed")) throw error;
        outage.failed("check in", error);
        await outage.pause(tries, signal);
      }
    }
  }

  /** Checks in regularly until the signal aborts. A check-in that fails is not retried: the next one follows. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, everyMs, outage } = this.#setting;
    for (;;) {
      await clock.waitUntil(clock.now() + everyMs, signal);
      if (signal.aborted) return;
      try {
        this.#applyDesiredState(await this.#checkIn());
      } catch (error) {
        outage.failed("check in", error);
      }
    }
  }

  /** Marks all records as stopped. Rejects when that could not be stored. */
  async end(): Promise<void> {
    const { verbs, ns, name, slots } = this.#setting;
    await verbs.updateWorkers(
      ns,
      [name, ...slots].map((worker) => ({ name: worker, active: false, mode: "stopped" })),
    );
  }

  async #checkIn(): Promise<WorkerRow[]> {
    const { verbs, ns, name, parent, slots, modeOf, clock, serverTime, outage } = this.#setting;
    const own: WorkerChange = {
      name,
      active: true,
      mode: modeOf(name),
      data: encodeData({ ...environment(), slots: slots.length, ...this.#setting.environment() }),
      ...(parent !== null && { parent }),
    };
    const children = slots.map((slot): WorkerChange => ({
      name: slot,
      parent: name,
      active: modeOf(slot) !== "stopped",
      mode: modeOf(slot),
    }));
    const call = outage.began();
    const sent = clock.now();
    const rows = await verbs.updateWorkers(ns, [own, ...children]);
    const now = clock.now();
    for (const row of rows) if (row.name === name) serverTime.sample(row.lastUpdate, now, sent);
    outage.answered(call);
    return rows;
  }

  #applyDesiredState(rows: readonly WorkerRow[]): void {
    for (const { name, desired } of rows) this.#setting.onDesired(name, desired);
  }
}

/** Whether the token is missing, wrong or lacks the permission. Not retried: an operator who starts a worker should see this error. */
function isForbidden(error: unknown): boolean {
  return error instanceof Error && "status" in error && (error.status === 401 || error.status === 403);
}
