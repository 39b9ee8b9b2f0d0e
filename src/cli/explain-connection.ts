/** Explains why a daemon cannot be reached, as a command failure. */
import { connectionProblem } from "../rest/connection-problem.ts";
import { show } from "./escape.ts";
import { CommandError } from "./failure.ts";
import { defaultAddress, type Target } from "./open.ts";

/** Explains a connection error in better words; returns any other error unchanged. */
export async function explainConnection(error: unknown, target: Target | null): Promise<unknown> {
  if (target === null || target.backend !== undefined) return error;
  const address = (target.address ?? defaultAddress).split(",")[0] ?? "";
  const problem = await connectionProblem(error, address, target.token !== undefined);
  return problem === null ? error : new CommandError(show(problem.message), problem.hint, { cause: error });
}
