import { afterAll, beforeAll, describe, test } from "vitest";
import { openSqlite } from "../../src/sqlite/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { openRest } from "../rest/stack.ts";

conformance(
  {
    name: "rest on sqlite",
    open: async () => openRest(await openSqlite(":memory:")),
  },
  { describe, test, beforeAll, afterAll },
);
