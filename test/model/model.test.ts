/** Random histories on the engine and on a separate model: the visible state is the same after every step. */
import { test } from "vitest";
import { MemoryStore } from "../../src/memory/index.ts";
import { checkModel } from "./model-test.ts";

const name = "the engine on the memory store does what the model does";

test(
  name,
  () =>
    checkModel({
      file: "test/model/model.test.ts",
      name,
      open: async () => ({ store: new MemoryStore(), ns: "", close: async () => undefined }),
      runs: { fixed: 300, fresh: 400 },
    }),
  3_600_000,
);
