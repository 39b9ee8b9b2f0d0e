/** `coordinate run_one`: fetches work once, or until a limit, runs it, and exits. */
import { runOne } from "../../worker/index.ts";
import { command } from "../command.ts";
import { exit } from "../failure.ts";
import { counted, readCount, readNumber } from "../units.ts";
import {
  atWork,
  defineWorkerOptions,
  openChosen,
  openLog,
  readWorkerSetting,
  type WorkerOptionTexts,
} from "../worker-options.ts";

interface Options extends WorkerOptionTexts {
  limitSeconds?: string;
  limitCount?: string;
  maxJobs?: string;
}

export default command<Options>({
  define: (it) => {
    defineWorkerOptions(it);
    it.option("--limit-seconds <n>", "fetch again until there is no work or this time has passed")
      .option("--limit-count <n>", "fetch again until there is no work or this many fetches had work")
      .option("--max-jobs <n>", "units per fetch (default: 1)")
      .addHelpText(
        "after",
        "\nExits with 0 if the last fetch had work, even if it failed; with 2 if it had none.",
      );
  },
  run: async (context, { options }) => {
    const { limitSeconds, limitCount, maxJobs } = options;
    // as in the Python tool, the default runtime is python
    const runtime =
      options.tasks === undefined && options.runtime === undefined ? ["python"] : options.runtime;
    const setting = await readWorkerSetting(context, {
      processes: "1",
      ...options,
      ...(runtime && { runtime }),
    });
    const ms = limitSeconds === undefined ? undefined : readNumber(limitSeconds, "--limit-seconds") * 1000;
    const count = limitCount === undefined ? undefined : readCount(limitCount, "--limit-count", 1);
    const maxAttempts =
      maxJobs === undefined ? (setting.maxAttempts ?? 1) : readCount(maxJobs, "--max-jobs", 1);
    const log = openLog(context, options.logpath, { brief: true });
    const limits = { ...(count !== undefined && { count }), ...(ms !== undefined && { ms }) };
    return atWork(context, log, async (namespace) => {
      const runtimes = await openChosen(setting, maxAttempts, log);
      try {
        const { workSpecs, labels, lifetimeMs, availableGb } = setting;
        const { hadWork, fetches } = await runOne(
          namespace,
          {
            runtimes,
            log,
            maxAttempts,
            workSpecs,
            labels,
            ...(lifetimeMs !== undefined && { lifetimeMs }),
            ...(availableGb !== undefined && { availableGb }),
          },
          limits,
        );
        if (hadWork) return exit.done;
        context.out.remark(
          fetches === 0
            ? "There was no work for this worker; coordinate explain shows why."
            : `There was no more work after ${counted(fetches, "fetch", "fetches")}.`,
        );
        return exit.nothing;
      } finally {
        await Promise.all(runtimes.map((one) => one.close(0)));
      }
    });
  },
});
