import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ProcessGroup } from "../../../src/worker/process/group.ts";
import { Warden } from "../../../src/worker/process/warden.ts";
import { isAlive, until } from "./processes.ts";

const sleeper = { command: "sleep", args: ["600"] };

/** Whether a process ignores the signal of this number. */
function ignores(pid: number, signal: number): boolean {
  const mask = /^SigIgn:\s+([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
  return (BigInt(`0x${mask}`) & (1n << BigInt(signal - 1))) !== 0n;
}

test("a warden that was killed is replaced, and the new one knows the groups", async () => {
  const warden = new Warden();
  const group = new ProcessGroup(sleeper, { warden });
  const first = warden.pid!;
  expect(isAlive(first)).toBe(true);
  process.kill(first, "SIGKILL");
  await until("there is another", () => warden.pid !== null && warden.pid !== first && isAlive(warden.pid));
  await group.stop("stopped", "was stopped", 0);
});

test("signals to a terminal's processes do not reach it", async () => {
  const warden = new Warden();
  const group = new ProcessGroup(sleeper, { warden });
  const pid = warden.pid!;
  await until("it has begun to ignore them", () => ignores(pid, 15));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.kill(pid, signal);
  await group.stop("stopped", "was stopped", 0);
  expect(isAlive(pid)).toBe(true);
  process.kill(pid, "SIGKILL");
});

test("kills what is left when its pipe closes, and only that", async () => {
  const groups = ["600", "601", "602"].map((seconds) =>
    spawn("sleep", [seconds], { detached: true, stdio: "ignore" }),
  );
  const [a, b, c] = groups.map(({ pid }) => pid!) as [number, number, number];
  const warden = new Warden();
  for (const pid of [a, b, c]) warden.watch(pid);
  warden.forget(b);
  // as when the supervisor dies: the system closes its end of the pipe
  warden.killAll();
  await until("the watched ones are dead", () => !isAlive(a) && !isAlive(c));
  expect(isAlive(b)).toBe(true);
  groups[1]!.kill("SIGKILL");
});
