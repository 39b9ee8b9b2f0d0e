/** Unix sockets as files. */
import { rmSync } from "node:fs";
import { createConnection } from "node:net";

/** A socket file that a daemon left behind when it was killed; one that answers belongs to a daemon that lives. */
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
