/** The daemon process: reads the settings, starts, prints its URLs, and stops on a signal. */
import { rmSync, writeFileSync } from "node:fs";
import { ConfigError, readConfig, type Config } from "./config.ts";
import { startDaemon } from "./daemon.ts";
import { makeLog } from "./log.ts";
import { exitCodes, openStep, StartError } from "./start-error.ts";
import { systemdNotifier } from "./systemd.ts";

/** Runs until a signal arrives. Returns the exit code. */
export async function runDaemon(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  let config: Config;
  try {
    const line = readConfig(argv, env);
    if (line.kind === "print") {
      console.log(line.text);
      return 0;
    }
    config = line.config;
    for (const warning of line.warnings) console.error(`warning: ${warning}`);
  } catch (error) {
    return complain(error);
  }
  // new files are private from the start, not only after a chmod
  process.umask(0o077);
  // without a listener, a broken pipe would be an uncaught exception, whose log line fails in the same way, without end
  process.stderr.on("error", () => undefined);
  const log = makeLog(config.logLevel, config.logFormat);
  // Before the file of the process id is written: without a handler, a signal kills the process and leaves that file.
  const stopped = stopSignal();
  const { pid } = config;
  try {
    if (pid !== "") await openStep(`--pid ${pid}`, async () => writeFileSync(pid, `${process.pid}\n`));
  } catch (error) {
    return complain(error);
  }
  try {
    const daemon = await Promise.race([startDaemon(config, log), stopped]);
    if (daemon === null) return 0;
    for (const url of daemon.urls) console.log(`coordinated serves ${url}`);
    log.info({ urls: daemon.urls, clock: config.clock }, "started");
    const systemd = systemdNotifier(env, log);
    systemd.ready();
    process.on("uncaughtException", (error) =>
      log.error({ err: error }, "uncaught exception: this is a bug"),
    );
    process.on("unhandledRejection", (error) =>
      log.error({ err: error }, "unhandled promise rejection: this is a bug"),
    );
    await stopped;
    systemd.stopping();
    await daemon.stop();
    return 0;
  } catch (error) {
    return complain(error);
  } finally {
    if (pid !== "") rmSync(pid, { force: true });
  }
}

/** Resolves at the first SIGTERM or SIGINT. A second one ends the process. */
function stopSignal(): Promise<null> {
  return new Promise((resolve) => {
    let first = 0;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        // a terminal and npm both pass on one Ctrl-C: a second signal within 300 ms is the same one
        if (first === 0) first = performance.now();
        else if (performance.now() - first > 300) process.exit(1);
        resolve(null);
      });
    }
  });
}

function complain(error: unknown): number {
  if (error instanceof ConfigError) {
    console.error(error.message);
    if (error.hasUnknown) console.error(`See --help.`);
    return exitCodes.badConfig;
  }
  if (error instanceof StartError) {
    console.error(error.message);
    return error.exitCode;
  }
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return exitCodes.bug;
}
