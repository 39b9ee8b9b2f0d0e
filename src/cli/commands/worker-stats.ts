/** `coordinate worker_stats`: counts the workers. */
import { command } from "../command.ts";
import { exit } from "../failure.ts";
import { listWorkers } from "../worker-list.ts";
import { isRegistered } from "./workers.ts";

export default command({
  define: () => undefined,
  run: async (context) => {
    const { coordinate, ns } = await context.work();
    const { rows: all } = await listWorkers(coordinate, ns, { active: true }, 1_000_000);
    const rows = context.compat ? all.filter(isRegistered) : all;
    context.out.printJson({
      num_workers: rows.length,
      num_children: rows.filter(({ parent }) => parent !== null).length,
      num_expirable: rows.length,
    });
    return exit.done;
  },
});
