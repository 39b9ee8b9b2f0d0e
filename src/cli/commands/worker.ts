/** `coordinate worker NAME`: the record of a worker. */
import { command } from "../command.ts";
import { UsageError } from "../failure.ts";
import { showWorker } from "./worker-record.ts";

export default command({
  define: (it) => it.argument("[name]", "show what is known of this worker"),
  run: async (context, { args: [name] }) => {
    if (name === undefined)
      throw new UsageError("which worker? its name must follow; coordinate workers lists them");
    return showWorker(context, name);
  },
});
