/**
 * The program of a subject: one system in one role, in a separate process. Its argument is a `SubjectRequest` as JSON. It sends `ready`,
 * waits for `go` if it must start together with others, and sends its result.
 */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { probes, type Figures } from "./probes/probe.ts";
import { systemOf } from "./systems.ts";
import type { Driver, WorkSetting } from "./systems/driver.ts";

export type Role =
  /** Adds units in bulk, or one by one with `inFlight` requests in flight, and reports the rate. */
  | { role: "add"; units: number; inFlight: number; seconds: number }
  /** Fills the queue, then works on it until `units` are done, `seconds` have passed, or no unit was done for `nothingMs`. */
  | {
      role: "work";
      fill: number;
      units: number;
      warm: number;
      seconds: number;
      taskMs: number;
      setting: WorkSetting;
    }
  /** Adds `warm` units quickly, and then `count`, `pauseMs` apart; each has the time in its data. */
  | { role: "send"; warm: number; count: number; pauseMs: number }
  /** Works, and reports the time from adding each unit to the start of its task, except of the first `warm`. */
  | { role: "listen"; warm: number; count: number }
  /** Claims units and keeps them until it is killed. */
  | { role: "hold"; units: number; lifetimeMs: number }
  /** Works, and reports when each task started. */
  | { role: "drain"; units: number }
  /** Measures this system alone. */
  | { role: "probe"; probe: string; factor: number };

export type SubjectRequest = Role & { system: string; address: string };

export interface Added {
  rate: number;
}

export interface Worked {
  done: number;
  /** Milliseconds on the clock that all processes of the machine share. */
  from: number;
  to: number;
  /** Processor time of this process for each unit, in microseconds. */
  cpuMicros: number;
}

export interface Heard {
  /** In milliseconds. `listen`: from adding to the start of each task. `drain`: the time at which each task started. */
  times: number[];
}

const now = (): number => performance.timeOrigin + performance.now();

async function add(driver: Driver, role: Role & { role: "add" }): Promise<Added> {
  const start = performance.now();
  let done = 0;
  if (role.inFlight === 0) {
    await driver.fill(role.units);
    done = role.units;
  } else {
    const isOver = (): boolean => performance.now() - start > role.seconds * 1000;
    await Promise.all(
      Array.from({ length: role.inFlight }, async () => {
        while (!isOver()) {
          await driver.add({});
          done++;
        }
      }),
    );
  }
  return { rate: (done * 1000) / (performance.now() - start) };
}

/** A worker that has finished nothing for this long has no more work. */
const nothingMs = 1000;

async function work(driver: Driver, role: Role & { role: "work" }): Promise<Worked> {
  if (role.fill > 0) await driver.fill(role.fill);
  const go = new Promise((resolve) => process.once("message", resolve));
  process.send?.("ready");
  await go;
  const { taskMs } = role;
  const task = taskMs === 0 ? () => undefined : () => sleep(taskMs);
  const working = await driver.work(task, role.setting);
  let [before, from, cpu] = [0, now(), process.cpuUsage()];
  // wait until the code is compiled and the batches have grown before measuring
  while (working.done() < Math.max(1, role.warm)) await sleep(2);
  if (working.done() < role.units) [before, from, cpu] = [working.done(), now(), process.cpuUsage()];
  let [last, to] = [working.done(), now()];
  while (last < role.units && now() - from < role.seconds * 1000 && now() - to < nothingMs) {
    await sleep(2);
    const done = working.done();
    if (done > last) [last, to] = [done, now()];
  }
  const { user, system } = process.cpuUsage(cpu);
  const done = last - before;
  const result = { done, from, to, cpuMicros: (user + system) / Math.max(1, done) };
  await Promise.race([working.stop(), sleep(3000)]);
  return result;
}

/** Long enough for every system to keep up. */
const warmPauseMs = 4;

async function send(driver: Driver, { warm, count, pauseMs }: Role & { role: "send" }): Promise<Added> {
  const start = performance.now();
  for (let i = 0; i < warm + count; i++) {
    await driver.add({ at: String(process.hrtime.bigint()) });
    await sleep(i < warm ? warmPauseMs : pauseMs);
  }
  return { rate: ((warm + count) * 1000) / (performance.now() - start) };
}

async function listen(driver: Driver, { warm, count }: Role & { role: "listen" }): Promise<Heard> {
  const times: number[] = [];
  let over: () => void = () => undefined;
  const all = new Promise<void>((resolve) => (over = resolve));
  await driver.work(
    ({ at }) => {
      if (at === undefined) return;
      times.push(Number(process.hrtime.bigint() - BigInt(at)) / 1e6);
      if (times.length === warm + count) over();
    },
    { how: "latency" },
  );
  process.send?.("ready");
  await all;
  return { times: times.slice(warm) };
}

async function hold(driver: Driver, { units, lifetimeMs }: Role & { role: "hold" }): Promise<never> {
  await driver.fill(units);
  let held = 0;
  let all: () => void = () => undefined;
  const full = new Promise<void>((resolve) => (all = resolve));
  await driver.work(
    () => {
      if (++held === units) all();
      return new Promise(() => undefined);
    },
    { how: "tasks", atOnce: units, lifetimeMs },
  );
  await full;
  process.send?.("ready");
  return new Promise(() => undefined);
}

async function drain(driver: Driver, { units }: Role & { role: "drain" }): Promise<Heard> {
  const times: number[] = [];
  let over: () => void = () => undefined;
  const all = new Promise<void>((resolve) => (over = resolve));
  await driver.work(
    () => {
      times.push(now());
      if (times.length === units) over();
    },
    { how: "latency" },
  );
  process.send?.("ready");
  await all;
  return { times };
}

async function runProbe({ probe, factor }: Role & { role: "probe" }, address: string): Promise<Figures> {
  const run = await probes[probe]?.();
  if (run === undefined) throw new Error(`no probe ${probe}`);
  // the idle probe prepares its workers first and sends `ready` itself
  if (probe !== "idle") process.send?.("ready");
  return run(address, factor);
}

async function play(request: SubjectRequest): Promise<unknown> {
  if (request.role === "probe") return runProbe(request, request.address);
  const driver = await systemOf(request.system).open(request.address);
  switch (request.role) {
    case "add":
      return add(driver, request);
    case "work":
      return work(driver, request);
    case "send":
      return send(driver, request);
    case "listen":
      return listen(driver, request);
    case "hold":
      return hold(driver, request);
    case "drain":
      return drain(driver, request);
  }
}

process.on("disconnect", () => process.exit(1));
const result = await play(JSON.parse(process.argv[2] ?? "{}") as SubjectRequest);
process.send?.({ result }, () => process.exit(0));
