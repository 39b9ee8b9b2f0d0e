/** Why a daemon cannot be talked to, as a failure of a command. */
import { connectionProblem } from "../rest/connection-problem.ts";
import { show } from "./escape.ts";
import { CommandError } from "./failure.ts";
import { defaultAddress, type Target } from "./open.ts";

/** The same error in better words, where it is one of connecting; any other as it is. */
export async function explainConnection(error: unknown, target: Target | null): Promise<unknown> {
  if (target === null || target.backend !== undefined) return error;
  const address = (target.address ?? defaultAddress).split(",")[0] ?? "";
  const problem = await connectionProblem(error, address, target.token !== undefined);
  return problem === null ? error : new CommandError(show(problem.message), problem.hint, { cause: error });
}
