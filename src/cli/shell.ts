/** The interactive shell. */
import type { Session } from "./context.ts";

export async function runShell(_session: Session): Promise<number> {
  return 0;
}
