/**
 * The worker records of a process: one for the process, and below it one for each slot. Checked in together, in one
 * request, and the answer tells what each of them should do.
 */
import {
  encodeData,
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
  /** Told besides; read for every check-in. */
  readonly environment: () => object;
  readonly clock: Clock;
  readonly outage: Outage;
  readonly serverTime: ServerTime;
  /** What the process says it does, and each slot. */
  readonly modeOf: (worker: string) => string;
  readonly onDesired: (worker: string, desired: DesiredState) => void;
}

export class Heartbeat {
  readonly #setting: HeartbeatSetting;

  constructor(setting: HeartbeatSetting) {
    this.#setting = setting;
  }

  /**
   * Says who is there. Asks until it is answered; rejects only with a refusal, which would be the same the next time. A
   * `terminate` that was meant for an earlier process of the same name is cleared.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { outage, verbs, ns } = this.#setting;
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const rows = await this.#checkIn();
        const ended = rows.filter(({ desired }) => desired === "terminate");
        if (ended.length > 0) {
          const cleared = ended.map(({ name }) => ({ name, desired: null }));
          this.#obey(await verbs.updateWorkers(ns, cleared));
        }
        this.#obey(rows.filter(({ desired }) => desired !== "terminate"));
        return;
      } catch (error) {
        if (isRefusal(error) || isForbidden(error)) throw error;
        outage.failed("check in", error);
        await outage.pause(tries, signal);
      }
    }
  }

  /** Checks in until the signal aborts. What fails is said again the next time. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, everyMs, outage } = this.#setting;
    for (;;) {
      await clock.waitUntil(clock.now() + everyMs, signal);
      if (signal.aborted) return;
      try {
        this.#obey(await this.#checkIn());
      } catch (error) {
        outage.failed("check in", error);
      }
    }
  }

  /** Says that they have stopped. Rejects when that could not be stored. */
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
    const rows = await verbs.updateWorkers(ns, [own, ...children]);
    const now = clock.now();
    for (const row of rows) if (row.name === name) serverTime.sample(row.lastUpdate, now);
    outage.answered(call);
    return rows;
  }

  #obey(rows: readonly WorkerRow[]): void {
    for (const { name, desired } of rows) this.#setting.onDesired(name, desired);
  }
}

/** A wire's answer that the token is missing or wrong, or not for this: to start a worker is when a person looks. */
function isForbidden(error: unknown): boolean {
  return error instanceof Error && "status" in error && (error.status === 401 || error.status === 403);
}
