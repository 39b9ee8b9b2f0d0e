/** Connections whose peer is gone without closing them. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test, vi } from "vitest";
import { listenCborRpc } from "../../src/cbor/index.ts";
import { Engine } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { listen, restServer } from "../../src/rest/index.ts";
import { makeCertificates } from "../cbor/certificates.ts";
import { whySkipped } from "../skipped-reporter.ts";

/** The timers of the connections that the system has accepted on a port: `02` is that of keep-alive. */
function timersOf(port: number): string[] {
  const at = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(at) === true && state === "01")
    .map((fields) => fields[5]?.slice(0, 2) ?? "");
}

const secure = (): { cert: string; key: string } => makeCertificates()?.server ?? { cert: "", key: "" };
const hindrance =
  process.platform !== "linux" ? "reads /proc" : secure().key === "" ? "openssl is not installed" : "";

test.skipIf(hindrance !== "")(
  `the system asks whether the peer of a silent connection is still there${whySkipped(hindrance)}`,
  async () => {
    const engine = new Engine(new MemoryStore());
    onTestFinished(() => engine.close());
    const { app } = restServer({ coordinate: engine });
    const at = { host: "127.0.0.1", port: 0 };
    const tls = secure();
    const rest = [await listen(app, { at }), await listen(app, { at, tls })];
    const rpc = [await listenCborRpc(engine, { at }), await listenCborRpc(engine, { at, tls })];
    onTestFinished(async () => {
      await Promise.all([...rest.map((one) => one.stop(0)), ...rpc.map((one) => one.close())]);
    });
    for (const [i, { port }] of [...rest, ...rpc].entries()) {
      const isSecure = i % 2 === 1;
      const socket = isSecure
        ? connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false })
        : connect(port, "127.0.0.1");
      onTestFinished(() => void socket.destroy());
      await once(socket, isSecure ? "secureConnect" : "connect");
      await vi.waitFor(() => expect(timersOf(port)).toEqual(["02"]));
    }
  },
);
