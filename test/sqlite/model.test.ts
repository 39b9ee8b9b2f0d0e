/** Random histories on the engine over SQLite and on the model: the visible state is the same after every step. */
import { test } from "vitest";
import { openSqlite } from "../../src/sqlite/index.ts";
import { checkModel } from "../model/model-test.ts";

const name = "the engine on the sqlite store does what the model does";

test(
  name,
  () =>
    checkModel({
      file: "test/sqlite/model.test.ts",
      name,
      async open() {
        const store = await openSqlite(":memory:", { durability: "off" });
        return { store, ns: "", close: () => store.close() };
      },
      runs: { fixed: 40, fresh: 100 },
    }),
  3_600_000,
);
