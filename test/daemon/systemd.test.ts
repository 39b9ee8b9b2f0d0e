/** The messages to systemd, on a socket like systemd's. Needs systemd-notify and Python, which machines with systemd have. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { startProcess } from "./built.ts";
import { whySkipped } from "../skipped-reporter.ts";

const listener = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("listening", flush=True)
while True:
    for line in s.recv(4096).decode().split("\\n"):
        if line: print(line, flush=True)
`;

const has = (program: string): boolean => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

const missing = ["systemd-notify", "python3"].filter((program) => !has(program));
test.skipIf(missing.length > 0)(
  `ready, alive while it runs, and stopping${whySkipped(missing.length === 0 ? "" : `no ${missing.join(", ")}`)}`,
  { timeout: 240_000 },
  async () => {
    const place = mkdtempSync(path.join(tmpdir(), "coordinate-systemd-"));
    const socket = path.join(place, "notify");
    const heard = spawn("python3", ["-c", listener, socket], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => {
      heard.kill("SIGKILL");
      rmSync(place, { recursive: true, force: true });
    });
    const lines = createInterface({ input: heard.stdout })[Symbol.asyncIterator]();
    const until = async (wanted: string): Promise<void> => {
      for (;;) {
        const next: IteratorResult<string, undefined> = await lines.next();
        if (next.done === true) throw new Error(`never heard ${wanted}`);
        if (next.value === wanted) return;
      }
    };
    await until("listening");
    const { child, ended } = await startProcess(["--backend", "memory:", "--http", "127.0.0.1:0"], {
      NOTIFY_SOCKET: socket,
      WATCHDOG_USEC: "400000",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await until("READY=1");
    await until("WATCHDOG=1");
    await until("WATCHDOG=1");
    child.kill("SIGTERM");
    await until("STOPPING=1");
    expect(await ended).toBe(0);
  },
);
