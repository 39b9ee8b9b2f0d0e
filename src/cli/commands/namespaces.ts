/** `coordinate namespaces`: lists the namespaces. */
import { command } from "../command.ts";
import { exit } from "../failure.ts";
import { count } from "../units.ts";

export default command({
  define: () => undefined,
  run: async (context) => {
    const { out } = context;
    const coordinate = await context.coordinate();
    const [rows, tally] = await Promise.all([coordinate.listNamespaces(), coordinate.tally()]);
    const shown = rows.map(({ name, settings }) => {
      const mine = tally.filter(({ namespace }) => namespace === name);
      const units = mine.reduce(
        (sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0),
        0,
      );
      return { name, ...settings, workSpecs: mine.length, workUnits: units };
    });
    if (out.json) out.printJson(shown);
    else if (shown.length === 0) out.remark("There are no namespaces: no work spec was set yet.");
    else
      out.table(
        [
          { head: "Namespace", min: 12 },
          { head: "Work specs", align: "right" },
          { head: "Work units", align: "right" },
          { head: "Mode" },
          { head: "Policy" },
        ],
        shown.map((row) => [
          row.name === "" ? "(default)" : row.name,
          count(row.workSpecs),
          count(row.workUnits),
          row.desired,
          row.share === "time" ? `${row.policy}, time` : row.policy,
        ]),
      );
    return exit.done;
  },
});
