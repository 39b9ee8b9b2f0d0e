/** `coordinate backup`: a copy of an SQLite store, also while a daemon works with it. */
import { statSync } from "node:fs";
import { command } from "../command.ts";
import { CommandError, exit } from "../failure.ts";
import { bytes } from "../units.ts";

export default command<{ check?: boolean }>({
  define: (it) => {
    it.argument("<file>", "file to write; it must not exist")
      .option("--check", "check the integrity of the copy")
      .addHelpText(
        "after",
        "\nNeeds --backend sqlite:PATH. A daemon can keep using the store meanwhile: the copy is a consistent snapshot." +
          "\nTo restore it, stop the daemon and start it with the copy.",
      );
  },
  run: async (context, { args: [file = ""], options }) => {
    const { out } = context;
    const { sqlite, where } = await context.opened();
    if (sqlite === null)
      throw new CommandError(
        `backup copies SQLite stores, and ${where} is not one`,
        "give --backend sqlite:PATH; for PostgreSQL use pg_dump",
      );
    let told = 0;
    await sqlite.backup(file, ({ done, total }) => {
      const percent = total === 0 ? 100 : Math.floor((done * 100) / total);
      if (out.json || !out.isTerminal || percent < told + 5) return;
      told = percent;
      out.remark(`${percent} % of ${bytes(total)}`);
    });
    const problems = options.check === true ? await check(file) : [];
    const size = statSync(file).size;
    if (out.json) out.printJson({ file, bytes: size, checked: options.check === true, problems });
    else
      out.line(
        `${file}: ${bytes(size)}${options.check === true && problems.length === 0 ? ", checked" : ""}`,
      );
    if (problems.length > 0)
      throw new CommandError(`the copy is damaged: ${problems.slice(0, 3).join("; ")}`);
    return exit.done;
  },
});

async function check(file: string): Promise<readonly string[]> {
  const { openSqliteReader } = await import("../../sqlite/index.ts");
  const copy = await openSqliteReader(file);
  try {
    return (await copy.check()).problems;
  } finally {
    await copy.close();
  }
}
