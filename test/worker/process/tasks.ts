/** Tasks for child processes: good ones, and all kinds of misbehaviour. The data of a unit selects what its task does. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { bulk, retry, type Unit, type UnitContext } from "../../../src/worker/index.ts";

const kept: Buffer[] = [];

async function misbehave(unit: Unit): Promise<object | undefined> {
  const { how } = unit.data;
  switch (how) {
    case "throw":
      throw new Error("thrown on purpose");
    case "reject":
      return Promise.reject(new Error("rejected on purpose"));
    case "retry":
      throw retry(0, { seen: true });
    case "never":
      return new Promise(() => setInterval(() => undefined, 1000));
    case "block":
      for (;;);
    case "exit":
      console.error("about to exit");
      return process.exit(3);
    case "kill":
      process.kill(process.pid, "SIGKILL");
      return new Promise(() => undefined);
    case "grow":
      for (;;) {
        kept.push(Buffer.alloc(8 * 1024 * 1024, 1));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    case "grandchild": {
      const child = spawn("sh", ["-c", "trap '' TERM; while :; do sleep 1; done"], { stdio: "ignore" });
      console.log(`grandchild ${child.pid ?? 0}`);
      return new Promise(() => undefined);
    }
    case "pid":
      return { pid: process.pid };
    case "print":
      console.log(`hello from ${unit.name}`);
      return undefined;
    default:
      return { done: unit.name };
  }
}

export const one = misbehave;

/** The same task under another name. */
export const together = misbehave;

/** Settles each attempt separately, and uses everything that a context provides. */
export const whole = bulk(async (attempts, context) => {
  for (const attempt of attempts) {
    await context.progress(attempt, { ...attempt.data, half: true });
    await context.renew(60_000);
    context.log.info({ unit: attempt.workUnitName }, "half way");
    await attempt.finish({ ...attempt.data, spec: context.workSpec.data.name, worker: context.worker });
  }
});

/** Writes log lines in every possible way. */
export const writes = async ({ name, attempt, data }: Unit, { log }: UnitContext): Promise<void> => {
  log(`log of ${name}`);
  attempt.log(`attempt.log of ${name}`);
  console.log(`printed by ${name}`);
  while (!existsSync(data.file as string)) await new Promise((resolve) => setTimeout(resolve, 10));
  attempt.log("the end");
};

/** Ends when its signal aborts. */
export const polite = bulk(async (attempts, { signal }) => {
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  for (const attempt of attempts) await attempt.retry({ delayMs: 60_000, data: { stopped: true } });
});

/** Obeys its signal as a plain function and as a bulk task. */
export const obeys = async (_unit: Unit, { signal, log }: UnitContext): Promise<void> => {
  log.info("obeys has begun");
  await sleep(60_000, null, { signal });
};

export const allObey = bulk(async (_attempts, { signal, log }) => {
  log.info("allObey has begun");
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  signal.throwIfAborted();
});

/** Throws a decision that cannot be sent to the supervisor. */
export const unsendable = bulk(() => {
  throw retry(0, { f: () => 1 });
});

/** Reads its unit, which fails, because a child has no access to the store. */
export const nosy = async ({ attempt }: Unit): Promise<void> => {
  await attempt.workUnit();
};
