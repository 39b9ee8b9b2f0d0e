/**
 * A model of the whole system that is small enough to be believed: plain lists, looked through from end to end, and
 * every rule written a second time. It shares no code with the engine or a store.
 */
export interface ModelAttempt {
  unit: ModelUnit;
  number: number;
  worker: string;
  outcome: "none" | "finished" | "failed" | "retryable" | "released";
  expiration: number;
  data: string | null;
  /** The unit was taken from it. */
  replaced: boolean;
}

export interface ModelUnit {
  spec: string;
  name: string;
  data: string | null;
  priority: number;
  notBefore: number;
  attempts: ModelAttempt[];
  /** Attempts before this one do not count as tries. */
  triesFrom: number;
  needs: { unit: ModelUnit; hard: boolean; met: boolean }[];
  deleted: boolean;
  queues: readonly string[];
}

/** What a listing shows of a unit. */
export interface ModelView {
  name: string;
  status: string;
  data: string | null;
  priority: number;
  attempts: number;
}

export interface ModelSpec {
  name: string;
  paused: boolean;
  maxRunning: number;
  maxGetwork: number;
  maxRetries: number;
  then: string;
}

export class Model {
  now = 0;
  specs: ModelSpec[] = [];
  units: ModelUnit[] = [];
  attempts: ModelAttempt[] = [];
  /** By queue, what was told of units that ended. */
  queues = new Map<string, string[]>();

  /** A unit has just ended. */
  tell(unit: ModelUnit, status: "finished" | "failed", data: string | null): void {
    for (const queue of unit.queues) {
      const told = this.queues.get(queue) ?? [];
      this.queues.set(queue, [...told, `${unit.spec} ${unit.name} ${status} ${data ?? unit.data ?? "none"}`]);
    }
  }

  spec(name: string): ModelSpec {
    return this.specs.find((spec) => spec.name === name)!;
  }

  find(spec: string, name: string): ModelUnit | undefined {
    return this.units.find((unit) => unit.spec === spec && unit.name === name);
  }

  last(unit: ModelUnit): ModelAttempt | undefined {
    const last = unit.attempts.at(-1);
    return last?.replaced === false ? last : undefined;
  }

  /** Where the attempt stands, by the clock. */
  attemptStatus(attempt: ModelAttempt): string {
    if (attempt.outcome === "released") return "expired";
    if (attempt.outcome !== "none") return attempt.outcome;
    return attempt.replaced || attempt.expiration <= this.now ? "expired" : "pending";
  }

  status(unit: ModelUnit): string {
    const last = this.last(unit);
    const attempt = last === undefined ? "" : this.attemptStatus(last);
    if (["pending", "finished", "failed"].includes(attempt)) return attempt;
    if (unit.needs.some((need) => this.needState(need) !== "met")) return "blocked";
    return unit.notBefore > this.now ? "delayed" : "available";
  }

  needState({ unit, hard, met }: { unit: ModelUnit; hard: boolean; met: boolean }): string {
    if (met) return "met";
    const status = this.status(unit);
    if (status === "finished" && !unit.deleted) return "met";
    if (status === "failed" || unit.deleted) return hard ? "broken" : "met";
    return "open";
  }

  view(unit: ModelUnit): ModelView {
    const status = this.status(unit);
    const shown = ["pending", "finished", "failed"].includes(status) ? this.last(unit)?.data : undefined;
    return {
      name: unit.name,
      status,
      data: shown ?? unit.data,
      priority: unit.priority,
      attempts: unit.attempts.length,
    };
  }

  list(spec: string): ModelView[] {
    return this.units
      .filter((unit) => unit.spec === spec)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map((unit) => this.view(unit));
  }

  add(
    spec: string,
    name: string,
    data: string | null,
    priority: number,
    delay: number,
    needs?: { name: string; hard: boolean }[],
    queues: readonly string[] = [],
  ): void {
    let unit = this.find(spec, name);
    if (unit === undefined) {
      unit = {
        spec,
        name,
        data,
        priority,
        notBefore: 0,
        attempts: [],
        triesFrom: 0,
        needs: [],
        deleted: false,
        queues,
      };
      this.units.push(unit);
    } else if (["finished", "failed"].includes(this.status(unit))) this.takeFrom(unit);
    unit.data = data;
    unit.queues = queues;
    unit.priority = priority;
    unit.notBefore = delay > 0 ? this.now + delay : 0;
    if (needs !== undefined)
      unit.needs = needs.map((need) => ({ unit: this.find(spec, need.name)!, hard: need.hard, met: false }));
    this.failBroken();
  }

  /** The unit is taken from its last attempt and tried anew. */
  takeFrom(unit: ModelUnit): void {
    const last = this.last(unit);
    if (last !== undefined) last.replaced = true;
    unit.triesFrom = unit.attempts.length;
  }

  begin(unit: ModelUnit, worker: string, lease: number): ModelAttempt {
    const last = this.last(unit);
    if (last !== undefined) last.replaced = true;
    const attempt: ModelAttempt = {
      unit,
      number: unit.attempts.length + 1,
      worker,
      outcome: "none",
      expiration: this.now + lease,
      data: unit.data,
      replaced: false,
    };
    unit.attempts.push(attempt);
    this.attempts.push(attempt);
    return attempt;
  }

  failUnit(unit: ModelUnit, traceback: string): void {
    const attempt = this.begin(unit, "", 0);
    attempt.outcome = "failed";
    attempt.data = JSON.stringify({ ...(JSON.parse(unit.data ?? "{}") as object), traceback });
    this.tell(unit, "failed", attempt.data);
  }

  failBroken(): void {
    for (;;) {
      for (const one of this.units) for (const need of one.needs) need.met = this.needState(need) === "met";
      const unit = this.units.find(
        (one) =>
          this.status(one) === "blocked" && one.needs.some((need) => this.needState(need) === "broken"),
      );
      if (unit === undefined) return;
      const broken = unit.needs.find((need) => this.needState(need) === "broken")!.unit;
      this.failUnit(
        unit,
        `dependency ${broken.name} of work spec ${broken.spec} ${broken.deleted ? "was deleted" : "failed"}`,
      );
    }
  }

  claim(specName: string, count: number, lease: number, worker: string): ModelAttempt[] {
    const spec = this.spec(specName);
    const pending = this.units.filter(
      (unit) => unit.spec === specName && this.status(unit) === "pending",
    ).length;
    let places = count;
    if (spec.maxGetwork > 0) places = Math.min(places, spec.maxGetwork);
    if (spec.maxRunning > 0) places = Math.min(places, spec.maxRunning - pending);
    if (spec.paused) return [];
    const most = places;
    const got: ModelAttempt[] = [];
    for (;;) {
      for (; places > 0; places--) {
        const [unit] = this.units
          .filter((one) => one.spec === specName && this.status(one) === "available")
          .sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1));
        if (unit === undefined) return got;
        if (spec.maxRetries > 0 && unit.attempts.length - unit.triesFrom >= spec.maxRetries) {
          this.failUnit(unit, "too many retries");
          this.failBroken();
        } else got.push(this.begin(unit, worker, lease));
      }
      if (got.length > 0 || most <= 0) return got;
      places = most;
    }
  }

  settle(
    attempt: ModelAttempt,
    action: string,
    data: string | null,
    time: number,
  ): { error: string | null; changed: boolean } {
    const status = this.attemptStatus(attempt);
    const refused = (error: string): { error: string; changed: boolean } => ({ error, changed: false });
    if (attempt.unit.deleted) return refused("gone");
    const same = { finish: "finished", fail: "failed", retry: "retryable", expire: "expired", renew: "-" }[
      action
    ];
    if (same === status) return { error: null, changed: false };
    const open = status === "pending" || status === "expired";
    if (!open && !(status === "failed" && action === "finish" && !attempt.replaced))
      return refused("not_pending");
    if (attempt.replaced) {
      if (action === "renew" && data !== null) attempt.data = data;
      return refused("lost_lease");
    }
    if (action === "renew" && time === 0 && status === "expired" && data === null)
      return { error: null, changed: false };
    const { maxRunning } = this.spec(attempt.unit.spec);
    const running = this.units.filter(
      (unit) => unit.spec === attempt.unit.spec && this.status(unit) === "pending",
    ).length;
    if (action === "renew" && status === "expired" && time > 0 && maxRunning > 0 && running >= maxRunning) {
      if (data !== null) attempt.data = data;
      return refused("lost_lease");
    }
    if (data !== null) attempt.data = data;
    if (action === "renew" && time > 0) {
      attempt.outcome = "none";
      attempt.expiration = this.now + time;
    } else if (action === "expire" || action === "renew") attempt.outcome = "released";
    else attempt.outcome = same as "finished";
    if (action === "retry") attempt.unit.notBefore = time > 0 ? this.now + time : 0;
    if (action === "finish") this.tell(attempt.unit, "finished", attempt.data);
    else if (action === "fail") this.tell(attempt.unit, "failed", attempt.data);
    if (action === "finish") this.chain(attempt);
    this.failBroken();
    return { error: null, changed: true };
  }

  chain(attempt: ModelAttempt): void {
    const { then } = this.spec(attempt.unit.spec);
    if (then === "" || !this.specs.some(({ name }) => name === then)) return;
    const { output = [] } = JSON.parse(attempt.data ?? "{}") as { output?: string[] };
    for (const name of new Set(output)) this.add(then, name, null, 0, 0);
  }

  reset(unit: ModelUnit): boolean {
    if (!["pending", "finished", "failed"].includes(this.status(unit))) return false;
    this.takeFrom(unit);
    this.failBroken();
    return true;
  }

  delete(unit: ModelUnit): void {
    unit.deleted = true;
    this.units = this.units.filter((one) => one !== unit);
    this.failBroken();
  }
}
