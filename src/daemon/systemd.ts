/**
 * Tells systemd that the daemon is ready, that it stops, and, if the unit has a watchdog, that it is alive: systemd restarts a
 * process whose event loop is blocked. Node has no Unix datagram sockets, on which systemd listens, so `systemd-notify` sends the
 * messages; the unit needs `NotifyAccess=all`.
 */
import { execFile } from "node:child_process";
import type { Logger } from "./log.ts";

export interface Notifier {
  ready(): void;
  stopping(): void;
}

/** Does nothing if systemd has not started the process. */
export function systemdNotifier(env: Readonly<Record<string, string | undefined>>, log: Logger): Notifier {
  const socket = env.NOTIFY_SOCKET ?? "";
  if (socket === "") return { ready: () => undefined, stopping: () => undefined };
  const send = (...words: string[]): void => {
    const settings = { env: { PATH: env.PATH ?? "/usr/bin:/bin", NOTIFY_SOCKET: socket }, timeout: 10_000 };
    execFile("systemd-notify", words, settings, (error) => {
      if (error !== null)
        log.warn({ err: error }, "could not notify systemd; the unit needs NotifyAccess=all");
    });
  };
  const everyMs = watchdogMs(env);
  // the timer does not keep the process alive
  if (everyMs > 0) setInterval(() => send("WATCHDOG=1"), everyMs).unref();
  return { ready: () => send("--ready"), stopping: () => send("STOPPING=1") };
}

/** Half of the time that systemd allows; 0 if there is no watchdog, or it is for another process. */
function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: Readonly<Record<string, string | undefined>>): number {
  const allowed = Number(WATCHDOG_USEC ?? 0) / 1000;
  const own = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === process.pid;
  return own && allowed > 0 ? Math.max(1, Math.floor(allowed / 2)) : 0;
}
