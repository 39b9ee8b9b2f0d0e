/** Files of Unix sockets. */
import { rmSync } from "node:fs";
import { createConnection } from "node:net";

/** Deletes the socket file that a killed daemon left behind. Throws if it accepts connections: then another process uses it. */
export async function clearSocket(path: string): Promise<void> {
  const lives = await new Promise<boolean>((resolve) => {
    const socket = createConnection(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
  if (lives) throw Object.assign(new Error(`another process listens on ${path}`), { code: "EADDRINUSE" });
  rmSync(path, { force: true });
}
