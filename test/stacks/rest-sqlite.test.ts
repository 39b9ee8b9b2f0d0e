import { afterAll, beforeAll, describe, test } from "vitest";
import { openSqlite } from "../../src/sqlite/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { openRest } from "../rest/stack.ts";

conformance(
  {
    name: "rest on sqlite",
    open: async () => openRest(await openSqlite(":memory:")),
    cannot: [
      {
        reason:
          "the client names every request, and the store forgets a thousand names a round without saying `more`",
        tests: ["requests: request ids are forgotten after ten minutes"],
      },
    ],
  },
  { describe, test, beforeAll, afterAll },
);
