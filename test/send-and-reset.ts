import type { Buffer } from "node:buffer";
import { execFileSync } from "node:child_process";

/**
 * Connects to a port of this process, sends the bytes and resets the connection. This process is blocked meanwhile: when it accepts
 * the connection, it can read the bytes but not the address of the peer.
 */
export function sendAndReset(port: number, bytes: Buffer): void {
  const program = `
    const socket = require("node:net").connect(${port}, "127.0.0.1", () =>
      socket.write(Buffer.from("${bytes.toString("hex")}", "hex"), () => socket.resetAndDestroy()),
    );`;
  execFileSync(process.execPath, ["--eval", program]);
}
